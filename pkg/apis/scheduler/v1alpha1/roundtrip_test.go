// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"pgregory.net/rapid"
)

func newCodecs(t *testing.T) (runtime.Decoder, runtime.Encoder) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("no JSON serializer")
	}
	return codecs.UniversalDeserializer(), codecs.EncoderForVersion(info.Serializer, SchemeGroupVersion)
}

// passThrough decodes a document into a PodGang and encodes it again.
func passThrough(document map[string]any, decoder runtime.Decoder, encoder runtime.Encoder) (map[string]any, error) {
	data, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	object, _, err := decoder.Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	gang, ok := object.(*PodGang)
	if !ok {
		return nil, fmt.Errorf("decoded a %T, want a *PodGang", object)
	}
	data, err = runtime.Encode(encoder, gang.DeepCopy())
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, json.Unmarshal(data, &out)
}

// jsonOf normalises numbers to what encoding/json makes of them.
func jsonOf(t interface{ Fatal(...any) }, document map[string]any) map[string]any {
	data, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGroveObjectsPassThroughUnchanged(t *testing.T) {
	decoder, encoder := newCodecs(t)
	for name, object := range samples(t) {
		t.Run(name, func(t *testing.T) {
			got, err := passThrough(object, decoder, encoder)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(jsonOf(t, object), got); diff != "" {
				t.Errorf("changed (-in +out):\n%s", diff)
			}
		})
	}
}

// Whatever the schema allows passes through the types unchanged: no field is
// missing from them, renamed, or written where it was absent.
func TestAnyObjectOfTheSchemaPassesThroughUnchanged(t *testing.T) {
	decoder, encoder := newCodecs(t)
	props := readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema
	rapid.Check(t, func(t *rapid.T) {
		document := drawObject(t, "", props)
		document["apiVersion"] = SchemeGroupVersion.String()
		document["kind"] = PodGangKind.Kind
		document["metadata"] = map[string]any{"name": "g", "namespace": "d", "resourceVersion": "7"}
		got, err := passThrough(document, decoder, encoder)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(jsonOf(t, document), got); diff != "" {
			t.Errorf("changed (-in +out):\n%s", diff)
		}
	})
}

// drawObject draws a document that a schema allows. Optional fields are left
// out at times, and are never drawn empty: an empty optional string or list is
// the same as an absent one in this API.
func drawObject(t *rapid.T, path string, s *apiextensionsv1.JSONSchemaProps) map[string]any {
	out := map[string]any{}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p := s.Properties[name]
		required := slices.Contains(s.Required, name)
		at := path + "." + name
		if required || rapid.Bool().Draw(t, "has "+at) {
			// A status with nothing but an empty phase is the zero status, which
			// is written as no status.
			out[name] = drawValue(t, at, &p, required && at != ".status.phase")
		}
	}
	return out
}

func drawValue(t *rapid.T, path string, s *apiextensionsv1.JSONSchemaProps, mayBeEmpty bool) any {
	least := 1
	if mayBeEmpty {
		least = 0
	}
	switch {
	case s.Type == "object":
		return drawObject(t, path, s)
	case s.Type == "array":
		list := make([]any, rapid.IntRange(least, 3).Draw(t, "length of "+path))
		for i := range list {
			list[i] = drawValue(t, fmt.Sprintf("%s[%d]", path, i), s.Items.Schema, true)
		}
		return list
	case s.Type == "integer" && s.Format == "int32":
		return rapid.Int32().Draw(t, path)
	case s.Type == "integer":
		return rapid.Int64Range(1, 1<<50).Draw(t, path)
	case s.Type == "number":
		return rapid.Float64Range(0, 1).Draw(t, path)
	case s.Type == "string" && s.Format == "date-time":
		seconds := rapid.Int64Range(1, 4e9).Draw(t, path)
		return time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	case s.Type == "string":
		return rapid.StringMatching(fmt.Sprintf("[a-zA-Z0-9/. -]{%d,12}", least)).Draw(t, path)
	}
	t.Fatalf("%s: the test knows no values of type %q", path, s.Type)
	return nil
}

func TestListPassesThrough(t *testing.T) {
	decoder, _ := newCodecs(t)
	object, kind, err := decoder.Decode([]byte(`{"apiVersion":"scheduler.grove.io/v1alpha1","kind":"PodGangList","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"},"spec":{"podgroups":[]}}]}`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, ok := object.(*PodGangList)
	if !ok || len(list.Items) != 1 || list.Items[0].Name != "a" || list.ResourceVersion != "9" {
		t.Errorf("decoded %s as %T %+v", kind, object, object)
	}
}

func TestUnknownFieldIsAnError(t *testing.T) {
	decoder, _ := newCodecs(t)
	_, _, err := decoder.Decode([]byte(`{"apiVersion":"scheduler.grove.io/v1alpha1","kind":"PodGang","spec":{"podGroups":[]}}`), nil, nil)
	if !runtime.IsStrictDecodingError(err) {
		t.Errorf("got error %v, want a strict decoding error for podGroups", err)
	}
}
