// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/podgang/podgang-scheduler/plugins/gangresources"
	"github.com/podgang/podgang-scheduler/plugins/podgang"
)

// Options returns the options that add the plugins PodGang, PodGangGate and
// PodGangResources to app.Setup.
func Options() []app.Option {
	shared := &profiles{
		gangs:     make(map[string]*podgang.Plugin),
		resources: make(map[string]*gangresources.Plugin),
	}
	return []app.Option{
		app.WithPlugin(podgang.GateName, shared.newGate),
		app.WithPlugin(gangresources.Name, shared.newResources),
		app.WithPlugin(podgang.Name, shared.newPodGang),
	}
}

// profiles connects the plugins of each profile: PodGang plans with the devices
// that PodGangResources reserves, and PodGangGate knows what PodGang knows. The
// framework builds plugins in no particular order.
type profiles struct {
	// mu guards the maps, which hold the plugins by the name of their profile.
	mu        sync.Mutex
	gangs     map[string]*podgang.Plugin
	resources map[string]*gangresources.Plugin
}

func (p *profiles) newGate(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return podgang.NewGate(func() (*podgang.Plugin, error) {
		return find(p, p.gangs, handle.ProfileName(), podgang.GateName, podgang.Name)
	}), nil
}

func (p *profiles) newResources(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	plugin, err := gangresources.New(ctx, args, handle)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resources[handle.ProfileName()] = plugin
	return plugin, nil
}

func (p *profiles) newPodGang(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	plugin, err := podgang.New(ctx, args, handle, func() (*gangresources.Plugin, error) {
		return find(p, p.resources, handle.ProfileName(), podgang.Name, gangresources.Name)
	})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gangs[handle.ProfileName()] = plugin
	return plugin, nil
}

// find returns the plugin of a profile that another plugin needs.
func find[T any](p *profiles, plugins map[string]*T, profile, name, needed string) (*T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if plugin := plugins[profile]; plugin != nil {
		return plugin, nil
	}
	return nil, fmt.Errorf("profile %s enables plugin %s without %s: enable both under plugins.multiPoint", profile, name, needed)
}
