// SPDX-License-Identifier: Apache-2.0

// Package placement searches for a node for every member of a gang.
//
// It is pure: it knows classes of interchangeable pods, the scopes that have to lie
// or would rather lie in one domain of a topology, what the nodes have in figures,
// and the model that rates a placement. Whether one more pod really fits on a node it
// learns from a Cluster, which its caller provides and which takes every choice back
// on request. What the choices mean (filters, devices, capacity) is the Cluster's
// affair.
//
// Members of a floor are placed all or none, by Search. Members beyond the floor
// are placed by Fill, as far as there is room. Best tells how good a placement the
// cluster could offer if it were empty, and Outline where a gang would fit if what is
// free were what its caller says.
//
// Inside, a field is the cluster in figures. Regions are the choices of a domain for
// every scope; a candidate is seats for all pods within one. An enumeration looks at
// all candidates of a tiny problem, a descent tries pods one by one.
package placement
