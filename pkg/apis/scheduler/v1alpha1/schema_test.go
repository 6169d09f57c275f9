// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"sigs.k8s.io/yaml"
)

const crdFile = "../../../../manifests/crd/scheduler.grove.io_podgangs.yaml"

// readCRD reads the generated manifest, defaulted as the API server would.
func readCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(filepath.FromSlash(crdFile))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatalf("%s: %v", crdFile, err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	return crd
}

func internalSchema(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *apiextensions.JSONSchemaProps {
	t.Helper()
	out := &apiextensions.JSONSchemaProps{}
	in := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(in, out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCRDIsValid(t *testing.T) {
	crd := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(readCRD(t), crd, nil); err != nil {
		t.Fatal(err)
	}
	// The API server fills this in; no manifest has it.
	crd.Status.StoredVersions = []string{"v1alpha1"}
	if errs := apiextensionsvalidation.ValidateCustomResourceDefinition(context.Background(), crd); len(errs) > 0 {
		t.Errorf("the API server would refuse the CRD: %v", errs.ToAggregate())
	}
}

func TestCRDNames(t *testing.T) {
	crd := readCRD(t)
	want := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "podgangs", Singular: "podgang", ShortNames: []string{"pg"}, Kind: "PodGang", ListKind: "PodGangList",
	}
	if diff := cmp.Diff(want, crd.Spec.Names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got, want := crd.Name, PodGangResource.GroupResource().String(); got != want {
		t.Errorf("name = %q, want %q", got, want)
	}
	if len(crd.Spec.Versions) != 1 {
		t.Fatalf("got %d versions, want 1", len(crd.Spec.Versions))
	}
	version := crd.Spec.Versions[0]
	if version.Name != SchemeGroupVersion.Version || crd.Spec.Group != SchemeGroupVersion.Group {
		t.Errorf("serves %s/%s, want %s", crd.Spec.Group, version.Name, SchemeGroupVersion)
	}
	if version.Subresources == nil || version.Subresources.Status == nil {
		t.Error("status subresource is off")
	}
	var columns []string
	for _, c := range version.AdditionalPrinterColumns {
		columns = append(columns, c.Name)
	}
	if diff := cmp.Diff([]string{"Phase", "Score", "Age"}, columns); diff != "" {
		t.Errorf("printer columns (-want +got):\n%s", diff)
	}
}

// flatten lists the fields below a schema as "path type[/format][ required]".
func flatten(prefix string, s *apiextensionsv1.JSONSchemaProps) []string {
	var lines []string
	for name, p := range s.Properties {
		path := prefix + name
		line := path + " " + p.Type
		if p.Format != "" {
			line += "/" + p.Format
		}
		if slices.Contains(s.Required, name) {
			line += " required"
		}
		lines = append(lines, line)
		lines = append(lines, flatten(path+".", &p)...)
		if p.Items != nil {
			lines = append(lines, path+"[] "+p.Items.Schema.Type)
			lines = append(lines, flatten(path+"[].", p.Items.Schema)...)
		}
	}
	slices.Sort(lines)
	return lines
}

// constraint lists the fields of a topology constraint at path.
func constraint(path string) []string {
	return []string{
		path + " object",
		path + ".packConstraint object",
		path + ".packConstraint.preferred string",
		path + ".packConstraint.required string",
	}
}

// The fields, types and requiredness of the CRD that Grove publishes, so that
// this one accepts what Grove's accepts and refuses what Grove's refuses.
func TestCRDSchemaIsThatOfGrove(t *testing.T) {
	want := slices.Concat([]string{
		"apiVersion string",
		"kind string",
		"metadata object",
		"spec object required",
		"spec.podgroups array required",
		"spec.podgroups[] object",
		"spec.podgroups[].name string required",
		"spec.podgroups[].minReplicas integer/int32 required",
		"spec.podgroups[].podReferences array required",
		"spec.podgroups[].podReferences[] object",
		"spec.podgroups[].podReferences[].name string required",
		"spec.podgroups[].podReferences[].namespace string required",
		"spec.priorityClassName string",
		"spec.reuseReservationRef object",
		"spec.reuseReservationRef.name string required",
		"spec.reuseReservationRef.namespace string required",
		"spec.topologyConstraintGroupConfigs array",
		"spec.topologyConstraintGroupConfigs[] object",
		"spec.topologyConstraintGroupConfigs[].name string required",
		"spec.topologyConstraintGroupConfigs[].podGroupNames array required",
		"spec.topologyConstraintGroupConfigs[].podGroupNames[] string",
		"status object",
		"status.phase string required",
		"status.placementScore number",
		"status.lastScheduled string/date-time",
		"status.lastReady string/date-time",
		"status.conditions array",
		"status.conditions[] object",
		"status.conditions[].lastTransitionTime string/date-time required",
		"status.conditions[].message string required",
		"status.conditions[].observedGeneration integer/int64",
		"status.conditions[].reason string required",
		"status.conditions[].status string required",
		"status.conditions[].type string required",
	},
		constraint("spec.topologyConstraint"),
		constraint("spec.topologyConstraintGroupConfigs[].topologyConstraint"),
		constraint("spec.podgroups[].topologyConstraint"),
	)
	slices.Sort(want)
	got := flatten("", readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

// Grove's schema limits nothing outside conditions and marks no list as a map.
// A limit or a mark here would refuse, or merge differently, what Grove writes.
func TestCRDSchemaAddsNoLimits(t *testing.T) {
	var check func(path string, s *apiextensionsv1.JSONSchemaProps)
	check = func(path string, s *apiextensionsv1.JSONSchemaProps) {
		if s.XListType != nil || s.XMapType != nil || len(s.XListMapKeys) > 0 || len(s.XValidations) > 0 || s.Default != nil {
			t.Errorf("%s: has a list type, map type, rule or default", path)
		}
		inConditions := strings.HasPrefix(path, ".status.conditions[]")
		if !inConditions && (s.Minimum != nil || s.Maximum != nil || s.MinLength != nil || s.MaxLength != nil ||
			s.MinItems != nil || s.MaxItems != nil || s.Pattern != "" || len(s.Enum) > 0) {
			t.Errorf("%s: has a limit", path)
		}
		for name, p := range s.Properties {
			check(path+"."+name, &p)
		}
		if s.Items != nil {
			check(path+"[]", s.Items.Schema)
		}
	}
	check("", readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema)
}

func TestCRDAcceptsAndKeepsGroveObjects(t *testing.T) {
	props := internalSchema(t, readCRD(t))
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		t.Fatal(err)
	}
	structural, err := schema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	for name, object := range samples(t) {
		t.Run(name, func(t *testing.T) {
			if errs := validation.ValidateCustomResource(nil, object, validator); len(errs) > 0 {
				t.Errorf("refused: %v", errs.ToAggregate())
			}
			opts := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
			if dropped := pruning.PruneWithOptions(object, structural, true, opts); len(dropped) > 0 {
				t.Errorf("dropped: %v", dropped)
			}
		})
	}
}

func TestCRDValidation(t *testing.T) {
	const head = "apiVersion: scheduler.grove.io/v1alpha1\nkind: PodGang\nmetadata: {name: g, namespace: d}\n"
	cases := []struct {
		name    string
		body    string
		wantErr string // part of the message; "" means accepted
	}{
		{"floor 0", "spec: {podgroups: [{name: a, minReplicas: 0, podReferences: []}]}", ""},
		{"negative floor", "spec: {podgroups: [{name: a, minReplicas: -1, podReferences: []}]}", ""},
		{"no groups", "spec: {podgroups: []}", ""},
		{"group twice", "spec: {podgroups: [{name: a, minReplicas: 1, podReferences: []}, {name: a, minReplicas: 1, podReferences: []}]}", ""},
		{"unknown phase", "spec: {podgroups: []}\nstatus: {phase: Resting}", ""},
		{"no spec", "", "spec: Required value"},
		{"podGroups in camel case", "spec: {podGroups: []}", "spec.podgroups: Required value"},
		{"no floor", "spec: {podgroups: [{name: a, podReferences: []}]}", "spec.podgroups[0].minReplicas: Required value"},
		{"no references", "spec: {podgroups: [{name: a, minReplicas: 1}]}", "spec.podgroups[0].podReferences: Required value"},
		{"null references", "spec: {podgroups: [{name: a, minReplicas: 1, podReferences: null}]}", "spec.podgroups[0].podReferences"},
		{"reference without namespace", "spec: {podgroups: [{name: a, minReplicas: 1, podReferences: [{name: p}]}]}", "podReferences[0].namespace: Required value"},
		{"status without phase", "spec: {podgroups: []}\nstatus: {placementScore: 0.5}", "status.phase: Required value"},
	}
	validator, _, err := validation.NewSchemaValidator(internalSchema(t, readCRD(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			object := map[string]any{}
			if err := yaml.Unmarshal([]byte(head+tc.body), &object); err != nil {
				t.Fatal(err)
			}
			err := validation.ValidateCustomResource(nil, object, validator).ToAggregate()
			switch {
			case tc.wantErr == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("got error %v, want one with %q", err, tc.wantErr)
			}
		})
	}
}

// samples reads testdata: objects of several Grove generations.
func samples(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples in testdata (%v)", err)
	}
	out := map[string]map[string]any{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		object := map[string]any{}
		if err := yaml.Unmarshal(data, &object); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", file, err))
		}
		out[strings.TrimSuffix(filepath.Base(file), ".yaml")] = object
	}
	return out
}
