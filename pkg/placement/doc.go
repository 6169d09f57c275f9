// SPDX-License-Identifier: Apache-2.0

// Package placement searches for a node for every member of a gang.
//
// It is pure: it knows classes of interchangeable pods and the nodes that each
// class may use, and learns whether one more pod fits on a node from a Cluster,
// which its caller provides and which takes every choice back on request. What
// the choices mean (filters, devices, capacity) is the Cluster's affair.
//
// Members of a floor are placed all or none, by Search. Members beyond the floor
// are placed by Fill, as far as there is room.
package placement
