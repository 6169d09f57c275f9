// SPDX-License-Identifier: Apache-2.0

package podgang

import (
	"slices"
	"testing"
)

func TestPiecesAreUsedAgain(t *testing.T) {
	var p pieces[int]
	first, second := p.take(3), p.take(2)
	first, second = append(first, 1, 2, 3), append(second, 4, 5)
	if !slices.Equal(first, []int{1, 2, 3}) || !slices.Equal(second, []int{4, 5}) {
		t.Errorf("two pieces that are in use hold %v and %v", first, second)
	}
	p.handed = 0
	again := p.zeroed(2)
	if &again[0] != &first[0] {
		t.Error("a piece that has been taken back is not used again")
	}
	if !slices.Equal(again, []int{0, 0}) {
		t.Errorf("zeroed piece holds %v", again)
	}
	// Beyond its end is what the last user has left.
	if grown := append(again, 7); &grown[0] == &again[0] {
		t.Error("a piece reaches beyond what was asked for")
	}
	if larger := p.zeroed(50); len(larger) != 50 || slices.ContainsFunc(larger, func(i int) bool { return i != 0 }) {
		t.Errorf("larger piece holds %v", larger)
	}
}

func TestPiecesAreKeptUpToABound(t *testing.T) {
	var p pieces[int]
	for range 2 * keptPieces {
		if got := p.zeroed(4); len(got) != 4 {
			t.Fatalf("got %d elements, want 4", len(got))
		}
	}
	if len(p.kept) != keptPieces {
		t.Errorf("%d pieces are kept, want %d", len(p.kept), keptPieces)
	}
}
