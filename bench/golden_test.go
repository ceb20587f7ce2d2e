package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

var update = flag.Bool("update", false, "write the golden files anew")

// shorter are overrides for the built-in scenarios that take seconds.
var shorter = map[string][]string{
	"timely-table1":     {"duration=60ms", "warmup=20ms"},
	"websearch":         {"duration=8ms", "warmup=1ms", "workloads[0].stop=6ms"},
	"websearch-million": {"duration=50ms", "warmup=1ms", "workloads[0].stop=40ms"},
	"timely-fig11":      {"duration=60ms"},
}

// Every built-in scenario gives the figures that it gave when the golden file was
// written: what makes the simulator faster changes none of them. Events are left
// out, because how many a packet costs is the simulator's own business. A run fails where a
// byte or packet is not accounted for at its end, so this holds all of them to that, too.
func TestBuiltinFigures(t *testing.T) {
	notUnderRace(t)
	var b strings.Builder
	for _, name := range scenario.Builtins() {
		s := load(t, name, shorter[name]...)
		for i, out := range run(t, s).Systems {
			figures(&b, name, out)
			if out.Bytes == 0 || out.PacketHops == 0 {
				t.Errorf("%s, %s: nothing moved", name, out.Name)
			}
			if f := s.Systems[i].Fabric; f.PFC.Enabled && out.Drops > 0 && len(f.Faults) == 0 {
				t.Errorf("%s, %s: %d drops on a lossless network", name, out.Name, out.Drops)
			}
		}
	}
	file := filepath.Join("testdata", "builtin_figures.txt")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(wanted)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(wanted) {
			w = wanted[i]
		}
		if g != w {
			t.Errorf("%s:%d: %q, was %q", file, i+1, g, w)
		}
	}
	if t.Failed() {
		t.Log("if the change is meant, say why it is right, and write the file anew with: go test ./bench -run TestBuiltinFigures -update")
	}
}

// figures writes the measurements of a system, a line for each group.
func figures(b *strings.Builder, scenario string, s *results.System) {
	fmt.Fprintf(b, "%s, %s\n", scenario, s.Name)
	fmt.Fprintf(b, "  packet hops %d in %.9g s\n", s.PacketHops, float64(s.SimS))
	ends := func(f *results.Flows) {
		fmt.Fprintf(b, "  flows started %d, done %d, bytes %d, Gbps %.9g, Jain %.9g\n", f.FlowsStarted, f.FlowsDone, f.Bytes, float64(f.ThroughputGbps), float64(f.Jain))
		fmt.Fprintf(b, "  RTT us: samples %d, mean %.9g, p50 %.9g, p99 %.9g\n", f.RTTSamples, float64(f.RTTAvgUs), float64(f.RTTP50Us), float64(f.RTTP99Us))
		fmt.Fprintf(b, "  FCT us: mean %.9g, p50 %.9g, p99 %.9g\n", float64(f.FCTAvgUs), float64(f.FCTP50Us), float64(f.FCTP99Us))
		for _, x := range f.Slowdown {
			fmt.Fprintf(b, "  slowdown to %d B: flows %d, p50 %.9g, p95 %.9g, p99 %.9g\n", x.ToBytes, x.Flows, float64(x.P50), float64(x.P95), float64(x.P99))
		}
		fmt.Fprintf(b, "  retransmissions %d, timeouts %d\n", f.Retransmissions, f.Timeouts)
	}
	ends(&s.Flows)
	fmt.Fprintf(b, "  drops %d, marks %d, pause frames %d, paused us %.9g, queue max %d, mean %.9g\n",
		s.Drops, s.ECNMarks, s.PauseFrames, float64(s.PauseUs), s.QueueMaxBytes, float64(s.QueueAvgBytes))
	for _, l := range s.Links {
		fmt.Fprintf(b, "  link %s: Gbps %.9g, queue max %d, mean %.9g, drops %d, marks %d\n", l.Link, float64(l.WireGbps), l.QueueMaxBytes, float64(l.QueueAvgBytes), l.Drops, l.ECNMarks)
	}
	if len(s.Labels) < 2 {
		return // the same again
	}
	for i := range s.Labels {
		fmt.Fprintf(b, "  of %s:\n", s.Labels[i].Label)
		ends(&s.Labels[i].Flows)
	}
}
