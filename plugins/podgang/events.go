// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/podgang/podgang-scheduler/pkg/gang"
)

// profile is what the plugin needs of its profile beyond fwk.Handle. The
// scheduler's framework implements it.
type profile interface {
	fwk.Handle
	RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
	EnqueueExtensions() []fwk.EnqueueExtensions
	ListPlugins() *schedulerconfig.Plugins
}

// EventsToRegister returns the events of all other plugins of the profile. A
// gang that did not fit is tried again when the plugin that refused one of its
// members takes an event for a reason to try that member again, and not for
// other events. Changes of the gang itself come from the index, not from here.
//
// The scheduler calls this once, when the profile is complete; so this is also
// where a profile that cannot work is refused.
func (pl *Plugin) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	profile := pl.handle.(profile)
	if sortsOnly(profile.ListPlugins()) {
		// All profiles of a process share one queue order; this one wants no more.
		pl.idle.Store(true)
		return nil, nil
	}
	if err := checkProfile(profile); err != nil {
		return nil, err
	}
	resources, err := pl.findResources()
	if err != nil {
		return nil, err
	}
	pl.resources = resources
	resources.SetMembership(pl.index.IsMember)
	pl.screens.configure(profile.ListPlugins())

	// Labels of nodes are where topology comes from.
	all := []fwk.ClusterEventWithHint{{
		Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel},
		QueueingHintFn: pl.hintFor(Name, nil),
	}}
	for _, other := range profile.EnqueueExtensions() {
		if other.Name() == Name {
			continue
		}
		events, err := other.EventsToRegister(ctx)
		if err != nil {
			return nil, fmt.Errorf("events of plugin %s: %w", other.Name(), err)
		}
		for _, event := range events {
			own := fwk.ClusterEventWithHint{
				Event:          event.Event,
				QueueingHintFn: pl.hintFor(other.Name(), event.QueueingHintFn),
			}
			if event.PreQueueingHintFn != nil {
				own.PreQueueingHintFn = pl.withLeaders(event.PreQueueingHintFn)
			}
			all = append(all, own)
		}
	}
	return all, nil
}

// withLeaders returns the hint that names the pods that another plugin's names, those
// that use a claim, and the leaders of their gangs: a leader waits on behalf of all
// members. Without it the queue would look at every pod that waits whenever a claim is
// written.
func (pl *Plugin) withLeaders(ask fwk.PreQueueingHintFn) fwk.PreQueueingHintFn {
	return func(logger klog.Logger, oldObj, newObj any) (fwk.PreQueueingHintResult, error) {
		result, err := ask(logger, oldObj, newObj)
		if err != nil || result.AllPods {
			return result, err
		}
		for _, name := range slices.Clone(result.Pods) {
			pod := pl.getPod(name.Namespace, name.Name)
			if pod == nil {
				continue
			}
			if key, member := pl.index.GangOf(pod); member {
				if leader := pl.waits.leader(key); leader != nil {
					result.Pods = append(result.Pods, types.NamespacedName{Namespace: leader.Namespace, Name: leader.Name})
				}
			}
		}
		return result, nil
	}
}

// hintFor returns the hint that asks another plugin's hint on behalf of a gang.
func (pl *Plugin) hintFor(plugin string, ask fwk.QueueingHintFn) fwk.QueueingHintFn {
	return func(logger klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		key, member := pl.index.GangOf(pod)
		if !member {
			return fwk.QueueSkip, nil
		}
		refusals := pl.waits.blockedBy(key, pod.UID, plugin)
		leads := len(refusals) > 0
		if !leads {
			refusals = pl.joins.blockedBy(gang.Key{Namespace: pod.Namespace, Name: pod.Name}, pod.UID, plugin)
		}
		for _, refused := range refusals {
			hint, err := fwk.Queue, error(nil)
			if ask != nil {
				hint, err = ask(logger, refused, oldObj, newObj)
			}
			if err != nil || hint == fwk.Queue {
				if leads {
					pl.turns.wake(key, pod)
				}
				return fwk.Queue, err
			}
		}
		return fwk.QueueSkip, nil
	}
}

// sortsOnly reports whether the profile enables the plugin for the order of the
// queue and for nothing else.
func sortsOnly(plugins *schedulerconfig.Plugins) bool {
	for _, set := range []schedulerconfig.PluginSet{plugins.PreFilter, plugins.PostFilter, plugins.Reserve, plugins.Permit, plugins.Bind, plugins.PostBind} {
		if slices.ContainsFunc(set.Enabled, func(p schedulerconfig.Plugin) bool { return p.Name == Name }) {
			return false
		}
	}
	return true
}

// checkProfile refuses a profile that enables DynamicResources beside the plugin
// that takes its place, that lets another plugin come before this one where the
// order matters, or that leaves binding or queueing of members to others.
func checkProfile(own profile) error {
	plugins := own.ListPlugins()
	for _, p := range plugins.PreFilter.Enabled {
		if p.Name == dynamicresources.Name {
			return fmt.Errorf("profile %s enables both %s and PodGangResources: disable %s under plugins.multiPoint", own.ProfileName(), dynamicresources.Name, dynamicresources.Name)
		}
	}
	if !slices.ContainsFunc(plugins.PreEnqueue.Enabled, func(p schedulerconfig.Plugin) bool { return p.Name == GateName }) {
		return fmt.Errorf("profile %s enables plugin %s without %s: enable both under plugins.multiPoint", own.ProfileName(), Name, GateName)
	}
	for _, extender := range own.Extenders() {
		if extender.IsBinder() {
			return fmt.Errorf("extender %s binds pods: members of a gang are bound by plugin %s, all or none", extender.Name(), Name)
		}
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		return fmt.Errorf("switch the feature gate %s off: upstream pod groups and plugin %s cannot both decide when a pod is queued", features.GenericWorkload, Name)
	}
	for _, point := range []struct {
		name string
		set  schedulerconfig.PluginSet
	}{
		{"preFilter", plugins.PreFilter},
		{"postFilter", plugins.PostFilter},
		{"bind", plugins.Bind},
	} {
		if len(point.set.Enabled) == 0 || point.set.Enabled[0].Name != Name {
			return fmt.Errorf("profile %s: plugin %s must come first at %s: enable it under plugins.%s besides plugins.multiPoint", own.ProfileName(), Name, point.name, point.name)
		}
	}
	return nil
}
