// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/process"
	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
	"github.com/podgang/podgang-scheduler/pkg/lab/supervisor"
	"github.com/podgang/podgang-scheduler/pkg/lab/view"
)

func (a *app) downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the lab and delete its state",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			begin := time.Now()
			client, err := supervisor.Connect(a.dir)
			running := err == nil
			if running {
				err = client.Stop(cmd.Context())
			}
			if err != nil && !errors.Is(err, supervisor.ErrNotRunning) {
				return err
			}
			if err := lab.Remove(a.dir); err != nil {
				return err
			}
			if running {
				fmt.Printf("stopped after %.1f s; %s is removed\n", time.Since(begin).Seconds(), a.dir)
			} else {
				fmt.Printf("no lab is running in %s; nothing is left there\n", a.dir)
			}
			return nil
		},
	}
}

func (a *app) restartCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restart COMPONENT",
		Short: "Stop a component, if it runs, and start it again",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := supervisor.Connect(a.dir)
			if err != nil {
				return err
			}
			begin := time.Now()
			if err := client.Restart(cmd.Context(), args[0]); err != nil {
				return err
			}
			fmt.Printf("%s is ready again after %.1f s\n", args[0], time.Since(begin).Seconds())
			return nil
		},
	}
}

func (a *app) killCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kill COMPONENT",
		Short: "End a component with SIGKILL; \"restart\" starts it again",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := supervisor.Connect(a.dir)
			if err != nil {
				return err
			}
			if err := client.Kill(cmd.Context(), args[0]); err != nil {
				return err
			}
			fmt.Printf("%s is killed\n", args[0])
			return nil
		},
	}
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the lab's components, nodes and devices",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := supervisor.Connect(a.dir)
			if err != nil {
				return err
			}
			status, err := client.Status(cmd.Context())
			if err != nil {
				return err
			}
			showStatus(cmd.Context(), os.Stdout, a.dir, status)
			return nil
		},
	}
}

func showStatus(ctx context.Context, out io.Writer, dir string, s *supervisor.Status) {
	view.Printf(out, "lab in %s, up for %s, supervisor %d\nserver %s\nkubeconfig %s\n\n",
		dir, time.Since(s.Started).Round(time.Second), s.PID, s.Server, s.Kubeconfig)
	table := view.NewTable("COMPONENT", "STATE", "PID", "UP SINCE", "PORT", "RESTARTS")
	var exits []string
	for _, c := range s.Components {
		state, since, pid := view.Good("running"), c.Since.Format(time.TimeOnly), fmt.Sprint(c.PID)
		if !c.Running {
			state, since, pid = view.Bad("ended"), "-", "-"
			exits = append(exits, c.Exit)
		}
		table.Row(c.Name, state, pid, since, fmt.Sprint(c.Port), fmt.Sprint(c.Restarts))
	}
	table.Print(out)
	for _, e := range exits {
		view.Println(out, "\n"+e)
	}
	view.Println(out, "\n"+inventory(ctx, s))
}

// inventory is one line about the nodes and devices, or about why they are not known.
func inventory(ctx context.Context, s *supervisor.Status) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return fmt.Sprintf("nodes: cannot read the kubeconfig: %v", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Sprintf("nodes: %v", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Sprintf("nodes: the API server does not answer: %v", err)
	}
	slices, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Sprintf("nodes: the API server does not answer: %v", err)
	}
	var found shape.Shape
	for i := range nodes.Items {
		found.Nodes = append(found.Nodes, &nodes.Items[i])
	}
	for i := range slices.Items {
		found.Slices = append(found.Slices, &slices.Items[i])
	}
	from := ""
	if s.Shape != "" {
		from = " (shape " + s.Shape + ")"
	}
	return found.Summary() + from
}

func (a *app) logsCommand() *cobra.Command {
	var lines int
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs COMPONENT",
		Short: "Show the end of a component's log",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := filepath.Join(a.dir, "logs")
			file := filepath.Join(dir, args[0]+".log")
			info, err := os.Stat(file)
			if err != nil {
				return fmt.Errorf("no log of %q in %s; there are: %s", args[0], dir, strings.Join(logNames(dir), ", "))
			}
			tail, err := process.Tail(file, 0, lines)
			if err != nil {
				return err
			}
			for _, line := range tail {
				fmt.Println(line)
			}
			if !follow {
				return nil
			}
			return followFile(cmd.Context(), os.Stdout, file, info.Size())
		},
	}
	cmd.Flags().IntVarP(&lines, "tail", "n", 50, "number of lines, of at most the last 64 KiB")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written from now on")
	return cmd
}

func logNames(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return []string{"none"}
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".log"))
	}
	slices.Sort(names)
	return names
}

// followFile copies what is appended to the file after offset, until ctx ends.
func followFile(ctx context.Context, out io.Writer, file string, offset int64) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := io.Copy(out, f); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
