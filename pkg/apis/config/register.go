// SPDX-License-Identifier: Apache-2.0

package config

import (
	"k8s.io/apimachinery/pkg/runtime"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// SchemeGroupVersion is that of the scheduler's own configuration. The arguments
// of plugins have to be in this group: a KubeSchedulerConfiguration decodes the
// arguments of plugin X as kind XArgs of its own group and version.
var SchemeGroupVersion = schedconfig.SchemeGroupVersion

var (
	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the internal types with a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &PodGangArgs{}, &PodGangResourcesArgs{})
	return nil
}
