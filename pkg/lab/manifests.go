// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podgang/podgang-scheduler/manifests"
)

// installation is what the project's manifests say about running the scheduler.
type installation struct {
	namespace      string
	serviceAccount string
	args           []string // of the scheduler's container
	config         []byte   // its KubeSchedulerConfiguration
}

// configKey is the key of the configuration in the manifests' ConfigMap.
const configKey = "config.yaml"

// install applies the manifests except the Deployment, which no kubelet could run:
// the lab runs the scheduler as a process instead, as the Deployment describes.
func (l *Lab) install(ctx context.Context) (*installation, error) {
	objs, err := manifests.Render(manifests.Standalone)
	if err != nil {
		return nil, fmt.Errorf("cannot render the manifests: %w", err)
	}
	var inst *installation
	var configs []*unstructured.Unstructured
	for _, obj := range objs {
		switch obj.GetKind() {
		case "Deployment":
			if inst, err = readDeployment(obj); err != nil {
				return nil, err
			}
			continue
		case "ConfigMap":
			configs = append(configs, obj)
		}
		if l.opts.EditManifest != nil && !l.opts.EditManifest(obj) {
			continue
		}
		if err := l.Apply(ctx, obj); err != nil {
			return nil, err
		}
	}
	if inst == nil {
		return nil, fmt.Errorf("the manifests hold no Deployment of the scheduler")
	}
	for _, cm := range configs {
		if data, ok, _ := unstructured.NestedString(cm.Object, "data", configKey); ok && cm.GetNamespace() == inst.namespace {
			inst.config = []byte(data)
		}
	}
	if inst.config == nil {
		return nil, fmt.Errorf("the manifests hold no ConfigMap with the key %s in namespace %s", configKey, inst.namespace)
	}
	return inst, nil
}

func readDeployment(obj *unstructured.Unstructured) (*installation, error) {
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &d); err != nil {
		return nil, fmt.Errorf("cannot read the manifests' %s: %w", Describe(obj), err)
	}
	pod := d.Spec.Template.Spec
	if pod.ServiceAccountName == "" || len(pod.Containers) != 1 {
		return nil, fmt.Errorf("the manifests' %s needs a serviceAccountName and one container", Describe(obj))
	}
	return &installation{namespace: d.Namespace, serviceAccount: pod.ServiceAccountName, args: commandLine(pod.Containers[0])}, nil
}

// commandLine is the arguments of the container; with a command, its first word is the program.
func commandLine(c corev1.Container) []string {
	if len(c.Command) > 0 {
		return append(append([]string{}, c.Command[1:]...), c.Args...)
	}
	return c.Args
}
