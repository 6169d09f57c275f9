// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// access is a rule that is used for gangs. The shipped ClusterRole
// has it; one that was written for an older version, or by hand, may not.
type access struct {
	// group is an API group, resource may have a subresource after a slash.
	group, resource string
	verbs           []string
}

var (
	reads = []string{"list", "watch"}

	// neededAccess is what a gang with claims takes from its PodGang to its bindings.
	neededAccess = []access{
		{"", "pods", append([]string{"get"}, reads...)},
		{"", "nodes", reads},
		{"", "pods/binding", []string{"create"}},
		{"", "pods/status", []string{"patch"}},
		{"scheduler.grove.io", "podgangs", reads},
		{"scheduler.grove.io", "podgangs/status", []string{"patch"}},
		{"grove.io", "clustertopologybindings", reads},
		{"grove.io", "clustertopologies", reads},
		{"scheduling.k8s.io", "priorityclasses", reads},
		{"resource.k8s.io", "deviceclasses", reads},
		{"resource.k8s.io", "resourceslices", reads},
		{"resource.k8s.io", "resourceclaims", append([]string{"get", "update"}, reads...)},
		{"resource.k8s.io", "resourceclaims/status", []string{"update", "patch"}},
		// The API server asks for it from Kubernetes 1.36 on.
		{"resource.k8s.io", "resourceclaims/binding", []string{"update", "patch"}},
		{"events.k8s.io", "events", []string{"create"}},
	}
)

// reportMissingAccess asks the API server what of neededAccess the scheduler may not
// do, and says so in the log, rule by rule. It returns when all has been asked; what
// the API server does not answer is taken for granted.
func reportMissingAccess(ctx context.Context, client kubernetes.Interface) {
	logger := klog.FromContext(ctx)
	for _, rule := range missingAccess(ctx, client) {
		logger.Error(nil, "The scheduler's role lacks a rule, and gangs are not scheduled or reported as they should be: add it as in manifests/base/clusterrole.yaml", "rule", rule)
	}
}

// missingAccess returns the rules that the scheduler has not been granted, in words:
// verbs, resource and API group.
func missingAccess(ctx context.Context, client kubernetes.Interface) []string {
	var missing []string
	for _, a := range neededAccess {
		var denied []string
		for _, verb := range a.verbs {
			if !allowed(ctx, client, a, verb) {
				denied = append(denied, verb)
			}
		}
		if len(denied) > 0 {
			missing = append(missing, fmt.Sprintf("%s %s in API group %q", strings.Join(denied, ", "), a.resource, a.group))
		}
	}
	return missing
}

// allowed reports whether the scheduler may use the verb on all objects of the
// resource, true if that cannot be found out.
func allowed(ctx context.Context, client kubernetes.Interface, a access, verb string) bool {
	resource, subresource, _ := strings.Cut(a.resource, "/")
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: a.group, Resource: resource, Subresource: subresource, Verb: verb,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot ask what the scheduler may do", "err", err)
		return true
	}
	return review.Status.Allowed
}
