package docs

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

var update = flag.Bool("update", false, "write the figures of nic-figures.md anew")

// TestNICWhatIf runs the scenarios of nic-figures.md and holds the tables below them
// against what comes out. A table's first column is the system or the label of the
// flows; the others are figures, of one label or system where the heading says so behind
// a comma.
func TestNICWhatIf(t *testing.T) {
	if testing.Short() {
		t.Skipf("-short: every figure of docs/nic-figures.md is run again")
	}
	const page = "nic-figures.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var r *results.Result
	var head []string
	cells, scenarios := 0, map[string]bool{}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if name, ok := strings.CutPrefix(line, "    sluice run "); ok {
			s, err := scenario.Load(name)
			if err != nil {
				t.Fatalf("%s:%d: %v", page, i+1, err)
			}
			if r, err = bench.Run(s, bench.Options{}); err != nil {
				t.Fatalf("%s:%d: %v", page, i+1, err)
			}
			scenarios[name] = true
		}
		row := tableRow(line)
		switch {
		case row == nil:
			head = nil
		case head == nil:
			head = row
		case strings.HasPrefix(row[0], "---"):
		case len(row) != len(head):
			t.Fatalf("%s:%d: %d columns in a table of %d", page, i+1, len(row), len(head))
		case head[0] == "system" || head[0] == "flows":
			for j := 1; j < len(row); j++ {
				got, err := figure(r, head[0], row[0], head[j])
				if err != nil {
					t.Fatalf("%s:%d: %v", page, i+1, err)
				}
				cells++
				if !*update && !matchLine(strings.Fields(row[j]), strings.Fields(got)) {
					t.Errorf("%s:%d: %s, %s: %s, was %s", page, i+1, row[0], head[j], got, row[j])
				}
				row[j] = got
			}
			lines[i] = "| " + strings.Join(row, " | ") + " |"
		}
	}
	for _, name := range scenario.Builtins() {
		if strings.HasPrefix(name, "nic-") && name != "nic-small-writes" && !scenarios[name] {
			t.Errorf("%s has nothing of %s", page, name)
		}
	}
	if cells < 50 {
		t.Errorf("only %d figures were found", cells)
	}
	if *update {
		if err := os.WriteFile(page, []byte(strings.Join(lines, "\n")), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	} else if t.Failed() {
		t.Log("if the change is meant, read the text again, and write the figures anew with: go test ./docs -run TestNICWhatIf -update")
	}
}

func tableRow(line string) []string {
	inner, ok := strings.CutPrefix(line, "|")
	if !ok {
		return nil
	}
	row := strings.Split(strings.TrimSuffix(inner, "|"), "|")
	for i := range row {
		row[i] = strings.TrimSpace(row[i])
	}
	return row
}

// figure is one of a table.
func figure(r *results.Result, by, row, column string) (string, error) {
	column, other, _ := strings.Cut(column, ", ") // the rest may have commas of its own
	system, label := row, other
	if by == "flows" {
		system, label = other, row
	}
	i := slices.IndexFunc(r.Systems, func(s *results.System) bool { return s.Name == system })
	if i < 0 {
		return "", fmt.Errorf("there is no system %q", system)
	}
	s := r.Systems[i]
	flows, nic := &s.Flows, 0
	if label != "" {
		j := slices.IndexFunc(s.Labels, func(l results.Label) bool { return l.Label == label })
		if j < 0 {
			return "", fmt.Errorf("no flows are called %q", label)
		}
		flows, nic = &s.Labels[j].Flows, j // NICs are measured in the order of the workloads
	}
	if f, ok := flowFigures[column]; ok {
		return number(f(s, flows)), nil
	}
	f, ok := nicFigures[column]
	if !ok || nic >= len(s.NICs) {
		return "", fmt.Errorf("there is no figure %q of %s, %s", column, system, label)
	}
	return f(&s.NICs[nic]), nil
}

var flowFigures = map[string]func(*results.System, *results.Flows) float64{
	"payload [Gbps]":   func(_ *results.System, f *results.Flows) float64 { return float64(f.ThroughputGbps) },
	"wire [Gbps]":      func(_ *results.System, f *results.Flows) float64 { return float64(f.WireGbps) },
	"mean RTT [us]":    func(_ *results.System, f *results.Flows) float64 { return float64(f.RTTAvgUs) },
	"p99 RTT [us]":     func(_ *results.System, f *results.Flows) float64 { return float64(f.RTTP99Us) },
	"Jain":             func(_ *results.System, f *results.Flows) float64 { return float64(f.Jain) },
	"mean FCT [us]":    func(_ *results.System, f *results.Flows) float64 { return float64(f.FCTAvgUs) },
	"p99 FCT [us]":     func(_ *results.System, f *results.Flows) float64 { return float64(f.FCTP99Us) },
	"mean queue [KiB]": func(s *results.System, _ *results.Flows) float64 { return float64(s.Links[0].QueueAvgBytes) / 1024 },
	"most queue [KiB]": func(s *results.System, _ *results.Flows) float64 { return float64(s.Links[0].QueueMaxBytes) / 1024 },
	"NIC drops":        func(s *results.System, _ *results.Flows) float64 { return float64(s.Network.NICDrops) },
	"NIC marks":        func(s *results.System, _ *results.Flows) float64 { return float64(s.Network.NICMarks) },
	"sent again":       func(_ *results.System, f *results.Flows) float64 { return float64(f.Retransmissions) },
	"timeouts":         func(_ *results.System, f *results.Flows) float64 { return float64(f.Timeouts) },
	"switch drops":     func(s *results.System, _ *results.Flows) float64 { return float64(s.Network.Drops) },
	"link paused [%]":  func(s *results.System, _ *results.Flows) float64 { return float64(s.Links[0].PauseUs) / 30 },
	"acks [Gbps]":      func(s *results.System, _ *results.Flows) float64 { return float64(s.Links[1].WireGbps) },
}

var nicFigures = map[string]func(*results.NICUse) string{
	"M requests/s":          func(n *results.NICUse) string { return number(float64(n.Requests) / seconds(n) / 1e6) },
	"PCIe to host [B]":      func(n *results.NICUse) string { return number(float64(n.PCIe[0].PerRequest)) },
	"PCIe from host [B]":    func(n *results.NICUse) string { return number(float64(n.PCIe[1].PerRequest)) },
	"payload read [B]":      func(n *results.NICUse) string { return purpose(n, 1, "payload") },
	"elements read [B]":     func(n *results.NICUse) string { return purpose(n, 1, "wqe") },
	"doorbells [B]":         func(n *results.NICUse) string { return purpose(n, 1, "doorbell") },
	"contexts read [B]":     func(n *results.NICUse) string { return purpose(n, 1, "context") },
	"translations read [B]": func(n *results.NICUse) string { return purpose(n, 1, "translation") },
	"completions [B]":       func(n *results.NICUse) string { return purpose(n, 0, "cqe") },
	"events [B]":            func(n *results.NICUse) string { return purpose(n, 0, "event") },
	"busiest":               busiest,
	"processors [%]":        processors,
	"waits most":            waits,
}

// seconds is how long the NIC was looked at: the mac's cycles are picoseconds.
func seconds(n *results.NICUse) float64 {
	for i := range n.Stages {
		if s := &n.Stages[i]; s.Stage == "mac" {
			return float64(s.Elapsed) / float64(s.ClockHz)
		}
	}
	return math.NaN()
}

func purpose(n *results.NICUse, direction int, why string) string {
	return number(float64(n.PCIe[direction].ByPurpose[why]) / float64(n.Requests))
}

// busiest names the stage, or direction of PCIe, that is busy most.
func busiest(n *results.NICUse) string {
	name, most := "", 0.0
	for i := range n.Stages {
		s := &n.Stages[i]
		if share := float64(s.Busy) / float64(s.Elapsed); share > most {
			name, most = s.Stage, share
		}
	}
	return fmt.Sprintf("%s %.1f %%", name, 100*most)
}

// processors is how busy the processors of the engines are.
func processors(n *results.NICUse) string {
	for i := range n.Stages {
		if s := &n.Stages[i]; s.Stage == "processors" {
			return number(100 * float64(s.Busy) / float64(s.Elapsed))
		}
	}
	return number(0)
}

// waits names the stage that waits most, and for what.
func waits(n *results.NICUse) string {
	name, most := "nothing", 0.0
	for i := range n.Stages {
		s := &n.Stages[i]
		for why, cycles := range s.Stalled {
			if share := float64(cycles) / float64(s.Elapsed); share > most {
				name, most = s.Stage+" for "+why, share
			}
		}
	}
	return fmt.Sprintf("%s %.1f %%", name, 100*most)
}

// number formats a number with the digits that a table has room for.
func number(x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case math.Abs(x) >= 100:
		return fmt.Sprintf("%.0f", x)
	case math.Abs(x) >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}
