// SPDX-License-Identifier: Apache-2.0

// Package validation checks the arguments of the plugins PodGang and
// PodGangResources. The plugins call it when they are built, so that a wrong
// value ends the scheduler at start with a message that names the field.
package validation
