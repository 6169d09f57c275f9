// SPDX-License-Identifier: Apache-2.0

// Package pki makes the lab's certificate authority, certificates and keys.
package pki
