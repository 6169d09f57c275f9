// SPDX-License-Identifier: Apache-2.0

package gangresources

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/ptr"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	"github.com/podgang/podgang-scheduler/pkg/devices"
	"github.com/podgang/podgang-scheduler/pkg/inflight"
)

// Name is the name of the plugin in the registry and in configurations.
const Name = "PodGangResources"

// Plugin is the in-tree DynamicResources plugin with reservations for planned
// members of a gang. A profile enables it instead of DynamicResources.
type Plugin struct {
	// DynamicResources serves every pod in its own scheduling and binding cycle.
	*dynamicresources.DynamicResources

	handle   fwk.Handle
	manager  fwk.SharedDRAManager
	features feature.Features

	// planner is the second instance, for sessions. Scheduling cycle only.
	planner *dynamicresources.DynamicResources
	// view is what planner sees. Scheduling cycle only.
	view *planningManager

	// classifier tells which devices a class means.
	classifier *devices.Classifier
	// seed is for hashes that tell versions apart.
	seed maphash.Seed
	// published is what the last session has read of devices. It belongs to the
	// goroutine of the scheduling cycle.
	published *published
	// counts is what sessions have counted. It belongs to the same goroutine.
	counts countBook
	// hints tell where devices are attached that do not say it.
	hints devices.Hints
	// chooser tells which devices a pod should get.
	chooser *devices.Chooser
	// celCache holds the compiled selectors of claims and classes.
	celCache *cel.Cache
	// filterTimeout bounds the search for devices for one pod on one node; 0 is no
	// limit.
	filterTimeout time.Duration

	// isMember tells whether a pod belongs to a gang; its claims are then looked
	// at by the plan and not before. Set once, before the first pod is queued.
	isMember func(*v1.Pod) bool

	// book knows who holds each device.
	book *deviceBook

	// claimLocks serialises writes to a claim that members of a gang share.
	claimLocks keyedMutex

	// mu guards reservations.
	mu sync.Mutex
	// reservations holds what is reserved for members that are planned and not
	// yet bound or undone, by pod UID.
	reservations map[types.UID]*Reservation
}

var (
	_ fwk.PreEnqueuePlugin  = &Plugin{}
	_ fwk.PreFilterPlugin   = &Plugin{}
	_ fwk.FilterPlugin      = &Plugin{}
	_ fwk.PostFilterPlugin  = &Plugin{}
	_ fwk.ScorePlugin       = &Plugin{}
	_ fwk.ReservePlugin     = &Plugin{}
	_ fwk.PreBindPlugin     = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
	_ fwk.SignPlugin        = &Plugin{}
)

// cachedSelectors is how many compiled selectors are kept.
const cachedSelectors = 100

// New builds the plugin. It fails when the arguments are not
// PodGangResourcesArgs, or when dynamic resource allocation is switched off.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (*Plugin, error) {
	own, ok := args.(*config.PodGangResourcesArgs)
	if !ok {
		return nil, fmt.Errorf("plugin %s: got arguments of type %T, want *PodGangResourcesArgs", Name, args)
	}
	manager := handle.SharedDRAManager()
	if manager == nil {
		return nil, fmt.Errorf("plugin %s needs the feature gate DynamicResourceAllocation", Name)
	}
	handle, err := inflight.Bound(handle)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	celFeatures := cel.Features{
		EnableConsumableCapacity: features.EnableDRAConsumableCapacity,
		EnableListTypeAttributes: features.EnableDRAListTypeAttributes,
	}
	book, hints := newDeviceBook(), hintsOf(own.NUMAHints)
	p := &Plugin{
		book:          book,
		handle:        handle,
		manager:       bookedManager{SharedDRAManager: manager, book: book},
		features:      features,
		classifier:    devices.NewClassifier(celFeatures),
		seed:          maphash.MakeSeed(),
		published:     &published{inventory: devices.NewInventory(nil)},
		hints:         hints,
		chooser:       devices.NewChooser(own.AlignmentAttributes, hints),
		celCache:      cel.NewCache(cachedSelectors, celFeatures),
		filterTimeout: ptr.Deref(own.FilterTimeout, metav1.Duration{}).Duration,
		isMember:      func(*v1.Pod) bool { return false },
		reservations:  make(map[types.UID]*Reservation),
	}
	if err := p.addInstances(ctx, own); err != nil {
		return nil, err
	}
	if err := p.watch(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// addInstances makes the two instances of the in-tree plugin: the one that allocates for
// pods, and the one that plans.
func (p *Plugin) addInstances(ctx context.Context, args *config.PodGangResourcesArgs) (err error) {
	inTreeArgs := &schedulerconfig.DynamicResourcesArgs{
		FilterTimeout:  args.FilterTimeout,
		BindingTimeout: args.BindingTimeout,
	}
	p.DynamicResources, err = newInTree(ctx, inTreeArgs, bookedHandle{Handle: p.handle, manager: p.manager}, p.features)
	if err != nil {
		return err
	}
	// A session bounds the search itself.
	plannerArgs := &schedulerconfig.DynamicResourcesArgs{BindingTimeout: args.BindingTimeout}
	p.view = &planningManager{SharedDRAManager: p.manager, ledger: devices.NewLedger(p.features.EnableDRAConsumableCapacity)}
	p.planner, err = newInTree(ctx, plannerArgs, planningHandle{Handle: p.handle, manager: p.view}, p.features)
	return err
}

// watch keeps the book of devices, and has devices judged ahead.
func (p *Plugin) watch(ctx context.Context) error {
	factory := p.handle.SharedInformerFactory()
	if _, err := factory.Resource().V1().ResourceClaims().Informer().AddEventHandler(p.book.handlers()); err != nil {
		return fmt.Errorf("plugin %s: watch claims: %w", Name, err)
	}
	foresight := newForesight(p.manager, p.classifier.Wanted)
	if err := foresight.watch(factory); err != nil {
		return fmt.Errorf("plugin %s: watch claims, classes and slices: %w", Name, err)
	}
	go foresight.run(ctx)
	return nil
}

func hintsOf(args []config.NUMAHint) devices.Hints {
	hints := make(devices.Hints, len(args))
	for i, hint := range args {
		hints[i] = devices.Hint{Product: hint.ProductName, NUMA: hint.PCIDomains}
	}
	return hints
}

func newInTree(ctx context.Context, args *schedulerconfig.DynamicResourcesArgs, handle fwk.Handle, features feature.Features) (*dynamicresources.DynamicResources, error) {
	plugin, err := dynamicresources.New(ctx, args, handle, features)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: build the in-tree plugin %s: %w", Name, dynamicresources.Name, err)
	}
	inTree, ok := plugin.(*dynamicresources.DynamicResources)
	if !ok {
		return nil, fmt.Errorf("plugin %s: the in-tree plugin %s has type %T", Name, dynamicresources.Name, plugin)
	}
	return inTree, nil
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string {
	return Name
}

// SetMembership installs the function that tells members of gangs from other
// pods. Call it before the scheduler starts.
func (p *Plugin) SetMembership(isMember func(*v1.Pod) bool) {
	p.isMember = isMember
}

// PreEnqueue gates a pod whose claims do not exist yet, as in-tree. A member of
// a gang is let through: whether its claims exist is a question for the plan of
// its gang, which answers for all members with one reason.
func (p *Plugin) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if p.isMember(pod) {
		return nil
	}
	return p.DynamicResources.PreEnqueue(ctx, pod)
}
