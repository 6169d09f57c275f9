// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
)

// PrintGangs prints the PodGangs with what of each group's floor is bound.
func (s *State) PrintGangs(out io.Writer) {
	t := NewTable("PODGANG", "PHASE", "BOUND", "GROUPS (BOUND/FLOOR)", "SCORE")
	for i := range s.Gangs {
		gang := &s.Gangs[i]
		var groups []string
		bound, exist := 0, 0
		for g := range gang.Spec.PodGroups {
			m := s.Members(gang, g)
			bound, exist = bound+m.Bound, exist+m.Exist
			name := strings.TrimPrefix(gang.Spec.PodGroups[g].Name, gang.Name+"-")
			groups = append(groups, fmt.Sprintf("%s %d/%d", name, m.Bound, gang.Spec.PodGroups[g].MinReplicas))
		}
		phase := string(gang.Status.Phase)
		switch {
		case phase == "":
		case s.FloorsRun(gang):
			phase = Good(phase)
		default:
			phase = Wait(phase)
		}
		score := ""
		if gang.Status.PlacementScore != nil {
			score = fmt.Sprintf("%.4f", *gang.Status.PlacementScore)
		}
		t.Row(gang.Namespace+"/"+gang.Name, phase, fmt.Sprintf("%d of %d", bound, exist), strings.Join(groups, ", "), score)
	}
	t.Print(out)
}

// PrintPods prints the pods, and below them why some are not scheduled.
func (s *State) PrintPods(out io.Writer) {
	t := NewTable("POD", "STATUS", "NODE")
	var reasons []string
	for i := range s.Pods {
		pod := &s.Pods[i]
		t.Row(pod.Namespace+"/"+pod.Name, PodStatus(pod), pod.Spec.NodeName)
		if c := Refusal(pod); c != nil && c.Message != "" && pod.Spec.NodeName == "" && !slices.Contains(reasons, c.Message) {
			reasons = append(reasons, c.Message)
		}
	}
	t.Print(out)
	for _, r := range reasons {
		Println(out, "  why: "+r)
	}
}

// PodStatus says in a word or two how far a pod has come.
func PodStatus(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return Wait("Terminating")
	case pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded:
		return Good(string(pod.Status.Phase))
	case pod.Status.Phase != corev1.PodPending:
		return Bad(string(pod.Status.Phase))
	case pod.Spec.NodeName != "":
		return Good("Bound")
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason != "" {
			return Wait("Pending, " + c.Reason)
		}
	}
	return Wait("Pending")
}

// PrintClaims prints the ResourceClaims with the devices that each holds.
func (s *State) PrintClaims(out io.Writer) {
	t := NewTable("CLAIM", "DEVICES", "FOR")
	for i := range s.Claims {
		claim := &s.Claims[i]
		devices := Wait("none allocated")
		if names := Devices(claim); len(names) > 0 {
			devices = Good(shortened(names))
		}
		t.Row(claim.Namespace+"/"+claim.Name, devices, strings.Join(consumers(claim), ", "))
	}
	t.Print(out)
}

// shortened lists a few names, and of more the first ones.
func shortened(names []string) string {
	const few = 4
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few-1], ", "), len(names)-few+1)
}

// Devices names what is allocated to a claim, as pool/device.
func Devices(claim *resourcev1.ResourceClaim) []string {
	if claim.Status.Allocation == nil {
		return nil
	}
	var names []string
	for _, r := range claim.Status.Allocation.Devices.Results {
		names = append(names, r.Pool+"/"+r.Device)
	}
	return names
}

// consumers are the pods that a claim is reserved for, else the pod that it was made for.
func consumers(claim *resourcev1.ResourceClaim) []string {
	var names []string
	for _, r := range claim.Status.ReservedFor {
		names = append(names, r.Name)
	}
	if len(names) > 0 {
		return names
	}
	for _, o := range claim.OwnerReferences {
		if o.Kind == "Pod" {
			names = append(names, o.Name+" (waits)")
		}
	}
	return names
}

// GPUs tells the GPUs of the slices that no claim of the state holds from those in all.
func (s *State) GPUs(resourceSlices []resourcev1.ResourceSlice) (free, all int) {
	taken := map[string]bool{}
	for i := range s.Claims {
		if a := s.Claims[i].Status.Allocation; a != nil {
			for _, r := range a.Devices.Results {
				taken[r.Driver+"/"+r.Pool+"/"+r.Device] = true
			}
		}
	}
	for i := range resourceSlices {
		slice := &resourceSlices[i].Spec
		for d := range slice.Devices {
			if !shape.IsGPU(slice.Driver, &slice.Devices[d]) {
				continue
			}
			all++
			if !taken[slice.Driver+"/"+slice.Pool.Name+"/"+slice.Devices[d].Name] {
				free++
			}
		}
	}
	return free, all
}
