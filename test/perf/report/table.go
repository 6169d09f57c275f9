// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is rows of cells under a header. Cells of numbers are aligned to the right.
type Table struct {
	Header []string
	Rows   [][]string
}

// Text writes the table in columns.
func (t *Table) Text(w io.Writer) error {
	widths := make([]int, len(t.Header))
	for _, row := range t.all() {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t.all() {
		var line strings.Builder
		for i, cell := range row {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.right(i) {
				line.WriteString(padding + cell)
			} else {
				line.WriteString(cell + padding)
			}
			line.WriteString("  ")
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// Markdown writes the table as GitHub reads it.
func (t *Table) Markdown(w io.Writer) error {
	rule := make([]string, len(t.Header))
	for i := range rule {
		rule[i] = "---"
		if t.right(i) {
			rule[i] = "--:"
		}
	}
	for _, row := range slices.Concat([][]string{t.Header, rule}, t.Rows) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) all() [][]string { return slices.Concat([][]string{t.Header}, t.Rows) }

// right reports whether the column holds numbers: no cell of it starts with a letter.
func (t *Table) right(column int) bool {
	numbers := false
	for _, row := range t.Rows {
		cell := row[column]
		if cell == "" || cell == missing {
			continue
		}
		if first := cell[0]; first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z' {
			return false
		}
		numbers = true
	}
	return numbers
}
