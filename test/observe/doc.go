// SPDX-License-Identifier: Apache-2.0

// Package observe is what the recorders of the tests share: typed changes of objects,
// PodGangs among them, from informers; the state that follows from them; waiting for a
// condition on it; and what a pod says of itself.
package observe
