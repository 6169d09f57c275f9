// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	configv1 "github.com/podgang/podgang-scheduler/pkg/apis/config/v1"
	"github.com/podgang/podgang-scheduler/pkg/devices"
)

// hgx returns the slices of a machine with 8 GPUs and 8 NICs, one of each on a PCIe
// root, each in another order on each node.
func hgx(node string, seed int) []runtime.Object {
	spec := func(driver string, device func(i int) resourceapi.Device) runtime.Object {
		s := &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver, UID: types.UID(node + "-" + driver), ResourceVersion: "1"},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: driver, NodeName: ptr.To(node),
				Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			},
		}
		for i := range 8 {
			s.Spec.Devices = append(s.Spec.Devices, device((i*(2*seed%8+1)+seed)%8))
		}
		return s
	}
	at := func(i int, numa resourceapi.QualifiedName) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
		return map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"resource.kubernetes.io/pcieRoot": {StringValue: ptr.To(fmt.Sprintf("pci%d", i))},
			numa:                              {IntValue: ptr.To(int64(i / 4))},
			"productName":                     {StringValue: ptr.To("H100")},
		}
	}
	return []runtime.Object{
		spec(driver, func(i int) resourceapi.Device {
			return resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i), Attributes: at(i, "resource.kubernetes.io/numaNode")}
		}),
		spec(nicDriver, func(i int) resourceapi.Device {
			d := resourceapi.Device{Name: fmt.Sprintf("nic-%d", i), Attributes: at(i, "dra.net/numaNode")}
			d.Attributes["dra.net/rdma"] = resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}
			return d
		}),
		makeNode(node),
	}
}

// BenchmarkAllocate allocates 512 pods of 4 GPUs, two on each node.
func BenchmarkAllocate(b *testing.B) {
	const pods, each = 512, 4
	objects := cluster(nil)
	for n := range pods * each / 8 {
		objects = append(objects, hgx(fmt.Sprintf("n%d", n), n)...)
	}
	for i := range pods {
		claim := makeClaim(fmt.Sprintf("c%d", i))
		claim.Spec.Devices.Requests[0].Exactly.Count = each
		objects = append(objects, claim)
	}
	for _, bc := range []struct {
		name string
		near []string
	}{{"first fit", nil}, {"choice", configv1.DefaultAlignmentAttributes()}} {
		b.Run(bc.name, func(b *testing.B) {
			f := newFixture(b, objects...)
			f.plugin.chooser = devices.NewChooser(bc.near, nil)
			b.ReportAllocs()
			for b.Loop() {
				s := f.session()
				for i := range pods {
					f.allocate(s, makePod(fmt.Sprintf("p%d", i), fmt.Sprintf("c%d", i)), fmt.Sprintf("n%d", i*each/8))
				}
			}
		})
	}
}
