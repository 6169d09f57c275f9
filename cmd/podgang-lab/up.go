// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
	"github.com/podgang/podgang-scheduler/pkg/lab/supervisor"
)

const noScheduler = "none"

// upFlags are the flags of up; the supervisor takes the same.
type upFlags struct {
	shape, file  string
	set          map[string]string
	schedulers   []string
	featureGates map[string]string
	config       string
	extraArgs    []string
}

func (f *upFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.shape, "shape", "a", "nodes and devices, by name: see \"podgang-lab shapes\"")
	flags.StringVarP(&f.file, "file", "f", "", "nodes and devices from a shape file of your own")
	flags.StringToStringVar(&f.set, "set", nil, "parameter of the shape, as name=value; repeatable")
	flags.StringArrayVar(&f.schedulers, "scheduler", []string{lab.PodGangScheduler},
		"what schedules: "+strings.Join([]string{lab.PodGangScheduler, lab.KubeScheduler, noScheduler}, ", ")+"; repeatable")
	flags.StringToStringVar(&f.featureGates, "feature-gates", nil, "feature gates of API server, controllers and schedulers, as Name=true,…")
	flags.StringVar(&f.config, "scheduler-config", "", "file with a KubeSchedulerConfiguration for podgang-scheduler")
	flags.StringArrayVar(&f.extraArgs, "arg", nil, "further argument of a component, as COMPONENT=--flag=value; repeatable")
	cmd.MarkFlagsMutuallyExclusive("shape", "file")
}

// args are the flags again, for the supervisor.
func (f *upFlags) args() []string {
	var args []string
	if f.file != "" {
		args = append(args, "--file="+f.file)
	} else {
		args = append(args, "--shape="+f.shape)
	}
	for _, m := range []struct {
		flag   string
		values map[string]string
	}{{"set", f.set}, {"feature-gates", f.featureGates}} {
		for k, v := range m.values {
			args = append(args, fmt.Sprintf("--%s=%s=%s", m.flag, k, v))
		}
	}
	for _, s := range f.schedulers {
		args = append(args, "--scheduler="+s)
	}
	for _, a := range f.extraArgs {
		args = append(args, "--arg="+a)
	}
	if f.config != "" {
		args = append(args, "--scheduler-config="+f.config)
	}
	return args
}

// options checks the flags and turns them into what lab.Start takes.
func (f *upFlags) options(dir string) (lab.Options, error) {
	opts := lab.Options{Dir: dir}
	var err error
	if opts.Shape, err = f.loadShape(); err != nil {
		return opts, err
	}
	if opts.Schedulers, err = f.schedulerOptions(); err != nil {
		return opts, err
	}
	for name, value := range f.featureGates {
		if value != "true" && value != "false" {
			return opts, fmt.Errorf("--feature-gates: %s is %q, neither true nor false", name, value)
		}
		if opts.FeatureGates == nil {
			opts.FeatureGates = map[string]bool{}
		}
		opts.FeatureGates[name] = value == "true"
	}
	for _, a := range f.extraArgs {
		component, arg, ok := strings.Cut(a, "=")
		if !ok || !strings.HasPrefix(arg, "-") {
			return opts, fmt.Errorf("--arg %q: write COMPONENT=--flag=value", a)
		}
		if opts.ExtraArgs == nil {
			opts.ExtraArgs = map[string][]string{}
		}
		opts.ExtraArgs[component] = append(opts.ExtraArgs[component], arg)
	}
	return opts, nil
}

func (f *upFlags) loadShape() (*shape.Shape, error) {
	if f.file != "" {
		return shapes.LoadFile(f.file, f.set)
	}
	return shapes.Load(f.shape, f.set)
}

func (f *upFlags) schedulerOptions() ([]lab.Scheduler, error) {
	if slices.Contains(f.schedulers, noScheduler) && len(f.schedulers) > 1 {
		return nil, fmt.Errorf("--scheduler %s cannot be combined with others", noScheduler)
	}
	var list []lab.Scheduler
	for _, name := range f.schedulers {
		switch name {
		case lab.PodGangScheduler, lab.KubeScheduler:
			s := lab.Scheduler{Binary: name}
			if name == lab.PodGangScheduler && f.config != "" {
				config, err := os.ReadFile(f.config)
				if err != nil {
					return nil, fmt.Errorf("--scheduler-config: %w", err)
				}
				s.Config = config
			}
			list = append(list, s)
		case noScheduler:
		default:
			return nil, fmt.Errorf("--scheduler %q is not one of %s, %s, %s", name, lab.PodGangScheduler, lab.KubeScheduler, noScheduler)
		}
	}
	return list, nil
}

func (a *app) upCommand() *cobra.Command {
	f := &upFlags{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a lab in the background",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, path := range []*string{&f.file, &f.config} {
				if *path == "" {
					continue
				}
				abs, err := filepath.Abs(*path)
				if err != nil {
					return err
				}
				*path = abs
			}
			return a.up(cmd.Context(), f)
		},
	}
	f.register(cmd)
	return cmd
}

func (a *app) up(ctx context.Context, f *upFlags) error {
	if _, err := f.options(a.dir); err != nil { // before anything is started
		return err
	}
	pid, err := lab.Owner(a.dir)
	if err != nil {
		return err
	}
	if pid != 0 {
		return fmt.Errorf("a lab is already running in %s (process %d): use it, or end it with \"podgang-lab down\", or choose another --dir", a.dir, pid)
	}
	if err := lab.PrepareDir(a.dir); err != nil {
		return err
	}
	begin := time.Now()
	if err := a.startSupervisor(ctx, f); err != nil {
		return err
	}
	fmt.Printf("ready after %.1f s\n\n  podgang-lab%s kubectl get nodes\n  export KUBECONFIG=%s\n",
		time.Since(begin).Seconds(), a.dirFlag(), filepath.Join(a.dir, "kubeconfig"))
	return nil
}

// dirFlag is the flag that the user has to repeat, if any.
func (a *app) dirFlag() string {
	unset := &app{}
	if unset.resolveDir() == nil && unset.dir == a.dir {
		return ""
	}
	return " --dir " + a.dir
}

// startSupervisor runs the supervisor in a session of its own and follows its report
// until the lab is ready. If ctx ends first the supervisor is told to stop.
func (a *app) startSupervisor(ctx context.Context, f *upFlags) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find the path of podgang-lab: %w", err)
	}
	report, reportEnd, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot make a pipe: %w", err)
	}
	defer func() { _ = report.Close() }()
	logPath := filepath.Join(a.dir, lab.SupervisorLog)
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write to the state directory: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(self, append([]string{"supervise", "--dir=" + a.dir}, f.args()...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{reportEnd} // descriptor 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = reportEnd.Close() // the supervisor has its own
	if err != nil {
		return fmt.Errorf("cannot start the supervisor: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it reports its failure through the pipe
	}()
	stopOnCancel := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stopOnCancel()

	err = followStart(report)
	if err == nil {
		return nil
	}
	<-ended
	if ctx.Err() != nil {
		return errors.New("interrupted; what had been started is stopped again")
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the supervisor ended before the lab was ready; see %s", logPath)
	}
	return err
}

// followStart shows the supervisor's events. It returns nil when the lab is ready, and
// io.EOF when the supervisor ends without a word.
func followStart(report io.Reader) error {
	steps := newSteps(os.Stdout)
	defer steps.close()
	decoder := json.NewDecoder(report)
	for {
		var e supervisor.Event
		if err := decoder.Decode(&e); err != nil {
			return err
		}
		switch {
		case e.Ready:
			return nil
		case e.Failed != "":
			return errors.New(e.Failed)
		}
		s := lab.Step{Name: e.Name, Note: e.Note, Done: e.Done, Took: e.Took}
		if e.Error != "" {
			s.Err = errors.New(e.Error)
		}
		steps.report(s)
	}
}

// superviseCommand is what up runs in the background.
func (a *app) superviseCommand() *cobra.Command {
	f := &upFlags{}
	cmd := &cobra.Command{
		Use:    "supervise",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := f.options(a.dir)
			if err != nil {
				return err
			}
			return supervisor.Run(cmd.Context(), opts, os.NewFile(3, "events"))
		},
	}
	f.register(cmd)
	return cmd
}
