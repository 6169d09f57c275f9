// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// ErrRunning is returned by Start when another process runs a lab in the directory.
var ErrRunning = errors.New("a lab is already running in this directory")

// markerFile tells a lab's directory from any other, so that no foreign file is removed.
const markerFile = ".podgang-lab"

// lockFile is locked by the process that runs the lab, for as long as it runs.
const lockFile = "lock"

// stateDir is the directory of one lab, locked.
type stateDir struct {
	path string
	lock *os.File
}

// PrepareDir makes the state directory if need be and marks it as a lab's. It refuses
// a directory with other contents.
func PrepareDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("cannot make the state directory: %w; choose another with --dir", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("cannot read the state directory: %w; choose another with --dir", err)
	}
	marked := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == markerFile })
	if len(entries) > 0 && !marked {
		return fmt.Errorf("%s is not empty and not a lab's directory: choose another with --dir, or empty it", path)
	}
	const note = "state of podgang-lab; safe to delete when no lab runs\n"
	if err := os.WriteFile(filepath.Join(path, markerFile), []byte(note), 0o600); err != nil {
		return fmt.Errorf("cannot write to the state directory: %w; choose another with --dir", err)
	}
	return nil
}

// lockDir prepares the directory and locks it. leftovers says that an earlier lab did
// not remove its state; it has been removed now.
func lockDir(path string) (dir *stateDir, leftovers bool, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, false, fmt.Errorf("cannot use the state directory: %w", err)
	}
	if err := PrepareDir(path); err != nil {
		return nil, false, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("cannot lock the state directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, false, fmt.Errorf("%s: %w", path, ErrRunning)
		}
		return nil, false, fmt.Errorf("cannot lock the state directory %s: %w", path, err)
	}
	dir = &stateDir{path: path, lock: lock}
	if err := dir.writeOwner(); err != nil {
		dir.unlock()
		return nil, false, err
	}
	leftovers, err = dir.clean()
	if err != nil {
		dir.unlock()
		return nil, false, err
	}
	return dir, leftovers, nil
}

// writeOwner notes the process that holds the lock, in the lock file.
func (d *stateDir) writeOwner() error {
	err := d.lock.Truncate(0)
	if err == nil {
		_, err = d.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	if err != nil {
		return fmt.Errorf("cannot write to the state directory: %w", err)
	}
	return nil
}

// Owner returns the process that runs a lab in the directory, or 0 when none does.
func Owner(path string) (pid int, err error) {
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot look into the state directory: %w", err)
	}
	defer func() { _ = lock.Close() }()
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		return 0, nil // closing the file unlocks it
	}
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return 0, fmt.Errorf("cannot test the lock of %s: %w", path, err)
	}
	text, err := io.ReadAll(lock)
	if err == nil {
		pid, err = strconv.Atoi(string(text))
	}
	if err != nil {
		return 0, fmt.Errorf("a lab runs in %s, but its lock file does not say which process: %w", path, err)
	}
	return pid, nil
}

// Remove deletes the state that a lab left in the directory, and the directory
// itself. It does nothing when there is none, and fails when a lab runs there.
func Remove(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the state directory: %w", err)
	}
	dir, _, err := lockDir(path)
	if err != nil {
		return err
	}
	defer dir.unlock()
	if err := os.RemoveAll(dir.path); err != nil {
		return fmt.Errorf("cannot remove the state directory: %w", err)
	}
	return nil
}

// keepOnClean are files that exist before the lab starts: the directory's own, and
// the log of the supervisor that starts the lab.
var keepOnClean = map[string]bool{markerFile: true, lockFile: true, SupervisorLog: true}

// SupervisorLog is the file in the state directory that the background supervisor
// logs to; starting a lab leaves it alone.
const SupervisorLog = "supervisor.log"

// clean removes everything but the files that the running process may hold open.
func (d *stateDir) clean() (removed bool, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return false, fmt.Errorf("cannot read the state directory: %w", err)
	}
	for _, e := range entries {
		if keepOnClean[e.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(d.path, e.Name())); err != nil {
			return removed, fmt.Errorf("cannot remove what an earlier lab left: %w", err)
		}
		removed = true
	}
	return removed, nil
}

func (d *stateDir) file(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// write makes a file that only the owner can read.
func (d *stateDir) write(data []byte, elem ...string) (string, error) {
	path := d.file(elem...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("cannot write the lab's state: %w", err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("cannot write the lab's state: %w", err)
	}
	return path, nil
}

func (d *stateDir) unlock() {
	_ = d.lock.Close() // closing releases the lock
}
