// SPDX-License-Identifier: Apache-2.0

package result

import (
	"cmp"
	"slices"
	"time"
)

// Modes of a run.
const (
	// Drain: the load exists before the scheduler starts.
	Drain = "drain"
	// Arrival: the scheduler runs when the load is created.
	Arrival = "arrival"
)

// Result is one run. Times are in seconds, memory in bytes.
type Result struct {
	Workload  string  `json:"workload"`
	Scheduler string  `json:"scheduler"`
	Mode      string  `json:"mode"`
	Scale     float64 `json:"scale"`
	Round     int     `json:"round"`
	// Time is when the run began, Build tells builds of the scheduler apart.
	Time  time.Time `json:"time"`
	Build string    `json:"build"`
	// Versions of the scheduler and of what it is compared on.
	Versions Versions `json:"versions"`
	Machine  Machine  `json:"machine"`

	// Finished: all that is to be bound is bound, in time. Error says why not.
	Finished bool   `json:"finished"`
	Error    string `json:"error,omitempty"`
	// Nodes and Gangs of the cluster and the load; Pods that are to be bound, Bound those
	// that were.
	Nodes int `json:"nodes"`
	Gangs int `json:"gangs"`
	Pods  int `json:"pods"`
	Bound int `json:"bound"`

	// Startup is from the start of the scheduler's process until it was ready.
	Startup float64 `json:"startup"`
	// Took is from then (in arrival mode: from the first pod's creation) until the last
	// pod was bound; PodsPerSecond is Bound over Took.
	Took          float64 `json:"took"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	// Waits of gangs; of pods, where the load has no gangs that are to be bound. Waits
	// holds them all, sorted.
	WaitP50 float64   `json:"waitP50"`
	WaitP90 float64   `json:"waitP90"`
	WaitP99 float64   `json:"waitP99"`
	Waits   []float64 `json:"waits,omitempty"`
	// Curve is how many pods were bound by the end of each CurveStep.
	Curve     []int   `json:"curve,omitempty"`
	CurveStep float64 `json:"curveStep,omitempty"`

	// PartialSeconds is the time, summed over gangs, for which some but not all of a
	// gang's floor was bound; StalledSeconds the part of it in which no pod of the gang had
	// been bound for a second.
	PartialSeconds float64 `json:"partialSeconds"`
	StalledSeconds float64 `json:"stalledSeconds"`
	// PartialGangs are partly bound at the end.
	PartialGangs int `json:"partialGangs"`
	// DoublyAllocated devices were given to two claims at a time, or GPUs of a device
	// plugin to more pods than there are.
	DoublyAllocated int `json:"doublyAllocated"`
	// SplitGangs are not in the one domain that they ask for.
	SplitGangs int `json:"splitGangs"`
	// WronglyBound pods were to wait.
	WronglyBound int `json:"wronglyBound"`

	// CPUSeconds and PeakRSS are those of the scheduler's process at the end of the run;
	// 0 for the oracle.
	CPUSeconds float64 `json:"cpuSeconds"`
	PeakRSS    int64   `json:"peakRSS"`
	// Requests to the API server by verb and resource, from the start of the scheduler
	// (of the load, in arrival mode) to the end.
	Requests map[string]int `json:"requests,omitempty"`

	Refusal *Refusal `json:"refusal,omitempty"`
	Churn   *Churn   `json:"churn,omitempty"`
}

// Refusal is measured for a gang that cannot fit.
type Refusal struct {
	// MembersTold is from the creation of the gang's last pod until the last of its pods
	// was told that it is unschedulable, GangTold until the gang was; below 0: never.
	MembersTold float64 `json:"membersTold"`
	GangTold    float64 `json:"gangTold"`
	// Attempts were made afterwards, for changes that could have helped.
	// CPUPerAttempt is the scheduler's CPU time for each, less what it uses idle.
	Attempts      int     `json:"attempts"`
	CPUPerAttempt float64 `json:"cpuPerAttempt"`
}

// Churn is measured when gangs come and go.
type Churn struct {
	// Came and Went count gangs.
	Came int `json:"came"`
	Went int `json:"went"`
	// FreeGPUs at the end; WholeFit is the largest gang of pods with 8 GPUs each that
	// still fits, of the BestFit that would fit if the free GPUs were side by side.
	FreeGPUs int `json:"freeGPUs"`
	WholeFit int `json:"wholeFit"`
	BestFit  int `json:"bestFit"`
}

// Versions of what took part.
type Versions struct {
	Commit     string `json:"commit"`
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
}

// Machine that the run was on.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory"`
	OS     string `json:"os"`
	// Load is the load average of the minute before the run.
	Load float64 `json:"load"`
}

// Total is the time from the start of the scheduler's process to the last binding.
func (r *Result) Total() float64 { return r.Startup + r.Took }

// Key tells what was measured, apart from the round.
type Key struct {
	Workload, Scheduler, Mode string
	Scale                     float64
}

// Key of the result.
func (r *Result) Key() Key { return Key{r.Workload, r.Scheduler, r.Mode, r.Scale} }

// Group sorts results by key; within one, by time.
func Group(results []Result) map[Key][]Result {
	groups := map[Key][]Result{}
	for _, r := range results {
		groups[r.Key()] = append(groups[r.Key()], r)
	}
	for _, group := range groups {
		slices.SortFunc(group, func(a, b Result) int { return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano()) })
	}
	return groups
}

// Newest leaves out the results of a key that are of another build than its last one.
func Newest(results []Result) []Result {
	var keep []Result
	groups := Group(results)
	for i := range results {
		group := groups[results[i].Key()]
		if results[i].Build == group[len(group)-1].Build {
			keep = append(keep, results[i])
		}
	}
	return keep
}
