// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"math"
	"slices"
)

// Percentile is the smallest value such that at least p percent of the values are not
// above it (nearest rank); NaN without values.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median is the middle value, or the mean of the two in the middle; NaN without values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Exponent is the b of the curve y = a·x^b that fits best: the slope of the regression
// line through log x and log y. NaN with fewer than two different x, or where a value
// is not above 0.
func Exponent(x, y []float64) float64 {
	if len(x) != len(y) {
		return math.NaN()
	}
	var sx, sy, sxx, sxy float64
	for i := range x {
		if x[i] <= 0 || y[i] <= 0 {
			return math.NaN()
		}
		lx, ly := math.Log(x[i]), math.Log(y[i])
		sx, sy, sxx, sxy = sx+lx, sy+ly, sxx+lx*lx, sxy+lx*ly
	}
	n := float64(len(x))
	if spread := n*sxx - sx*sx; spread > 1e-12 {
		return (n*sxy - sx*sy) / spread
	}
	return math.NaN()
}
