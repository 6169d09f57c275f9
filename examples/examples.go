// SPDX-License-Identifier: Apache-2.0

// Package examples holds workloads to try podgang-scheduler with. Each is a YAML
// file that kubectl apply takes as it is.
package examples

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const suffix = ".yaml"

// Files holds the examples, one YAML file each.
//
//go:embed *.yaml
var Files embed.FS

// Names lists the examples: their file names without .yaml, sorted.
func Names() []string {
	// An embedded directory can always be read.
	entries, _ := fs.ReadDir(Files, ".")
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), suffix))
	}
	slices.Sort(names) // "a-b.yaml" is before "a.yaml"
	return names
}

// Read returns an example as it is in its file, comments included. The name may
// end in .yaml.
func Read(name string) ([]byte, error) {
	data, err := Files.ReadFile(strings.TrimSuffix(name, suffix) + suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no example %q; there are: %s", name, strings.Join(Names(), ", "))
	}
	return data, err
}

// Load returns the objects of an example in the order of its file.
func Load(name string) ([]*unstructured.Unstructured, error) {
	data, err := Read(name)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("example %s: document %d: %w", name, len(objects)+1, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
