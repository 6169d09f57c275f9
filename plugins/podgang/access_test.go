// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podgang/podgang-scheduler/manifests"
)

func TestMissingAccessIsNamed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		denied func(*authorizationv1.ResourceAttributes) bool
		err    error
		want   []string
	}{
		{name: "nothing is missing", denied: func(*authorizationv1.ResourceAttributes) bool { return false }},
		{
			name:   "a rule that came with a newer cluster",
			denied: func(a *authorizationv1.ResourceAttributes) bool { return a.Subresource == "binding" && a.Group != "" },
			want:   []string{`update, patch resourceclaims/binding in API group "resource.k8s.io"`},
		},
		{
			name:   "one verb of a rule",
			denied: func(a *authorizationv1.ResourceAttributes) bool { return a.Resource == "podgangs" && a.Verb == "watch" },
			want:   []string{`watch podgangs in API group "scheduler.grove.io"`},
		},
		{
			name:   "the API server does not say",
			denied: func(*authorizationv1.ResourceAttributes) bool { return true },
			err:    errors.New("no answer"),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
				review.Status.Allowed = !tc.denied(review.Spec.ResourceAttributes)
				return true, review, tc.err
			})
			if diff := cmp.Diff(tc.want, missingAccess(context.Background(), client)); diff != "" {
				t.Errorf("missing rules (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShippedRoleGrantsWhatIsAskedFor(t *testing.T) {
	objects, err := manifests.Render(manifests.Base)
	if err != nil {
		t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	for _, object := range objects {
		if object.GetKind() != "ClusterRole" {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			t.Fatal(err)
		}
		rules = append(rules, role.Rules...)
	}
	for _, a := range neededAccess {
		for _, verb := range a.verbs {
			if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
				return slices.Contains(r.APIGroups, a.group) && slices.Contains(r.Resources, a.resource) && slices.Contains(r.Verbs, verb)
			}) {
				t.Errorf("the shipped role does not let the scheduler %s %s of group %q", verb, a.resource, a.group)
			}
		}
	}
}
