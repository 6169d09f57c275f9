// SPDX-License-Identifier: Apache-2.0

// Package config holds the arguments of the plugins PodGang and
// PodGangResources in the form that the plugins get them: complete and
// defaulted. What a person writes into a KubeSchedulerConfiguration is the
// versioned form in package v1, which also documents each field.
//
// +kubebuilder:object:generate=true
// +groupName=kubescheduler.config.k8s.io
package config
