package bench

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/units"
)

// However spans overlap, the activity is the measure of their union from the reset on.
func TestActivityIsTheUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type event struct {
			at  units.Time
			end bool
		}
		const last = 200
		reset, over := units.Time(rapid.IntRange(0, last).Draw(t, "reset")), units.Time(last+1)
		covered := [last + 1]bool{} // by picosecond
		var events []event
		for range rapid.IntRange(0, 12).Draw(t, "spans") {
			from := rapid.IntRange(0, last).Draw(t, "from")
			to := rapid.IntRange(from, last+40).Draw(t, "to")
			for i := from; i < min(to, last+1); i++ {
				covered[i] = true
			}
			events = append(events, event{units.Time(from), false})
			if to <= last {
				events = append(events, event{units.Time(to), true})
			}
		}
		slices.SortStableFunc(events, func(a, b event) int {
			if c := cmp.Compare(a.at, b.at); c != 0 || a.end == b.end {
				return c
			}
			if a.end {
				return 1
			}
			return -1
		})
		var a activity
		done := false
		for _, e := range events {
			if !done && e.at >= reset {
				a.reset(reset)
				done = true
			}
			if e.end {
				a.end(e.at)
			} else {
				a.begin(e.at)
			}
		}
		if !done {
			a.reset(reset)
		}
		want := units.Time(0)
		for i := reset; i <= last; i++ {
			if covered[i] {
				want++
			}
		}
		if got := a.total(over); got != want {
			t.Fatalf("%d ps, expected %d", got, want)
		}
	})
}

// Reduced NICs say a little ahead of time that a flow ends; what overlaps counts once.
func TestActivityAheadOfTime(t *testing.T) {
	var a activity
	a.begin(0)
	a.end(12) // said at 10
	a.begin(10)
	a.reset(11)
	a.end(15)
	if got := a.total(20); got != 4 {
		t.Errorf("%d, expected the 4 from 11 to 15", got)
	}
	if got := a.total(14); got != 3 {
		t.Errorf("%d until 14, expected 3", got)
	}
}

// ring is an all-reduce of 8 MiB over eight hosts, and all-to-all of others, while a
// flow elsewhere makes the run as long as it may be.
const together = `
topology: {kind: star, hosts: 15, host_rate: 100Gbps}
systems:
  - {name: host, engine: timely}
  - {name: NIC, engine: powertcp}
workloads:
  - {kind: flows, name: long, flows: [{src: h12, dst: h13, size: unlimited}]}
  - {kind: all-reduce, name: ring, hosts: [h0..h7], size: 8MiB, iterations: 2, gap: 50us}
  - {kind: all-reduce, name: tree, hosts: [h0..h7], size: 1MiB, algorithm: tree, chunks: 4, start: 4ms}
  - {kind: all-to-all, name: exchange, hosts: [h8..h11], size: 1MiB, start: 1ms}
  - {kind: flows, name: none, start: 1ms, flows: [{src: h14, dst: h13, size: 4KB, start: 1s}]}
`

// What a class gets is not divided by the time in which it wants nothing: however long
// the run is, goodput and the bandwidths of collectives are the same, in the closed
// forms of nccl-tests.
func TestGoodputIsOverActiveTime(t *testing.T) {
	notUnderRace(t)
	short, long := run(t, parse(t, together, "duration=6ms")), run(t, parse(t, together, "duration=12ms"))
	near := func(what string, got stats.Float, want float64) {
		t.Helper()
		if math.Abs(float64(got)-want) > 1e-9*want {
			t.Errorf("%s is %v, expected %v", what, float64(got), want)
		}
	}
	const mib = 1 << 20
	for i, s := range short.Systems {
		for k := range s.Labels {
			a, b := &s.Labels[k], &long.Systems[i].Labels[k]
			name := s.Name + ", " + a.Label
			switch a.Label {
			case "long":
				near(name+": goodput", a.GoodputGbps, float64(a.ThroughputGbps)) // always active
				near(name+": active", a.ActiveUs, 6000)
				continue
			case "none":
				if a.ActiveUs != 0 || a.GoodputGbps.Measured() || a.AlgBW.Measured() {
					t.Errorf("%s was active for %v us, with %v Gbps", name, a.ActiveUs, a.GoodputGbps)
				}
				continue
			}
			if a.GoodputGbps != b.GoodputGbps || a.AlgBW != b.AlgBW || a.BusBW != b.BusBW || a.ActiveUs != b.ActiveUs {
				t.Errorf("%s: %v and %v Gbps, %v and %v GB/s in runs of different length", name, a.GoodputGbps, b.GoodputGbps, a.AlgBW, b.AlgBW)
			}
			near(name+": payload in twice the time", 2*b.ThroughputGbps, float64(a.ThroughputGbps))
			near(name+": goodput", a.GoodputGbps, float64(a.Bytes)*8e-3/float64(a.ActiveUs))
			// Its operations, and the last acknowledgements: the gaps are not in it.
			if took := float64(a.FlowsDone) * float64(a.FCTAvgUs); float64(a.ActiveUs) < took || float64(a.ActiveUs) > took+10*float64(a.FlowsDone) {
				t.Errorf("%s was active for %v us, its operations took %v", name, a.ActiveUs, took)
			}
			size, factor := 0.0, 0.0
			switch a.Label {
			case "ring":
				size, factor = 8*mib, 2*7./8
			case "tree":
				size, factor = mib, 2*7./8
			case "exchange":
				size, factor = 4*mib, 3./4
			}
			near(name+": algbw", a.AlgBW, size/(float64(a.FCTAvgUs)*1e-6)/1e9)
			near(name+": busbw", a.BusBW, factor*size/(float64(a.FCTAvgUs)*1e-6)/1e9)
			// In a ring and in an exchange every rank sends at busbw: no more than its
			// link, and not much less.
			if wire := 8 * float64(a.BusBW); a.Label != "tree" && (wire < 60 || wire > 100) {
				t.Errorf("%s: a bus bandwidth of %v Gbps on links of 100", name, wire)
			}
		}
	}
}
