// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	intreescheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedvalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	_ "github.com/podgang/podgang-scheduler/pkg/apis/config/scheme"
	"github.com/podgang/podgang-scheduler/pkg/apis/config/validation"
)

// load reads a configuration as the scheduler does at start.
func load(data string) (*schedconfig.KubeSchedulerConfiguration, error) {
	object, _, err := intreescheme.Codecs.UniversalDecoder().Decode([]byte(data), nil, nil)
	if err != nil {
		return nil, err
	}
	return object.(*schedconfig.KubeSchedulerConfiguration), nil
}

// argsOf returns the arguments of a plugin in the only profile.
func argsOf(t *testing.T, cfg *schedconfig.KubeSchedulerConfiguration, plugin string) runtime.Object {
	t.Helper()
	if len(cfg.Profiles) != 1 {
		t.Fatalf("got %d profiles, want 1", len(cfg.Profiles))
	}
	for _, pluginConfig := range cfg.Profiles[0].PluginConfig {
		if pluginConfig.Name == plugin {
			return pluginConfig.Args
		}
	}
	t.Fatalf("no arguments for plugin %s", plugin)
	return nil
}

func TestSchedulerConfigIsValid(t *testing.T) {
	cfg, err := load(string(SchedulerConfig()))
	if err != nil {
		t.Fatal(err)
	}
	if err := schedvalidation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		t.Errorf("the scheduler would refuse it: %v", err)
	}
	if got, want := cfg.Profiles[0].SchedulerName, "podgang-scheduler"; got != want {
		t.Errorf("schedulerName = %q, want %q", got, want)
	}
	if got, want := cfg.LeaderElection.ResourceNamespace+"/"+cfg.LeaderElection.ResourceName, "podgang-system/podgang-scheduler"; got != want || !cfg.LeaderElection.LeaderElect {
		t.Errorf("lease = %q, want %q, with leader election on", got, want)
	}
	gang, ok := argsOf(t, cfg, "PodGang").(*config.PodGangArgs)
	if !ok {
		t.Fatalf("arguments of PodGang are a %T", argsOf(t, cfg, "PodGang"))
	}
	if err := validation.ValidatePodGangArgs(nil, gang); err != nil {
		t.Errorf("PodGang: %v", err)
	}
	resources, ok := argsOf(t, cfg, "PodGangResources").(*config.PodGangResourcesArgs)
	if !ok {
		t.Fatalf("arguments of PodGangResources are a %T", argsOf(t, cfg, "PodGangResources"))
	}
	if err := validation.ValidatePodGangResourcesArgs(nil, resources); err != nil {
		t.Errorf("PodGangResources: %v", err)
	}
}

// An emulated older version has this gate off, and then refuses the field.
func TestSchedulerConfigIsValidWithoutBindingConditions(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DRADeviceBindingConditions, false)
	cfg, err := load(string(SchedulerConfig()))
	if err != nil {
		t.Fatal(err)
	}
	resources := argsOf(t, cfg, "PodGangResources").(*config.PodGangResourcesArgs)
	if err := validation.ValidatePodGangResourcesArgs(nil, resources); err != nil {
		t.Error(err)
	}
}

// The file says that the arguments in it are at their defaults.
func TestSchedulerConfigShowsTheDefaults(t *testing.T) {
	shown, err := load(string(SchedulerConfig()))
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(SchedulerConfig()), "  pluginConfig:\n")
	if !found {
		t.Fatal("the file has no pluginConfig")
	}
	defaulted, err := load(head)
	if err != nil {
		t.Fatal(err)
	}
	for _, plugin := range []string{"PodGang", "PodGangResources"} {
		if diff := cmp.Diff(argsOf(t, defaulted, plugin), argsOf(t, shown, plugin)); diff != "" {
			t.Errorf("%s (-default +shown):\n%s", plugin, diff)
		}
	}
}

func TestChangedSchedulerConfig(t *testing.T) {
	cases := []struct {
		name, old, new string
		wantErr        string // from decoding
		wantTimeout    time.Duration
		wantInvalid    string // from validation
	}{
		{name: "other value", old: "permitTimeout: 30s", new: "permitTimeout: 2m", wantTimeout: 2 * time.Minute},
		{name: "field left out", old: "permitTimeout: 30s", new: "", wantTimeout: 30 * time.Second},
		{name: "misspelt field", old: "permitTimeout: 30s", new: "permitTimeOut: 30s", wantErr: `unknown field "permitTimeOut"`},
		{name: "not a duration", old: "permitTimeout: 30s", new: "permitTimeout: soon", wantErr: `invalid duration "soon"`},
		{name: "too long", old: "permitTimeout: 30s", new: "permitTimeout: 15m", wantTimeout: 15 * time.Minute, wantInvalid: "must be from 1s to 14m"},
		{name: "unknown policy", old: "statusPolicy: Full", new: "statusPolicy: full", wantTimeout: 30 * time.Second, wantInvalid: `Unsupported value: "full"`},
		{name: "misspelt field of the other plugin", old: "filterTimeout: 10s", new: "filterTimeouts: 10s", wantErr: `unknown field "filterTimeouts"`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			data := string(SchedulerConfig())
			if strings.Count(data, tc.old) != 1 {
				t.Fatalf("%q is not there once", tc.old)
			}
			cfg, err := load(strings.Replace(data, tc.old, tc.new, 1))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got error %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			args := argsOf(t, cfg, "PodGang").(*config.PodGangArgs)
			if want := (metav1.Duration{Duration: tc.wantTimeout}); args.PermitTimeout != want {
				t.Errorf("permitTimeout = %v, want %v", args.PermitTimeout, want)
			}
			err = validation.ValidatePodGangArgs(nil, args)
			if got := err != nil; got != (tc.wantInvalid != "") {
				t.Errorf("validation error %v, want one with %q", err, tc.wantInvalid)
			} else if got && !strings.Contains(err.Error(), tc.wantInvalid) {
				t.Errorf("validation error %v, want one with %q", err, tc.wantInvalid)
			}
		})
	}
}
