// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/podgang/podgang-scheduler/pkg/bindevents"
	"github.com/podgang/podgang-scheduler/plugins"
)

const long = `podgang-scheduler is the Kubernetes scheduler with gang scheduling for Grove's
PodGang objects. It plans a whole gang once, reserves every device of it, and
binds all of it or none of it. Pods outside gangs are scheduled as by
kube-scheduler, whose flags and configuration file it takes.

The configuration has to enable the plugins PodGang, PodGangGate and
PodGangResources and to disable DynamicResources, for which PodGangResources stands in; the one in
manifests/base/config.yaml does.

It is built from Kubernetes 1.37 and works with API servers from 1.34 on. With a
server older than 1.37 set --emulated-version to the server's minor version, for
example --emulated-version=1.36. Otherwise it waits for APIs that the server does
not have, and logs that it cannot list DeviceTaintRule objects.`

// lastEvents is how long the process goes on at most, when it is told to end, to write
// events that wait: far less than the grace period of a pod.
const lastEvents = 2 * time.Second

// newCommand has the flags and does the work of the command of kube-scheduler
// (app.NewSchedulerCommand), which has no place for what run does between app.Setup and
// app.Run.
func newCommand() *cobra.Command {
	opts := options.NewOptions()
	command := &cobra.Command{
		Use:  "podgang-scheduler",
		Long: long,
		// Feature gates have to be set before anything asks for them.
		PersistentPreRunE: func(*cobra.Command, []string) error { return opts.ComponentGlobalsRegistry.Set() },
		RunE:              func(command *cobra.Command, _ []string) error { return run(command, opts) },
		Args: func(command *cobra.Command, args []string) error {
			for _, arg := range args {
				if arg != "" {
					return fmt.Errorf("%q does not take any arguments, got %q", command.CommandPath(), args)
				}
			}
			return nil
		},
	}
	sets := opts.Flags
	verflag.AddFlags(sets.FlagSet("global"))
	globalflag.AddGlobalFlags(sets.FlagSet("global"), command.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range sets.FlagSets {
		command.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(command.OutOrStdout()) // 0 without a terminal: no line is broken
	cliflag.SetUsageAndHelpFunc(command, *sets, columns)
	if err := command.MarkFlagFilename("config", "yaml", "yml", "json"); err != nil {
		panic(err) // there is no such flag
	}
	return command
}

// run runs the scheduler until a signal ends it.
func run(command *cobra.Command, opts *options.Options) error {
	verflag.PrintAndExitIfRequested()
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	// First of all, so that the rest is logged as it should be.
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cliflag.PrintFlags(command.Flags())
	if opts.InformerName == nil { // in the metrics of informers, which dashboards know by this name
		name, err := cache.NewInformerName("kube-scheduler")
		if err != nil {
			return fmt.Errorf("name the informers: %w", err)
		}
		opts.InformerName = name
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	late := make(chan *bindevents.Writer, 1)
	go func() {
		<-server.SetupSignalHandler()
		select {
		case writer := <-late:
			finish(writer)
		default: // not set up yet
		}
		cancel()
	}()

	config, scheduler, err := app.Setup(ctx, opts, plugins.Options()...)
	if err != nil {
		return err
	}
	if err := trimCaches(config.InformerFactory); err != nil {
		return err
	}
	writer, err := deferEvents(config.KubeConfig, scheduler.Profiles)
	if err != nil {
		return err
	}
	go writer.Run(ctx)
	late <- writer
	if gates, ok := gates.(featuregate.MutableFeatureGate); ok {
		gates.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	return app.Run(ctx, config, scheduler)
}

// finish has events written that wait. It comes before the end of all else, because with
// leader election the process ends as soon as the lease is given back.
func finish(writer *bindevents.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), lastEvents)
	defer cancel()
	if left := writer.Close(ctx); left > 0 {
		klog.Background().Info("Events of bindings are lost, there was no time to write them", "events", left)
	}
}
