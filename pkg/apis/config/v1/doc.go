// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the arguments of the plugins PodGang and PodGangResources as
// a person writes them into the pluginConfig of a KubeSchedulerConfiguration of
// version kubescheduler.config.k8s.io/v1, with their defaults.
//
// +kubebuilder:object:generate=true
// +k8s:conversion-gen=github.com/podgang/podgang-scheduler/pkg/apis/config
// +k8s:defaulter-gen=TypeMeta
// +groupName=kubescheduler.config.k8s.io
package v1
