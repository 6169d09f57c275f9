// SPDX-License-Identifier: Apache-2.0

package score

func (p *packing) exhaust(found []candidate) []candidate { return found }
