// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestIsDenied(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"forbidden", apierrors.NewForbidden(pods, "p", errors.New("no")), true},
		{"invalid, as by an admission policy", apierrors.NewInvalid(schema.GroupKind{Kind: "Binding"}, "p", nil), true},
		{"conflict", apierrors.NewConflict(pods, "p", errors.New("no")), false},
		{"server error", apierrors.NewInternalError(errors.New("no")), false},
		{"no answer", errors.New("connection refused"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := isDenied(fwk.AsStatus(tc.err)); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
