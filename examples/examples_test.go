// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// load decodes an example strictly.
func load(t *testing.T, name string) []runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	objects, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []runtime.Object
	for _, object := range objects {
		data, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		typed, _, err := decoder.Decode(data, nil, nil)
		if err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		out = append(out, typed)
	}
	return out
}

func pick[T runtime.Object](objects []runtime.Object) []T {
	var out []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			out = append(out, typed)
		}
	}
	return out
}

func TestNames(t *testing.T) {
	if diff := cmp.Diff([]string{"disagg-l40s", "nvl72", "nvl72-preferred"}, Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestUnknownExample(t *testing.T) {
	_, err := Load("disagg-l4")
	if err == nil || !strings.Contains(err.Error(), `no example "disagg-l4"; there are: disagg-l40s`) {
		t.Errorf("got error %v, want one that lists the examples", err)
	}
}

func TestReadTakesTheFileName(t *testing.T) {
	short, err := Read("disagg-l40s")
	if err != nil {
		t.Fatal(err)
	}
	long, err := Read("disagg-l40s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(short) != string(long) || !strings.HasPrefix(string(short), "# ") {
		t.Errorf("got %d and %d bytes, want the same file with its comments", len(short), len(long))
	}
}

// In every example each pod is scheduled by podgang-scheduler, is listed in its
// gang, and has its template of claims beside it.
func TestExamplesFitTogether(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			objects := load(t, name)
			listed := map[string]string{} // namespace/pod → gang
			for _, gang := range pick[*v1alpha1.PodGang](objects) {
				if !cmp.Equal(gang.Status, v1alpha1.PodGangStatus{}) {
					t.Errorf("PodGang %s has a status: kubectl apply would drop it", gang.Name)
				}
				for _, group := range gang.Spec.PodGroups {
					if got := len(group.PodReferences); got < int(group.MinReplicas) {
						t.Errorf("group %s lists %d pods, below its floor of %d", group.Name, got, group.MinReplicas)
					}
					for _, ref := range group.PodReferences {
						listed[ref.Namespace+"/"+ref.Name] = gang.Name
					}
				}
			}
			var templates []string
			for _, template := range pick[*resourcev1.ResourceClaimTemplate](objects) {
				templates = append(templates, template.Name)
			}
			for _, pod := range pick[*corev1.Pod](objects) {
				key := pod.Namespace + "/" + pod.Name
				if gang, ok := listed[key]; !ok || gang != pod.Labels[v1alpha1.LabelPodGang] {
					t.Errorf("pod %s has label %q, is listed in gang %q", key, pod.Labels[v1alpha1.LabelPodGang], gang)
				}
				delete(listed, key)
				if pod.Spec.SchedulerName != "podgang-scheduler" {
					t.Errorf("pod %s has schedulerName %q", key, pod.Spec.SchedulerName)
				}
				for _, claim := range pod.Spec.ResourceClaims {
					if template := claim.ResourceClaimTemplateName; template == nil || !slices.Contains(templates, *template) {
						t.Errorf("pod %s: claim %s is not made from a template of this file", key, claim.Name)
					}
					if !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
						return slices.ContainsFunc(c.Resources.Claims, func(r corev1.ResourceClaim) bool { return r.Name == claim.Name })
					}) {
						t.Errorf("pod %s: no container uses claim %s", key, claim.Name)
					}
				}
			}
			if len(listed) > 0 {
				t.Errorf("listed, but not in the file: %v", listed)
			}
		})
	}
}

func TestDisaggL40S(t *testing.T) {
	objects := load(t, "disagg-l40s")
	gangs := pick[*v1alpha1.PodGang](objects)
	if len(gangs) != 1 || gangs[0].Name != "vllm-disagg-dra-0" || gangs[0].Namespace != "dynamo-demo" {
		t.Fatalf("gangs = %+v, want dynamo-demo/vllm-disagg-dra-0", gangs)
	}
	floors := map[string]int32{}
	for _, group := range gangs[0].Spec.PodGroups {
		floors[strings.TrimPrefix(group.Name, "vllm-disagg-dra-0-")] = group.MinReplicas
	}
	if diff := cmp.Diff(map[string]int32{"frontend": 1, "prefill": 1, "decode": 1}, floors); diff != "" {
		t.Errorf("floors (-want +got):\n%s", diff)
	}
	claims := map[string]int{}
	for _, pod := range pick[*corev1.Pod](objects) {
		claims[pod.Name] = len(pod.Spec.ResourceClaims)
	}
	want := map[string]int{"vllm-disagg-dra-0-frontend-0": 0, "vllm-disagg-dra-0-prefill-0": 1, "vllm-disagg-dra-0-decode-0": 1}
	if diff := cmp.Diff(want, claims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// A rack has 18 trays: each pod takes a whole one, with a channel of the one domain.
func TestNVL72(t *testing.T) {
	const key = "nvidia.com/gpu.clique"
	for name, want := range map[string]v1alpha1.TopologyPackConstraint{
		"nvl72":           {Required: ptr.To(key)},
		"nvl72-preferred": {Preferred: ptr.To(key)},
	} {
		t.Run(name, func(t *testing.T) {
			objects := load(t, name)
			gangs, pods := pick[*v1alpha1.PodGang](objects), pick[*corev1.Pod](objects)
			if len(gangs) != 1 || len(gangs[0].Spec.PodGroups) != 1 || gangs[0].Spec.PodGroups[0].MinReplicas != 18 || len(pods) != 18 {
				t.Fatalf("%d gangs of %d pods: %+v, want one group with a floor of 18", len(gangs), len(pods), gangs)
			}
			if diff := cmp.Diff(&v1alpha1.TopologyConstraint{PackConstraint: &want}, gangs[0].Spec.TopologyConstraint); diff != "" {
				t.Errorf("constraint (-want +got):\n%s", diff)
			}
			devices := map[string]int64{}
			for _, template := range pick[*resourcev1.ResourceClaimTemplate](objects) {
				for _, request := range template.Spec.Spec.Devices.Requests {
					devices[request.Exactly.DeviceClassName] += request.Exactly.Count
				}
			}
			want := map[string]int64{"gpu.nvidia.com": 4, "dranet.net": 8, "compute-domain-default-channel.nvidia.com": 1}
			if diff := cmp.Diff(want, devices); diff != "" {
				t.Errorf("devices of the templates (-want +got):\n%s", diff)
			}
			for _, pod := range pods {
				if got := len(pod.Spec.ResourceClaims); got != 2 {
					t.Errorf("pod %s has %d claims, want one of each template", pod.Name, got)
				}
			}
		})
	}
}
