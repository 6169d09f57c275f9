// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// cliqueLabel names the NVLink domain of a node.
const cliqueLabel = "nvidia.com/gpu.clique"

// Twelve pods of a base gang and six of gangs that scale it, on the eighteen nodes of a
// clique. Every pod takes a channel, and no container starts before all channels are
// taken. The gates of the six fall when the base is scheduled: nobody may wait for it to
// run. Meanwhile the six leave its room alone.
func TestScaledGangsFollowABaseThatIsScheduledAndDoesNotRun(t *testing.T) {
	const nodes, base = 18, 12
	s := shared(t)
	list := s.slotsOn(s.unattendedNode, nodes, 5, labelled(cliqueLabel, "clique-0"))
	s.template("channel", claimSpec(request("channel", s.ownDriver(), 1)))
	member := func(gang string) []podOption {
		return []podOption{of(gang), devices(4), fromTemplate("channel", "channel")}
	}
	baseOf := func(p *corev1.Pod) { p.Labels[v1alpha1.LabelBasePodGang] = "base" }
	s.cordon(true, list[0], list[1], list[2], list[3], list[4], list[5], list[6]) // room for eleven
	pods := names("base", base)
	var scaled []string
	for _, gang := range []string{"base-0", "base-1"} {
		s.gang(gang, group("w", 3, names(gang+"-s", 3)...))
		for _, name := range names(gang+"-s", 3) {
			s.pod(name, append(member(gang), baseOf, gated)...)
			scaled = append(scaled, name)
		}
	}
	s.gang("base", group("w", base, pods...))
	s.manyPods(pods, member("base")...)
	s.unschedulable(pods, "group w needs 12 pods", "room for 11")
	s.holdsNothing(append(scaled, pods...)...)
	s.cordon(false, list[:7]...)
	s.bound(pods...)
	s.waitPhase("base", v1alpha1.PodGangPhaseStarting)
	for _, name := range pods { // this is what the operator looks at
		s.until(name+" has PodScheduled=True", func() string {
			if c := observe.Scheduled(s.getPod(name)); c == nil || c.Status != corev1.ConditionTrue {
				return s.describe(name)
			}
			return ""
		})
	}
	s.ungate(scaled...)
	s.bound(scaled...)
	s.haveDevices(5, append(scaled, pods...)...)
	for _, name := range append(scaled, pods...) { // now the channels are ready
		if phase := s.getPod(name).Status.Phase; phase != corev1.PodPending {
			t.Errorf("pod %s is %s before all channels are taken", name, phase)
		}
		s.setPodPhase(name, corev1.PodRunning)
	}
	for _, gang := range []string{"base", "base-0", "base-1"} {
		s.waitPhase(gang, v1alpha1.PodGangPhaseRunning)
	}
}

// A floor lower than is wanted, and one as high: the first is scheduled as it says, and
// what is said tells the floors.
func TestFloorIsWhatMinReplicasSays(t *testing.T) {
	s := shared(t)
	s.slots(2, 1)
	prefill, decode := names("prefill", 4), names("decode", 4)
	all := append(prefill, decode...)
	s.gang("g", group("prefill", 4, prefill...), group("decode", 4, decode...))
	for _, name := range all {
		s.pod(name, of("g"), devices(1))
	}
	s.unschedulable(all, "needs 8 "+s.ownDriver(), "2 of 2 are free")
	s.holdsNothing(all...)
	s.editGang("g", func(spec *v1alpha1.PodGangSpec) {
		for i := range spec.PodGroups {
			spec.PodGroups[i].MinReplicas = 1
		}
	})
	s.oneOfEachBound(prefill, decode)
}
