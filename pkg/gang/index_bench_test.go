// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgang/podgang-scheduler/pkg/apis/scheduler/v1alpha1"
)

// benchShapes are gangs × pods; 3,000 pods each.
var benchShapes = []struct{ gangs, size int }{{1000, 3}, {3, 1000}}

func (s *podStore) fill(pods []*v1.Pod) {
	for _, p := range pods {
		s.set(p)
	}
}

func benchLoad(gangs, size int) ([]*v1alpha1.PodGang, []*v1.Pod) {
	var list []*v1alpha1.PodGang
	var pods []*v1.Pod
	for g := range gangs {
		name := fmt.Sprintf("g%d", g)
		pg := &v1alpha1.PodGang{ObjectMeta: metav1.ObjectMeta{
			Namespace: testNamespace, Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(epoch),
		}}
		group := v1alpha1.PodGroup{Name: "w", MinReplicas: int32(size)}
		for i := range size {
			p := pod(fmt.Sprintf("%s-%d", name, i), inGang(name))
			pods = append(pods, p)
			group.PodReferences = append(group.PodReferences, v1alpha1.NamespacedName{Namespace: testNamespace, Name: p.Name})
		}
		pg.Spec.PodGroups = []v1alpha1.PodGroup{group}
		list = append(list, pg)
	}
	return list, pods
}

// benchIndex is an index that knows the gangs and pods of benchLoad.
func benchIndex(b *testing.B, number, size int) (f *fixture, gangs []*v1alpha1.PodGang, pods []*v1.Pod) {
	b.Helper()
	gangs, pods = benchLoad(number, size)
	f = newFixture(b)
	f.store.fill(pods)
	for _, pg := range gangs {
		f.SetGang(pg)
	}
	f.putAll(pods...)
	return f, gangs, pods
}

// A pod's event, in an index of 3,000 pods.
func BenchmarkIndexPodEvent(b *testing.B) {
	for _, shape := range benchShapes {
		b.Run(fmt.Sprintf("gangs=%d/size=%d", shape.gangs, shape.size), func(b *testing.B) {
			f, _, pods := benchIndex(b, shape.gangs, shape.size)
			versions := [2][]*v1.Pod{pods, make([]*v1.Pod, len(pods))}
			for i, p := range pods {
				versions[1][i] = changed(p, gatedBy("wait"))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				f.put(versions[i/len(pods)%2][i%len(pods)])
			}
		})
	}
}

// A gang's event: a PodGang that lists its pods anew.
func BenchmarkIndexGangEvent(b *testing.B) {
	for _, shape := range benchShapes {
		b.Run(fmt.Sprintf("gangs=%d/size=%d", shape.gangs, shape.size), func(b *testing.B) {
			f, gangs, _ := benchIndex(b, shape.gangs, shape.size)
			versions := [2][]*v1alpha1.PodGang{gangs, make([]*v1alpha1.PodGang, len(gangs))}
			for i, pg := range gangs {
				versions[1][i] = pg.DeepCopy()
				versions[1][i].Spec.PodGroups[0].MinReplicas--
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				f.SetGang(versions[(i/len(gangs)+1)%2][i%len(gangs)])
			}
		})
	}
}
