// SPDX-License-Identifier: Apache-2.0

// Package testlab starts labs for tests, with clients, and ends them: state that is
// worth a look is kept and named, other state removed. Its Proxy stands between a scheduler
// and the API server; tests say what it does there.
package testlab
