// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os"
	"path/filepath"
)

// BinDirEnv names the environment variable that says where the binaries are.
const BinDirEnv = "PODGANG_BIN_DIR"

// MultiCall is the binary that contains etcd and the Kubernetes components; its
// first argument says which of them to be.
const MultiCall = "podgang-lab"

// FindBinary returns the path of a binary of the project. It looks in dir; without
// dir in $PODGANG_BIN_DIR; without that beside the running executable and, as tests
// run from elsewhere, in the bin directory of the Go module around the working directory.
func FindBinary(dir, name string) (string, error) {
	var tried []string
	for _, d := range binaryDirs(dir) {
		path := filepath.Join(d, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return filepath.Abs(path)
		}
		tried = append(tried, d)
	}
	return "", fmt.Errorf("no executable %s in %v: run \"make build\", or set %s to the directory that holds it", name, tried, BinDirEnv)
}

func binaryDirs(dir string) []string {
	if dir != "" {
		return []string{dir}
	}
	if dir := os.Getenv(BinDirEnv); dir != "" {
		return []string{dir}
	}
	var dirs []string
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(exe))
	}
	if root := moduleRoot(); root != "" {
		dirs = append(dirs, filepath.Join(root, "bin"))
	}
	return dirs
}

// moduleRoot is the nearest directory with a go.mod, from the working directory up.
func moduleRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
