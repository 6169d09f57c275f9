// SPDX-License-Identifier: Apache-2.0

// Package scheme makes the arguments of the plugins PodGang and
// PodGangResources known to the scheduler's own configuration scheme. Import it
// for that effect wherever a KubeSchedulerConfiguration is read: the arguments
// are then decoded strictly (an unknown field is an error), defaulted and handed
// to the plugins as the internal types of package config.
package scheme

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	intreescheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	intreev1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
	configv1 "github.com/podgang/podgang-scheduler/pkg/apis/config/v1"
)

// The scheduler decodes a configuration with one scheme, and defaults and
// converts the arguments in it with another.
func init() {
	AddToScheme(intreescheme.Scheme)
	AddToScheme(intreev1.GetPluginArgConversionScheme())
}

// AddToScheme registers the internal and the versioned arguments.
func AddToScheme(scheme *runtime.Scheme) {
	utilruntime.Must(config.AddToScheme(scheme))
	utilruntime.Must(configv1.AddToScheme(scheme))
}
