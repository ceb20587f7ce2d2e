package bench

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/stats"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

// Completion times by size are those of all flows, each in its range: with the edges that
// slowdowns have, as many in each.
func TestCompletionBySize(t *testing.T) {
	notUnderRace(t)
	s, err := scenario.Load("websearch", "duration=3ms", "warmup=0", "workloads[websearch].stop=2ms", "systems=[{engine: powertcp}]",
		"measure.sizes=[10KB, 100KB, 1MB, 10MB]", "topology.trunk_rate=25Gbps", "measure.sample=20us",
		"measure.switches=[spine0, tor0]", "measure.links=[tor0->spine0, tor0->spine1, tor0->h0, tor0->h1, tor0->h2, tor0->h3, tor0->h4, tor0->h5, tor0->h6, tor0->h7]")
	if err != nil {
		t.Fatal(err)
	}
	flows := map[string][]float64{}
	r, err := Run(s, Options{Flows: func(f *results.FlowRecord) error {
		if f.FCTUs != nil {
			name := results.SizeRange(10*units.MB, math.MaxInt64)
			for i, edge := range s.Measure.Sizes {
				if units.Bytes(f.SizeBytes) <= edge {
					from := units.Bytes(0)
					if i > 0 {
						from = s.Measure.Sizes[i-1]
					}
					name = results.SizeRange(from, edge)
					break
				}
			}
			flows[name] = append(flows[name], *f.FCTUs)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	sys, n := r.Systems[0], 0
	for _, d := range sys.Distributions {
		if d.Kind != results.DistributionBySize {
			continue
		}
		n++
		want := flows[d.Name]
		if len(want) == 0 {
			t.Errorf("no flow is of %q", d.Name)
			continue
		}
		slices.Sort(want)
		// Three digits, and medians within a nanosecond's rounding of a flow's own.
		for _, at := range []struct{ share, want float64 }{{0, want[0]}, {0.5, want[(len(want)-1)/2]}, {1, want[len(want)-1]}} {
			if i := slices.Index(d.Share, stats.Float(at.share)); i < 0 || math.Abs(float64(d.Values[i])/at.want-1) > 2e-3 {
				t.Errorf("%s: %v of %d flows take %v us, want %v", d.Name, at.share, len(want), d.Values[i], at.want)
			}
		}
	}
	if n != len(flows) || n < 3 {
		t.Errorf("%d ranges have a distribution and %d have flows", n, len(flows))
	}
	// A switch's buffer holds what its ports have queued, and so do the means over a step.
	var buffer, queued []stats.Float
	for _, x := range sys.Series {
		switch {
		case x.Kind == results.SeriesBuffer && x.Name == "tor0":
			buffer = x.Values
		case x.Kind == results.SeriesQueue && strings.HasPrefix(x.Name, "tor0->"):
			if queued == nil {
				queued = make([]stats.Float, len(x.Values))
			}
			for i, v := range x.Values {
				queued[i] += v
			}
		}
	}
	if len(buffer) == 0 || len(buffer) != len(queued) || slices.Max(buffer) == 0 {
		t.Fatalf("%d samples of a buffer, %d of queues: %v", len(buffer), len(queued), buffer)
	}
	for i := range buffer {
		if !within(buffer[i], float64(queued[i]), 1e-9) {
			t.Errorf("step %d: %v B of the buffer are taken and %v B queued", i, buffer[i], queued[i])
		}
	}
}
