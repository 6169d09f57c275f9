// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

func render(t *testing.T, kustomization string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := Render(kustomization)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// decode turns an object into its Go type; an unknown or repeated field fails
// the test.
func decode(t *testing.T, object *unstructured.Unstructured) runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	data, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	typed, _, err := codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return typed
}

// find returns the objects of a kind, decoded.
func find[T runtime.Object](t *testing.T, objects []*unstructured.Unstructured) []T {
	t.Helper()
	var out []T
	for _, object := range objects {
		if typed, ok := decode(t, object).(T); ok {
			out = append(out, typed)
		}
	}
	return out
}

func one[T runtime.Object](t *testing.T, objects []*unstructured.Unstructured) T {
	t.Helper()
	found := find[T](t, objects)
	if len(found) != 1 {
		t.Fatalf("got %d objects of type %T, want 1", len(found), *new(T))
	}
	return found[0]
}

func kinds(objects []*unstructured.Unstructured) []string {
	var out []string
	for _, object := range objects {
		out = append(out, object.GetKind())
	}
	return out
}

func TestRender(t *testing.T) {
	scheduler := []string{
		"ServiceAccount", "Role", "ClusterRole", "RoleBinding", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "Deployment",
	}
	cases := map[string][]string{
		Base:       slices.Concat([]string{"Namespace"}, scheduler),
		CRD:        {"CustomResourceDefinition"},
		Standalone: slices.Concat([]string{"Namespace", "CustomResourceDefinition"}, scheduler),
	}
	for kustomization, want := range cases {
		t.Run(kustomization, func(t *testing.T) {
			objects := render(t, kustomization)
			if diff := cmp.Diff(want, kinds(objects)); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
			for _, object := range objects {
				decode(t, object)
			}
		})
	}
}

func TestRenderUnknown(t *testing.T) {
	_, err := Render("no-such")
	if err == nil || !strings.Contains(err.Error(), "no-such") {
		t.Errorf("got error %v, want one that names no-such", err)
	}
}

func TestEveryNamespacedObjectIsInItsNamespace(t *testing.T) {
	// The one object elsewhere: it grants the use of a role of kube-system.
	elsewhere := map[string]string{"podgang-scheduler-authentication-reader": "kube-system"}
	clusterScoped := []string{"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
	for _, object := range render(t, Standalone) {
		want := "podgang-system"
		if other, ok := elsewhere[object.GetName()]; ok {
			want = other
		}
		if slices.Contains(clusterScoped, object.GetKind()) {
			want = ""
		}
		if got := object.GetNamespace(); got != want {
			t.Errorf("%s %s is in namespace %q, want %q", object.GetKind(), object.GetName(), got, want)
		}
	}
}

func TestDeploymentIsLockedDown(t *testing.T) {
	pod := one[*appsv1.Deployment](t, render(t, Base)).Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		t.Fatalf("got %d containers and %d init containers, want one container", len(pod.Containers), len(pod.InitContainers))
	}
	container := pod.Containers[0]
	yes, no, uid := true, false, int64(65532)
	wantPod := &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &uid, RunAsGroup: &uid,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if diff := cmp.Diff(wantPod, pod.SecurityContext); diff != "" {
		t.Errorf("pod security context (-want +got):\n%s", diff)
	}
	wantContainer := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if diff := cmp.Diff(wantContainer, container.SecurityContext); diff != "" {
		t.Errorf("container security context (-want +got):\n%s", diff)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("uses a namespace of the host")
	}
	for _, volume := range pod.Volumes {
		if volume.HostPath != nil {
			t.Errorf("volume %s is a path of the host", volume.Name)
		}
	}
}

func TestDeploymentProbesAndRequests(t *testing.T) {
	container := one[*appsv1.Deployment](t, render(t, Base)).Spec.Template.Spec.Containers[0]
	probes := map[string]*corev1.Probe{
		"/livez":                             container.LivenessProbe,
		"/readyz?exclude=sched-handler-sync": container.ReadinessProbe,
		"/livez ":                            container.StartupProbe,
	}
	for path, probe := range probes {
		if probe == nil || probe.HTTPGet == nil {
			t.Errorf("no HTTP probe of %s", path)
			continue
		}
		if probe.HTTPGet.Path != strings.TrimSpace(path) || probe.HTTPGet.Scheme != corev1.URISchemeHTTPS || probe.HTTPGet.Port.StrVal != "https" {
			t.Errorf("probe = %+v, want HTTPS %s on port https", probe.HTTPGet, path)
		}
	}
	if len(container.Ports) != 1 || container.Ports[0].Name != "https" || container.Ports[0].ContainerPort != 10259 {
		t.Errorf("ports = %+v, want https 10259, the scheduler's default", container.Ports)
	}
	if container.Resources.Requests.Cpu().IsZero() || container.Resources.Requests.Memory().IsZero() {
		t.Errorf("requests = %v, want cpu and memory", container.Resources.Requests)
	}
}

func TestDeploymentMountsTheConfiguration(t *testing.T) {
	objects := render(t, Base)
	configMap := one[*corev1.ConfigMap](t, objects)
	deployment := one[*appsv1.Deployment](t, objects)
	pod := deployment.Spec.Template.Spec
	if len(pod.Volumes) != 1 || pod.Volumes[0].ConfigMap == nil || pod.Volumes[0].ConfigMap.Name != configMap.Name {
		t.Errorf("volumes = %+v, want the ConfigMap %s", pod.Volumes, configMap.Name)
	}
	if configMap.Name == "podgang-scheduler-config" {
		t.Error("the ConfigMap's name has no hash: a changed configuration would not restart the scheduler")
	}
	mount := pod.Containers[0].VolumeMounts[0]
	wantArg := "--config=" + mount.MountPath + "/" + slices.Collect(maps.Keys(configMap.Data))[0]
	if !slices.Contains(pod.Containers[0].Args, wantArg) {
		t.Errorf("args = %q, want %q among them", pod.Containers[0].Args, wantArg)
	}
	if got := configMap.Data["config.yaml"]; got != string(SchedulerConfig()) {
		t.Error("SchedulerConfig is not what the ConfigMap holds")
	}
	if !maps.Equal(deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels) {
		t.Errorf("selector %v, pod labels %v", deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels)
	}
}

func TestImageIsSetInOnePlace(t *testing.T) {
	container := one[*appsv1.Deployment](t, render(t, Base)).Spec.Template.Spec.Containers[0]
	if got, want := container.Image, "podgang-scheduler:latest"; got != want {
		t.Errorf("image = %q, want %q from the images entry", got, want)
	}
}

// rules maps "group/resource" to verbs; a rule for named objects is
// "group/resource/name".
func rules(policy []rbacv1.PolicyRule) map[string]string {
	verbs := map[string][]string{}
	for _, rule := range policy {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					key := strings.TrimSuffix(group+"/"+resource+"/"+name, "/")
					verbs[key] = append(verbs[key], rule.Verbs...)
				}
			}
		}
	}
	out := map[string]string{}
	for key, list := range verbs {
		slices.Sort(list)
		out[key] = strings.Join(list, " ")
	}
	return out
}

// The whole permission of the scheduler. A change here is a change of what a
// user grants.
func TestPermissions(t *testing.T) {
	const read = "get list watch"
	objects := render(t, Base)
	want := map[string]string{
		"/nodes":                                    read,
		"/pods":                                     "delete " + read,
		"/pods/binding":                             "create",
		"/pods/status":                              "patch",
		"/pods/finalizers":                          "update",
		"/namespaces":                               read,
		"/services":                                 read,
		"/replicationcontrollers":                   read,
		"/persistentvolumes":                        "get list update watch",
		"/persistentvolumeclaims":                   "get list update watch",
		"/events":                                   "create patch",
		"events.k8s.io/events":                      "create patch",
		"apps/replicasets":                          read,
		"apps/statefulsets":                         read,
		"policy/poddisruptionbudgets":               read,
		"scheduler.grove.io/podgangs":               read,
		"grove.io/clustertopologybindings":          read,
		"grove.io/clustertopologies":                read,
		"scheduler.grove.io/podgangs/status":        "patch",
		"scheduling.k8s.io/priorityclasses":         read,
		"resource.k8s.io/deviceclasses":             read,
		"resource.k8s.io/resourceslices":            read,
		"resource.k8s.io/devicetaintrules":          read,
		"resource.k8s.io/resourceclaims":            "create delete get list update watch",
		"resource.k8s.io/resourceclaims/status":     "patch update",
		"resource.k8s.io/resourceclaims/binding":    "patch update",
		"storage.k8s.io/storageclasses":             read,
		"storage.k8s.io/csinodes":                   read,
		"storage.k8s.io/csidrivers":                 read,
		"storage.k8s.io/csistoragecapacities":       read,
		"storage.k8s.io/volumeattachments":          read,
		"authentication.k8s.io/tokenreviews":        "create",
		"authorization.k8s.io/subjectaccessreviews": "create",
	}
	if diff := cmp.Diff(want, rules(one[*rbacv1.ClusterRole](t, objects).Rules)); diff != "" {
		t.Errorf("cluster role (-want +got):\n%s", diff)
	}
	want = map[string]string{
		"coordination.k8s.io/leases":                   "create",
		"coordination.k8s.io/leases/podgang-scheduler": "get update",
	}
	if diff := cmp.Diff(want, rules(one[*rbacv1.Role](t, objects).Rules)); diff != "" {
		t.Errorf("role (-want +got):\n%s", diff)
	}
}

func TestNoWildcards(t *testing.T) {
	for _, object := range render(t, Base) {
		if !strings.HasSuffix(object.GetKind(), "Role") {
			continue
		}
		data, err := json.Marshal(object.Object["rules"])
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(`*`)) {
			t.Errorf("%s %s has a wildcard: %s", object.GetKind(), object.GetName(), data)
		}
	}
}

func TestRolesAreBoundToTheServiceAccount(t *testing.T) {
	objects := render(t, Base)
	account := one[*corev1.ServiceAccount](t, objects)
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}
	bound := map[string]bool{}
	check := func(name string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		bound[ref.Kind+" "+ref.Name] = true
		if diff := cmp.Diff(want, subjects); diff != "" {
			t.Errorf("%s: subjects (-want +got):\n%s", name, diff)
		}
	}
	for _, binding := range find[*rbacv1.ClusterRoleBinding](t, objects) {
		check(binding.Name, binding.RoleRef, binding.Subjects)
	}
	for _, binding := range find[*rbacv1.RoleBinding](t, objects) {
		check(binding.Name, binding.RoleRef, binding.Subjects)
	}
	wantBound := map[string]bool{
		"ClusterRole podgang-scheduler":                  true,
		"Role podgang-scheduler-lease":                   true,
		"Role extension-apiserver-authentication-reader": true,
	}
	if diff := cmp.Diff(wantBound, bound); diff != "" {
		t.Errorf("bound roles (-want +got):\n%s", diff)
	}
	if got := one[*appsv1.Deployment](t, objects).Spec.Template.Spec.ServiceAccountName; got != account.Name {
		t.Errorf("the Deployment runs as %q, want %q", got, account.Name)
	}
}
