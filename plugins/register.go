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

// Options returns the options that add the plugins PodGang and PodGangResources
// to app.NewSchedulerCommand.
func Options() []app.Option {
	shared := &profiles{resources: make(map[string]*gangresources.Plugin)}
	return []app.Option{
		app.WithPlugin(gangresources.Name, shared.newResources),
		app.WithPlugin(podgang.Name, shared.newPodGang),
	}
}

// profiles connects the two plugins of each profile: PodGang plans with the
// devices that PodGangResources reserves. The framework builds plugins in no
// particular order.
type profiles struct {
	// mu guards resources.
	mu sync.Mutex
	// resources holds the plugin PodGangResources of each profile, by its name.
	resources map[string]*gangresources.Plugin
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
	return podgang.New(ctx, args, handle, func() (*gangresources.Plugin, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if plugin := p.resources[handle.ProfileName()]; plugin != nil {
			return plugin, nil
		}
		return nil, fmt.Errorf("profile %s enables plugin %s without %s: enable both under plugins.multiPoint", handle.ProfileName(), podgang.Name, gangresources.Name)
	})
}
