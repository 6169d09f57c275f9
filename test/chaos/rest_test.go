// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// atRest says what is not as it has to be when nothing changes any more.
func (j *judge) atRest() []finding {
	var found []finding
	add := func(name, format string, args ...any) {
		found = append(found, finding{at: time.Now(), subject: subjectOf(name), text: "at rest: " + fmt.Sprintf(format, args...)})
	}
	room := j.freeRoom()
	for _, name := range slices.Sorted(maps.Keys(j.gangs)) {
		if text := j.partial(j.gangs[name]); text != "" {
			add(name, "%s", text)
		}
		if text := j.waitsInVain(j.gangs[name], room); text != "" {
			add(name, "%s", text)
		}
	}
	for device, holders := range j.holders {
		if len(holders) > 1 {
			add(holders[0], "device %s is in claims %s", device, strings.Join(holders, ", "))
		}
	}
	for name, node := range j.nodes {
		if text := j.overcommitted(node.Name); text != "" {
			add(name, "%s", text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.claims)) {
		if text := j.residue(name); text != "" {
			add(name, "%s", text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.pods)) {
		pod := j.pods[name]
		switch {
		case pod.DeletionTimestamp != nil:
			add(name, "pod %s is still there, it was deleted at %s", name, pod.DeletionTimestamp.Format(time.TimeOnly))
		case pod.Spec.NodeName != "" && observe.Live(pod):
			if text := j.lacksDevices(pod); text != "" {
				add(name, "pod %s is bound, and %s", name, text)
			}
		case pod.Spec.NodeName == "" && observe.Live(pod) && len(pod.Spec.SchedulingGates) == 0:
			if text := j.misinformed(pod, room); text != "" {
				add(name, "%s", text)
			}
			if j.gangOf(pod) == nil && pod.Labels[v1alpha1.LabelPodGang] == "" && room.fits([]need{j.needOf(pod)}) {
				add(name, "pod %s, which is in no gang, waits and fits", name)
			}
		}
	}
	return found
}

// gangOf is the PodGang that a pod belongs to, by its label or because it is listed.
func (j *judge) gangOf(pod *corev1.Pod) *v1alpha1.PodGang {
	if label := pod.Labels[v1alpha1.LabelPodGang]; label != "" {
		return j.gangs[label]
	}
	if pg := j.gangs[subjectOf(pod.Name)]; pg != nil && groupOf(pg, pod.Name) >= 0 {
		return pg
	}
	return nil
}

// groupOf is the number of the group that lists the pod, -1 for none.
func groupOf(pg *v1alpha1.PodGang, pod string) int {
	return slices.IndexFunc(pg.Spec.PodGroups, func(g v1alpha1.PodGroup) bool {
		return slices.ContainsFunc(g.PodReferences, func(ref v1alpha1.NamespacedName) bool { return ref.Name == pod })
	})
}

// partial says that a gang is bound in part, without an excuse.
func (j *judge) partial(pg *v1alpha1.PodGang) string {
	st := j.stories[pg.Name]
	bound, floors := j.countBound(pg)
	if bound == 0 || floors || st.whole {
		return ""
	}
	// What goes while the gang is being let go cannot be helped, and the scheduler may
	// hear of it late.
	if st.lost.After(st.firstBound.Add(-lag)) {
		j.excused[pg.Name] = true
		return ""
	}
	// The room of a gang that was being bound can be taken while nobody schedules. If
	// there is room, waitsInVain says so.
	if slices.ContainsFunc(j.kills, func(at time.Time) bool {
		return at.After(st.firstBound.Add(-time.Second)) && at.Before(st.firstBound.Add(lag))
	}) {
		j.excused[pg.Name] = true
		return ""
	}
	return fmt.Sprintf("PodGang %s is bound in part: %s", pg.Name, j.tell(pg))
}

// tell counts the bound and the pending members of each group.
func (j *judge) tell(pg *v1alpha1.PodGang) string {
	var parts []string
	for i := range pg.Spec.PodGroups {
		bound, pending := j.members(pg, i)
		parts = append(parts, fmt.Sprintf("group %s has floor %d, %d bound, %d pending", pg.Spec.PodGroups[i].Name, pg.Spec.PodGroups[i].MinReplicas, bound, len(pending)))
	}
	return strings.Join(parts, "; ")
}

// members counts the bound members of a group, and lists those that wait for a scheduler.
func (j *judge) members(pg *v1alpha1.PodGang, group int) (bound int, pending []*corev1.Pod) {
	for _, ref := range pg.Spec.PodGroups[group].PodReferences {
		pod := j.pods[ref.Name]
		switch {
		case pod == nil || !observe.Live(pod):
		case pod.Spec.NodeName != "":
			bound++
		case len(pod.Spec.SchedulingGates) == 0:
			pending = append(pending, pod)
		}
	}
	return bound, pending
}

// ready returns what the floor of a gang still needs; ok is false when members are
// missing.
func (j *judge) ready(pg *v1alpha1.PodGang) (needs []need, ok bool) {
	for i := range pg.Spec.PodGroups {
		bound, pending := j.members(pg, i)
		missing := int(pg.Spec.PodGroups[i].MinReplicas) - bound
		if missing > len(pending) {
			return nil, false
		}
		for _, pod := range pending[:max(0, missing)] {
			needs = append(needs, j.needOf(pod))
		}
	}
	return needs, true
}

// waitsInVain says that a gang waits, or a member beyond its floor, and fits.
func (j *judge) waitsInVain(pg *v1alpha1.PodGang, room *room) string {
	needs, ok := j.ready(pg)
	switch {
	case !ok:
		return ""
	case len(needs) > 0:
		if room.fits(needs) {
			return fmt.Sprintf("PodGang %s waits and fits: %s", pg.Name, j.tell(pg))
		}
		return ""
	}
	for i := range pg.Spec.PodGroups {
		_, pending := j.members(pg, i)
		for _, pod := range pending {
			if room.fits([]need{j.needOf(pod)}) {
				return fmt.Sprintf("pod %s waits and fits, and its gang has its floors", pod.Name)
			}
		}
	}
	return ""
}

// residue says that a claim is allocated or reserved for a pod that is gone or not bound.
func (j *judge) residue(name string) string {
	claim := j.claims[name]
	bound := map[types.UID]bool{}
	for _, pod := range j.pods {
		bound[pod.UID] = pod.Spec.NodeName != ""
	}
	for _, consumer := range claim.Status.ReservedFor {
		isBound, exists := bound[consumer.UID]
		switch {
		case !exists:
			return fmt.Sprintf("claim %s is reserved for pod %s, which is gone", name, consumer.Name)
		case !isBound:
			return fmt.Sprintf("claim %s is reserved for pod %s, which is not bound", name, consumer.Name)
		}
	}
	if claim.Status.Allocation != nil && len(claim.Status.ReservedFor) == 0 {
		return fmt.Sprintf("claim %s is allocated for nobody", name)
	}
	return ""
}

// lackPattern finds what the reason says about devices.
var lackPattern = regexp.MustCompile(`needs (\d+) gpu\.nvidia\.com, of which (\d+) of (\d+) are free`)

// misinformed says what is wrong with the reason for which a pod waits.
func (j *judge) misinformed(pod *corev1.Pod, room *room) string {
	c := observe.Scheduled(pod)
	if c == nil || c.Status != corev1.ConditionFalse || c.Message == "" {
		return fmt.Sprintf("pod %s waits without a reason", pod.Name)
	}
	must := func(words string) string {
		if strings.Contains(c.Message, words) {
			return ""
		}
		return fmt.Sprintf("pod %s should say %q, and says %q", pod.Name, words, c.Message)
	}
	pg := j.gangOf(pod)
	switch {
	case pg == nil && pod.Labels[v1alpha1.LabelPodGang] != "":
		return must("does not exist")
	case pg == nil:
		return ""
	case groupOf(pg, pod.Name) < 0:
		return must("is not listed")
	}
	needs, ok := j.ready(pg)
	if !ok {
		return must(j.shortage(pg))
	}
	if strings.Contains(c.Message, "waits for members") || strings.Contains(c.Message, "is not listed") || strings.Contains(c.Message, "PodGang "+namespace+"/"+pg.Name+" does not exist") {
		return fmt.Sprintf("pod %s says %q, which is not so: %s", pod.Name, c.Message, j.tell(pg))
	}
	if lack := lackPattern.FindStringSubmatch(c.Message); lack != nil && len(needs) > 0 {
		return j.wrongNumbers(pod.Name, lack, needs, room)
	}
	return ""
}

// shortage is what the reason has to say about the first group that lacks members.
func (j *judge) shortage(pg *v1alpha1.PodGang) string {
	for i := range pg.Spec.PodGroups {
		bound, pending := j.members(pg, i)
		if present, floor := bound+len(pending), int(pg.Spec.PodGroups[i].MinReplicas); present < floor {
			return fmt.Sprintf("group %s has %d of %d present", pg.Spec.PodGroups[i].Name, present, floor)
		}
	}
	return ""
}

// wrongNumbers compares the numbers in a reason with what is so. The number of free
// devices may be out of date if there are fewer now, for that is no news to a gang that
// waits; when devices have come free, it must have been tried again.
func (j *judge) wrongNumbers(pod string, lack []string, needs []need, room *room) string {
	needed := int64(0)
	for _, n := range needs {
		needed += n.gpus
	}
	total := int64(0)
	for _, slice := range j.slices {
		total += int64(len(slice.Spec.Devices))
	}
	var said [3]int64
	for i := range said {
		said[i], _ = strconv.ParseInt(lack[i+1], 10, 64) // digits, by the pattern
	}
	if said[2] != total {
		return "" // on some nodes only
	}
	if said[0] != needed || said[1] < room.gpus() {
		return fmt.Sprintf("pod %s says %q; %d are needed and %d are free", pod, lack[0], needed, room.gpus())
	}
	return ""
}
