// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
)

const (
	maxTopologyLevels = 32
	maxFabricLevels   = 8
)

// validateTopology checks the fields that say where members are placed relative
// to each other.
func validateTopology(path *field.Path, args *config.PodGangArgs) field.ErrorList {
	errs := validateKeys(path.Child("topologyLevels"), args.TopologyLevels, 0, maxTopologyLevels)
	errs = append(errs, validateFabrics(path.Child("fabrics"), args.Fabrics)...)
	errs = append(errs, validateScore(path.Child("score"), &args.Score)...)
	switch args.RDMA.Assume {
	case config.RDMAAuto, config.RDMAAlways:
	default:
		errs = append(errs, field.NotSupported(path.Child("rdma", "assume"), args.RDMA.Assume,
			[]config.RDMAAssumption{config.RDMAAuto, config.RDMAAlways}))
	}
	return append(errs, validateComputeDomains(path.Child("computeDomains"), &args.ComputeDomains)...)
}

// validateKeys checks a list of label keys.
func validateKeys(path *field.Path, keys []string, least, most int) field.ErrorList {
	var errs field.ErrorList
	if len(keys) < least {
		errs = append(errs, field.Required(path, "must hold a label key"))
	}
	if len(keys) > most {
		errs = append(errs, field.TooMany(path, len(keys), most))
	}
	seen := sets.New[string]()
	for i, key := range keys {
		errs = append(errs, metav1validation.ValidateLabelName(key, path.Index(i))...)
		if seen.Has(key) {
			errs = append(errs, field.Duplicate(path.Index(i), key))
		}
		seen.Insert(key)
	}
	return errs
}

func validateFabrics(path *field.Path, fabrics []config.Fabric) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range fabrics {
		fabric, at := &fabrics[i], path.Index(i)
		switch {
		case fabric.Name == "":
			errs = append(errs, field.Required(at.Child("name"), "must be unique among fabrics"))
		case names.Has(fabric.Name):
			errs = append(errs, field.Duplicate(at.Child("name"), fabric.Name))
		}
		names.Insert(fabric.Name)
		errs = append(errs, validateKeys(at.Child("levels"), fabric.Levels, 1, maxFabricLevels)...)
		errs = append(errs, validateKeys(at.Child("nvlinkLevels"), fabric.NVLinkLevels, 0, maxFabricLevels)...)
		errs = append(errs, validateBandwidths(at.Child("bandwidths"), fabric.Bandwidths)...)
	}
	return errs
}

func validateScore(path *field.Path, score *config.Score) field.ErrorList {
	errs := validateBandwidths(path.Child("fabricBandwidths"), score.FabricBandwidths)
	if len(score.FabricBandwidths) == 0 {
		errs = append(errs, field.Required(path.Child("fabricBandwidths"), "must hold a bandwidth"))
	}
	for _, bandwidth := range []struct {
		name  string
		value float64
	}{
		{"nvlinkBandwidth", score.NVLinkBandwidth},
		{"tcpBandwidth", score.TCPBandwidth},
		{"crossUnitBandwidth", score.CrossUnitBandwidth},
	} {
		errs = append(errs, validateBandwidth(path.Child(bandwidth.name), bandwidth.value)...)
	}
	for _, factor := range []struct {
		name  string
		value float64
	}{
		{"fabricFalloff", score.FabricFalloff},
		{"crossUnitWeight", score.CrossUnitWeight},
		{"sameNUMA", score.SameNUMA},
		{"crossNUMA", score.CrossNUMA},
	} {
		// A comparison with NaN is false.
		if !(factor.value > 0 && factor.value <= 1) {
			errs = append(errs, field.Invalid(path.Child(factor.name), factor.value, "must be more than 0 and at most 1"))
		}
	}
	return errs
}

func validateBandwidths(path *field.Path, bandwidths []float64) field.ErrorList {
	var errs field.ErrorList
	for i, bandwidth := range bandwidths {
		errs = append(errs, validateBandwidth(path.Index(i), bandwidth)...)
	}
	return errs
}

func validateBandwidth(path *field.Path, bandwidth float64) field.ErrorList {
	if bandwidth > 0 && !math.IsInf(bandwidth, 0) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, bandwidth, "must be more than 0 and finite")}
}

func validateComputeDomains(path *field.Path, domains *config.ComputeDomains) field.ErrorList {
	var errs field.ErrorList
	switch domains.Placement {
	case config.ComputeDomainRequired, config.ComputeDomainPreferred:
	default:
		errs = append(errs, field.NotSupported(path.Child("placement"), domains.Placement,
			[]config.ComputeDomainPlacement{config.ComputeDomainRequired, config.ComputeDomainPreferred}))
	}
	for _, name := range sets.List(sets.KeySet(domains.DaemonRequests)) {
		quantity := domains.DaemonRequests[name]
		switch {
		case name != corev1.ResourceCPU && name != corev1.ResourceMemory:
			errs = append(errs, field.NotSupported(path.Child("daemonRequests"), name, []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}))
		case quantity.Sign() < 0:
			errs = append(errs, field.Invalid(path.Child("daemonRequests").Key(string(name)), quantity.String(), "must not be negative"))
		}
	}
	return errs
}
