// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// Key names a PodGang.
type Key = types.NamespacedName

// PodGetter returns a pod as the informer's store has it now, or nil. It is
// called under the lock of the Index and must not call back.
type PodGetter func(namespace, name string) *v1.Pod

// Index knows the gangs of a cluster, their members and their attempts. All
// methods may be called from any goroutine. Pods and PodGangs handed in are
// kept and not changed; those handed out must not be changed either.
type Index struct {
	schedulerName string
	getPod        PodGetter

	// mu guards everything below, the gangs and their attempts included. It is a
	// leaf: nothing else is locked, and no callback but getPod made, while it is
	// held.
	mu sync.RWMutex
	// gangs holds every gang that has a PodGang or a member.
	gangs map[Key]*gang
	// members holds every pod that belongs to a gang, by pod name.
	members map[types.NamespacedName]*member
	// listedBy names the gangs whose podReferences list a pod, hardly ever more than one.
	listedBy map[types.NamespacedName][]Key
	// families names the gangs of each family.
	families map[Family]sets.Set[Key]
	// former remembers the places that members have left.
	former former
	// freed are pods that have just ceased to be members, and unsettled gangs that
	// Admit has touched; the next settle deals with them.
	freed     []*v1.Pod
	unsettled []*gang
}

// gang is the state of one gang. Guarded by Index.mu.
type gang struct {
	key Key
	// object is nil while only members are known.
	object *v1alpha1.PodGang
	faults []string
	// family is that of the members, zero if they name none.
	family Family
	// groupOf is the index of the group that lists a pod, by pod name.
	groupOf map[string]int
	// members by pod name.
	members map[string]*member
	// leader is the member whose cycle plans for the gang.
	leader types.UID
	// attempt is the attempt under way, nil if there is none.
	attempt *Attempt
	// tally is the cached count of members, nil when something has changed.
	tally *tally
	// stirred is set when something changed that may let a waiting gang proceed,
	// and dirty when something changed at all, until settle has looked at it.
	stirred, dirty bool
	// held is set while somebody works on what the members hold; the gang is not
	// planned meanwhile.
	held bool
	// rollbacks counts the attempts undone since the last that succeeded, and
	// delay is how long the next is put off.
	rollbacks int
	delay     time.Duration
}

// NewIndex returns an empty index for the pods of one scheduler name.
func NewIndex(schedulerName string, getPod PodGetter) *Index {
	return &Index{
		schedulerName: schedulerName,
		getPod:        getPod,
		gangs:         make(map[Key]*gang),
		members:       make(map[types.NamespacedName]*member),
		listedBy:      make(map[types.NamespacedName][]Key),
		families:      make(map[Family]sets.Set[Key]),
		former:        newFormer(),
	}
}

// SetPod records a pod that was added or changed. A version older than the
// known one is ignored.
func (i *Index) SetPod(pod *v1.Pod) Effects {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.settle(i.setPod(pod)...)
}

// DeletePod records that a pod is gone. Another pod of the same name is kept.
func (i *Index) DeletePod(pod *v1.Pod) Effects {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := i.members[podKey(pod)]
	if m == nil || m.pod.UID != pod.UID {
		return i.settle()
	}
	return i.settle(i.dropMember(m)...)
}

// SetUnreadable records a PodGang of which only the metadata could be read, and
// why. Its members stay what they were when it was last readable: pods without
// label must not be scheduled alone for it.
func (i *Index) SetUnreadable(pg *v1alpha1.PodGang, fault string) Effects {
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.gangOf(keyOf(pg))
	if g.object != nil && g.object.UID == pg.UID {
		pg = pg.DeepCopy()
		pg.Spec, pg.Status = g.object.Spec, g.object.Status
	}
	return i.settle(i.setObject(g, pg, []string{fault})...)
}

// SetGang records a PodGang that was added or changed.
func (i *Index) SetGang(pg *v1alpha1.PodGang) Effects {
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.gangOf(keyOf(pg))
	if g.object != nil && g.object.UID == pg.UID && older(pg.ResourceVersion, g.object.ResourceVersion) {
		return Effects{}
	}
	return i.settle(i.setObject(g, pg, Faults(pg))...)
}

// DeleteGang records that a PodGang is gone. Another one of the same name is
// kept.
func (i *Index) DeleteGang(pg *v1alpha1.PodGang) Effects {
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.gangs[keyOf(pg)]
	if g == nil || g.object == nil || g.object.UID != pg.UID {
		return Effects{}
	}
	return i.settle(i.setObject(g, nil, nil)...)
}

// setObject replaces the PodGang of a gang and maps pods by its references. It
// returns the gangs that are touched.
func (i *Index) setObject(g *gang, pg *v1alpha1.PodGang, faults []string) []*gang {
	listed := make(map[string]int)
	if pg != nil {
		for group := range pg.Spec.PodGroups {
			for _, ref := range pg.Spec.PodGroups[group].PodReferences {
				if ref.Namespace == pg.Namespace {
					listed[ref.Name] = group
				}
			}
		}
	}
	before := g.groupOf
	stirred := g.stirred || affectsPlacement(g, pg, faults)
	g.object, g.groupOf, g.faults = pg, listed, faults
	g.changed()
	g.stirred = stirred
	touched := []*gang{g}
	for name := range before {
		if _, still := listed[name]; !still {
			touched = append(touched, i.setListed(g.key, name, false)...)
		}
	}
	for name := range listed {
		touched = append(touched, i.setListed(g.key, name, true)...)
	}
	return touched
}

// affectsPlacement reports whether a gang that waits could proceed, or wait for
// something else, once pg takes the place of its PodGang. Most updates are of a status,
// among them those that follow from what is written here.
func affectsPlacement(g *gang, pg *v1alpha1.PodGang, faults []string) bool {
	before := g.object
	if before == nil || pg == nil || before.UID != pg.UID || !slices.Equal(g.faults, faults) {
		return true
	}
	return isInitialized(before) != isInitialized(pg) ||
		before.Annotations[v1alpha1.AnnotationTopologyName] != pg.Annotations[v1alpha1.AnnotationTopologyName] ||
		!apiequality.Semantic.DeepEqual(before.Spec, pg.Spec)
}

// setListed records whether the gang lists the pod, and moves the pod between
// gangs if that decides where it belongs.
func (i *Index) setListed(key Key, podName string, listed bool) []*gang {
	pod := types.NamespacedName{Namespace: key.Namespace, Name: podName}
	by := i.listedBy[pod]
	switch {
	case listed && !slices.Contains(by, key):
		i.listedBy[pod] = append(by, key)
	case listed:
	default:
		if by = slices.DeleteFunc(by, func(k Key) bool { return k == key }); len(by) > 0 {
			i.listedBy[pod] = by
		} else {
			delete(i.listedBy, pod)
		}
	}
	if m := i.members[pod]; m != nil {
		return i.setPod(m.pod)
	}
	if current := i.getPod(pod.Namespace, pod.Name); current != nil {
		return i.setPod(current)
	}
	return nil
}

// setPod files a pod under the gang it belongs to and returns the gangs touched.
func (i *Index) setPod(pod *v1.Pod) []*gang {
	key, belongs := i.ownerOf(pod)
	known := i.members[podKey(pod)]
	var touched []*gang
	if known != nil {
		// This holds for another pod of the same name as well: versions compare
		// between objects of one resource.
		if older(pod.ResourceVersion, known.pod.ResourceVersion) {
			return nil
		}
		if belongs && known.gang.key == key && known.pod.UID == pod.UID {
			return i.updateMember(known, pod)
		}
		touched = i.dropMember(known)
	}
	if !belongs {
		if known != nil {
			i.freed = append(i.freed, pod)
		}
		return touched
	}
	g := i.gangOf(key)
	m := &member{pod: pod, gang: g}
	if known != nil && known.pod.UID == pod.UID {
		m.boundTo = known.boundTo
	}
	i.members[podKey(pod)] = m
	g.members[pod.Name] = m
	i.joinFamily(g, pod)
	g.changed()
	return append(touched, g)
}

// updateMember replaces a member's pod. A change that does not alter how the
// member counts does not stir the gang. Another reason for waiting is reported on: the
// scheduler may have written it late, over one that is right.
func (i *Index) updateMember(m *member, pod *v1.Pod) []*gang {
	g := m.gang
	before, reasonBefore := m.stateOf(i.schedulerName)
	wasRunning, saidBefore := m.running(), m.says()
	m.pod = pod
	after, reasonAfter := m.stateOf(i.schedulerName)
	switch {
	case before != after:
		g.changed()
	case wasRunning != m.running(), reasonBefore != reasonAfter:
		g.tally = nil
	case !g.dirty && m.says() == saidBefore:
		return nil
	}
	return []*gang{g}
}

// dropMember removes a member from its gang and returns the gang.
func (i *Index) dropMember(m *member) []*gang {
	g := m.gang
	if node := m.pod.Spec.NodeName; node != "" {
		i.former.left(g.key, node)
	}
	delete(i.members, podKey(m.pod))
	delete(g.members, m.pod.Name)
	g.resign(m.pod.UID)
	g.changed()
	return []*gang{g}
}

// changed drops what was derived from the gang's object and members.
func (g *gang) changed() {
	g.tally = nil
	g.stirred = true
	g.dirty = true
}

// gangOf returns the gang of that key, a new one if there is none.
func (i *Index) gangOf(key Key) *gang {
	g := i.gangs[key]
	if g == nil {
		g = &gang{key: key, members: make(map[string]*member)}
		i.gangs[key] = g
	}
	return g
}

// ownerOf names the gang to which a pod belongs. A pod without label that several
// gangs list belongs to the first of them by name.
func (i *Index) ownerOf(pod *v1.Pod) (Key, bool) {
	if name := pod.Labels[v1alpha1.LabelPodGang]; name != "" {
		return Key{Namespace: pod.Namespace, Name: name}, true
	}
	var first Key
	found := false
	for _, key := range i.listedBy[podKey(pod)] {
		if !found || key.Name < first.Name {
			first, found = key, true
		}
	}
	return first, found
}

// IsMember reports whether the pod belongs to a gang.
func (i *Index) IsMember(pod *v1.Pod) bool {
	_, ok := i.GangOf(pod)
	return ok
}

// GangOf names the gang to which a pod belongs.
func (i *Index) GangOf(pod *v1.Pod) (Key, bool) {
	if name := pod.Labels[v1alpha1.LabelPodGang]; name != "" {
		return Key{Namespace: pod.Namespace, Name: name}, true
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.ownerOf(pod)
}

// Keys returns the keys of all gangs.
func (i *Index) Keys() []Key {
	i.mu.RLock()
	defer i.mu.RUnlock()
	keys := make([]Key, 0, len(i.gangs))
	for key := range i.gangs {
		keys = append(keys, key)
	}
	return keys
}

func keyOf(pg *v1alpha1.PodGang) Key {
	return Key{Namespace: pg.Namespace, Name: pg.Name}
}

func podKey(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// older reports whether resource version a is before b. Versions of one resource
// compare as integers (KEP-5504); anything else is taken as newer, so that no
// update is lost.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}
