// SPDX-License-Identifier: Apache-2.0

// Package shapes holds the clusters that the lab knows by name, as shape files, and
// the hardware that shape files can use. README.md describes the format.
package shapes

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
)

const suffix = ".yaml"

//go:embed *.yaml hardware/*.yaml
var files embed.FS

// Names lists the shapes, sorted.
func Names() []string {
	entries, _ := fs.ReadDir(files, ".") // an embedded directory can always be read
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Load generates the shape of that name. Parameters replace defaults that its file declares.
func Load(name string, parameters map[string]string) (*shape.Shape, error) {
	doc, err := read(strings.ToLower(name))
	if err != nil {
		return nil, err
	}
	return load(strings.ToLower(name), doc, parameters)
}

// LoadFile generates a shape from a file of the user's, which may use and extend what
// is here.
func LoadFile(file string, parameters map[string]string) (*shape.Shape, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the shape: %w", err)
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	return load(name, shape.Document{Name: file, Content: content}, parameters)
}

// Parse generates a shape from the content of a file of the caller's, which may use and
// extend what is here. The name is the shape's, and for errors.
func Parse(name string, content []byte, parameters map[string]string) (*shape.Shape, error) {
	return load(name, shape.Document{Name: name, Content: content}, parameters)
}

func load(name string, doc shape.Document, parameters map[string]string) (*shape.Shape, error) {
	library, err := hardware()
	if err != nil {
		return nil, err
	}
	return shape.Load(name, doc, shape.LoadOptions{Parameters: parameters, Library: library, Base: read})
}

func read(name string) (shape.Document, error) {
	content, err := files.ReadFile(name + suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return shape.Document{}, fmt.Errorf("no shape is named %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return shape.Document{Name: name + suffix, Content: content}, err
}

func hardware() ([]shape.Document, error) {
	entries, err := fs.ReadDir(files, "hardware")
	if err != nil {
		return nil, err
	}
	var docs []shape.Document
	for _, e := range entries {
		name := path.Join("hardware", e.Name())
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		docs = append(docs, shape.Document{Name: name, Content: content})
	}
	return docs, nil
}
