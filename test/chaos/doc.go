// SPDX-License-Identifier: Apache-2.0

// Package chaos tests the scheduler under fire: a stream of gangs on a lab, faults
// between the scheduler and the API server, nodes that vanish, processes that are
// killed, and a judge that watches the API server all the while.
//
// A run is planned as a whole from its seed before it starts: which gangs come, what
// happens to them, and which faults are in store when. It is carried out in rounds.
// After each round the faults stop, the cluster has to become calm, and what holds at
// rest is checked; at the end the cluster is emptied, and the last gangs get all of it.
// The same seed gives the same plan, not the same run: which request meets a fault
// depends on the timing of the machine.
//
//	make chaos                            # a random seed, which is printed; 10 minutes
//	make chaos SEED=7 DURATION=2m
//	make test-chaos                       # a short one, always of the same plan; part of make test
//
// The tests run what is in bin. The last line says how it went, as in
// "chaos: 412 gangs, 1830 faults, 0 violations". When there are violations, the tests
// fail: each is printed with the end of its gang's timeline, and the plan, the whole
// timeline, one file for each violation and the logs of all components stay in a
// directory that is named.
package chaos
