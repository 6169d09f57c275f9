// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// screenBook remembers, from one plan to the next, what the filters have said of each
// node for pods that ask for the same, so that they are asked again only for nodes that
// have changed. It belongs to the goroutine of the scheduling cycle.
type screenBook struct {
	// reads is set when all filters of the profile are among those that look at a node,
	// its pods and the pod alone, in the cases in which the book is used.
	reads bool
	// others are the filters of the profile that look at other pods, unless PreFilter finds
	// that there is nothing to look for.
	others []string
	// classes is the version of the DeviceClasses, which stand for extended resources:
	// such a filter looks at nothing else.
	classes uint64
	byPod   map[string][]screened
}

// screened is the answer of the filters for a node at a generation. Generations are
// unique across nodes and changes.
type screened struct {
	generation int64
	status     *fwk.Status
}

// maxScreens is how many sorts of pods the book knows; then it starts anew.
const maxScreens = 64

// localFilters answer for a pod and a node alike for as long as the node does not change:
// the in-tree filters for pods without volumes to be bound (screenable), some unless they
// depend on other pods, and our own while no nodes are kept.
var localFilters = sets.New(
	names.NodeName, names.NodeUnschedulable, names.TaintToleration, names.NodeAffinity, names.NodePorts,
	names.NodeResourcesFit, names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
	names.PodTopologySpread, names.InterPodAffinity, names.NodeDeclaredFeatures,
	Name, gangresources.Name,
)

func newScreenBook() *screenBook {
	return &screenBook{byPod: make(map[string][]screened)}
}

// configure notes which filters the profile has.
func (b *screenBook) configure(plugins *schedulerconfig.Plugins) {
	b.reads, b.others = true, nil
	for _, filter := range plugins.Filter.Enabled {
		b.reads = b.reads && localFilters.Has(filter.Name)
		if dependsOnPods(filter.Name) {
			b.others = append(b.others, filter.Name)
		}
	}
}

// known returns what is known for the class, one entry for each node, to be brought up to
// date in place; nil if nothing may be remembered. It comes before PreFilter, which notes
// the nodes that are kept: none are from here to the end of the plan.
func (w *world) known(c *class) ([]screened, error) {
	b := w.pl.screens
	if !b.reads || w.interacts || !screenable(c.pod) || w.pl.keeps.current.Load() != nil {
		return nil, nil
	}
	key, err := screenKey(c.pod)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", c.pod.Namespace, c.pod.Name, err)
	}
	if b.classes != w.session.Classes() || b.byPod[key] == nil && len(b.byPod) >= maxScreens {
		clear(b.byPod)
		b.classes = w.session.Classes()
	}
	if len(b.byPod[key]) != len(w.nodes) {
		b.byPod[key] = make([]screened, len(w.nodes))
	}
	return b.byPod[key], nil
}

// looksAround reports whether a filter depends on other pods, now that PreFilter has run:
// on those that keep others away, or on constraints that the profile gives to all pods.
func (b *screenBook) looksAround(state fwk.CycleState) bool {
	skipped := state.GetSkipFilterPlugins()
	return slices.ContainsFunc(b.others, func(filter string) bool { return !skipped.Has(filter) })
}

// ask has the filters judge a node for the class, unless it is known what they say.
// Nominated pods are nobody's generation.
func (w *world) ask(ctx context.Context, c *class, n int, known []screened) *fwk.Status {
	node := w.nodes[n]
	if known == nil || w.nominated[n] {
		return w.pl.handle.RunFilterPluginsWithNominatedPods(ctx, c.state, c.pod, node)
	}
	if known[n].generation == node.GetGeneration() {
		return known[n].status
	}
	status := w.pl.handle.RunFilterPlugins(ctx, c.state, c.pod, node)
	if status.IsSuccess() || status.IsRejected() {
		known[n] = screened{generation: node.GetGeneration(), status: status}
	}
	return status
}

// screenable reports whether it depends on nothing but the pod and the node whether the
// pod passes the filters of a node, as far as the pod tells.
func screenable(pod *v1.Pod) bool {
	if interacts(pod) {
		return false
	}
	for i := range pod.Spec.Volumes {
		if !anywhere(&pod.Spec.Volumes[i].VolumeSource) {
			return false
		}
	}
	return true
}

// anywhere reports whether a volume can be had on any node.
func anywhere(source *v1.VolumeSource) bool {
	return source.ConfigMap != nil || source.Secret != nil || source.Projected != nil || source.EmptyDir != nil ||
		source.DownwardAPI != nil || source.HostPath != nil || source.Image != nil
}

// screenKey returns a key that is equal for pods that filters cannot tell apart. Only
// what is known not to matter is left out.
func screenKey(pod *v1.Pod) (string, error) {
	spec := pod.Spec
	spec.Hostname, spec.Subdomain, spec.ServiceAccountName, spec.DeprecatedServiceAccount = "", "", "", ""
	spec.ImagePullSecrets, spec.HostAliases, spec.SchedulingGates = nil, nil, nil
	// Claims are the plan's, and those of volumes are at hand anywhere.
	spec.Volumes, spec.ResourceClaims = nil, nil
	spec.Containers, spec.InitContainers = bareContainers(spec.Containers), bareContainers(spec.InitContainers)
	key, err := json.Marshal(struct {
		Namespace string
		Spec      v1.PodSpec
	}{pod.Namespace, spec})
	return string(key), err
}

// bareContainers returns containers without what they run.
func bareContainers(containers []v1.Container) []v1.Container {
	bare := make([]v1.Container, 0, len(containers))
	for i := range containers {
		c := containers[i]
		c.Name, c.Image, c.WorkingDir = "", "", ""
		c.Command, c.Args, c.Env, c.EnvFrom = nil, nil, nil, nil
		c.VolumeMounts, c.Lifecycle, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil, nil, nil
		c.Resources.Claims = nil
		bare = append(bare, c)
	}
	return bare
}
