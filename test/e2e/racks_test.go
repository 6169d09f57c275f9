// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
	"github.com/podgang/podgang-scheduler/pkg/topology"
)

const (
	// racksShape is the shape of the lab of racks: two of 18 trays, under one switch.
	racksShape = "c-2"
	// rackSize is how many trays a rack has.
	rackSize = 18
	// trayProduct is the label of the trays' GPUs.
	trayProduct = "NVIDIA-GB200"

	nicClass      = "dranet.net"
	channelDriver = "compute-domain.nvidia.com"
	channelClass  = "compute-domain-default-channel.nvidia.com"
	// busyLabel is on a node that serves a ComputeDomain; its value is the domain.
	busyLabel = "resource.nvidia.com/computeDomain"

	productLabel = "nvidia.com/gpu.product"

	// Templates of scenarios in the lab of racks: 4 GPUs and 8 RDMA ports, and a channel.
	trayTemplate    = "tray"
	channelTemplate = "channel"
)

// tray names a tray.
func tray(rack, n int) string { return fmt.Sprintf("gb200-r%d-n%d", rack, n) }

// racks is a scenario in the lab of racks, on the nodes of a shape that has the same
// trays with other labels, or with some cordoned.
func (s *scenario) racks(variant string) {
	s.t.Helper()
	s.template(trayTemplate, claimSpec(request("gpus", gpuClass, 4), changed(request("ports", nicClass, 8), selecting(`device.attributes["dra.net"].rdma`))))
	s.template(channelTemplate, channelSpec(s.ns))
	if variant == racksShape {
		return
	}
	was, will := loadShape(s, racksShape), loadShape(s, variant)
	for i, node := range will.Nodes {
		if old := was.Nodes[i]; !equality.Semantic.DeepEqual(node.Labels, old.Labels) || node.Spec.Unschedulable != old.Spec.Unschedulable {
			s.changeTray(node.Name, node.Labels, node.Spec.Unschedulable)
		}
	}
	s.schedulerKnowsNodes()
}

func loadShape(s *scenario, name string) *shape.Shape {
	s.t.Helper()
	loaded, err := shapes.Load(name, nil)
	s.must(err)
	slices.SortFunc(loaded.Nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return loaded
}

// changeTray gives a tray other labels, and cordons it or not. At the end of the scenario
// it is as it was.
func (s *scenario) changeTray(name string, labels map[string]string, cordoned bool) {
	s.t.Helper()
	nodes := s.client().CoreV1().Nodes()
	var before *corev1.Node
	s.retryConflict(func() error {
		node, err := nodes.Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before = node.DeepCopy()
		node.Labels, node.Spec.Unschedulable = labels, cordoned
		_, err = nodes.Update(s.ctx, node, metav1.UpdateOptions{})
		return err
	})
	s.restore = append(s.restore, func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			node, err := nodes.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			node.Labels, node.Spec.Unschedulable = before.Labels, before.Spec.Unschedulable
			_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
			return err
		})
	})
}

// cordonTrays cordons trays.
func (s *scenario) cordonTrays(names ...string) {
	s.t.Helper()
	for _, name := range names {
		node, err := s.client().CoreV1().Nodes().Get(s.ctx, name, metav1.GetOptions{})
		s.must(err)
		s.changeTray(name, node.Labels, true)
	}
	s.schedulerKnowsNodes()
}

// setNodeLabel sets a label of a node, or with nil removes it.
func (s *scenario) setNodeLabel(name, key string, value any) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}})
	s.must(err)
	_, err = s.client().CoreV1().Nodes().Patch(s.ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	s.must(err)
}

// seenLabel is how a scenario knows that the scheduler has seen a change of nodes.
const seenLabel = "e2e.test/seen"

// schedulerKnowsNodes returns when the scheduler knows the nodes as they are: it sees
// their changes in order, and has put a pod on the node that was changed last.
func (s *scenario) schedulerKnowsNodes() {
	s.t.Helper()
	s.markers++
	name := fmt.Sprintf("seen-%d", s.markers)
	last := tray(1, rackSize-1) // no scenario cordons it
	s.setNodeLabel(last, seenLabel, s.ns+"-"+name)
	s.plainPods([]string{name}, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{seenLabel: s.ns + "-" + name} })
	s.deletePods(name)
}

// channelSpec asks for a channel of the ComputeDomain of that identity.
func channelSpec(identity string) resourcev1.ResourceClaimSpec {
	spec := claimSpec(request("channel", channelClass, 1))
	parameters := fmt.Sprintf(`{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainChannelConfig","domainID":%q}`, identity)
	spec.Devices.Config = []resourcev1.DeviceClaimConfiguration{{
		Requests: []string{"channel"},
		DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
			Driver: channelDriver, Parameters: runtime.RawExtension{Raw: []byte(parameters)},
		}},
	}}
	return spec
}

// wholeTray gives the pod all GPUs and ports of a tray.
func wholeTray(p *corev1.Pod) {
	fromTemplate("tray", trayTemplate)(p)
	onProduct(trayProduct)(p)
}

// withChannel gives the pod a channel.
func withChannel(p *corev1.Pod) { fromTemplate("channel", channelTemplate)(p) }

// onProduct confines the pod to nodes with these GPUs.
func onProduct(product string) podOption {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{productLabel: product} }
}

// packed is a topology constraint; "" for none.
func packed(required, preferred string) *v1alpha1.TopologyConstraint {
	var pack v1alpha1.TopologyPackConstraint
	if required != "" {
		pack.Required = ptr.To(required)
	}
	if preferred != "" {
		pack.Preferred = ptr.To(preferred)
	}
	if pack == (v1alpha1.TopologyPackConstraint{}) {
		return nil
	}
	return &v1alpha1.TopologyConstraint{PackConstraint: &pack}
}

// packedGang creates a gang of one group, all of it needed, with a constraint on the whole.
func (s *scenario) packedGang(name string, n int, required, preferred string, opts ...podOption) []string {
	s.t.Helper()
	pods := names(name, n)
	s.gangWith(name, func(pg *v1alpha1.PodGang) { pg.Spec.TopologyConstraint = packed(required, preferred) }, group("w", n, pods...))
	s.manyPods(pods, append([]podOption{of(name)}, opts...)...)
	return pods
}

// spread says how many of the pods are in each domain of a key, the most first, such as
// "17+1"; nodes without the label count as one domain.
func (s *scenario) spread(key string, pods ...string) string {
	s.t.Helper()
	counts := map[string]int{}
	for _, domain := range s.valuesOf(key, pods...) {
		counts[domain]++
	}
	var numbers []int
	for _, n := range counts {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	slices.Reverse(numbers)
	var texts []string
	for _, n := range numbers {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, "+")
}

// valuesOf are the values of a label on the nodes of the pods, by pod.
func (s *scenario) valuesOf(key string, pods ...string) map[string]string {
	s.t.Helper()
	labels := s.allNodeLabels()
	of := map[string]string{}
	for _, name := range pods {
		of[name] = labels[s.getPod(name).Spec.NodeName][key]
	}
	return of
}

// lies waits until the pods are bound, and checks how they are spread over domains.
func (s *scenario) lies(key, want string, pods ...string) {
	s.t.Helper()
	s.bound(pods...)
	if got := s.spread(key, pods...); got != want {
		s.t.Errorf("the pods are %s by %s, want %s", got, key, want)
	}
}

// scoreTolerance is how far a score may be from that of the model.
const scoreTolerance = 0.0005

// scores waits until the gang has a score, and checks it.
func (s *scenario) scores(gang string, want float64) {
	s.t.Helper()
	instead := ""
	s.until(fmt.Sprintf("PodGang %s has the score %.4f", gang, want), func() string {
		pg := s.getGang(gang)
		switch {
		case pg == nil || pg.Status.PlacementScore == nil:
			return "it has none"
		case math.Abs(*pg.Status.PlacementScore-want) > scoreTolerance:
			instead = fmt.Sprintf("PodGang %s has the score %.4f, want %.4f", gang, *pg.Status.PlacementScore, want)
		}
		return ""
	})
	if instead != "" {
		s.t.Error(instead)
	}
}

// clique is the key of NVLink domains.
const clique = topology.NVLinkKey

// shapeNodes adds the nodes of a shape for the time of the scenario.
func (s *scenario) shapeNodes(name string) {
	s.t.Helper()
	loaded := loadShape(s, name)
	for _, node := range loaded.Nodes {
		s.nodes = append(s.nodes, node.Name)
	}
	s.must(s.c.ApplyShape(s.ctx, loaded))
	s.schedulerKnowsNodes()
}

// allNodeLabels are the labels of all nodes, by name.
func (s *scenario) allNodeLabels() map[string]map[string]string {
	s.t.Helper()
	nodes, err := s.client().CoreV1().Nodes().List(s.ctx, metav1.ListOptions{})
	s.must(err)
	labels := map[string]map[string]string{}
	for i := range nodes.Items {
		labels[nodes.Items[i].Name] = nodes.Items[i].Labels
	}
	return labels
}

// channel gives the node an IMEX channel.
func channel(s *shape.Shape) {
	addSlices(s, channelDriver, resourcev1.ResourceSliceSpec{Devices: []resourcev1.Device{{
		Name: "channel-0",
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"type": {StringValue: ptr.To("channel")}, "id": {IntValue: ptr.To[int64](0)},
		},
	}}})
}
