// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podgang/podgang-scheduler/test/perf/result"
)

// colours of the lines, told apart with most kinds of colour blindness (Okabe and Ito).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// Plots writes two files for each workload and mode into the directory: the pods bound
// over time, and the distribution of waits. Of several rounds the one in the middle is
// drawn.
func Plots(dir string, results []result.Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot keep plots: %w", err)
	}
	groups := result.Group(results)
	type panel struct{ throughput, waits []line }
	panels := map[string]*panel{}
	for _, key := range slices.SortedFunc(maps.Keys(groups), compareKeys) {
		r := middle(groups[key])
		file := fmt.Sprintf("%s-%s", key.Workload, key.Mode)
		if key.Scale != 1 {
			file += fmt.Sprintf("-x%g", key.Scale)
		}
		if panels[file] == nil {
			panels[file] = &panel{}
		}
		p := panels[file]
		p.throughput = append(p.throughput, throughput(r))
		p.waits = append(p.waits, distribution(r))
	}
	for file, p := range panels {
		for _, chart := range []chart{
			{name: file + "-throughput", title: file + ": pods bound", x: "seconds since the scheduler could start", y: "pods", lines: p.throughput},
			{name: file + "-waits", title: file + ": waits until bound", x: "seconds", y: "part that waited no longer, %", lines: p.waits},
		} {
			if err := os.WriteFile(filepath.Join(dir, chart.name+".svg"), []byte(chart.svg()), 0o644); err != nil {
				return fmt.Errorf("cannot keep a plot: %w", err)
			}
		}
	}
	return nil
}

// middle is the round with the median time.
func middle(rounds []result.Result) *result.Result {
	sorted := slices.SortedFunc(slices.Values(rounds), func(a, b result.Result) int { return cmp.Compare(a.Took, b.Took) })
	return &sorted[(len(sorted)-1)/2]
}

type point struct{ x, y float64 }

type line struct {
	name   string
	points []point
}

func throughput(r *result.Result) line {
	l := line{name: r.Scheduler, points: []point{{0, 0}}}
	for i, n := range r.Curve {
		l.points = append(l.points, point{float64(i+1) * r.CurveStep, float64(n)})
	}
	return l
}

func distribution(r *result.Result) line {
	l := line{name: r.Scheduler, points: []point{{0, 0}}}
	for i, wait := range r.Waits {
		n := float64(len(r.Waits))
		l.points = append(l.points, point{wait, 100 * float64(i) / n}, point{wait, 100 * float64(i+1) / n})
	}
	return l
}

// chart is one plot.
type chart struct {
	name, title, x, y string
	lines             []line
}

// Sizes of a plot, in pixels.
const (
	width, height           = 760, 420
	left, right, top, below = 70, 150, 40, 50
)

func (c *chart) svg() string {
	var most point
	for _, l := range c.lines {
		for _, p := range l.points {
			most.x, most.y = max(most.x, p.x), max(most.y, p.y)
		}
	}
	most.x, most.y = roundUp(most.x), roundUp(most.y)
	toX := func(x float64) float64 { return left + x/most.x*(width-left-right) }
	toY := func(y float64) float64 { return height - below - y/most.y*(height-top-below) }

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/><text x="%d" y="22" font-size="15">%s</text>`+"\n", width, height, left, html.EscapeString(c.title))
	const steps = 5
	for i := range steps + 1 {
		x, y := most.x*float64(i)/steps, most.y*float64(i)/steps
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d M%d %.1fH%d" stroke="#ddd" fill="none"/>`, toX(x), top, height-below, left, toY(y), width-right)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			toX(x), height-below+16, Number(x), left-6, toY(y)+4, Number(y))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`, (left+width-right)/2, height-12, html.EscapeString(c.x))
	fmt.Fprintf(&b, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+height-below)/2, html.EscapeString(c.y))
	for i, l := range c.lines {
		colour := colours[i%len(colours)]
		var path []string
		for _, p := range l.points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", toX(p.x), toY(p.y)))
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(path, " "), colour)
		y := top + 16*i + 8
		fmt.Fprintf(&b, `<path d="M%d %dh18" stroke="%s" stroke-width="2"/><text x="%d" y="%d">%s</text>`+"\n",
			width-right+12, y, colour, width-right+36, y+4, html.EscapeString(l.name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// roundUp is the next of 1, 2, 2.5, 5 times a power of 10, so that five steps of an axis
// are round.
func roundUp(x float64) float64 {
	if x <= 0 {
		return 1
	}
	power := 1.0
	for power*10 <= x {
		power *= 10
	}
	for power > x {
		power /= 10
	}
	for _, step := range []float64{1, 2, 2.5, 5} {
		if power*step >= x*(1-1e-9) {
			return power * step
		}
	}
	return power * 10
}
