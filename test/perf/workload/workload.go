// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podgang/podgang-scheduler/pkg/lab/shape"
	"github.com/podgang/podgang-scheduler/pkg/lab/shapes"
)

//go:embed data/*.yaml data/shapes/*.yaml
var files embed.FS

// Kind says how a run goes.
type Kind string

const (
	// Drain: the load is created, and the run ends when all that fits is bound.
	Drain Kind = "drain"
	// Refuse: a gang that cannot fit is created on a full cluster; the run ends when the
	// scheduler has said so and has tried again a few times.
	Refuse Kind = "refuse"
	// Churn: gangs come and go for a time, with a part of the GPUs in use.
	Churn Kind = "churn"
)

// How a pod asks for its GPUs.
const (
	// ByClaim: one ResourceClaim of the pod's own, from a template.
	ByClaim = "claim"
	// ByPlugin: the extended resource nvidia.com/gpu of a device plugin.
	ByPlugin = "plugin"
)

// Workload is one data file.
type Workload struct {
	// Name is the file's.
	Name string `json:"-"`
	// Description is one line.
	Description string `json:"description"`
	// Kind is Drain when empty.
	Kind Kind `json:"kind,omitempty"`
	// Shape names a shape file beside the workloads, or a shape of the lab.
	Shape string `json:"shape"`
	// Scaled are parameters of the shape that the scale multiplies, such as the number of
	// nodes; Parameters are those that it leaves alone.
	Scaled     map[string]int    `json:"scaled,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
	// Load is what the scheduler under test has to place.
	Load []Batch `json:"load,omitempty"`
	// Churn is given for that kind alone.
	Churn *ChurnSpec `json:"churn,omitempty"`
	// Timeout bounds the part of the run that is measured, on a machine of 2 cores.
	Timeout metav1.Duration `json:"timeout"`
}

// Batch is a number of equal gangs, or of pods outside gangs.
type Batch struct {
	// Name is the prefix of the objects' names.
	Name string `json:"name"`
	// Gangs is how many gangs of Size pods there are. All of a gang is its floor.
	Gangs int `json:"gangs,omitempty"`
	Size  int `json:"size,omitempty"`
	// Pods is how many pods outside gangs there are.
	Pods int `json:"pods,omitempty"`
	// ScaleSize has the scale multiply Size and leave Gangs alone.
	ScaleSize bool `json:"scaleSize,omitempty"`
	// GPUs is how many whole GPUs a pod needs, By how it asks for them.
	GPUs int    `json:"gpus,omitempty"`
	By   string `json:"by,omitempty"`
	// CPU and Memory are what a pod requests besides.
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
	// Required and Preferred are the label keys of the topology domain of each gang.
	Required  string `json:"required,omitempty"`
	Preferred string `json:"preferred,omitempty"`
	// Waits: the gangs do not fit, and no pod of them may be bound.
	Waits bool `json:"waits,omitempty"`
}

// ChurnSpec says how gangs come and go.
type ChurnSpec struct {
	// UsePercent is the part of the GPUs that the gangs which are there ask for.
	UsePercent int `json:"usePercent"`
	// Duration is how long gangs come and go; LongDuration with -long.
	Duration     metav1.Duration `json:"duration"`
	LongDuration metav1.Duration `json:"longDuration"`
	// Interval is the time from one departure to the next. Gangs arrive when there is
	// room for them below UsePercent.
	Interval metav1.Duration `json:"interval"`
	// Mix are the kinds of gangs, drawn with equal chance. Their Gangs is not used.
	Mix []Batch `json:"mix"`
	// Seed of the draw.
	Seed uint64 `json:"seed"`
}

// Names lists the workloads, sorted.
func Names() []string {
	entries, _ := fs.ReadDir(files, "data") // an embedded directory can always be read
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Load reads the workload of that name.
func Load(name string) (*Workload, error) {
	content, err := files.ReadFile(path.Join("data", name+".yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no workload is named %q; there are %s", name, strings.Join(Names(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read workload %s: %w", name, err)
	}
	return parse(name, content)
}

func parse(name string, content []byte) (*Workload, error) {
	w := &Workload{Name: name}
	if err := yaml.UnmarshalStrict(content, w); err != nil {
		return nil, fmt.Errorf("workload %s: %w", name, err)
	}
	if w.Kind == "" {
		w.Kind = Drain
	}
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("workload %s: %w", name, err)
	}
	return w, nil
}

func (w *Workload) check() error {
	switch {
	case w.Shape == "":
		return errors.New("shape is needed")
	case w.Timeout.Duration <= 0:
		return errors.New("timeout is needed")
	case !slices.Contains([]Kind{Drain, Refuse, Churn}, w.Kind):
		return fmt.Errorf("unknown kind %q", w.Kind)
	case (w.Kind == Churn) != (w.Churn != nil):
		return fmt.Errorf("churn is to be given with kind %s, and only then", Churn)
	case w.Kind == Churn && (len(w.Load) > 0 || len(w.Churn.Mix) == 0 || w.Churn.Interval.Duration <= 0):
		return errors.New("churn needs a mix and an interval, and has no load")
	case w.Kind != Churn && len(w.Load) == 0:
		return errors.New("load is needed")
	}
	batches := w.Load
	if w.Churn != nil {
		batches = w.Churn.Mix
	}
	for _, b := range batches {
		if err := b.check(w.Kind); err != nil {
			return fmt.Errorf("batch %q: %w", b.Name, err)
		}
	}
	return nil
}

func (b *Batch) check(kind Kind) error {
	switch {
	case b.Name == "":
		return errors.New("a name is needed")
	case b.Pods > 0 && (b.Gangs > 0 || b.Size > 0 || b.Waits):
		return errors.New("give either pods, or gangs and size")
	case b.Pods == 0 && (b.Size == 0 || b.Gangs == 0 && kind != Churn):
		return errors.New("pods, or gangs and size, are needed")
	case b.GPUs > 0 && b.By != ByClaim && b.By != ByPlugin:
		return fmt.Errorf("by is to be %s or %s", ByClaim, ByPlugin)
	}
	for _, q := range []string{b.CPU, b.Memory} {
		if _, err := resource.ParseQuantity(q); q != "" && err != nil {
			return fmt.Errorf("%q: %w", q, err)
		}
	}
	return nil
}

// scaled multiplies a count, rounding down, to at least 1.
func scaled(n int, scale float64) int { return max(1, int(math.Floor(float64(n)*scale+1e-9))) }

// Cluster generates the workload's nodes and devices at the scale.
func (w *Workload) Cluster(scale float64) (*shape.Shape, error) {
	parameters := maps.Clone(w.Parameters)
	if parameters == nil {
		parameters = map[string]string{}
	}
	for name, n := range w.Scaled {
		parameters[name] = strconv.Itoa(scaled(n, scale))
	}
	content, err := files.ReadFile(path.Join("data", "shapes", w.Shape+".yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return shapes.Load(w.Shape, parameters)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the shape %s: %w", w.Shape, err)
	}
	return shapes.Parse(w.Shape, bytes.Clone(content), parameters)
}

// TimeoutAt is the timeout at the scale, and at least half a minute.
func (w *Workload) TimeoutAt(scale float64) time.Duration {
	return max(30*time.Second, time.Duration(float64(w.Timeout.Duration)*min(1, scale)))
}
