// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedconfigv1 "k8s.io/kube-scheduler/config/v1"
	intreev1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/utils/ptr"
)

// DefaultPermitTimeout is the default of PodGangArgs.PermitTimeout.
const DefaultPermitTimeout = 30 * time.Second

// DefaultSearchBudget is the default of PodGangArgs.SearchBudget.
const DefaultSearchBudget = 10000

// DefaultAlignmentAttributes returns the default of
// PodGangResourcesArgs.AlignmentAttributes.
func DefaultAlignmentAttributes() []string {
	return []string{"resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"}
}

// SetDefaults_PodGangArgs fills the fields that were left out.
func SetDefaults_PodGangArgs(obj *PodGangArgs) { //nolint:revive // defaulter-gen finds the function by this name
	if obj.PermitTimeout == nil {
		obj.PermitTimeout = &metav1.Duration{Duration: DefaultPermitTimeout}
	}
	if obj.StatusPolicy == "" {
		obj.StatusPolicy = StatusPolicyFull
	}
	if obj.SearchBudget == nil {
		obj.SearchBudget = ptr.To[int32](DefaultSearchBudget)
	}
}

// SetDefaults_PodGangResourcesArgs fills the fields that were left out, timeouts
// as the scheduler does for its own DynamicResources plugin: one stays unset while
// its feature gate is off.
func SetDefaults_PodGangResourcesArgs(obj *PodGangResourcesArgs) { //nolint:revive // defaulter-gen finds the function by this name
	inTree := schedconfigv1.DynamicResourcesArgs{
		FilterTimeout:  obj.FilterTimeout,
		BindingTimeout: obj.BindingTimeout,
	}
	intreev1.SetDefaults_DynamicResourcesArgs(&inTree)
	obj.FilterTimeout = inTree.FilterTimeout
	obj.BindingTimeout = inTree.BindingTimeout
	if obj.AlignmentAttributes == nil {
		obj.AlignmentAttributes = DefaultAlignmentAttributes()
	}
}
