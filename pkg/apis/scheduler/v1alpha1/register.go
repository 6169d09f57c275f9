// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of PodGang.
const GroupName = "scheduler.grove.io"

var (
	// SchemeGroupVersion is the API group and version of this package.
	SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	// PodGangKind is the kind of a PodGang object.
	PodGangKind = SchemeGroupVersion.WithKind("PodGang")

	// PodGangResource is the resource that the API server serves PodGang
	// objects under.
	PodGangResource = SchemeGroupVersion.WithResource("podgangs")

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers PodGang and PodGangList with a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &PodGang{}, &PodGangList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
