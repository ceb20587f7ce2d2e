package workload

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/units"
)

// Traces for these tests and those from outside.
const HPCCSample = "3\n0 1 3 100 200000 2.000000000\n\n5 1 3 100 1 2.000125000\n 1 2 3 100 64 2.0000625\n"

const HTSimSample = "# an incast\nNodes 16\nConnections 2\n15->0 id 1 start 0 size 10000000\n11->0 start 1500 id 2 size 64 prio 3\n"

// What is written in either format is read back.
func TestTraceRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []traceFlow
		for range rapid.IntRange(0, 20).Draw(t, "flows") {
			src := rapid.Int32Range(0, 999).Draw(t, "src")
			want = append(want, traceFlow{
				src: src, dst: (src + rapid.Int32Range(1, 999).Draw(t, "to")) % 1000, group: rapid.Uint8Range(0, 7).Draw(t, "group"),
				size:  units.Bytes(rapid.Int64Range(1, 1<<40).Draw(t, "size")),
				start: units.Time(rapid.Int64Range(0, 10_000_000_000).Draw(t, "ns")) * units.Nanosecond,
			})
		}
		var hpcc, htsim strings.Builder
		fmt.Fprintf(&hpcc, "%d\n", len(want))
		fmt.Fprintf(&htsim, "Nodes 1000\nConnections %d\n", len(want))
		for i, f := range want {
			fmt.Fprintf(&hpcc, "%d %d %d 100 %d %d.%09d\n", f.src, f.dst, f.group, f.size, f.start/units.Second, f.start%units.Second/units.Nanosecond)
			fmt.Fprintf(&htsim, "%d->%d id %d start %d size %d\n", f.src, f.dst, i+1, f.start, f.size)
		}
		for format, text := range map[string]string{traceHPCC: hpcc.String(), traceHTSim: htsim.String()} {
			got, _, bad := parseTrace(traceAuto, []byte(text))
			if bad != nil {
				t.Fatalf("%s: %v\n%s", format, bad, text)
			}
			for i, f := range got {
				f.line = 0
				if format == traceHTSim {
					f.group = want[i].group
				}
				if f != want[i] {
					t.Fatalf("%s: flow %d is %+v, want %+v", format, i, f, want[i])
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%s: %d flows, want %d", format, len(got), len(want))
			}
		}
	})
}

// FuzzTrace: whatever the text, the parsers answer with flows that a workload can
// have or with a line of the file.
func FuzzTrace(f *testing.F) {
	for _, seed := range []string{HPCCSample, HTSimSample, "1\n0 1 3 100 5 1e-9\n", "Connections 1\n0->1 start 1e3 size 1", "->", "1\n", "Nodes"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, format := range []string{traceAuto, traceHPCC, traceHTSim} {
			var flows []traceFlow
			var bad *traceError
			infile.Within(t, func() { flows, _, bad = parseTrace(format, src) })
			if bad != nil {
				var err error = bad
				if bad.line < 1 || bad.line > strings.Count(string(src), "\n")+1 || bad.msg == "" || errors.Unwrap(err) != nil {
					t.Fatalf("%s: %+v of %d lines", format, bad, strings.Count(string(src), "\n")+1)
				}
			}
			for _, x := range flows {
				if x.src == x.dst || x.src < 0 || x.dst < 0 || x.size < 1 || x.start < 0 || x.group > 7 {
					t.Fatalf("%s: flow %+v", format, x)
				}
			}
		}
	})
}
