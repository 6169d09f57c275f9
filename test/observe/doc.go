// SPDX-License-Identifier: Apache-2.0

// Package observe is what the recorders of the tests share: typed changes of objects,
// PodGangs among them, from informers.
package observe
