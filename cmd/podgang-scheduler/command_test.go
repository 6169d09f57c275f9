// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/podgang/podgang-scheduler/manifests"
)

// flag is what a user sees of a flag.
type flag struct{ Shorthand, Default, Usage, Deprecated string }

func flags(command *cobra.Command) map[string]flag {
	found := map[string]flag{}
	command.Flags().VisitAll(func(f *pflag.Flag) {
		found[f.Name] = flag{f.Shorthand, f.DefValue, f.Usage, f.Deprecated}
	})
	return found
}

func TestCommandHasTheFlagsOfKubeScheduler(t *testing.T) {
	want := flags(app.NewSchedulerCommand())
	if len(want) < 50 {
		t.Fatalf("kube-scheduler has %d flags, which cannot be all", len(want))
	}
	got := flags(newCommand())
	// The help names the command.
	delete(want, "help")
	delete(got, "help")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-kube-scheduler +ours):\n%s", diff)
	}
}

func TestCommandTakesNoArguments(t *testing.T) {
	command := newCommand()
	command.SetArgs([]string{"config.yaml"})
	command.SetOut(io.Discard)
	command.SetErr(io.Discard)
	command.RunE = func(*cobra.Command, []string) error {
		t.Error("it runs")
		return nil
	}
	if err := command.Execute(); err == nil {
		t.Error("there is no error")
	}
}

func TestEveryProfileRecordsThroughTheWriter(t *testing.T) {
	config, scheduler, err := build(t, string(manifests.SchedulerConfig()))
	if err != nil {
		t.Fatal(err)
	}
	name := "podgang-scheduler"
	before := scheduler.Profiles[name]
	if _, err := deferEvents(config.KubeConfig, scheduler.Profiles); err != nil {
		t.Fatal(err)
	}
	after := scheduler.Profiles[name]
	if after.EventRecorder() == before.EventRecorder() {
		t.Error("the profile records as before")
	}
	if diff := cmp.Diff(before.ListPlugins(), after.ListPlugins()); diff != "" || after.ProfileName() != name {
		t.Errorf("profile %s has other plugins (-before +after):\n%s", after.ProfileName(), diff)
	}
}
