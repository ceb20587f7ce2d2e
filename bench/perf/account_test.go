package perf

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// Intervals lie one behind the other from a row's beginning, each as long as was
// asked for but the last, and come to what the row came to.
func tiles(t *testing.T, row *Row, each time.Duration, bytes uint64) {
	t.Helper()
	var sum uint64
	var samples uint64
	var cuts Cuts
	end := stats.Float(0)
	for k, i := range row.Intervals {
		span := float64(i.EndSeconds - i.StartSeconds)
		if i.StartSeconds != end || !(span > 0) {
			t.Errorf("interval %d is from %v to %v, after one that ends at %v", k, i.StartSeconds, i.EndSeconds, end)
		}
		// One in which nobody looked stands for several.
		if n := span / each.Seconds(); k < len(row.Intervals)-1 && math.Abs(n-math.Round(n)) > 1e-6 {
			t.Errorf("interval %d lasts %v s, which is not %v", k, span, each)
		}
		if got := float64(i.Bytes) * 8e-9 / span; math.Abs(got-float64(i.ThroughputGbps)) > 1e-9*got {
			t.Errorf("interval %d: %v Gbit/s, but %d bytes in %v s", k, i.ThroughputGbps, i.Bytes, span)
		}
		end = i.EndSeconds
		sum += i.Bytes
		if e := i.Engine; e != nil {
			samples += e.Samples
			cuts.RTT += e.Cuts.RTT
		}
	}
	if sum != bytes {
		t.Errorf("intervals have %d bytes together, of %d", sum, bytes)
	}
	if e := row.Engine; e != nil && (samples != e.Samples || cuts != e.Cuts) {
		t.Errorf("intervals have %d round trips and cuts %v, the row %d and %v", samples, cuts, e.Samples, e.Cuts)
	}
}

func TestIntervalsAddUp(t *testing.T) {
	for _, test := range Tests() {
		for name, p := range map[string]Pacing{"unpaced": {}, "timely": {Engine: "timely", Settings: []string{"t_low=1us", "t_high=2us", "min_rate=1Gbps"}}} {
			c := DefaultConfig(test)
			c.Iterations, c.Interval, c.QPs = 300, 20*time.Microsecond, 2
			if test.Verb != Atomic {
				c.Size = 1000
			}
			seen := 0
			c.OnInterval = func(*Interval) { seen++ }
			r := run(t, c, p)
			row, qps := r.Rows[0], uint64(c.QPs)
			if test.Latency {
				qps = 1
			}
			if len(row.Intervals) < 2 || seen != len(row.Intervals) {
				t.Errorf("%v, %s: %d intervals, %d called for", test, name, len(row.Intervals), seen)
			}
			if (row.Engine != nil) != (name == "timely") || row.Repairs == nil || *row.Repairs != (Repairs{}) || row.Host != nil {
				t.Errorf("%v, %s: %+v, %+v, %+v", test, name, row.Engine, row.Repairs, row.Host)
			}
			tiles(t, row, c.Interval, qps*uint64(c.Iterations)*uint64(c.Size))
		}
	}
}

// One that is held at its floor shows it: TIMELY answers every round trip above t_high
// with a cut.
func TestEngineAtItsFloor(t *testing.T) {
	c := DefaultConfig(Test{Verb: Write})
	c.Iterations, c.Size = 2000, 16384
	r := run(t, c, Pacing{Engine: "timely", Settings: []string{"t_low=1us", "t_high=2us", "min_rate=2Gbps", "max_rate=50Gbps"}})
	e := r.Rows[0].Engine
	if e == nil || e.FloorGbps != 2 || e.CeilingGbps != 50 || e.RateGbps != 2 || e.LowestGbps != 2 || !(e.HighestGbps > 20 && e.HighestGbps <= 50) {
		t.Fatalf("%+v", e)
	}
	between(t, "at the floor", e.AtFloor, 0.9, 1)
	// The idle model's round trip of a segment less its serialisation: above t_high.
	between(t, "median round trip", e.RTTP50Us, 2, 20)
	if e.Samples != 2000 || e.Cuts.RTT == 0 || e.Cuts != (Cuts{RTT: e.Cuts.RTT}) || e.WindowBytes.Measured() {
		t.Errorf("%+v", e)
	}
	h := hints(r)
	if len(h) != 1 || !strings.HasPrefix(h[0], "the engine held the rate at its floor, 2.00 Gb/sec, for 9") {
		t.Errorf("hints %q", h)
	}
}

// Over sockets, with both ends on one device, another goroutine than the end's own may
// take its completions: the books are right nevertheless.
func TestIntervalsOverSockets(t *testing.T) {
	for _, same := range []bool{false, true} {
		t.Run(fmt.Sprintf("one device %v", same), func(t *testing.T) { intervalsOverSockets(t, same) })
	}
}

func intervalsOverSockets(t *testing.T, same bool) {
	a, b := soft(t, "")
	p := Pacing{Engine: "timely"}
	wrapped, err := p.Wrap(a)
	if err != nil {
		t.Fatal(err)
	}
	peer := b
	if same {
		peer = wrapped
	}
	c := DefaultConfig(Test{Verb: Send})
	c.Iterations, c.Size, c.Interval, c.Stall, c.QPTimeout = 200, 1000, 5*time.Millisecond, 20*time.Second, 20
	c.Bidirectional = same
	r, err := Pair(wrapped, peer, c)
	if err != nil {
		t.Fatal(err)
	}
	row := r.Rows[0]
	bytes := uint64(c.Iterations * c.Size)
	if same {
		bytes *= 2 // what came counts too
	}
	tiles(t, row, c.Interval, bytes)
	// A message that was acknowledged with a later one has no round trip.
	if row.Engine == nil || row.Engine.Samples == 0 || row.Engine.Samples > 200 {
		t.Errorf("engine %+v", row.Engine)
	}
	if h := row.Host; h == nil || !h.Timestamps || !(h.PollGapP99Us > 0 && h.PollGapP99Us <= h.PollGapMaxUs) {
		t.Errorf("host %+v", h)
	}
	if err := wrapped.Close(); err != nil {
		t.Error(err)
	}
}

func TestHints(t *testing.T) {
	row := func(p50, floor, gap stats.Float, stamps bool) *Row {
		return &Row{Engine: &Engine{RTTP50Us: p50, AtFloor: floor, FloorGbps: 0.01}, Host: &Host{PollGapP99Us: gap, PollGapMaxUs: 2 * gap, Timestamps: stamps}}
	}
	const floor, late, stamp, processor, other = "the engine held", "this host polls late: it was away from its completions for up to 900 us (p99 over time; at most 1800 us), where the median round trip is 100 us",
		"  -> completions have no timestamps", "  -> give this process a processor", "this host polled in time"
	for name, c := range map[string]struct {
		rows []*Row
		want []string
	}{
		"nothing paced":      {[]*Row{{Host: &Host{PollGapP99Us: 900}}}, nil},
		"all is well":        {[]*Row{row(100, 0, 9, true)}, nil},
		"no bounds":          {[]*Row{row(100, stats.Unmeasured, 9, true)}, nil},
		"no round trips":     {[]*Row{row(stats.Unmeasured, stats.Unmeasured, 900, true)}, nil},
		"late":               {[]*Row{row(100, 0, 900, true)}, []string{late, processor}},
		"late, polled times": {[]*Row{row(100, 0.5, 900, false)}, []string{floor, late, stamp, processor}},
		"the other end":      {[]*Row{row(100, 0.5, 9, true)}, []string{floor, other, "  -> where the other end"}},
		"the worst row":      {[]*Row{row(100, 0, 300, true), row(100, 0, 900, true)}, []string{late, processor}},
	} {
		got := hints(&Result{Rows: c.rows})
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for i, h := range got {
			if !strings.HasPrefix(h, c.want[i]) {
				t.Errorf("%s: %q, want %q", name, h, c.want[i])
			}
		}
	}
}

// named is a device of which only the name is asked.
type named struct {
	verbs.Device
	name string
}

func (n named) Name() string { return n.name }

func TestKernelCounters(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	class := fstest.MapFS{
		"mlx5_0/ports/1/hw_counters/packet_seq_err":        file("3\n"),
		"mlx5_0/ports/1/hw_counters/implied_nak_seq_err":   file("4\n"),
		"mlx5_0/ports/1/hw_counters/local_ack_timeout_err": file("5\n"),
		"mlx5_0/ports/1/hw_counters/rnr_nak_retry_err":     file("no number\n"),
		"rxe0/ports/2/hw_counters/rcvd_seq_err":            file("6\n"),
	}
	u := stats.Unmeasured
	for _, c := range []struct {
		name string
		port int
		want *Repairs
	}{
		{"ibv:mlx5_0", 1, &Repairs{u, 7, 5, u}},
		{"ibv:mlx5_0?x=y", 1, &Repairs{u, 7, 5, u}},
		{"ibv:mlx5_0", 2, nil},
		{"ibv:rxe0", 2, &Repairs{u, 6, u, u}},
		{"other:mlx5_0", 1, nil},
	} {
		r := kernelRepairs(class, named{name: c.name}, c.port)
		same := cmp.Comparer(func(a, b stats.Float) bool { return a == b || !a.Measured() && !b.Measured() })
		if diff := cmp.Diff(c.want, r.report(), same); diff != "" {
			t.Errorf("%s, port %d: %s", c.name, c.port, diff)
		}
	}
	// What was counted before does not count, and a counter that begins anew is no
	// huge number.
	before := repaired{verbs.Repairs{Timeouts: 5, RNRNAKs: 9}, [...]bool{true, true, true, false}}
	after := repaired{verbs.Repairs{Retransmitted: 2, Timeouts: 8, RNRNAKs: 1}, [...]bool{true, true, true, true}}
	got := after.since(&before)
	if want := (repaired{verbs.Repairs{Retransmitted: 2, Timeouts: 3}, before.has}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A shim and what stamps hide neither the counting queue pair.
func TestCountsBelowAShim(t *testing.T) {
	a, b := model(t, "")
	c := DefaultConfig(Test{Verb: Write})
	c.Iterations, c.Service = 10, ib.RC
	dev, err := Pacing{Engine: "timely"}.Wrap(a)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Pair(dev, b, c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Rows[0].Repairs == nil {
		t.Error("no counters")
	}
	if err := errors.Join(dev.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}
