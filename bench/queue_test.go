package bench

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

// bursts is an incast every 50 us, which is over well before the next.
const bursts = `
duration: 2ms
topology: {kind: star, hosts: 9, host_rate: 100Gbps}
nic: {model: reduced}
systems: [{engine: none}]
measure: {sample: 50us, window: 50us, links: [tor0->h8]}
workloads: [{kind: incast, receiver: h8, size: 32KB, rounds: 40, period: 50us}]
`

// A queue that is empty whenever it is looked at has a mean all the same, and its longest is
// seen.
func TestQueueOfPeriodicTraffic(t *testing.T) {
	coarse := run(t, parse(t, bursts)).Systems[0]
	fine := run(t, parse(t, bursts, "measure.sample=1us")).Systems[0]
	c, f := &coarse.Links[0], &fine.Links[0]
	if c.QueueMaxBytes < 200_000 || c.QueueAvgBytes < 50_000 || c.QueueAvgBytes != f.QueueAvgBytes || coarse.QueueAvgBytes != fine.QueueAvgBytes {
		t.Errorf("the mean queue is %v B at 50us and %v B at 1us, at most %d", c.QueueAvgBytes, f.QueueAvgBytes, c.QueueMaxBytes)
	}
	for _, sys := range []*results.System{coarse, fine} {
		q := seriesOf(t, sys, results.SeriesQueue, "tor0->h8")
		if got := largest(q.Max); got != stats.Float(c.QueueMaxBytes) {
			t.Errorf("the most that a series of %v us shows is %v B, expected %d", q.StepUs, got, c.QueueMaxBytes)
		}
	}
}

func seriesOf(t fataler, sys *results.System, kind, name string) *results.Series {
	for i := range sys.Series {
		if x := &sys.Series[i]; x.Kind == kind && x.Name == name {
			return x
		}
	}
	t.Fatalf("%s has no series %s of %s", sys.Name, kind, name)
	return nil
}

func distributionOf(t fataler, sys *results.System, kind, name string) *stats.Distribution {
	for i := range sys.Distributions {
		if x := &sys.Distributions[i]; x.Kind == kind && x.Name == name {
			return x
		}
	}
	t.Fatalf("%s has no distribution %s of %s", sys.Name, kind, name)
	return nil
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func largest(values []stats.Float) stats.Float {
	most := stats.Unmeasured
	for _, v := range values {
		most = larger(most, v)
	}
	return most
}

// Two packets come for each that goes: the mean and the most of the queue follow from what
// packets take on the wire.
func TestQueueOfTwoSenders(t *testing.T) {
	const text = `
duration: 1ms
topology: {kind: star, hosts: 3, host_rate: 100Gbps}
nic: {model: reduced, mtu: 1024}
systems: [{engine: none}]
measure: {sample: %s, window: %s, links: [tor0->h2]}
workloads: [{kind: incast, receiver: h2, size: 400KiB}]
`
	// The senders are in step, and the switch sends one packet of each after the other.
	const packets, framing = 400, 20
	wire := func(frame units.Bytes) units.Time { return (100 * units.Gbps).Serialize(frame + framing) }
	var arrival, free units.Time
	var area float64
	var waiting []units.Time // when packets leave
	most := 0
	last := units.Bytes(0)
	for i := range packets {
		op := ib.WriteMiddle
		if i == 0 {
			op = ib.WriteFirst
		}
		frame := nicmodel.FrameBytes(op, 1024)
		arrival += wire(frame)
		for range 2 {
			start := max(arrival, free)
			free = start + wire(frame)
			area += float64(frame) * float64(start-arrival)
			waiting = append(waiting, start)
			last = frame
		}
		n := 0
		for _, at := range waiting {
			if at > arrival {
				n++
			}
		}
		most = max(most, n)
	}
	for _, sample := range []string{"1us", "7us", "100us", "0"} {
		window := sample
		if sample == "0" {
			window = "10us"
		}
		sys := run(t, parse(t, fmt.Sprintf(text, sample, window))).Systems[0]
		l := &sys.Links[0]
		want := area / float64(sys.SimS*stats.Float(units.Second))
		if !within(l.QueueAvgBytes, want, 1e-9) || l.QueueAvgBytes != sys.QueueAvgBytes || l.QueueMaxBytes != int64(most)*int64(last) {
			t.Errorf("every %s: the queue is %v B, at most %d, expected %v and %d", sample, l.QueueAvgBytes, l.QueueMaxBytes, want, int64(most)*int64(last))
		}
	}
}

// Whatever the steps of the measurement, means and extremes are the same, and those of the
// steps of a series make up the whole; of links, priorities and buffers, with either model of
// the NIC, from any warm-up on.
func TestQueueOfAnySample(t *testing.T) {
	notUnderRace(t)
	const text = `
duration: %s
warmup: %s
topology: {kind: dumbbell, left: 4, right: 2, host_rate: 100Gbps, trunk_rate: 100Gbps, trunk_delay: 1us}
fabric: {buffer: 500KB, ecn: {kmin: 20KiB, kmax: 100KiB, pmax: 0.5}}
nic: {model: %s, mode: offload, ack_priority: 1, timeout: 6}
systems: [{engine: dcqcn}]
measure: {sample: %s, window: %s, links: [tor0->tor1, tor1->h4], switches: [tor0, tor1]}
workloads:
  - {kind: incast, name: on-off, receiver: h4, senders: [h0, h1, h2], size: 30KB, rounds: 6, period: 50us}
  - {kind: flows, name: long, flows: [{src: h3, dst: h5, size: unlimited}, {src: h5, dst: h2, size: unlimited, start: 77us}]}
`
	const duration = 300 * units.Microsecond
	type figures struct {
		avg  stats.Float
		most int64
	}
	models := []string{"reduced", "staged"}
	known, times := map[string][]figures{}, map[string][]stats.Float{}
	rapid.Check(t, func(t *rapid.T) {
		model := rapid.SampledFrom(models).Draw(t, "model")
		warmup := rapid.SampledFrom([]string{"0s", "13us", "100us", "123457ns"}).Draw(t, "warm-up")
		sample := units.Time(rapid.OneOf(rapid.SampledFrom([]int{1, 2, 5, 20, 30, 60, 100, 300}), rapid.IntRange(1, 300)).Draw(t, "sample [us]")) * units.Microsecond
		window := sample * units.Time(rapid.IntRange(1, 3).Draw(t, "windows"))
		if rapid.IntRange(0, 9).Draw(t, "no series") == 0 {
			sample = 0
		}
		s, err := scenario.Parse("test.yaml", fmt.Appendf(nil, text, duration, warmup, model, sample, window))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		sys := r.Systems[0]
		got := []figures{{sys.QueueAvgBytes, sys.QueueMaxBytes}}
		for i := range sys.Links {
			got = append(got, figures{sys.Links[i].QueueAvgBytes, sys.Links[i].QueueMaxBytes})
		}
		for i := range sys.Priorities {
			got = append(got, figures{sys.Priorities[i].QueueAvgBytes, sys.Priorities[i].QueueMaxBytes})
		}
		for _, n := range sys.LinkUse.QueueMaxBytes {
			got = append(got, figures{0, n})
		}
		of := model + warmup
		if known[of] == nil {
			known[of] = got
			if got[0].avg <= 0 || got[3].avg <= 0 || len(sys.Priorities) != 2 {
				t.Fatalf("nothing is queued: %v", got)
			}
		}
		if !slices.Equal(got, known[of]) {
			t.Fatalf("with steps of %v: %v, with others %v", sample, got, known[of])
		}
		for _, link := range sys.Links {
			d := distributionOf(t, sys, results.SeriesQueue, link.Link)
			if last := len(d.Values) - 1; d.Share[last] != 1 || d.Values[last] > stats.Float(link.QueueMaxBytes) || d.Values[0] != 0 {
				t.Fatalf("%s held %v to %v B, at most %d", link.Link, d.Values[0], d.Values[last], link.QueueMaxBytes)
			}
			of := of + link.Link
			if times[of] == nil {
				times[of] = d.Values
			}
			if !slices.Equal(d.Values, times[of]) {
				t.Fatalf("with steps of %v %s held %v, with others %v", sample, link.Link, d.Values, times[of])
			}
		}
		if sample == 0 || warmup != "0s" || duration%sample != 0 {
			return
		}
		for i := range sys.Links {
			x := seriesOf(t, sys, results.SeriesQueue, sys.Links[i].Link)
			sum := 0.0
			for _, v := range x.Values {
				sum += float64(v)
			}
			if mean := sum / float64(len(x.Values)); !within(sys.Links[i].QueueAvgBytes, mean, 1e-9) || largest(x.Max) != stats.Float(sys.Links[i].QueueMaxBytes) {
				t.Fatalf("with steps of %v %s has %v B, at most %d; its series %v and %v", sample, x.Name, sys.Links[i].QueueAvgBytes, sys.Links[i].QueueMaxBytes, mean, largest(x.Max))
			}
		}
	})
}

// A length weighs as long as it lasted: a queue of which every picosecond is counted has the
// same percentiles.
func TestOccupancy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := occupancy{h: stats.NewHistogram(1, maxQueue)}
		var all []int // one a picosecond
		held := 0
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			span := rapid.IntRange(0, 200).Draw(t, "span")
			all = append(all, slices.Repeat([]int{held}, span)...)
			held = rapid.IntRange(0, 2000).Draw(t, "bytes") // below 2048 each has its own bucket
			o.change(units.Time(len(all)), units.Bytes(held))
		}
		all = append(all, held)
		d := o.distribution(units.Time(len(all)), "a->b")
		slices.Sort(all)
		if len(d.Values) != len(d.Share) || len(d.Values) < 40 || d.Values[0] != stats.Float(all[0]) || d.Values[len(d.Values)-1] != stats.Float(all[len(all)-1]) {
			t.Fatalf("from %v to %v at %d shares, expected %d to %d", d.Values[0], d.Values[len(d.Values)-1], len(d.Values), all[0], all[len(all)-1])
		}
		for i, share := range d.Share {
			// The share of the time, to a picosecond of what rounding leaves open.
			at := float64(share) * float64(len(all))
			low, high := all[max(0, int(at-1.6))], all[min(len(all)-1, int(at+0.6))]
			if d.Values[i] < stats.Float(low) || d.Values[i] > stats.Float(high) {
				t.Fatalf("for %v of the time it is at most %v B, expected %d to %d", share, d.Values[i], low, high)
			}
		}
	})
}
