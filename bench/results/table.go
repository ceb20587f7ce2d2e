package results

import (
	"fmt"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// column is a figure as tables show it.
type column struct {
	key    string // in the JSON
	title  string
	unit   string
	digits int
	scale  float64 // from the JSON's unit to this one
	always bool    // shown also where it is 0 in every row
	other  string  // if set, shown only where some row's figure is not this one's
	newer  bool    // 0 is that a result of an earlier version does not have it
}

// columns are the columns of tables, in this order. A table leaves out optional columns
// that no system has.
var columns = []column{
	{key: "throughput_gbps", title: "payload", unit: "Gbps", digits: 2, always: true},
	{key: "goodput_gbps", title: "goodput", unit: "Gbps", digits: 2, other: "throughput_gbps", newer: true},
	{key: "algbw_gbytes_per_s", title: "algbw", unit: "GB/s", digits: 2, newer: true},
	{key: "busbw_gbytes_per_s", title: "busbw", unit: "GB/s", digits: 2, newer: true},
	{key: "wire_gbps", title: "wire", unit: "Gbps", digits: 2, always: true},
	{key: "rtt_avg_us", title: "RTT avg", unit: "us", digits: 1, always: true},
	{key: "rtt_p50_us", title: "RTT p50", unit: "us", digits: 1},
	{key: "rtt_p99_us", title: "RTT p99", unit: "us", digits: 1, always: true},
	{key: "jain", title: "Jain", digits: 3},
	{key: "flows_done", title: "flows done"},
	{key: "fct_avg_us", title: "FCT avg", unit: "us", digits: 1},
	{key: "fct_p50_us", title: "FCT p50", unit: "us", digits: 1},
	{key: "fct_p99_us", title: "FCT p99", unit: "us", digits: 1},
	{key: "queue_avg_bytes", title: "queue avg", unit: "KiB", digits: 1, scale: 1.0 / 1024},
	{key: "queue_max_bytes", title: "queue max", unit: "KiB", digits: 1, scale: 1.0 / 1024, always: true},
	{key: "pause_us", title: "paused", unit: "us", digits: 1},
	{key: "ecn_marks", title: "ECN marks"},
	{key: "ein_marks", title: "EIN marks"},
	{key: "cnps", title: "CNPs"},
	{key: "retransmissions", title: "resent"},
	{key: "timeouts", title: "timeouts"},
	{key: "watchdog_trips", title: "watchdog"},
	{key: "nic_marks", title: "NIC marks", newer: true},
	{key: "nic_drops", title: "NIC drops", newer: true},
	{key: "drops", title: "drops", always: true},
}

// of returns the column's figure, in its unit.
func (c *column) of(figures any) stats.Float {
	v, ok := FigureOf(figures, c.key)
	if !ok || c.newer && v == 0 {
		return stats.Unmeasured
	}
	if c.scale != 0 {
		v = stats.Float(float64(v) * c.scale)
	}
	return v
}

// says reports whether the column has something to show of figures.
func (c *column) says(figures any) bool {
	v := c.of(figures)
	if c.other != "" {
		same, _ := FigureOf(figures, c.other)
		return v.Measured() && c.text(v) != c.text(same)
	}
	return v.Measured() && v != 0
}

func (c *column) heading() string {
	if c.unit == "" {
		return c.title
	}
	return c.title + "[" + c.unit + "]"
}

func (c *column) text(v stats.Float) string {
	if !v.Measured() {
		return "-"
	}
	return strconv.FormatFloat(float64(v), 'f', c.digits, 64)
}

// columnsOf leaves out the columns that have nothing to show in a result.
func columnsOf(r *Result) []column {
	var shown []column
	for _, c := range columns {
		some := c.always
		for _, s := range r.Systems {
			some = some || c.says(s) || c.key == "flows_done" && s.Unfinished != nil
			for i := range s.Labels {
				some = some || c.other != "" && c.says(&s.Labels[i])
			}
		}
		if some {
			shown = append(shown, c)
		}
	}
	return shown
}

// Table writes results as text. Each has a title and a table with a row for each
// system, and below it a row for each label if there are several. Slowdowns by flow
// size, if any, and the expectations that were missed follow.
func Table(w io.Writer, results ...*Result) error {
	for i, r := range results {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := r.table(w); err != nil {
			return err
		}
	}
	return nil
}

func (r *Result) table(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (seed %d): %s\n", r.Scenario, r.Seed, r.summary())
	shown := columnsOf(r)
	grid := [][]string{{"system", "engine in"}}
	for _, c := range shown {
		grid[0] = append(grid[0], c.heading())
	}
	row := func(name, place string, figures any) {
		cells := []string{name, place}
		for _, c := range shown {
			cell := c.text(c.of(figures))
			if s, ok := figures.(*System); ok && c.key == "flows_done" && s.Unfinished != nil {
				cell += fmt.Sprintf(" of %d", s.Unfinished.Of)
			}
			cells = append(cells, cell)
		}
		grid = append(grid, cells)
	}
	for _, s := range r.Systems {
		row(s.Name, s.place(), s)
		if len(s.Labels) > 1 {
			for i := range s.Labels {
				row("  "+s.Labels[i].Label, "", &s.Labels[i])
			}
		}
		for i := range s.Priorities {
			row("  "+s.Priorities[i].name(), "", &s.Priorities[i])
		}
	}
	writeGrid(&b, grid)
	for _, s := range r.Systems {
		// Into memory, both.
		if s.Timeline != nil {
			fmt.Fprintf(&b, "\n%s: failures, and what they set off\n", s.Name)
			_ = s.Timeline.write(&b)
		}
		_ = WritePrograms(&b, s.Name, s.Programs)
	}
	for _, line := range r.rulingLines() {
		b.WriteString(line + "\n")
	}
	r.slowdowns(&b)
	r.clocks(&b)
	r.nics(&b)
	for _, m := range r.Misses {
		fmt.Fprintf(&b, "missed: %v\n", m)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Priority) name() string { return fmt.Sprintf("priority %d", p.Priority) }

func (r *Result) summary() string {
	parts := []string{fmt.Sprintf("%.4g ms simulated", float64(r.SimS)*1e3)}
	if n := len(r.Systems); n > 1 {
		parts[0] = fmt.Sprintf("%d systems, %.4g ms simulated in all", n, float64(r.SimS)*1e3)
	}
	if r.PacketHops > 0 {
		parts = append(parts, fmt.Sprintf("%.4g million packet-hops", float64(r.PacketHops)/1e6))
	}
	if r.WallS > 0 {
		parts = append(parts, fmt.Sprintf("%.1f s", r.WallS))
	}
	return strings.Join(parts, ", ")
}

// slowdowns writes a table of slowdowns by flow size.
func (r *Result) slowdowns(b *strings.Builder) {
	var bins []SlowdownBin
	for _, s := range r.Systems {
		if len(s.Slowdown) > len(bins) {
			bins = s.Slowdown
		}
	}
	if len(bins) == 0 {
		return
	}
	b.WriteString("\nslowdown by flow size: median / 95th / 99th percentile\n")
	grid := [][]string{{"system"}}
	for _, bin := range bins {
		if bin.ToBytes == math.MaxInt64 {
			grid[0] = append(grid[0], "above "+decimalBytes(bin.FromBytes))
		} else {
			grid[0] = append(grid[0], "up to "+decimalBytes(bin.ToBytes))
		}
	}
	for _, s := range r.Systems {
		cells := []string{s.Name}
		for i := range bins {
			if i >= len(s.Slowdown) || s.Slowdown[i].Flows == 0 {
				cells = append(cells, "-")
				continue
			}
			one := s.Slowdown[i]
			cells = append(cells, fmt.Sprintf("%s / %s / %s", ratio(one.P50), ratio(one.P95), ratio(one.P99)))
		}
		grid = append(grid, cells)
	}
	writeGrid(b, grid)
}

func ratio(v stats.Float) string {
	switch {
	case !v.Measured():
		return "-"
	case v < 100:
		return strconv.FormatFloat(float64(v), 'f', 2, 64)
	}
	return strconv.FormatFloat(float64(v), 'f', 0, 64)
}

// decimalBytes prints a bound of a bin, as the papers do: 10 KB, 1 MB.
func decimalBytes(n int64) string {
	v, unit := float64(n), "B"
	for _, u := range []string{"KB", "MB", "GB", "TB"} {
		if v < 1000 {
			break
		}
		v, unit = v/1000, u
	}
	return strconv.FormatFloat(v, 'f', -1, 64) + " " + unit
}

// writeGrid aligns the first column to the left and the others to the right.
func writeGrid(b *strings.Builder, grid [][]string) {
	var widths []int
	for _, row := range grid {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range grid {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
