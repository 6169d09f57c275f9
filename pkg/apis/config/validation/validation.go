// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"regexp"
	"slices"
	"strings"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedvalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	schedfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/podgang/podgang-scheduler/pkg/apis/config"
)

const (
	minPermitTimeout = time.Second
	// maxPermitTimeout stays under the 15 minutes at which the scheduler
	// framework ends every wait, so that it is the plugin that rolls back.
	maxPermitTimeout = 14 * time.Minute

	minSearchBudget = 100
	maxSearchBudget = 1000000

	maxAlignmentAttributes = 4
	minStarvationAfter     = time.Second
)

// pciDomain is the part before the first colon of a device's pciBusID.
var pciDomain = regexp.MustCompile(`^[0-9a-f]{4}$`)

// ValidatePodGangArgs returns nil or an aggregate of one field.Error for each
// field of args that is wrong. The path leads to args in the configuration; it
// may be nil.
func ValidatePodGangArgs(path *field.Path, args *config.PodGangArgs) error {
	var errs field.ErrorList
	if t := args.PermitTimeout.Duration; t < minPermitTimeout || t > maxPermitTimeout {
		errs = append(errs, field.Invalid(path.Child("permitTimeout"), t.String(),
			"must be from 1s to 14m (the scheduler framework ends every wait at 15m)"))
	}
	switch args.StatusPolicy {
	case config.StatusPolicyFull, config.StatusPolicyScoreOnly:
	default:
		errs = append(errs, field.NotSupported(path.Child("statusPolicy"), args.StatusPolicy,
			[]config.StatusPolicy{config.StatusPolicyFull, config.StatusPolicyScoreOnly}))
	}
	if n := args.SearchBudget; n < minSearchBudget || n > maxSearchBudget {
		errs = append(errs, field.Invalid(path.Child("searchBudget"), n, "must be from 100 to 1000000"))
	}
	if t := args.StarvationAfter.Duration; t != 0 && t < minStarvationAfter {
		errs = append(errs, field.Invalid(path.Child("starvationAfter"), t.String(), "must be 1s or more, or 0s for never"))
	}
	errs = append(errs, validateTopology(path, args)...)
	return errs.ToAggregate()
}

// ValidatePodGangResourcesArgs returns nil or an aggregate of one field.Error
// for each field of args that is wrong. The rules for timeouts are those of the
// scheduler's own DynamicResourcesArgs, feature gates included. The path leads to args in
// the configuration; it may be nil.
func ValidatePodGangResourcesArgs(path *field.Path, args *config.PodGangResourcesArgs) error {
	inTree := schedconfig.DynamicResourcesArgs{
		FilterTimeout:  args.FilterTimeout,
		BindingTimeout: args.BindingTimeout,
	}
	features := schedfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	errs := validateAlignmentAttributes(path.Child("alignmentAttributes"), args.AlignmentAttributes)
	errs = append(errs, validateNUMAHints(path.Child("numaHints"), args.NUMAHints)...)
	return utilerrors.NewAggregate([]error{schedvalidation.ValidateDynamicResourcesArgs(path, &inTree, features), errs.ToAggregate()})
}

func validateNUMAHints(path *field.Path, hints []config.NUMAHint) field.ErrorList {
	var errs field.ErrorList
	for i, hint := range hints {
		if hint.ProductName == "" {
			errs = append(errs, field.Required(path.Index(i).Child("productName"), "name a part of the devices' attribute productName"))
		}
		if len(hint.PCIDomains) == 0 {
			errs = append(errs, field.Required(path.Index(i).Child("pciDomains"), "give the NUMA node of each PCI domain"))
		}
		for domain, numa := range hint.PCIDomains {
			at := path.Index(i).Child("pciDomains").Key(domain)
			if !pciDomain.MatchString(domain) {
				errs = append(errs, field.Invalid(at, domain, "must be four hexadecimal digits in small letters, such as 0008"))
			}
			if numa < 0 {
				errs = append(errs, field.Invalid(at, numa, "must be 0 or more"))
			}
		}
	}
	return errs
}

func validateAlignmentAttributes(path *field.Path, names []string) field.ErrorList {
	var errs field.ErrorList
	if len(names) > maxAlignmentAttributes {
		errs = append(errs, field.TooMany(path, len(names), maxAlignmentAttributes))
	}
	for i, name := range names {
		domain, id, qualified := strings.Cut(name, "/")
		if !qualified || domain == "" || id == "" {
			errs = append(errs, field.Invalid(path.Index(i), name, "must be a name with its domain, such as resource.kubernetes.io/numaNode"))
		}
		if slices.Contains(names[:i], name) {
			errs = append(errs, field.Duplicate(path.Index(i), name))
		}
	}
	return errs
}
