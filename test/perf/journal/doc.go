// SPDX-License-Identifier: Apache-2.0

// Package journal records what the API server shows during a run: when each pod was
// created, refused, bound and deleted, which devices claims hold, and what gangs are told.
// Times are those at which a watch has delivered the change to this process.
package journal
