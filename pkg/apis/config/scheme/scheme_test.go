// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedconfigv1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	intreescheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
)

const head = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: podgang-scheduler
  plugins:
    multiPoint:
      enabled: [{name: PodGang}, {name: PodGangResources}]
`

// args decodes a configuration and returns the arguments by plugin name.
func args(t *testing.T, data string) map[string]runtime.Object {
	t.Helper()
	object, _, err := intreescheme.Codecs.UniversalDecoder().Decode([]byte(data), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]runtime.Object{}
	for _, c := range object.(*schedconfig.KubeSchedulerConfiguration).Profiles[0].PluginConfig {
		out[c.Name] = c.Args
	}
	return out
}

func TestArgumentsAreDecodedToInternalTypes(t *testing.T) {
	got := args(t, head+`
  pluginConfig:
  - name: PodGang
    args:
      permitTimeout: 90s
      statusPolicy: ScoreOnly
      searchBudget: 500
      starvationAfter: 0s
      topologyLevels: [example.com/block, example.com/rack]
      fabrics:
      - {name: own, levels: [example.com/leaf], nvlinkLevels: [example.com/tray], strictTop: true, bandwidths: [100]}
      score: {nvlinkBandwidth: 450, fabricBandwidths: [25], fabricFalloff: 0.5, tcpBandwidth: 1, crossUnitWeight: 0, crossUnitBandwidth: 20, sameNUMA: 0.9, crossNUMA: 0.4}
      accelerators: {deviceClasses: [big.example.com], extendedResources: [example.com/gpu]}
      rdma: {assume: Always, deviceClasses: [nic.example.com], extendedResources: [example.com/nic]}
      computeDomains: {placement: Preferred, daemonRequests: {cpu: "1"}}
  - name: PodGangResources
    args:
      filterTimeout: 0s
      bindingTimeout: 1m
      alignmentAttributes: [example.com/complex]
      numaHints: [{productName: Own, pciDomains: {"000a": 1}}]
`)
	wantGang := &config.PodGangArgs{
		PermitTimeout: metav1.Duration{Duration: 90 * time.Second},
		StatusPolicy:  config.StatusPolicyScoreOnly,
		SearchBudget:  500,

		TopologyLevels: []string{"example.com/block", "example.com/rack"},
		Fabrics: []config.Fabric{{
			Name: "own", Levels: []string{"example.com/leaf"}, NVLinkLevels: []string{"example.com/tray"}, StrictTop: true, Bandwidths: []float64{100},
		}},
		Score: config.Score{
			NVLinkBandwidth: 450, FabricBandwidths: []float64{25}, FabricFalloff: 0.5, TCPBandwidth: 1,
			CrossUnitBandwidth: 20, SameNUMA: 0.9, CrossNUMA: 0.4,
		},
		Accelerators: config.Accelerators{DeviceClasses: []string{"big.example.com"}, ExtendedResources: []string{"example.com/gpu"}},
		RDMA:         config.RDMA{Assume: config.RDMAAlways, DeviceClasses: []string{"nic.example.com"}, ExtendedResources: []string{"example.com/nic"}},
		ComputeDomains: config.ComputeDomains{
			Placement:      config.ComputeDomainPreferred,
			DaemonRequests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		},
	}
	if diff := cmp.Diff(runtime.Object(wantGang), got["PodGang"]); diff != "" {
		t.Errorf("PodGang (-want +got):\n%s", diff)
	}
	wantResources := &config.PodGangResourcesArgs{
		FilterTimeout:  &metav1.Duration{},
		BindingTimeout: &metav1.Duration{Duration: time.Minute},

		AlignmentAttributes: []string{"example.com/complex"},
		NUMAHints:           []config.NUMAHint{{ProductName: "Own", PCIDomains: map[string]int64{"000a": 1}}},
	}
	if diff := cmp.Diff(runtime.Object(wantResources), got["PodGangResources"]); diff != "" {
		t.Errorf("PodGangResources (-want +got):\n%s", diff)
	}
}

func TestEnabledPluginWithoutArgumentsGetsTheDefaults(t *testing.T) {
	got := args(t, head)
	gang, ok := got["PodGang"].(*config.PodGangArgs)
	if !ok || gang.PermitTimeout.Duration != 30*time.Second || gang.StatusPolicy != config.StatusPolicyFull {
		t.Errorf("PodGang got %+v", got["PodGang"])
	}
	resources, ok := got["PodGangResources"].(*config.PodGangResourcesArgs)
	if !ok || resources.FilterTimeout == nil || resources.FilterTimeout.Duration != 10*time.Second {
		t.Errorf("PodGangResources got %+v", got["PodGangResources"])
	}
}

// The framework asks for defaults in this way when a profile has none.
func TestDefaultsOfNoDocument(t *testing.T) {
	kind := schedconfigv1.SchemeGroupVersion.WithKind("PodGangArgs")
	object, _, err := intreescheme.Codecs.UniversalDecoder().Decode(nil, &kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	if gang, ok := object.(*config.PodGangArgs); !ok || gang.PermitTimeout.Duration != 30*time.Second {
		t.Errorf("got %+v", object)
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	cases := map[string]struct{ pluginConfig, want string }{
		"misspelt field": {
			"{name: PodGang, args: {permitTimeOut: 30s}}",
			`decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin PodGang: strict decoding error: unknown field "permitTimeOut"`,
		},
		"field given twice": {
			"{name: PodGang, args: {permitTimeout: 30s, permitTimeout: 40s}}",
			`key "permitTimeout" already set`,
		},
		"not a duration": {
			"{name: PodGangResources, args: {filterTimeout: 10}}",
			"decoding args for plugin PodGangResources",
		},
		"arguments of the other plugin": {
			"{name: PodGang, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: PodGangResourcesArgs}}",
			"args for plugin PodGang were not of type PodGangArgs.kubescheduler.config.k8s.io",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			data := head + "  pluginConfig: [" + tc.pluginConfig + "]\n"
			_, _, err := intreescheme.Codecs.UniversalDecoder().Decode([]byte(data), nil, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant an error with %s", err, tc.want)
			}
		})
	}
}

// The scheduler writes its configuration, arguments included, to /configz and
// with --write-config-to.
func TestArgumentsAreEncoded(t *testing.T) {
	object, _, err := intreescheme.Codecs.UniversalDecoder().Decode([]byte(head), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	info, ok := runtime.SerializerInfoForMediaType(intreescheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	if !ok {
		t.Fatal("no YAML serializer")
	}
	var out bytes.Buffer
	encoder := intreescheme.Codecs.EncoderForVersion(info.Serializer, schedconfigv1.SchemeGroupVersion)
	if err := encoder.Encode(object, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: PodGangArgs", "permitTimeout: 30s", "statusPolicy: Full", "kind: PodGangResourcesArgs", "filterTimeout: 10s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the written configuration:\n%s", want, out.String())
		}
	}
}
