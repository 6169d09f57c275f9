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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podgang/podgang-scheduler/examples"
	schedulerv1alpha1 "github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/lab"
	"github.com/podgang/podgang-scheduler/pkg/lab/supervisor"
	"github.com/podgang/podgang-scheduler/pkg/lab/view"
)

func (a *app) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run EXAMPLE",
		Short: "Create what an example or a file describes, and watch it until it runs",
		Long: "Create what an example or a YAML file describes, and show what changes until the floor of\n" +
			"every PodGang runs, or every pod if there is no PodGang. Examples: " + strings.Join(examples.Names(), ", ") + ".",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, data, err := readWorkload(args[0])
			if err != nil {
				return err
			}
			objs, err := lab.Decode(name, data)
			if err != nil {
				return err
			}
			if _, err := supervisor.Connect(a.dir); err != nil {
				return err
			}
			return a.runWorkload(cmd.Context(), os.Stdout, objs)
		},
	}
}

// readWorkload takes the name of an example or the path of a file.
func readWorkload(arg string) (name string, data []byte, err error) {
	if slices.Contains(examples.Names(), strings.TrimSuffix(arg, ".yaml")) {
		data, err = examples.Read(arg)
		return arg, data, err
	}
	if data, err = os.ReadFile(arg); err != nil {
		return "", nil, fmt.Errorf("%q is no example (there are: %s) and cannot be read as a file: %w", arg, strings.Join(examples.Names(), ", "), err)
	}
	return arg, data, nil
}

func (a *app) runWorkload(ctx context.Context, out io.Writer, objs []*unstructured.Unstructured) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(a.dir, "kubeconfig"))
	if err != nil {
		return fmt.Errorf("cannot read the lab's kubeconfig: %w", err)
	}
	applier, err := lab.NewApplier(config)
	if err != nil {
		return err
	}
	reader, err := view.NewReader(config)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		if err := applier.Apply(ctx, obj); err != nil {
			return err
		}
		view.Printf(out, "created %s\n", lab.Describe(obj))
	}
	view.Println(out, "\nwatching; Ctrl-C ends this, the pods stay")
	w := &workload{out: out, begin: time.Now(), objs: objs, pods: map[string]string{}, gangs: map[string]string{}}
	state, err := w.follow(ctx, reader)
	if state == nil {
		return err
	}
	view.Println(out, "")
	return errors.Join(err, printWorkload(context.WithoutCancel(ctx), out, reader, state))
}

// printWorkload prints all of a state, and last how it is placed.
func printWorkload(ctx context.Context, out io.Writer, reader *view.Reader, state *view.State) error {
	domains, err := reader.NVLinkDomains(ctx)
	state.PrintPods(out)
	if len(state.Claims) > 0 {
		view.Println(out, "")
		state.PrintClaims(out)
	}
	if len(state.Gangs) > 0 {
		view.Println(out, "")
		state.PrintGangs(out)
		state.PrintDomains(out, domains)
	}
	return err
}

// workload follows what was applied, and shows each change once.
type workload struct {
	out   io.Writer
	begin time.Time
	objs  []*unstructured.Unstructured

	pods, gangs map[string]string // what was shown last, by namespace/name
}

// follow returns the last state; the error is nil when all of it runs or ctx has ended.
func (w *workload) follow(ctx context.Context, reader *view.Reader) (*view.State, error) {
	namespaces := w.namespaces()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var last *view.State
	var running time.Time // since when all of it runs
	for {
		s, err := reader.Read(ctx, namespaces...)
		if ctx.Err() != nil {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		last = w.only(s)
		w.show(last)
		if w.runs(last) && running.IsZero() {
			running = time.Now()
		}
		if !running.IsZero() && (statusFollows(last) || time.Since(running) > statusWait) {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return last, nil
		case <-ticker.C:
		}
	}
}

// statusWait is how long the status of PodGangs that run may take to say so. Some never
// do: the phase may be left to Grove.
const statusWait = 2 * time.Second

// statusFollows reports whether no PodGang has still to be set to Running, or to be given
// its score.
func statusFollows(s *view.State) bool {
	return !slices.ContainsFunc(s.Gangs, func(g schedulerv1alpha1.PodGang) bool {
		return g.Status.Phase != "" && g.Status.Phase != schedulerv1alpha1.PodGangPhaseRunning || g.Status.PlacementScore == nil
	})
}

func (w *workload) namespaces() []string {
	var list []string
	for _, obj := range w.objs {
		if kind := obj.GetKind(); kind != "Pod" && kind != "PodGang" {
			continue
		}
		if ns := namespaceOf(obj); !slices.Contains(list, ns) {
			list = append(list, ns)
		}
	}
	return list
}

func namespaceOf(obj *unstructured.Unstructured) string {
	if ns := obj.GetNamespace(); ns != "" {
		return ns
	}
	return "default"
}

func (w *workload) has(kind, namespace, name string) bool {
	return slices.ContainsFunc(w.objs, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kind && namespaceOf(o) == namespace && o.GetName() == name
	})
}

// only leaves out what this command has not applied. Claims are made for the pods.
func (w *workload) only(s *view.State) *view.State {
	kept := &view.State{}
	for _, p := range s.Pods {
		if w.has("Pod", p.Namespace, p.Name) {
			kept.Pods = append(kept.Pods, p)
		}
	}
	for _, g := range s.Gangs {
		if w.has("PodGang", g.Namespace, g.Name) {
			kept.Gangs = append(kept.Gangs, g)
		}
	}
	for _, c := range s.Claims {
		owned := slices.ContainsFunc(c.OwnerReferences, func(o metav1.OwnerReference) bool {
			return o.Kind == "Pod" && w.has("Pod", c.Namespace, o.Name)
		})
		if owned || w.has("ResourceClaim", c.Namespace, c.Name) {
			kept.Claims = append(kept.Claims, c)
		}
	}
	return kept
}

// show prints a line for each pod and gang that has changed.
func (w *workload) show(s *view.State) {
	for i := range s.Pods {
		pod := &s.Pods[i]
		now := view.PodStatus(pod)
		if pod.Spec.NodeName != "" {
			now += " on " + pod.Spec.NodeName
		}
		if c := view.Refusal(pod); c != nil && pod.Spec.NodeName == "" {
			now += ": " + c.Message
		}
		w.change(w.pods, "Pod", pod.Namespace+"/"+pod.Name, now)
	}
	for i := range s.Gangs {
		gang := &s.Gangs[i]
		if gang.Status.Phase != "" {
			w.change(w.gangs, "PodGang", gang.Namespace+"/"+gang.Name, string(gang.Status.Phase))
		}
	}
}

func (w *workload) change(shown map[string]string, kind, name, now string) {
	if shown[name] == now {
		return
	}
	shown[name] = now
	view.Println(w.out, fmt.Sprintf("%6.1f s  %s %s: %s", time.Since(w.begin).Seconds(), kind, name, now))
}

// runs reports whether the floors of all gangs run and all pods outside gangs.
func (w *workload) runs(s *view.State) bool {
	inGang := map[string]bool{}
	for i := range s.Gangs {
		if !s.FloorsRun(&s.Gangs[i]) {
			return false
		}
		for _, g := range s.Gangs[i].Spec.PodGroups {
			for _, ref := range g.PodReferences {
				inGang[s.Gangs[i].Namespace+"/"+ref.Name] = true
			}
		}
	}
	return !slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool {
		return !inGang[p.Namespace+"/"+p.Name] && p.Status.Phase != corev1.PodRunning && p.Status.Phase != corev1.PodSucceeded
	})
}
