// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the Go types of Grove's PodGang API, group
// scheduler.grove.io, version v1alpha1, as a scheduler sees them.
//
// Grove owns this API. The types follow the schema of the CRD that Grove
// publishes (github.com/ai-dynamo/grove,
// scheduler/api/core/v1alpha1/crds/scheduler.grove.io_podgangs.yaml) field by
// field, so that an object written by any Grove version up to v0.1.0-alpha.12
// passes through them unchanged. Fields of later Grove versions are not known
// here and would be lost: write with patches that hold only the keys to change,
// never with Update.
//
// The manifest in manifests/crd is generated from these types. It is for
// clusters without Grove; where Grove is installed, its own CRD is used.
//
// +kubebuilder:object:generate=true
// +groupName=scheduler.grove.io
package v1alpha1
