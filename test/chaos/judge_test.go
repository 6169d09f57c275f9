// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
	"github.com/podgang/podgang-scheduler/test/observe"
)

// lag is how far the scheduler may be behind the API server while its watches are held
// back, dropped and refused: a decision on what was true that long ago is no mistake.
const lag = 15 * time.Second

// finding is something that must not be.
type finding struct {
	at      time.Time
	subject string
	text    string
}

// judge goes through all changes in the order in which the API server made them, and
// knows what must never be.
type judge struct {
	pods    map[string]*corev1.Pod
	claims  map[string]*resourcev1.ResourceClaim
	gangs   map[string]*v1alpha1.PodGang
	nodes   map[string]*corev1.Node
	slices  map[string]*resourcev1.ResourceSlice
	stories map[string]*story
	holders map[string][]string // claims that have a device
	// gangDeleted is when the last PodGang of a name was deleted.
	gangDeleted map[string]time.Time
	seen        map[types.UID]bool // PodGangs
	// kills are when the scheduler or the API server was killed.
	kills []time.Time
	// apiDown is when the API server was down; not all changes around that are known,
	// because no watch can go on where it was.
	apiDown []span

	findings []finding
	// prepared counts the gangs whose first binding was looked at, unsure those that
	// were not because changes can have been missed.
	prepared, unsure int
	// excused are gangs at rest in part that could not be helped, each once.
	excused map[string]bool
}

// story is what has happened to one gang.
type story struct {
	uid types.UID
	// specs are the versions of the spec, each with the time from which it was true.
	specs []timedSpec
	// firstBound is when the first of the members was bound that are bound now.
	firstBound time.Time
	// whole: all floors have been bound since then.
	whole bool
	// lost is when a member was last deleted, or finished, or a floor was raised.
	lost time.Time
	// lostPods are when each of the members was deleted or finished.
	lostPods map[string]time.Time
}

type timedSpec struct {
	from time.Time
	spec v1alpha1.PodGangSpec
}

func newJudge() *judge {
	return &judge{
		pods: map[string]*corev1.Pod{}, claims: map[string]*resourcev1.ResourceClaim{}, gangs: map[string]*v1alpha1.PodGang{},
		nodes: map[string]*corev1.Node{}, slices: map[string]*resourcev1.ResourceSlice{}, stories: map[string]*story{},
		holders: map[string][]string{}, gangDeleted: map[string]time.Time{}, seen: map[types.UID]bool{}, excused: map[string]bool{},
	}
}

func (j *judge) find(r record, format string, args ...any) {
	j.findings = append(j.findings, finding{
		at: r.at, subject: subjectOf(r.object.GetName()),
		text: fmt.Sprintf("revision %d: ", r.revision) + fmt.Sprintf(format, args...),
	})
}

func (j *judge) apply(records []record) {
	for _, r := range records {
		switch object := r.object.(type) {
		case *corev1.Pod:
			j.applyPod(r, object)
		case *resourcev1.ResourceClaim:
			set(j.claims, object, r.deleted)
			j.applyClaim(r, object)
		case *v1alpha1.PodGang:
			j.applyGang(r, object)
		case *corev1.Node:
			set(j.nodes, object, r.deleted)
		case *resourcev1.ResourceSlice:
			set(j.slices, object, r.deleted)
		}
	}
}

// blind reports whether changes can be missing around a record.
func (j *judge) blind(r record) bool { return within(r.at, j.apiDown, time.Second) }

func set[T metav1.Object](m map[string]T, object T, deleted bool) {
	if deleted {
		delete(m, object.GetName())
	} else {
		m[object.GetName()] = object
	}
}

// applyClaim keeps the book of devices: none is in two claims.
func (j *judge) applyClaim(r record, claim *resourcev1.ResourceClaim) {
	for device, holders := range j.holders {
		j.holders[device] = slices.DeleteFunc(holders, func(name string) bool { return name == claim.Name })
	}
	if r.deleted {
		return
	}
	for _, device := range devicesOf(claim) {
		if others := j.holders[device]; len(others) > 0 && !j.blind(r) {
			j.find(r, "device %s is in claim %s and in %s", device, claim.Name, strings.Join(others, ", "))
		}
		j.holders[device] = append(j.holders[device], claim.Name)
	}
}

func (j *judge) applyGang(r record, pg *v1alpha1.PodGang) {
	set(j.gangs, pg, r.deleted)
	st := j.stories[pg.Name]
	if r.deleted {
		j.gangDeleted[pg.Name] = r.at
		if st != nil && st.uid == pg.UID {
			delete(j.stories, pg.Name)
		}
		return
	}
	j.seen[pg.UID] = true
	if st == nil || st.uid != pg.UID {
		st = &story{uid: pg.UID, lostPods: map[string]time.Time{}}
		j.stories[pg.Name] = st
	}
	if n := len(st.specs); n > 0 && raised(st.specs[n-1].spec, pg.Spec) {
		st.lost = r.at
	}
	st.specs = append(st.specs, timedSpec{r.at, pg.Spec})
	j.follow(r, pg)
}

// raised reports whether a floor is higher than before.
func raised(before, now v1alpha1.PodGangSpec) bool {
	for i := range now.PodGroups {
		if i < len(before.PodGroups) && now.PodGroups[i].MinReplicas > before.PodGroups[i].MinReplicas {
			return true
		}
	}
	return false
}

func (j *judge) applyPod(r record, pod *corev1.Pod) {
	before := j.pods[pod.Name]
	if before != nil && before.UID != pod.UID {
		before = nil
	}
	gang := subjectOf(pod.Name)
	st, pg := j.stories[gang], j.gangs[gang]
	if st != nil && before != nil && observe.Live(before) && (r.deleted || !observe.Live(pod)) {
		st.lost, st.lostPods[pod.Name] = r.at, r.at
	}
	if pod.Spec.NodeName != "" && !r.deleted && (before == nil || before.Spec.NodeName == "") {
		if st != nil && pg != nil {
			if bound, _ := j.countBound(pg); bound == 0 {
				j.checkPrepared(r, st)
			}
		}
		set(j.pods, pod, r.deleted)
		j.checkBinding(r, pod, pg)
	}
	set(j.pods, pod, r.deleted)
	if pg != nil {
		j.follow(r, pg)
	}
}

// follow notes when a gang begins to be bound, and when it is whole.
func (j *judge) follow(r record, pg *v1alpha1.PodGang) {
	st := j.stories[pg.Name]
	bound, floors := j.countBound(pg)
	switch {
	case bound == 0:
		st.firstBound, st.whole = time.Time{}, false
	case st.firstBound.IsZero():
		st.firstBound = r.at
	}
	if bound > 0 && floors {
		st.whole = true
	}
}

// countBound counts a gang's bound members, and tells whether all floors are bound.
func (j *judge) countBound(pg *v1alpha1.PodGang) (bound int, floors bool) {
	floors = true
	for i := range pg.Spec.PodGroups {
		n := 0
		for _, ref := range pg.Spec.PodGroups[i].PodReferences {
			if pod := j.pods[ref.Name]; pod != nil && observe.Live(pod) && pod.Spec.NodeName != "" {
				n++
			}
		}
		bound += n
		floors = floors && n >= int(pg.Spec.PodGroups[i].MinReplicas)
	}
	return bound, floors
}

// checkPrepared: when the first member is bound, as many have their devices as every
// floor asks for, by one of the specs that the scheduler can have known. A member that
// has just been lost counts as one that has them.
func (j *judge) checkPrepared(r record, st *story) {
	if j.blind(r) {
		j.unsure++
		return
	}
	j.prepared++
	missing := ""
	for i := len(st.specs) - 1; i >= 0; i-- {
		text := j.unprepared(st, st.specs[i].spec, r.at)
		if text == "" {
			return
		}
		if missing == "" {
			missing = text
		}
		if r.at.Sub(st.specs[i].from) > lag {
			break // the versions before were not true any more
		}
	}
	j.find(r, "pod %s was bound, the first of its gang, when %s", r.object.GetName(), missing)
}

// unprepared says which group has fewer members with all their devices than its floor.
func (j *judge) unprepared(st *story, spec v1alpha1.PodGangSpec, at time.Time) string {
	for _, g := range spec.PodGroups {
		ready := 0
		for _, ref := range g.PodReferences {
			pod := j.pods[ref.Name]
			has := pod != nil && observe.Live(pod) && j.lacksDevices(pod) == ""
			if lost, was := st.lostPods[ref.Name]; has || was && at.Sub(lost) < lag {
				ready++
			}
		}
		if ready < int(g.MinReplicas) {
			return fmt.Sprintf("%d of the %d members of group %s had their devices", ready, g.MinReplicas, g.Name)
		}
	}
	return ""
}

// lacksDevices says which claim of the pod is not allocated and reserved for it.
func (j *judge) lacksDevices(pod *corev1.Pod) string {
	names := observe.ClaimNames(pod)
	if len(names) < len(pod.Spec.ResourceClaims) {
		return "a claim of it does not exist"
	}
	for _, name := range names {
		claim := j.claims[name]
		switch {
		case claim == nil:
			return "claim " + name + " does not exist"
		case claim.Status.Allocation == nil:
			return "claim " + name + " is not allocated"
		case !slices.ContainsFunc(claim.Status.ReservedFor, func(c resourcev1.ResourceClaimConsumerReference) bool { return c.UID == pod.UID }):
			return "claim " + name + " is not reserved for it"
		}
	}
	return ""
}

// checkBinding: a pod is bound with its devices, on the node that has them, where there
// is room, and not alone if it says that it belongs to a gang.
func (j *judge) checkBinding(r record, pod *corev1.Pod, pg *v1alpha1.PodGang) {
	if text := j.lacksDevices(pod); text != "" && !j.blind(r) {
		j.find(r, "pod %s was bound, and %s", pod.Name, text)
	}
	for _, name := range observe.ClaimNames(pod) {
		claim := j.claims[name]
		if claim == nil {
			continue
		}
		for _, device := range devicesOf(claim) {
			if !strings.HasPrefix(device, pod.Spec.NodeName+"/") && !j.blind(r) { // the pool is called like its node
				j.find(r, "pod %s was bound to %s, and its device is %s", pod.Name, pod.Spec.NodeName, device)
			}
		}
	}
	if text := j.overcommitted(pod.Spec.NodeName); text != "" && !j.blind(r) {
		j.find(r, "pod %s was bound: %s", pod.Name, text)
	}
	if pod.Labels[v1alpha1.LabelPodGang] == "" || j.blind(r) {
		return
	}
	if pg == nil {
		if !j.gangKnownWithin(pod, r.at) {
			j.find(r, "pod %s was bound, and its PodGang %s does not exist", pod.Name, pod.Labels[v1alpha1.LabelPodGang])
		}
		return
	}
	for _, s := range j.stories[pg.Name].specs {
		for _, g := range s.spec.PodGroups {
			if slices.ContainsFunc(g.PodReferences, func(ref v1alpha1.NamespacedName) bool { return ref.Name == pod.Name }) {
				return
			}
		}
	}
	j.find(r, "pod %s was bound, and PodGang %s has never listed it", pod.Name, pg.Name)
}

// gangKnownWithin reports whether the scheduler can still have known the PodGang of a
// pod, which has been deleted.
func (j *judge) gangKnownWithin(pod *corev1.Pod, at time.Time) bool {
	deleted, ok := j.gangDeleted[pod.Labels[v1alpha1.LabelPodGang]]
	return ok && at.Sub(deleted) < lag
}

// overcommitted says of what the node has too little, terminating pods included.
func (j *judge) overcommitted(nodeName string) string {
	node := j.nodes[nodeName]
	if node == nil {
		return ""
	}
	asked, pods := corev1.ResourceList{}, int64(0)
	for _, pod := range j.pods {
		if pod.Spec.NodeName != nodeName || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		pods++
		for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
			sum := asked[name]
			sum.Add(quantity)
			asked[name] = sum
		}
	}
	for name, quantity := range asked {
		if has, known := node.Status.Allocatable[name]; known && quantity.Cmp(has) > 0 {
			return fmt.Sprintf("node %s has %s of %s, and its pods ask for %s", nodeName, has.String(), name, quantity.String())
		}
	}
	if room := node.Status.Allocatable.Pods().Value(); pods > room {
		return fmt.Sprintf("node %s has room for %d pods, and %d are on it", nodeName, room, pods)
	}
	return ""
}
