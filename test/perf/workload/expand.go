// SPDX-License-Identifier: Apache-2.0

package workload

import "fmt"

// Gang is one gang; all its pods are its floor.
type Gang struct {
	Name string
	// Required and Preferred are label keys of a topology domain; empty for none.
	Required, Preferred string
	// Waits: no pod of the gang may be bound.
	Waits bool
	Pods  []Pod
}

// Pod is one pod, of a gang or of none.
type Pod struct {
	Name string
	// Gang is the gang's name; empty for a pod outside gangs.
	Gang string
	// Waits: the pod may not be bound.
	Waits bool
	Needs Needs
}

// Needs is what a pod asks for.
type Needs struct {
	GPUs        int
	By          string
	CPU, Memory string
}

// Set is a list of gangs and of pods outside gangs.
type Set struct {
	Gangs   []Gang
	Singles []Pod
}

// Pods are all pods, gang by gang, then those outside gangs.
func (s *Set) Pods() []Pod {
	var pods []Pod
	for i := range s.Gangs {
		pods = append(pods, s.Gangs[i].Pods...)
	}
	return append(pods, s.Singles...)
}

// ToBind counts the pods that are to be bound.
func (s *Set) ToBind() int {
	n := 0
	for _, p := range s.Pods() {
		if !p.Waits {
			n++
		}
	}
	return n
}

// Expand lists the gangs and pods of batches at the scale.
func Expand(batches []Batch, scale float64) Set {
	var set Set
	for i := range batches {
		b := &batches[i]
		if b.Pods > 0 {
			for n := range scaled(b.Pods, scale) {
				set.Singles = append(set.Singles, Pod{Name: fmt.Sprintf("%s-%d", b.Name, n), Needs: b.needs()})
			}
			continue
		}
		gangs, size := b.Gangs, b.Size
		if b.ScaleSize {
			size = scaled(size, scale)
		} else {
			gangs = scaled(gangs, scale)
		}
		for n := range gangs {
			set.Gangs = append(set.Gangs, b.Gang(n, size))
		}
	}
	return set
}

func (b *Batch) needs() Needs { return Needs{GPUs: b.GPUs, By: b.By, CPU: b.CPU, Memory: b.Memory} }

// Gang is the batch's gang of that number, with so many pods.
func (b *Batch) Gang(n, size int) Gang {
	g := Gang{Name: fmt.Sprintf("%s-%d", b.Name, n), Required: b.Required, Preferred: b.Preferred, Waits: b.Waits}
	for i := range size {
		g.Pods = append(g.Pods, Pod{Name: fmt.Sprintf("%s-%d", g.Name, i), Gang: g.Name, Waits: b.Waits, Needs: b.needs()})
	}
	return g
}
