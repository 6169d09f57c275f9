// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// placed adds the defaults of the fields that say where members are placed.
func placed(args *PodGangArgs) *PodGangArgs {
	args.TopologyLevels = DefaultTopologyLevels()
	args.Score = Score{
		NVLinkBandwidth: ptr.To(900.0), FabricBandwidths: []float64{50, 42.5, 35}, FabricFalloff: ptr.To(0.85), TCPBandwidth: ptr.To(3.0),
		CrossUnitWeight: ptr.To(0.25), CrossUnitBandwidth: ptr.To(50.0), SameNUMA: ptr.To(0.95), CrossNUMA: ptr.To(0.55),
	}
	args.Accelerators = Accelerators{ExtendedResources: []string{"nvidia.com/gpu", "amd.com/gpu"}}
	args.RDMA = RDMA{Assume: RDMAAuto, ExtendedResources: DefaultRDMAResources()}
	args.ComputeDomains = ComputeDomains{Placement: ComputeDomainRequired, DaemonRequests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
	}}
	return args
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
			want: placed(&PodGangArgs{PermitTimeout: duration(30 * time.Second), StatusPolicy: StatusPolicyFull, SearchBudget: ptr.To[int32](10000), StarvationAfter: duration(5 * time.Minute)}),
		},
		{
			name: "PodGangArgs, what is set stays",
			in:   &PodGangArgs{PermitTimeout: duration(time.Minute), StatusPolicy: StatusPolicyScoreOnly, SearchBudget: ptr.To[int32](7), StarvationAfter: duration(0)},
			want: placed(&PodGangArgs{PermitTimeout: duration(time.Minute), StatusPolicy: StatusPolicyScoreOnly, SearchBudget: ptr.To[int32](7), StarvationAfter: duration(0)}),
		},
		{
			name: "PodGangArgs, zero is a value, not an absent field",
			in:   &PodGangArgs{PermitTimeout: duration(0)},
			want: placed(&PodGangArgs{PermitTimeout: duration(0), StatusPolicy: StatusPolicyFull, SearchBudget: ptr.To[int32](10000), StarvationAfter: duration(5 * time.Minute)}),
		},
		{
			name: "PodGangArgs, what is set of the placement stays, and empty is a value",
			in:   &PodGangArgs{TopologyLevels: []string{}, Score: Score{NVLinkBandwidth: ptr.To(450.0)}, RDMA: RDMA{Assume: RDMAAlways, ExtendedResources: []string{}}, ComputeDomains: ComputeDomains{Placement: ComputeDomainPreferred, DaemonRequests: corev1.ResourceList{}}},
			want: func() *PodGangArgs {
				want := placed(&PodGangArgs{PermitTimeout: duration(30 * time.Second), StatusPolicy: StatusPolicyFull, SearchBudget: ptr.To[int32](10000), StarvationAfter: duration(5 * time.Minute)})
				want.TopologyLevels = []string{}
				want.Score.NVLinkBandwidth = ptr.To(450.0)
				want.RDMA = RDMA{Assume: RDMAAlways, ExtendedResources: []string{}}
				want.ComputeDomains = ComputeDomains{Placement: ComputeDomainPreferred, DaemonRequests: corev1.ResourceList{}}
				return want
			}(),
		},
		{
			name: "PodGangResourcesArgs, nothing set",
			in:   &PodGangResourcesArgs{},
			want: &PodGangResourcesArgs{FilterTimeout: duration(10 * time.Second), BindingTimeout: duration(10 * time.Minute), AlignmentAttributes: DefaultAlignmentAttributes(), NUMAHints: DefaultNUMAHints()},
		},
		{
			name: "PodGangResourcesArgs, what is set stays",
			in:   &PodGangResourcesArgs{FilterTimeout: duration(0), BindingTimeout: duration(time.Minute), AlignmentAttributes: []string{}, NUMAHints: []NUMAHint{}},
			want: &PodGangResourcesArgs{FilterTimeout: duration(0), BindingTimeout: duration(time.Minute), AlignmentAttributes: []string{}, NUMAHints: []NUMAHint{}},
		},
		{
			name: "PodGangResourcesArgs, no default for a feature that is off",
			off:  []featuregate.Feature{features.DRADeviceBindingConditions},
			in:   &PodGangResourcesArgs{},
			want: &PodGangResourcesArgs{FilterTimeout: duration(10 * time.Second), AlignmentAttributes: DefaultAlignmentAttributes(), NUMAHints: DefaultNUMAHints()},
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
