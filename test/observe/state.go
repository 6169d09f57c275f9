// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is every object that exists, as the watches have delivered it. The objects are
// shared: read only.
type State struct {
	Signal

	mu      sync.Mutex // guards objects
	objects map[string]metav1.Object
}

// NewState returns a state without objects.
func NewState() *State {
	return &State{objects: map[string]metav1.Object{}}
}

// Key names an object of any kind.
func Key(object metav1.Object) string {
	return key(object, object.GetNamespace(), object.GetName())
}

func key(kind metav1.Object, namespace, name string) string {
	return fmt.Sprintf("%T/%s/%s", kind, namespace, name)
}

// Apply takes over a change, and wakes those who wait.
func (s *State) Apply(c Change) {
	s.mu.Lock()
	if c.Deleted {
		delete(s.objects, Key(c.Object))
	} else {
		s.objects[Key(c.Object)] = c.Object
	}
	s.mu.Unlock()
	s.Raise()
}

// Find returns the object of a key, nil if there is none.
func (s *State) Find(key string) metav1.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[key]
}

// All returns the objects of all kinds, by key.
func (s *State) All() map[string]metav1.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

// Get returns the object of a kind and name, nil if there is none.
func Get[T interface {
	*O
	metav1.Object
}, O any](s *State, namespace, name string) T {
	object, _ := s.Find(key(T(nil), namespace, name)).(T)
	return object
}

// List returns the objects of a kind in a namespace ("" for all), by name.
func List[T metav1.Object](s *State, namespace string) []T {
	var objects []T
	s.mu.Lock()
	for _, object := range s.objects {
		if o, ok := object.(T); ok && (namespace == "" || o.GetNamespace() == namespace) {
			objects = append(objects, o)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetNamespace(), b.GetNamespace()))
	})
	return objects
}
