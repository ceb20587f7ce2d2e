package results

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/report"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
)

// shownNICs is the number of NICs that tables show of a system.
const shownNICs = 8

func sortedKeys(m map[string]int64) []string { return slices.Sorted(maps.Keys(m)) }

// nics writes the measurements inside NICs: what limits each, and how it spent its
// time.
func (r *Result) nics(b *strings.Builder) {
	for _, s := range r.Systems {
		if len(s.NICs) == 0 {
			continue
		}
		fmt.Fprintf(b, "\nNICs of %s\n", s.Name)
		shown := s.NICs[:min(shownNICs, len(s.NICs))]
		for i := range shown {
			for _, line := range shown[i].lines() {
				b.WriteString(line + "\n")
			}
		}
		if n := len(s.NICs) - len(shown); n > 0 {
			fmt.Fprintf(b, "%d more are in the JSON\n", n)
		}
		for _, t := range nicGrids(shown) {
			if len(t) > 1 {
				b.WriteString("\n")
				writeGrid(b, t)
			}
		}
	}
}

// lines are the most important lines: what limits the NIC, and how long a request
// takes.
func (u *NICUse) lines() []string {
	all := []string{u.Bottleneck}
	for _, line := range []string{u.BytesEach, u.CyclesEach} {
		if line != "" {
			all = append(all, line)
		}
	}
	if u.Buffer != nil {
		all = append(all, u.NIC+"'s NIC: "+u.Buffer.text())
	}
	if e := u.EngineEvents; e != nil && e.Handled+e.Merged+e.Dropped > 0 {
		all = append(all, u.NIC+"'s NIC: "+e.text())
	}
	if o := u.operation(50); o != nil {
		all = append(all, u.NIC+"'s NIC: "+o.text())
	}
	return all
}

// nicTables are the same for a page.
func nicTables(sources []source) []report.Table {
	var tables []report.Table
	for _, from := range sources {
		for _, s := range from.r.Systems {
			name := s.Name
			if len(sources) > 1 {
				name += " (" + from.name + ")"
			}
			tables = append(tables, s.nicTables(name)...)
		}
	}
	return tables
}

// nicTables are those of a system that a page calls name.
func (s *System) nicTables(name string) []report.Table {
	if len(s.NICs) == 0 {
		return nil
	}
	titles := []string{"where the cycles went", "bytes on PCIe", "queues", "waits", "caches"}
	var tables []report.Table
	shown := s.NICs[:min(shownNICs, len(s.NICs))]
	for i, grid := range nicGrids(shown) {
		if len(grid) == 1 {
			continue
		}
		t := report.Table{Title: "NICs of " + name + ": " + titles[i], Columns: grid[0], Rows: withoutDashes(grid[1:])}
		if i == 0 {
			for k := range shown {
				t.Notes = append(t.Notes, shown[k].lines()...)
			}
		}
		tables = append(tables, t)
	}
	return tables
}

// withoutDashes empties the cells of rows that have a dash for nothing.
func withoutDashes(rows [][]string) [][]string {
	for _, row := range rows {
		for k := range row {
			if row[k] == "-" {
				row[k] = ""
			}
		}
	}
	return rows
}

// shownTimelines is the number of a system's NICs whose requests a page shows.
const shownTimelines = 2

// nicTimelines are requests of NICs, for a page.
func nicTimelines(sources []source) []report.Timeline {
	var all []report.Timeline
	for _, from := range sources {
		for _, s := range from.r.Systems {
			shown := 0
			for i := range s.NICs {
				u := &s.NICs[i]
				if len(u.Operations) == 0 || shown == shownTimelines {
					continue
				}
				shown++
				for k := range u.Operations {
					t := u.Operations[k].timeline(u.NIC)
					t.Title += " under " + s.Name
					if len(sources) > 1 {
						t.Title += " (" + from.name + ")"
					}
					all = append(all, t)
				}
			}
		}
	}
	return all
}

// nicGrids are tables of stages, of PCIe, of queues, of what else is waited for and of
// caches; the first row of each has the headings.
func nicGrids(nics []NICUse) [][][]string {
	reasons := map[string]int64{}
	purposes := map[string]int64{}
	for i := range nics {
		for k := range nics[i].Stages {
			maps.Copy(reasons, nics[i].Stages[k].Stalled)
		}
		for k := range nics[i].PCIe {
			maps.Copy(purposes, nics[i].PCIe[k].ByPurpose)
		}
	}
	stages := [][]string{{"stage", "busy[%]"}}
	for _, why := range sortedKeys(reasons) {
		stages[0] = append(stages[0], "stalled: "+why+"[%]")
	}
	stages[0] = append(stages[0], "idle[%]", "served", "cycles each")
	pcie := [][]string{{"PCIe", "busy[%]", "bytes", "a request[B]"}}
	for _, why := range sortedKeys(purposes) {
		pcie[0] = append(pcie[0], why+"[B]")
	}
	queues := [][]string{{"queue", "mean", "most", "came", "wait[us]"}}
	waits := [][]string{{"wait", "waiting on average"}}
	caches := [][]string{{"cache", "hits", "misses"}}
	for i := range nics {
		u := &nics[i]
		for k := range u.Stages {
			stages = append(stages, u.Stages[k].cells(u.NIC, reasons))
		}
		for k := range u.PCIe {
			pcie = append(pcie, u.PCIe[k].cells(u, purposes))
		}
		for k := range u.Queues {
			q := &u.Queues[k]
			queues = append(queues, []string{u.NIC + " " + q.Queue, fixed(q.Mean), strconv.Itoa(q.Most), strconv.FormatUint(q.Came, 10), fixedDigits(q.WaitUs, 3)})
		}
		for _, w := range u.Waits {
			if w.Mean > 0 {
				waits = append(waits, []string{u.NIC + " " + w.Where + ": for " + w.For, fixedDigits(w.Mean, 3)})
			}
		}
		for _, c := range u.Caches {
			caches = append(caches, []string{u.NIC + " " + c.Cache, strconv.FormatUint(c.Hits, 10), strconv.FormatUint(c.Misses, 10)})
		}
	}
	return [][][]string{stages, pcie, queues, waits, caches}
}

func (s *NICStage) cells(nic string, reasons map[string]int64) []string {
	of := func(cycles int64) string {
		if s.Elapsed == 0 {
			return "-"
		}
		return fixed(stats.Float(100 * float64(cycles) / float64(s.Elapsed)))
	}
	cells := []string{nic + " " + s.Stage, of(s.Busy)}
	for _, why := range sortedKeys(reasons) {
		if s.Stalled[why] == 0 {
			cells = append(cells, "-")
			continue
		}
		cells = append(cells, of(s.Stalled[why]))
	}
	each := "-"
	if s.Served > 0 && s.ClockHz < 1e12 {
		each = fixed(stats.Float(float64(s.Busy) / float64(s.Served)))
	}
	return append(cells, of(s.Idle), strconv.FormatUint(s.Served, 10), each)
}

func (p *NICPCIe) cells(u *NICUse, purposes map[string]int64) []string {
	cells := []string{u.NIC + " " + strings.ReplaceAll(p.Direction, "_", " "), fixed(100 * p.Busy), strconv.FormatInt(p.Bytes, 10), fixed(p.PerRequest)}
	for _, why := range sortedKeys(purposes) {
		cell := "-"
		if n := p.ByPurpose[why]; n > 0 {
			cell = strconv.FormatInt(n, 10)
		}
		cells = append(cells, cell)
	}
	return cells
}

func fixedDigits(v stats.Float, digits int) string {
	if !v.Measured() {
		return "-"
	}
	return strconv.FormatFloat(float64(v), 'f', digits, 64)
}
