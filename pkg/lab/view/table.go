// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"strings"

	"charm.land/lipgloss/v2"
)

var (
	headerStyle = lipgloss.NewStyle().Faint(true)
	goodStyle   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	badStyle    = lipgloss.NewStyle().Foreground(lipgloss.Red)
	waitStyle   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
)

// Good marks a cell as fine. Colours are dropped where there is no terminal.
func Good(s string) string { return goodStyle.Render(s) }

// Bad marks what is wrong.
func Bad(s string) string { return badStyle.Render(s) }

// Wait marks what is not done yet.
func Wait(s string) string { return waitStyle.Render(s) }

// Table is a table without lines, columns as wide as needed, as kubectl prints them.
type Table struct {
	rows [][]string
}

// NewTable makes a table with these column titles.
func NewTable(titles ...string) *Table {
	return &Table{rows: [][]string{titles}}
}

// Row adds a row; cells are formatted as by fmt.Sprint, empty ones become "-".
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		if row[i] = fmt.Sprint(c); row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// Print writes the table, with colours if out is a terminal.
func (t *Table) Print(out io.Writer) {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], lipgloss.Width(cell))
		}
	}
	for n, row := range t.rows {
		var b strings.Builder
		for i, cell := range row {
			if i > 0 {
				b.WriteString(strings.Repeat(" ", widths[i-1]-lipgloss.Width(row[i-1])+2))
			}
			b.WriteString(cell)
		}
		line := b.String()
		if n == 0 {
			line = headerStyle.Render(line)
		}
		// A terminal that is gone needs no table.
		_, _ = lipgloss.Fprintln(out, line)
	}
}

// Println writes a line, without its colours if out is no terminal.
func Println(out io.Writer, line string) {
	_, _ = lipgloss.Fprintln(out, line) // a terminal that is gone needs no line
}

// Printf writes formatted text, without its colours if out is no terminal.
func Printf(out io.Writer, format string, args ...any) {
	_, _ = lipgloss.Fprintf(out, format, args...) // as in Println
}
