// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
)

func duration(d time.Duration) *metav1.Duration {
	return &metav1.Duration{Duration: d}
}

func TestDefaults(t *testing.T) {
	cases := []struct {
		name string
		off  []featuregate.Feature
		in   runtime.Object
		want runtime.Object
	}{
		{
			name: "PodGangArgs, nothing set",
			in:   &PodGangArgs{},
			want: &PodGangArgs{PermitTimeout: duration(30 * time.Second), StatusPolicy: StatusPolicyFull, SearchBudget: ptr.To[int32](10000)},
		},
		{
			name: "PodGangArgs, what is set stays",
			in:   &PodGangArgs{PermitTimeout: duration(time.Minute), StatusPolicy: StatusPolicyScoreOnly, SearchBudget: ptr.To[int32](7)},
			want: &PodGangArgs{PermitTimeout: duration(time.Minute), StatusPolicy: StatusPolicyScoreOnly, SearchBudget: ptr.To[int32](7)},
		},
		{
			name: "PodGangArgs, zero is a value, not an absent field",
			in:   &PodGangArgs{PermitTimeout: duration(0)},
			want: &PodGangArgs{PermitTimeout: duration(0), StatusPolicy: StatusPolicyFull, SearchBudget: ptr.To[int32](10000)},
		},
		{
			name: "PodGangResourcesArgs, nothing set",
			in:   &PodGangResourcesArgs{},
			want: &PodGangResourcesArgs{FilterTimeout: duration(10 * time.Second), BindingTimeout: duration(10 * time.Minute), AlignmentAttributes: DefaultAlignmentAttributes()},
		},
		{
			name: "PodGangResourcesArgs, what is set stays",
			in:   &PodGangResourcesArgs{FilterTimeout: duration(0), BindingTimeout: duration(time.Minute), AlignmentAttributes: []string{}},
			want: &PodGangResourcesArgs{FilterTimeout: duration(0), BindingTimeout: duration(time.Minute), AlignmentAttributes: []string{}},
		},
		{
			name: "PodGangResourcesArgs, no default for a feature that is off",
			off:  []featuregate.Feature{features.DRADeviceBindingConditions},
			in:   &PodGangResourcesArgs{},
			want: &PodGangResourcesArgs{FilterTimeout: duration(10 * time.Second), AlignmentAttributes: DefaultAlignmentAttributes()},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			for _, gate := range tc.off {
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, gate, false)
			}
			scheme := runtime.NewScheme()
			if err := AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			scheme.Default(tc.in)
			if diff := cmp.Diff(tc.want, tc.in); diff != "" {
				t.Errorf("defaults (-want +got):\n%s", diff)
			}
		})
	}
}
