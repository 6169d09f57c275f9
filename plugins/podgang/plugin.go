// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corelisters "k8s.io/client-go/listers/core/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/apis/config/validation"
	"github.com/podgang/podgang-scheduler/pkg/gang"
	"github.com/podgang/podgang-scheduler/pkg/inflight"
	"github.com/podgang/podgang-scheduler/pkg/report"
	"github.com/podgang/podgang-scheduler/plugins/gangresources"
)

// Name is the name of the plugin in the registry and in configurations.
const Name = "PodGang"

// Plugin schedules the pods of a PodGang together or not at all.
type Plugin struct {
	args    *config.PodGangArgs
	handle  fwk.Handle
	index   *gang.Index
	reports *report.Reporter
	// reclaims clears claims that a dead attempt has left allocated.
	reclaims *reclaimer
	// waits remembers why gangs did not fit, for the queueing hints.
	waits *waitBook
	// bystanders remembers other pods that were refused meanwhile.
	bystanders *bystanderBook
	// turns knows which gangs have been woken, and who has given way to them.
	turns *turnBook
	// joins remembers why members that are placed alone did not fit, by pod.
	joins *waitBook
	// bindings knows the order of topology levels.
	bindings *bindingBook
	// landscape, screens, keys and bests are for the scheduling cycle's goroutine alone.
	landscape *landscape
	screens   *screenBook
	keys      *keyBook
	bests     *bests
	// scratch is the memory of the plan that is being made, in the same goroutine.
	scratch scratch
	// extras knows since when extras have been giving way to floors.
	extras *extraBook
	// keeps knows which gangs have been refused for how long, and what is kept for one.
	keeps *keepBook

	pods            corelisters.PodLister
	priorityClasses schedulinglisters.PriorityClassLister
	binder          fwk.BindPlugin

	// idle is set when the profile uses the plugin for the order of its queue alone.
	idle atomic.Bool

	// findResources returns the plugin PodGangResources of the same profile. It is
	// resolved when the profile is complete.
	findResources func() (*gangresources.Plugin, error)
	resources     *gangresources.Plugin
}

var (
	_ fwk.QueueSortPlugin   = &Plugin{}
	_ fwk.PreFilterPlugin   = &Plugin{}
	_ fwk.FilterPlugin      = &Plugin{}
	_ fwk.PostFilterPlugin  = &Plugin{}
	_ fwk.ReservePlugin     = &Plugin{}
	_ fwk.PermitPlugin      = &Plugin{}
	_ fwk.BindPlugin        = &Plugin{}
	_ fwk.PostBindPlugin    = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
	_ fwk.SignPlugin        = &Plugin{}
)

// New builds the plugin and starts to watch PodGangs. It does not wait for their
// CRD: where it is missing, other pods are scheduled, and gangs as soon as it is
// installed. findResources is called once, when all plugins of the profile exist.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle, findResources func() (*gangresources.Plugin, error)) (*Plugin, error) {
	own, ok := args.(*config.PodGangArgs)
	if !ok {
		return nil, fmt.Errorf("plugin %s: got arguments of type %T, want *PodGangArgs", Name, args)
	}
	if err := validation.ValidatePodGangArgs(field.NewPath("podGangArgs"), own); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	if _, ok := handle.(profile); !ok {
		return nil, fmt.Errorf("plugin %s: the handle of type %T cannot run PreFilter plugins", Name, handle)
	}
	bounded, err := inflight.Bound(handle)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	binder, err := defaultbinder.New(ctx, nil, bounded)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: build %s: %w", Name, defaultbinder.Name, err)
	}
	informers := handle.SharedInformerFactory()
	pods := informers.Core().V1().Pods().Lister()
	pl := &Plugin{
		args:            own,
		handle:          handle,
		waits:           newWaitBook(),
		bystanders:      newBystanderBook(),
		turns:           newTurnBook(),
		extras:          newExtraBook(),
		keeps:           newKeepBook(own.StarvationAfter.Duration),
		joins:           newWaitBook(),
		bindings:        newBindingBook(own.TopologyLevels),
		landscape:       newLandscape(own),
		screens:         newScreenBook(),
		keys:            newKeyBook(),
		bests:           newBests(),
		pods:            pods,
		priorityClasses: informers.Scheduling().V1().PriorityClasses().Lister(),
		binder:          binder.(fwk.BindPlugin),
		findResources:   findResources,
	}
	pl.index = gang.NewIndex(handle.ProfileName(), pl.getPod)
	pl.reclaims = newReclaimer(pl)
	if err := pl.watch(ctx); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	return pl, nil
}

// Name returns the name of the plugin.
func (pl *Plugin) Name() string {
	return Name
}

// SignPod keeps members of gangs out of batches of like pods: each has a node of
// its own. Pods in no gang are batched as in-tree, but not while nodes are closed to
// some of them.
func (pl *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if pl.index.IsMember(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of a gang are not signable")
	}
	if pl.keeps.current.Load() != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "nodes are kept for a gang")
	}
	return nil, nil
}

// getPod returns a pod from the informer's store, or nil.
func (pl *Plugin) getPod(namespace, name string) *v1.Pod {
	pod, err := pl.pods.Pods(namespace).Get(name)
	if err != nil {
		return nil
	}
	return pod
}
