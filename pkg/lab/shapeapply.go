// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
)

// applyWorkers is how many objects of a shape are written at once; more does not help
// an API server on a laptop.
const applyWorkers = 16

// TakenNamespace holds the pods and claims of a shape's taken devices.
const TakenNamespace = "shape-taken"

// ApplyShape creates the nodes and devices of a shape. It can be called again, to add
// the nodes of another shape; what exists already is brought to the shape's state.
func (l *Lab) ApplyShape(ctx context.Context, s *shape.Shape) error {
	classes, slices := l.client.ResourceV1().DeviceClasses(), l.client.ResourceV1().ResourceSlices()
	err := forEach(ctx, s.DeviceClasses, func(ctx context.Context, c *resourcev1.DeviceClass) error {
		_, err := createOrUpdate(ctx, c, classes.Create, classes.Update, classes.Get)
		return err
	})
	if err != nil {
		return err
	}
	// Nodes first: a driver's slices belong to their Node object and go when it goes.
	owners := ownerMap{uids: map[string]types.UID{}}
	err = forEach(ctx, s.Nodes, func(ctx context.Context, n *corev1.Node) error { return l.applyNode(ctx, n, &owners) })
	if err != nil {
		return err
	}
	err = forEach(ctx, s.Slices, func(ctx context.Context, slice *resourcev1.ResourceSlice) error {
		slice = slice.DeepCopy()
		slice.OwnerReferences = owners.of(*slice.Spec.NodeName)
		_, err := createOrUpdate(ctx, slice, slices.Create, slices.Update, slices.Get)
		return err
	})
	if err != nil || len(s.Taken) == 0 {
		return err
	}
	return l.applyTaken(ctx, s.Taken)
}

// ownerMap knows the UIDs of the nodes that were created.
type ownerMap struct {
	mu   sync.Mutex // guards uids
	uids map[string]types.UID
}

func (m *ownerMap) add(n *corev1.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uids[n.Name] = n.UID
}

func (m *ownerMap) of(node string) []metav1.OwnerReference {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: m.uids[node], Controller: ptr.To(true)}}
}

// applyNode creates a node with its status, as a kubelet registers it.
func (l *Lab) applyNode(ctx context.Context, n *corev1.Node, owners *ownerMap) error {
	nodes := l.client.CoreV1().Nodes()
	n = n.DeepCopy()
	n.Annotations[FakeNodeAnnotation] = "fake"
	now := metav1.Now()
	for i := range n.Status.Conditions {
		n.Status.Conditions[i].LastHeartbeatTime, n.Status.Conditions[i].LastTransitionTime = now, now
	}
	created, err := createOrUpdate(ctx, n, nodes.Create, nodes.Update, nodes.Get)
	if err != nil {
		return err
	}
	owners.add(created)
	// An update leaves the status alone.
	if equality.Semantic.DeepEqual(created.Status.Allocatable, n.Status.Allocatable) {
		return nil
	}
	created.Status = n.Status
	if _, err := nodes.UpdateStatus(ctx, created, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("cannot write the status of node %s: %w", n.Name, err)
	}
	return nil
}

func forEach[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(applyWorkers)
	for _, item := range items {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return do(ctx, item)
		})
	}
	return g.Wait()
}

type object interface {
	metav1.Object
	runtime.Object
}

// createOrUpdate creates the object, or replaces the one of that name.
func createOrUpdate[T object](ctx context.Context, obj T,
	create func(context.Context, T, metav1.CreateOptions) (T, error),
	update func(context.Context, T, metav1.UpdateOptions) (T, error),
	get func(context.Context, string, metav1.GetOptions) (T, error),
) (T, error) {
	got, err := create(ctx, obj, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		var existing T
		if existing, err = get(ctx, obj.GetName(), metav1.GetOptions{}); err == nil {
			replacement := obj.DeepCopyObject().(T)
			replacement.SetResourceVersion(existing.GetResourceVersion())
			got, err = update(ctx, replacement, metav1.UpdateOptions{FieldManager: fieldManager})
		}
	}
	if err != nil {
		return got, fmt.Errorf("cannot create %T %s: %w", obj, obj.GetName(), err)
	}
	return got, nil
}

// applyTaken makes the pods that hold devices from the start, in the state in which a
// scheduler leaves them: bound, the claim allocated and reserved.
func (l *Lab) applyTaken(ctx context.Context, taken []shape.Taken) error {
	namespaces := l.client.CoreV1().Namespaces()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: TakenNamespace}}
	if _, err := createOrUpdate(ctx, ns, namespaces.Create, namespaces.Update, namespaces.Get); err != nil {
		return err
	}
	if err := l.waitForServiceAccount(ctx, TakenNamespace); err != nil {
		return err
	}
	return forEach(ctx, taken, l.applyOneTaken)
}

func (l *Lab) applyOneTaken(ctx context.Context, t shape.Taken) error {
	claims := l.client.ResourceV1().ResourceClaims(TakenNamespace)
	claim, pod := takenObjects(t)
	created, err := claims.Create(ctx, claim, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot create the claim %s/%s: %w", TakenNamespace, t.Name, err)
	}
	createdPod, err := l.client.CoreV1().Pods(TakenNamespace).Create(ctx, pod, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("cannot create the pod %s/%s: %w", TakenNamespace, t.Name, err)
	}
	created.Status.Allocation = takenAllocation(t)
	created.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: createdPod.Name, UID: createdPod.UID}}
	if _, err := claims.UpdateStatus(ctx, created, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("cannot allocate the claim %s/%s: %w", TakenNamespace, t.Name, err)
	}
	return nil
}

const takenRequest = "devices"

func takenObjects(t shape.Taken) (*resourcev1.ResourceClaim, *corev1.Pod) {
	meta := metav1.ObjectMeta{Name: t.Name, Namespace: TakenNamespace}
	claim := &resourcev1.ResourceClaim{ObjectMeta: *meta.DeepCopy(), Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Requests: []resourcev1.DeviceRequest{{Name: takenRequest, Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: t.DeviceClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(len(t.Devices)),
		}}},
	}}}
	claim.Finalizers = []string{resourcev1.Finalizer}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		NodeName:       t.Node,
		Containers:     []corev1.Container{{Name: "main", Image: "pause", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: takenRequest}}}}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: takenRequest, ResourceClaimName: &t.Name}},
		Tolerations:    []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}}
	return claim, pod
}

func takenAllocation(t shape.Taken) *resourcev1.AllocationResult {
	result := &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{t.Node}}},
	}}}}
	for _, d := range t.Devices {
		result.Devices.Results = append(result.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: takenRequest, Driver: t.Driver, Pool: t.Node, Device: d})
	}
	return result
}
