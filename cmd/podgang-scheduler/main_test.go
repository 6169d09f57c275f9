// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	appconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/podgang/podgang-scheduler/manifests"
	"github.com/podgang/podgang-scheduler/plugins"
)

// setup returns the plugins of the scheduler that a configuration makes.
func setup(t *testing.T, config string) (*schedconfig.Plugins, error) {
	t.Helper()
	_, scheduler, err := build(t, config)
	if err != nil {
		return nil, err
	}
	return scheduler.Profiles["podgang-scheduler"].ListPlugins(), nil
}

// build builds the scheduler from a configuration, up to but not including its
// start, against an API server that has nothing.
func build(t *testing.T, config string) (*appconfig.CompletedConfig, *scheduler.Scheduler, error) {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config.yaml")
	config = strings.Replace(config, "clientConnection:", "clientConnection:\n  kubeconfig: "+kubeconfig, 1)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := options.NewOptions()
	opts.ConfigFile = file
	opts.SecureServing.BindPort = 0
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return app.Setup(ctx, opts, plugins.Options()...)
}

func names(set schedconfig.PluginSet) []string {
	out := make([]string, 0, len(set.Enabled))
	for _, plugin := range set.Enabled {
		out = append(out, plugin.Name)
	}
	return out
}

// points lists the extension points at which a plugin is enabled.
func points(enabled *schedconfig.Plugins, name string) []string {
	sets := map[string]schedconfig.PluginSet{
		"PreEnqueue": enabled.PreEnqueue, "QueueSort": enabled.QueueSort, "PreFilter": enabled.PreFilter,
		"Filter": enabled.Filter, "PostFilter": enabled.PostFilter, "PreScore": enabled.PreScore, "Score": enabled.Score,
		"Reserve": enabled.Reserve, "Permit": enabled.Permit, "PreBind": enabled.PreBind, "Bind": enabled.Bind, "PostBind": enabled.PostBind,
	}
	var out []string
	for point, set := range sets {
		if slices.Contains(names(set), name) {
			out = append(out, point)
		}
	}
	slices.Sort(out)
	return out
}

func TestShippedConfigurationEnablesThePlugins(t *testing.T) {
	enabled, err := setup(t, string(manifests.SchedulerConfig()))
	if err != nil {
		t.Fatal(err)
	}
	if got := points(enabled, "DynamicResources"); len(got) > 0 {
		t.Errorf("DynamicResources is enabled at %v beside PodGangResources", got)
	}
	if diff := cmp.Diff([]string{"PodGang"}, names(enabled.QueueSort)); diff != "" {
		t.Errorf("queue order (-want +got):\n%s", diff)
	}
	for plugin, want := range map[string][]string{
		"PodGangGate":      {"PreEnqueue"},
		"PodGang":          {"QueueSort", "PreFilter", "PostFilter", "Reserve", "Permit", "Bind", "PostBind"},
		"PodGangResources": {"PreFilter", "Filter", "PostFilter", "Reserve", "PreBind"},
	} {
		got := points(enabled, plugin)
		for _, point := range want {
			if !slices.Contains(got, point) {
				t.Errorf("%s is enabled at %v, not at %s", plugin, got, point)
			}
		}
	}
}

// Where the first plugin that takes a pod decides, ours have to come first.
func TestShippedConfigurationPutsThePluginsFirst(t *testing.T) {
	enabled, err := setup(t, string(manifests.SchedulerConfig()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"PodGang", "PodGangResources", "DefaultPreemption"}, names(enabled.PostFilter)); diff != "" {
		t.Errorf("PostFilter (-want +got):\n%s", diff)
	}
	if first := names(enabled.PreFilter)[0]; first != "PodGang" {
		t.Errorf("the first PreFilter is %s, want PodGang", first)
	}
	if diff := cmp.Diff([]string{"PodGang", "DefaultBinder"}, names(enabled.Bind)); diff != "" {
		t.Errorf("Bind (-want +got):\n%s", diff)
	}
}

// Apart from ours, and the two that ours stand in for, the plugins are those of
// kube-scheduler, in its order.
func TestShippedConfigurationKeepsTheOtherPlugins(t *testing.T) {
	shipped, err := setup(t, string(manifests.SchedulerConfig()))
	if err != nil {
		t.Fatal(err)
	}
	stock, err := setup(t, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: 50
profiles: [{schedulerName: podgang-scheduler}]
`[1:])
	if err != nil {
		t.Fatal(err)
	}
	strip := func(set schedconfig.PluginSet) []string {
		return slices.DeleteFunc(names(set), func(name string) bool {
			return slices.Contains([]string{"PodGang", "PodGangGate", "PodGangResources", "DynamicResources", "PrioritySort"}, name)
		})
	}
	for point, pair := range map[string][2]schedconfig.PluginSet{
		"PreEnqueue": {stock.PreEnqueue, shipped.PreEnqueue},
		"PreFilter":  {stock.PreFilter, shipped.PreFilter},
		"Filter":     {stock.Filter, shipped.Filter},
		"PostFilter": {stock.PostFilter, shipped.PostFilter},
		"PreScore":   {stock.PreScore, shipped.PreScore},
		"Score":      {stock.Score, shipped.Score},
		"Reserve":    {stock.Reserve, shipped.Reserve},
		"PreBind":    {stock.PreBind, shipped.PreBind},
		"Bind":       {stock.Bind, shipped.Bind},
	} {
		if diff := cmp.Diff(strip(pair[0]), strip(pair[1])); diff != "" {
			t.Errorf("%s (-stock +shipped):\n%s", point, diff)
		}
	}
}

func TestWrongArgumentEndsTheStart(t *testing.T) {
	cases := map[string]struct{ old, new, want string }{
		"value out of range":                     {"permitTimeout: 30s", "permitTimeout: 1h", "permitTimeout: Invalid value"},
		"misspelt field":                         {"permitTimeout: 30s", "permitTimeOut: 30s", `unknown field "permitTimeOut"`},
		"value of the other plugin out of range": {"filterTimeout: 10s", "filterTimeout: -1s", "filterTimeout: Invalid value"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := setup(t, strings.Replace(string(manifests.SchedulerConfig()), tc.old, tc.new, 1))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %s", err, tc.want)
			}
		})
	}
}

func TestProfileThatCannotWorkEndsTheStart(t *testing.T) {
	shipped := string(manifests.SchedulerConfig())
	for _, tc := range []struct {
		name, old, new, want string
	}{
		{"without the gate", "      - name: PodGangGate\n", "", "enables plugin PodGang without PodGangGate"},
		{"beside DynamicResources", "      - name: DynamicResources\n", "      - name: ImageLocality\n", "enables both DynamicResources and PodGangResources"},
		{"behind another PreFilter", "    preFilter:\n      enabled:\n      - name: PodGang\n", "", "must come first at preFilter"},
		{"behind DefaultBinder", "    bind:\n      enabled:\n      - name: PodGang\n", "", "must come first at bind"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !strings.Contains(shipped, tc.old) {
				t.Fatalf("the shipped configuration has no %q", tc.old)
			}
			_, err := setup(t, strings.Replace(shipped, tc.old, tc.new, 1))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one that says %q", err, tc.want)
			}
		})
	}
}

// All profiles of a process have one queue order.
func TestProfileWithoutGangsBesideOurs(t *testing.T) {
	_, err := setup(t, string(manifests.SchedulerConfig())+`
- schedulerName: plain
  plugins:
    queueSort:
      disabled: [{name: "*"}]
      enabled: [{name: PodGang}]
`)
	if err != nil {
		t.Error(err)
	}
}

func TestCommandIsNamed(t *testing.T) {
	command := newCommand()
	if command.Name() != "podgang-scheduler" || command.Flags().Lookup("config") == nil {
		t.Errorf("command %s, flag --config %v", command.Name(), command.Flags().Lookup("config"))
	}
	if strings.Contains(command.Long, "reference implementation") {
		t.Error("the long text is that of kube-scheduler")
	}
}
