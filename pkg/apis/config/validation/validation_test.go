// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
)

// message is the text of an error, "" for nil.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestValidatePodGangArgs(t *testing.T) {
	const limits = "must be from 1s to 14m (the scheduler framework ends every wait at 15m)"
	cases := []struct {
		name   string
		wait   time.Duration
		policy config.StatusPolicy
		budget int32 // 0 means the default, 10000
		want   string
	}{
		{name: "smallest budget", wait: time.Second, policy: config.StatusPolicyFull, budget: 100},
		{name: "largest budget", wait: time.Second, policy: config.StatusPolicyFull, budget: 1000000},
		{name: "budget below the smallest", wait: time.Second, policy: config.StatusPolicyFull, budget: 99, want: `args.searchBudget: Invalid value: 99: must be from 100 to 1000000`},
		{name: "budget above the largest", wait: time.Second, policy: config.StatusPolicyFull, budget: 1000001, want: `args.searchBudget: Invalid value: 1000001: must be from 100 to 1000000`},
		{name: "negative budget", wait: time.Second, policy: config.StatusPolicyFull, budget: -1, want: `args.searchBudget: Invalid value: -1: must be from 100 to 1000000`},
		{name: "shortest wait", wait: time.Second, policy: config.StatusPolicyFull},
		{name: "longest wait", wait: 14 * time.Minute, policy: config.StatusPolicyScoreOnly},
		{name: "no wait", policy: config.StatusPolicyFull, want: `args.permitTimeout: Invalid value: "0s": ` + limits},
		{name: "wait below the shortest", wait: 999 * time.Millisecond, policy: config.StatusPolicyFull, want: `args.permitTimeout: Invalid value: "999ms": ` + limits},
		{name: "wait above the longest", wait: 14*time.Minute + time.Second, policy: config.StatusPolicyFull, want: `args.permitTimeout: Invalid value: "14m1s": ` + limits},
		{name: "negative wait", wait: -time.Minute, policy: config.StatusPolicyFull, want: `args.permitTimeout: Invalid value: "-1m0s": ` + limits},
		{name: "unknown policy", wait: time.Minute, policy: "scoreonly", want: `args.statusPolicy: Unsupported value: "scoreonly": supported values: "Full", "ScoreOnly"`},
		{name: "no policy", wait: time.Minute, want: `args.statusPolicy: Unsupported value: "": supported values: "Full", "ScoreOnly"`},
		{
			name: "two faults, both reported", policy: "x",
			want: `[args.permitTimeout: Invalid value: "0s": ` + limits + `, args.statusPolicy: Unsupported value: "x": supported values: "Full", "ScoreOnly"]`,
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			args := defaultArgs(t)
			args.PermitTimeout, args.StatusPolicy, args.SearchBudget = metav1.Duration{Duration: tc.wait}, tc.policy, cmp.Or(tc.budget, 10000)
			if got := message(ValidatePodGangArgs(field.NewPath("args"), args)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestValidateStarvationAfter(t *testing.T) {
	const limits = "must be 1s or more, or 0s for never"
	for _, tc := range []struct {
		name  string
		after time.Duration
		want  string
	}{
		{name: "never"},
		{name: "shortest", after: time.Second},
		{name: "a week", after: 7 * 24 * time.Hour},
		{name: "below the shortest", after: 999 * time.Millisecond, want: `args.starvationAfter: Invalid value: "999ms": ` + limits},
		{name: "negative", after: -time.Minute, want: `args.starvationAfter: Invalid value: "-1m0s": ` + limits},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := defaultArgs(t)
			args.StarvationAfter = metav1.Duration{Duration: tc.after}
			if got := message(ValidatePodGangArgs(field.NewPath("args"), args)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestValidatePodGangResourcesArgs(t *testing.T) {
	cases := []struct {
		name       string
		args       config.PodGangResourcesArgs
		bindingOff bool
		want       string
	}{
		{name: "nothing set"},
		{
			name: "smallest values",
			args: config.PodGangResourcesArgs{FilterTimeout: &metav1.Duration{}, BindingTimeout: &metav1.Duration{Duration: time.Second}},
		},
		{
			name: "negative filter timeout",
			args: config.PodGangResourcesArgs{FilterTimeout: &metav1.Duration{Duration: -time.Second}},
			want: `args.filterTimeout: Invalid value: "-1s": must be zero or positive`,
		},
		{
			name: "binding timeout below a second",
			args: config.PodGangResourcesArgs{BindingTimeout: &metav1.Duration{Duration: time.Millisecond}},
			want: `args.bindingTimeout: Invalid value: "1ms": must be at least 1 second`,
		},
		{
			name:       "binding timeout with its gate off",
			args:       config.PodGangResourcesArgs{BindingTimeout: &metav1.Duration{Duration: time.Minute}},
			bindingOff: true,
			want:       `args.bindingTimeout: Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled`,
		},
		{
			name: "another attribute",
			args: config.PodGangResourcesArgs{AlignmentAttributes: []string{"example.com/complex"}},
		},
		{
			name: "attribute without a domain",
			args: config.PodGangResourcesArgs{AlignmentAttributes: []string{"numaNode"}},
			want: `args.alignmentAttributes[0]: Invalid value: "numaNode": must be a name with its domain, such as resource.kubernetes.io/numaNode`,
		},
		{
			name: "attribute named twice",
			args: config.PodGangResourcesArgs{AlignmentAttributes: []string{"a.b/c", "a.b/c"}},
			want: `args.alignmentAttributes[1]: Duplicate value: "a.b/c"`,
		},
		{
			name: "too many attributes",
			args: config.PodGangResourcesArgs{AlignmentAttributes: []string{"a/a", "a/b", "a/c", "a/d", "a/e"}},
			want: `args.alignmentAttributes: Too many: 5: must have at most 4 items`,
		},
		{
			name: "NUMA hint",
			args: config.PodGangResourcesArgs{NUMAHints: []config.NUMAHint{{ProductName: "GB200", PCIDomains: map[string]int64{"000a": 0}}}},
		},
		{
			name: "NUMA hint without a product",
			args: config.PodGangResourcesArgs{NUMAHints: []config.NUMAHint{{PCIDomains: map[string]int64{"000a": 0}}}},
			want: `args.numaHints[0].productName: Required value: name a part of the devices' attribute productName`,
		},
		{
			name: "NUMA hint without domains",
			args: config.PodGangResourcesArgs{NUMAHints: []config.NUMAHint{{ProductName: "GB200"}}},
			want: `args.numaHints[0].pciDomains: Required value: give the NUMA node of each PCI domain`,
		},
		{
			name: "NUMA hint for a whole address",
			args: config.PodGangResourcesArgs{NUMAHints: []config.NUMAHint{{ProductName: "GB200", PCIDomains: map[string]int64{"000a:06:00.0": 0}}}},
			want: `args.numaHints[0].pciDomains[000a:06:00.0]: Invalid value: "000a:06:00.0": must be four hexadecimal digits in small letters, such as 0008`,
		},
		{
			name: "NUMA hint for no node",
			args: config.PodGangResourcesArgs{NUMAHints: []config.NUMAHint{{ProductName: "GB200", PCIDomains: map[string]int64{"000a": -1}}}},
			want: `args.numaHints[0].pciDomains[000a]: Invalid value: -1: must be 0 or more`,
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if tc.bindingOff {
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DRADeviceBindingConditions, false)
			}
			if got := message(ValidatePodGangResourcesArgs(field.NewPath("args"), &tc.args)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
