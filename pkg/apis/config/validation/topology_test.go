// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/apis/config/scheme"
	configv1 "github.com/podgang/podgang-scheduler/pkg/apis/config/v1"
)

// defaultArgs are the arguments when none are given.
func defaultArgs(t *testing.T) *config.PodGangArgs {
	t.Helper()
	types := runtime.NewScheme()
	scheme.AddToScheme(types)
	given := &configv1.PodGangArgs{}
	types.Default(given)
	args := &config.PodGangArgs{}
	if err := types.Convert(given, args, nil); err != nil {
		t.Fatal(err)
	}
	return args
}

func TestValidateTopology(t *testing.T) {
	many := make([]string, 33)
	for i := range many {
		many[i] = fmt.Sprintf("example.com/level-%d", i)
	}
	fabric := func(change func(*config.Fabric)) func(*config.PodGangArgs) {
		return func(a *config.PodGangArgs) {
			f := config.Fabric{Name: "own", Levels: []string{"example.com/leaf"}}
			change(&f)
			a.Fabrics = []config.Fabric{f}
		}
	}
	score := func(change func(*config.Score)) func(*config.PodGangArgs) {
		return func(a *config.PodGangArgs) { change(&a.Score) }
	}
	for _, tc := range []struct {
		name   string
		change func(*config.PodGangArgs)
		want   string // part of the error, "" for none
	}{
		{"the defaults", func(*config.PodGangArgs) {}, ""},
		{"no levels", func(a *config.PodGangArgs) { a.TopologyLevels = nil }, ""},
		{"a level twice", func(a *config.PodGangArgs) { a.TopologyLevels = []string{"a/b", "c", "a/b"} }, `args.topologyLevels[2]: Duplicate value: "a/b"`},
		{"a level that is no label key", func(a *config.PodGangArgs) { a.TopologyLevels = []string{"a b"} }, `args.topologyLevels[0]: Invalid value: "a b"`},
		{"too many levels", func(a *config.PodGangArgs) { a.TopologyLevels = many }, `args.topologyLevels: Too many: 33: must have at most 32 items`},
		{"a fabric", fabric(func(f *config.Fabric) { f.Bandwidths = []float64{100} }), ""},
		{"a fabric without name", fabric(func(f *config.Fabric) { f.Name = "" }), `args.fabrics[0].name: Required value`},
		{"a fabric without levels", fabric(func(f *config.Fabric) { f.Levels = nil }), `args.fabrics[0].levels: Required value`},
		{"a fabric with a bandwidth of 0", fabric(func(f *config.Fabric) { f.Bandwidths = []float64{0} }), `args.fabrics[0].bandwidths[0]: Invalid value: 0: must be more than 0 and finite`},
		{"two fabrics of one name", func(a *config.PodGangArgs) {
			a.Fabrics = []config.Fabric{{Name: "own", Levels: []string{"a"}}, {Name: "own", Levels: []string{"b"}}}
		}, `args.fabrics[1].name: Duplicate value: "own"`},
		{"an NVLink level that is no label key", fabric(func(f *config.Fabric) { f.NVLinkLevels = []string{""} }), `args.fabrics[0].nvlinkLevels[0]: Invalid value: ""`},
		{"infinite bandwidth", score(func(s *config.Score) { s.NVLinkBandwidth = math.Inf(1) }), `args.score.nvlinkBandwidth: Invalid value`},
		{"bandwidth that is no number", score(func(s *config.Score) { s.TCPBandwidth = math.NaN() }), `args.score.tcpBandwidth: Invalid value`},
		{"negative bandwidth", score(func(s *config.Score) { s.CrossUnitBandwidth = -1 }), `args.score.crossUnitBandwidth: Invalid value: -1`},
		{"no bandwidths", score(func(s *config.Score) { s.FabricBandwidths = nil }), `args.score.fabricBandwidths: Required value`},
		{"a falloff above 1", score(func(s *config.Score) { s.FabricFalloff = 1.01 }), `args.score.fabricFalloff: Invalid value: 1.01: must be more than 0 and at most 1`},
		{"a factor of 0", score(func(s *config.Score) { s.CrossNUMA = 0 }), `args.score.crossNUMA: Invalid value: 0`},
		{"a factor that is no number", score(func(s *config.Score) { s.SameNUMA = math.NaN() }), `args.score.sameNUMA: Invalid value`},
		{"units that do not talk", score(func(s *config.Score) { s.CrossUnitWeight = 0 }), `args.score.crossUnitWeight: Invalid value: 0: must be more than 0 and at most 1`},
		{"RDMA never", func(a *config.PodGangArgs) { a.RDMA.Assume = "Never" }, `args.rdma.assume: Unsupported value: "Never": supported values: "Auto", "Always"`},
		{"domains apart", func(a *config.PodGangArgs) { a.ComputeDomains.Placement = "Apart" }, `args.computeDomains.placement: Unsupported value: "Apart"`},
		{"no room for the daemon", func(a *config.PodGangArgs) { a.ComputeDomains.DaemonRequests = corev1.ResourceList{} }, ""},
		{"a daemon with a GPU", func(a *config.PodGangArgs) {
			a.ComputeDomains.DaemonRequests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		}, `args.computeDomains.daemonRequests: Unsupported value: "nvidia.com/gpu"`},
		{"a daemon that gives room", func(a *config.PodGangArgs) {
			a.ComputeDomains.DaemonRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("-1")}
		}, `args.computeDomains.daemonRequests[cpu]: Invalid value: "-1": must not be negative`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := defaultArgs(t)
			tc.change(args)
			got := message(ValidatePodGangArgs(field.NewPath("args"), args))
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
