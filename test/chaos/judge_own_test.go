// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// tale tells a judge a made-up story, one second a change.
type tale struct {
	j        *judge
	revision uint64
	at       time.Time
}

func newTale() *tale {
	t := &tale{j: newJudge(), at: time.Now().Add(-time.Hour)}
	for _, name := range []string{"node-0", "node-1"} {
		resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("10")}
		t.tell(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: resources}})
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{NodeName: &name, Pool: resourcev1.ResourcePool{Name: name}}}
		for i := range 2 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i)})
		}
		t.tell(slice)
	}
	return t
}

func (t *tale) tell(object metav1.Object) { t.record(object, false) }

func (t *tale) record(object metav1.Object, deleted bool) {
	t.revision++
	t.at = t.at.Add(time.Second)
	t.j.apply([]record{{revision: t.revision, at: t.at, object: object, deleted: deleted}})
}

// gang g001 has one group, a, of the pods g001-a-0 to g001-a-<n-1>.
func (t *tale) gang(floor, n int) {
	group := v1alpha1.PodGroup{Name: "a", MinReplicas: int32(floor)}
	for i := range n {
		group.PodReferences = append(group.PodReferences, v1alpha1.NamespacedName{Namespace: namespace, Name: member(i)})
	}
	t.tell(&v1alpha1.PodGang{ObjectMeta: metav1.ObjectMeta{Name: "g001", UID: "g001"}, Spec: v1alpha1.PodGangSpec{PodGroups: []v1alpha1.PodGroup{group}}})
}

func member(i int) string { return fmt.Sprintf("g001-a-%d", i) }

// pod tells of a member with a claim for one GPU, on a node, or waiting for a reason.
func (t *tale) pod(i int, node, reason string) {
	t.tell(taleMember(i, node, reason))
}

func taleMember(i int, node, reason string) *corev1.Pod {
	pod := newPod(podOptions{name: member(i), gang: "g001", gpus: 1, cpu: "1"})
	pod.UID = types.UID(pod.Name)
	pod.Status.Phase = corev1.PodPending
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "own", ResourceClaimName: &pod.Name}}
	pod.Spec.NodeName = node
	if reason != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: reason}}
	}
	return pod
}

// claim tells of the claim of a member, with a device (node/name), or with none.
func (t *tale) claim(i int, device string) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: member(i)}, Spec: claimSpec(1)}
	if pool, name, ok := strings.Cut(device, "/"); ok {
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Pool: pool, Device: name}},
		}}
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Name: member(i), UID: types.UID(member(i))}}
	}
	t.tell(claim)
}

// members tells of n members that wait, with their claims.
func (t *tale) members(n int, reason string) {
	for i := range n {
		t.claim(i, "")
		t.pod(i, "", reason)
	}
}

// The judge finds what must not be, and nothing else.
func TestJudge(t *testing.T) {
	const noRoom = "0/2 nodes are available: PodGang chaos/g001 needs 3 gpu.nvidia.com, of which 4 of 4 are free"
	for _, tc := range []struct {
		name  string
		story func(t *tale)
		// want are the words of the findings, one each.
		want []string
	}{
		{
			name: "whole gang with its devices",
			story: func(t *tale) {
				t.gang(2, 2)
				t.members(2, "")
				t.claim(0, "node-0/gpu-0")
				t.claim(1, "node-0/gpu-1")
				t.pod(0, "node-0", "")
				t.pod(1, "node-0", "")
			},
		},
		{
			name: "bound before all have their devices",
			story: func(t *tale) {
				t.gang(2, 2)
				t.members(2, "")
				t.claim(0, "node-0/gpu-0")
				t.pod(0, "node-0", "")
				t.claim(1, "node-0/gpu-1")
				t.pod(1, "node-0", "")
			},
			want: []string{"1 of the 2 members of group a had their devices"},
		},
		{
			name: "device in two claims",
			story: func(t *tale) {
				t.claim(0, "node-0/gpu-0")
				t.claim(1, "node-0/gpu-0")
				t.claim(1, "")
				t.claim(0, "")
			},
			want: []string{"device node-0/gpu-0 is in claim g001-a-1 and in g001-a-0"},
		},
		{
			name: "gang in part at rest",
			story: func(t *tale) {
				t.gang(3, 3)
				t.members(3, noRoom)
				for i, device := range []string{"node-0/gpu-0", "node-0/gpu-1", "node-1/gpu-0"} {
					t.claim(i, device)
				}
				t.pod(0, "node-0", "")
				t.claim(1, "")
				t.claim(2, "")
				cordoned := t.j.nodes["node-1"].DeepCopy()
				cordoned.Spec.Unschedulable = true
				t.tell(cordoned)
			},
			want: []string{"PodGang g001 is bound in part", "needs 3 gpu.nvidia.com", "needs 3 gpu.nvidia.com"},
		},
		{
			name: "gang in part at rest that has been whole",
			story: func(t *tale) {
				t.gang(2, 2)
				t.members(2, "")
				t.claim(0, "node-0/gpu-0")
				t.claim(1, "node-0/gpu-1")
				t.pod(0, "node-0", "")
				t.pod(1, "node-0", "")
				t.record(taleMember(1, "node-0", ""), true)
				t.record(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: member(1)}}, true)
			},
		},
		{
			name: "gang that fits and waits",
			story: func(t *tale) {
				t.gang(3, 3)
				t.members(3, noRoom)
			},
			want: []string{"PodGang g001 waits and fits"},
		},
		{
			name: "extra that fits and waits",
			story: func(t *tale) {
				t.gang(1, 2)
				t.members(2, "somehow")
				t.claim(0, "node-0/gpu-0")
				t.pod(0, "node-0", "")
			},
			want: []string{"pod g001-a-1 waits and fits"},
		},
		{
			name: "claim of a pod that is not bound",
			story: func(t *tale) {
				t.gang(2, 2)
				t.claim(0, "node-0/gpu-0")
				t.pod(0, "", "PodGang chaos/g001 waits for members: group a has 1 of 2 present")
			},
			want: []string{"reserved for pod g001-a-0, which is not bound"},
		},
		{
			name: "claim of a pod that is gone",
			story: func(t *tale) {
				t.claim(0, "node-0/gpu-0")
			},
			want: []string{"reserved for pod g001-a-0, which is gone"},
		},
		{
			name: "reason that is out of date",
			story: func(t *tale) {
				t.gang(3, 2)
				t.members(2, "PodGang chaos/g001 waits for members: group a has 1 of 3 present")
			},
			want: []string{`should say "group a has 2 of 3 present"`, `should say "group a has 2 of 3 present"`},
		},
		{
			name: "too few free devices in the reason",
			story: func(t *tale) {
				t.gang(5, 5)
				t.members(4, "PodGang chaos/g001 needs 5 gpu.nvidia.com, of which 3 of 4 are free")
				t.claim(4, "")
				t.pod(4, "", "PodGang chaos/g001 needs 5 gpu.nvidia.com, of which 4 of 4 are free")
			},
			want: []string{"4 are free", "4 are free", "4 are free", "4 are free"},
		},
		{
			name: "no reason, and no gang",
			story: func(t *tale) {
				t.members(1, "")
			},
			want: []string{"waits without a reason"},
		},
		{
			name: "bound without its gang",
			story: func(t *tale) {
				t.members(1, "")
				t.claim(0, "node-0/gpu-0")
				t.pod(0, "node-0", "")
			},
			want: []string{"its PodGang g001 does not exist"},
		},
		{
			name: "bound away from its device",
			story: func(t *tale) {
				t.gang(1, 1)
				t.members(1, "")
				t.claim(0, "node-0/gpu-0")
				t.pod(0, "node-1", "")
			},
			want: []string{"was bound to node-1, and its device is node-0/gpu-0"},
		},
		{
			name: "node with too many pods",
			story: func(t *tale) {
				for i := range 5 {
					pod := newPod(podOptions{name: fmt.Sprintf("p%03d", i), cpu: "1"})
					pod.Spec.NodeName = "node-0"
					t.tell(pod)
				}
			},
			want: []string{"node-0 has 4 of cpu, and its pods ask for 5", "at rest: node node-0 has 4 of cpu"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			story := newTale()
			tc.story(story)
			found := append(story.j.findings, story.j.atRest()...)
			if len(found) != len(tc.want) {
				t.Errorf("found %d, want %d", len(found), len(tc.want))
			}
			for i, f := range found {
				if i >= len(tc.want) || !strings.Contains(f.text, tc.want[i]) {
					t.Errorf("finding %d: %s", i, f.text)
				}
			}
		})
	}
}

// What fits in what is left.
func TestRoom(t *testing.T) {
	nodes := func(gpus ...int64) *room {
		r := &room{pinned: map[string]int{}, unallocated: map[string]int64{}}
		for _, n := range gpus {
			r.nodes = append(r.nodes, nodeRoom{gpus: n, cpu: 4000, pods: 10})
		}
		return r
	}
	withClaim := func(claim string, gpus ...int64) []need {
		var needs []need
		for _, n := range gpus {
			needs = append(needs, need{gpus: n, cpu: 100, claim: claim})
		}
		return needs
	}
	gpus := func(list ...int64) []need { return withClaim("", list...) }
	shared := nodes(2, 4)
	shared.unallocated["c"] = 2
	pinned := nodes(2, 4)
	pinned.pinned["c"] = 0
	for _, tc := range []struct {
		name  string
		room  *room
		needs []need
		want  bool
	}{
		{"nothing", nodes(), nil, true},
		{"exactly", nodes(8, 4, 4), gpus(4, 4, 4, 2, 1, 1), true},
		{"one too many", nodes(8, 4, 4), gpus(4, 4, 4, 2, 1, 1, 1), false},
		{"sum fits, pieces do not", nodes(6, 2, 2, 2), gpus(4, 4, 4), false},
		{"cpu", nodes(8), []need{{cpu: 3000}, {cpu: 3000}}, false},
		{"needs backtracking", nodes(5, 4), gpus(3, 2, 2, 2), true},
		{"one claim for all on one node", shared, withClaim("c", 1, 1), true},
		{"one claim for all, no node for all", shared, withClaim("c", 2, 1), false},
		{"claim that is allocated", pinned, withClaim("c", 1, 1), true},
		{"claim that is allocated, no room there", pinned, withClaim("c", 1, 2), false},
		{"claim that does not exist", nodes(8), []need{{hopeless: true}}, false},
	} {
		if got := tc.room.fits(tc.needs); got != tc.want {
			t.Errorf("%s: fits is %t", tc.name, got)
		}
	}
}

func TestAlarm(t *testing.T) {
	kill := time.Date(time.Now().Year(), 11, 29, 17, 38, 50, 0, time.Local)
	const forbidden = `E1129 17:38:57.123456   1 reflector.go:1] pods is forbidden: User "x" cannot list`
	for _, tc := range []struct {
		line string
		down []span
		want bool
	}{
		{line: "panic: runtime error", want: true},
		{line: "WARNING: DATA RACE", want: true},
		{line: "I1129 17:38:57.123456   1 bind.go:65] Bind failed", want: false},
		{line: forbidden, want: true},
		{line: forbidden, down: []span{{kill, kill.Add(5 * time.Second)}}, want: false},
		{line: forbidden, down: []span{{kill.Add(-time.Minute), kill.Add(-50 * time.Second)}}, want: true},
	} {
		at, _ := logTime(tc.line)
		if got := alarm(tc.line, at, tc.down); got != tc.want {
			t.Errorf("alarm(%q) is %t", tc.line, got)
		}
	}
}

// A component that has logged something is busy until it has been silent for a while.
func TestBusy(t *testing.T) {
	log := &logReader{file: filepath.Join(t.TempDir(), "log")}
	if err := os.WriteFile(log.file, []byte("first\nlast\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := log.busy(time.Hour); got != "last" {
		t.Errorf("what keeps it busy is %q", got)
	}
	before := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(log.file, before, before); err != nil {
		t.Fatal(err)
	}
	if got := log.busy(time.Hour); got != "" {
		t.Errorf("it has been silent, and is busy with %q", got)
	}
}
