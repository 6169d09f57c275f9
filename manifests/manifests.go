// SPDX-License-Identifier: Apache-2.0

// Package manifests holds the kustomizations that install podgang-scheduler and
// renders them, so that what runs in a test is what a user applies.
package manifests

import (
	"embed"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Kustomizations that Render knows.
const (
	// Base is the scheduler, for a cluster that has the PodGang CRD from Grove.
	Base = "base"
	// CRD is the PodGang CRD alone.
	CRD = "crd"
	// Standalone is the scheduler with the CRD, for a cluster without Grove.
	Standalone = "standalone"
)

//go:embed base crd standalone
var files embed.FS

//go:embed base/config.yaml
var schedulerConfig []byte

// SchedulerConfig returns the KubeSchedulerConfiguration that Base puts into a
// ConfigMap, as YAML.
func SchedulerConfig() []byte {
	return append([]byte(nil), schedulerConfig...)
}

// Render builds a kustomization, as "kubectl kustomize" does, and returns its
// objects in the order to create them in: namespaces and CRDs first.
func Render(kustomization string) ([]*unstructured.Unstructured, error) {
	memory, err := inMemory()
	if err != nil {
		return nil, fmt.Errorf("manifests %s: %w", kustomization, err)
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy
	resources, err := krusty.MakeKustomizer(options).Run(memory, kustomization)
	if err != nil {
		return nil, fmt.Errorf("manifests %s: %w", kustomization, err)
	}
	objects := make([]*unstructured.Unstructured, 0, resources.Size())
	for _, resource := range resources.Resources() {
		data, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("manifests %s: %s: %w", kustomization, resource.CurId(), err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(data); err != nil {
			return nil, fmt.Errorf("manifests %s: %s: %w", kustomization, resource.CurId(), err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// inMemory copies the embedded files to the kind of file system that kustomize
// works on.
func inMemory() (filesys.FileSystem, error) {
	memory := filesys.MakeFsInMemory()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		return memory.WriteFile(path, data)
	})
	return memory, err
}
