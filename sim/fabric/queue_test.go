package fabric

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// drawConfig returns a configuration with little buffer, and PFC for some
// priorities if wanted.
func drawConfig(t *rapid.T, pfc bool) Config {
	c := Default()
	c.Priorities = rapid.IntRange(1, MaxPriorities).Draw(t, "priorities")
	c.Switch.INT = rapid.Bool().Draw(t, "int")
	c.Switch.Buffer = units.Bytes(rapid.IntRange(10_000, 100_000).Draw(t, "buffer"))
	for i := range c.Priorities {
		k := &c.Switch.Classes[i]
		k.Weight = rapid.IntRange(0, 4).Draw(t, "weight")
		k.Alpha = rapid.SampledFrom([]float64{1.0 / 16, 0.5, 1, 8}).Draw(t, "alpha")
		k.ECN = ECN{Kmin: 2000, Kmax: units.Bytes(rapid.SampledFrom([]int{2000, 8000}).Draw(t, "kmax")), Pmax: 0.5}
		if pfc && rapid.Bool().Draw(t, "lossless") {
			k.PFC = PFC{Lossless: true, XOFF: units.Bytes(rapid.SampledFrom([]int{0, 5000, 20000}).Draw(t, "xoff"))}
			c.Switch.Buffer = 16 * units.MiB // the headroom of many ports
		}
	}
	return c
}

// Every packet is delivered, dropped or lost, exactly once; while it is none of
// these it is in the network. Packets of a flow keep their order.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t, true)
		if rapid.Bool().Draw(t, "faults") {
			cfg.Faults = []Fault{{"*", 0.05}}
		}
		// Only on a tree can pauses not wait for each other in a circle.
		r := newRig(t, drawTopology(t, true), cfg, rapid.Uint64().Draw(t, "seed"))
		drawTraffic(t, r, 150)
		for until := units.Time(0); r.e.Pending() > 0; until += units.Microsecond {
			r.e.RunUntil(until)
			tot := r.n.Totals()
			if tot.Sent != tot.Delivered+tot.Dropped+tot.Lost+uint64(r.n.Live()) {
				t.Fatalf("%+v with %d packets in the network", tot, r.n.Live())
			}
			if packets, bytes := r.n.InFlight(); packets != r.n.Live() || bytes < units.Bytes(packets) {
				t.Fatalf("%d packets of %v are in flight, %d live", packets, bytes, r.n.Live())
			}
		}
		r.drained(t)
		r.inOrder(t)
		if r.n.Totals().Sent != 150 {
			t.Fatalf("%d of 150 packets were sent", r.n.Totals().Sent)
		}
	})
}

func TestConservationOnGraphsWithCycles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, drawTopology(t, false), drawConfig(t, false), rapid.Uint64().Draw(t, "seed"))
		drawTraffic(t, r, 150)
		r.run()
		r.drained(t)
		r.inOrder(t)
	})
}

// From the first packet until the queues are empty the port never rests,
// whatever the discipline and the priorities.
func TestWorkConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Default()
		for i := range cfg.Switch.Classes {
			cfg.Switch.Classes[i].Weight = rapid.IntRange(0, 4).Draw(t, "weight")
		}
		r := newRig(t, Star(5, gig(100, 0)), cfg, 1)
		var wire units.Time
		for src := int32(1); src < 5; src++ {
			for i := range 20 {
				size := int32(rapid.IntRange(64, 4096).Draw(t, "size"))
				priority := uint8(rapid.IntRange(0, 7).Draw(t, "priority"))
				if i == 0 {
					size, priority = 4096, 7 // all first ones arrive together and give the port enough to do
				}
				wire += units.Time(size+20) * 80
				r.send(0, whole{Size: size, Src: src, Priority: priority})
			}
		}
		r.run()
		got := r.nics[0].got
		first, last := got[0], got[len(got)-1]
		if idle := last.At - (first.At - units.Time(first.Size+20)*80) - wire; idle != 0 {
			t.Fatalf("the port rested for %v", idle)
		}
		if busy := r.n.Port(r.link(t, "tor0->h0")).Stats().Busy; busy != wire {
			t.Fatalf("busy for %v of %v", busy, wire)
		}
	})
}

// backlog queues packets of one size in several priorities from hosts 1, 2, ...,
// one each, to host 0, and returns the priorities in the order of arrival.
func backlog(t *testing.T, cfg Config, priorities []uint8, sizes []int32, packets int) (*rig, []uint8) {
	t.Helper()
	r := newRig(t, Star(len(priorities)+1, gig(100, 0)), cfg, 1)
	for i, p := range priorities {
		for range packets {
			r.send(0, whole{Size: sizes[i], Src: int32(i + 1), Priority: p})
		}
	}
	r.run()
	var order []uint8
	for _, a := range r.nics[0].got {
		order = append(order, a.Priority)
	}
	return r, order
}

func TestStrictPriority(t *testing.T) {
	// All three send at once and go on; the first to arrive is that of the first
	// link, and from then on the most urgent that waits goes first: the packets
	// of priority 5 as they come, then those of 2, then the rest.
	_, order := backlog(t, Default(), []uint8{0, 2, 5}, []int32{1000, 1000, 1000}, 4)
	if want := []uint8{0, 5, 5, 5, 5, 2, 2, 2, 2, 0, 0, 0}; !slices.Equal(order, want) {
		t.Errorf("priorities arrive as %v, want %v", order, want)
	}
}

func TestDeficitRoundRobinSharesBytes(t *testing.T) {
	cfg := Default()
	cfg.Switch.Buffer = 1 << 30
	weights := []int{1, 2, 5}
	for i, w := range weights {
		cfg.Switch.Classes[i].Weight = w
	}
	sizes := []int32{1500, 4096, 256}
	r := newRig(t, Star(4, gig(100, 0)), cfg, 1)
	for i := range weights {
		for range 4_000_000 / int(sizes[i]) {
			r.send(0, whole{Size: sizes[i], Src: int32(i + 1), Priority: uint8(i)})
		}
		r.send(0, whole{Size: sizes[i], Src: int32(i + 1), Priority: 7}) // strict goes before all of them
	}
	r.run()
	var bytes [3]int
	var strict []int
	for i, a := range r.nics[0].got {
		if a.Priority == 7 {
			strict = append(strict, i)
			continue
		}
		bytes[a.Priority] += int(a.Size)
		// While all are backlogged, bytes are as the weights, give or take a
		// round: a quantum is a MaxFrame and its growth for each unit of weight.
		if bytes[2] < 4_000_000-100_000 {
			for j, w := range weights {
				if off := bytes[j]*5 - bytes[2]*w; off > 5*2*5*4500 || off < -5*2*5*4500 {
					t.Fatalf("after %d packets the bytes are %v, off their weights %v", i, bytes, weights)
				}
			}
		}
	}
	if strict[0] > 3 || strict[2] > 40 { // each is its sender's first
		t.Errorf("the strict packets arrive at places %v", strict)
	}
}

func TestRoundRobinSkipsThePaused(t *testing.T) {
	cfg := Default()
	cfg.Switch.Classes[0].Weight, cfg.Switch.Classes[1].Weight = 1, 1
	r := newRig(t, Star(3, gig(100, 0)), cfg, 1)
	r.n.sendPause(0, 0, 1<<0)
	for i := range uint8(2) {
		for range 5 {
			r.send(units.Microsecond, whole{Size: 1000, Src: int32(i) + 1, Priority: i})
		}
	}
	r.run()
	if got := r.nics[0].got; len(got) != 5 || got[0].Priority != 1 {
		t.Fatalf("%d packets arrive past the pause of priority 0", len(got))
	}
	if q := r.n.Port(r.link(t, "tor0->h0")); q.QueueOf(0) != 5000 || q.QueueOf(1) != 0 || q.Queue() != 5000 || q.Paused() != 1 {
		t.Errorf("the port holds %v and %v, %v in all, pauses %b", q.QueueOf(0), q.QueueOf(1), q.Queue(), q.Paused())
	}
	r.n.sendPause(r.e.Now(), 0, 0)
	r.run()
	if got := r.nics[0].got; len(got) != 10 {
		t.Errorf("%d packets arrive after the pause", len(got))
	}
}

// Choudhury and Hahne: with n queues backlogged, each grows to
// alpha/(1+n alpha) of the buffer.
func TestDynamicThresholds(t *testing.T) {
	for _, c := range []struct {
		alpha  float64
		queues int
	}{{1, 1}, {0.5, 1}, {4, 1}, {1, 2}, {0.25, 3}} {
		cfg := Default()
		cfg.Switch.Buffer = 1 << 20
		cfg.Switch.Classes[0].Alpha = c.alpha
		// Receivers h0 to h(queues-1), for each four senders.
		r := newRig(t, Star(5*c.queues, gig(100, 0)), cfg, 1)
		for i := range 2000 {
			for s := range 4 * c.queues {
				// Sources out of step: none finds its turn always free.
				r.send(units.Time(i*s), whole{Size: 1000, Src: int32(c.queues + s), Dst: int32(s % c.queues)})
			}
		}
		r.e.RunUntil(150 * units.Microsecond)
		want := c.alpha / (1 + float64(c.queues)*c.alpha) * (1 << 20)
		for i := range c.queues {
			p := r.n.Port(r.n.linkOf(r.n.hosts[i].down))
			if q, s := p.Queue(), p.Stats(); float64(q) > want+1000 || float64(q) < want-3000 || s.Drops == 0 || s.DropBytes != 1000*units.Bytes(s.Drops) {
				t.Errorf("alpha %v, %d queues: %v in queue %d, want %.0f; %d drops", c.alpha, c.queues, q, i, want, s.Drops)
			}
		}
		if b, err := r.n.Buffer("tor0"); err != nil || b.Shared != 1<<20 || b.Used > b.MaxUsed || b.Used < units.Bytes(want)*units.Bytes(c.queues)-9000 {
			t.Errorf("alpha %v: buffer %+v, %v", c.alpha, b, err)
		}
	}
	if _, err := newRig(t, Star(2, gig(1, 0)), Default(), 1).n.Buffer("h0"); err == nil {
		t.Error("a host has a buffer")
	}
}

func TestFaults(t *testing.T) {
	cfg := Default()
	cfg.Faults = []Fault{{"*", 1}, {"h0->tor0", 0.1}, {"tor0->h1", 0}}
	r := newRig(t, Star(3, gig(100, 0)), cfg, 1)
	for range 10000 {
		r.send(0, whole{Size: 100, Dst: 1})
		r.send(0, whole{Size: 100, Src: 1, Dst: 2})
	}
	r.run()
	// 1000 expected, 30 standard deviation.
	if lost := r.n.Port(r.link(t, "h0->tor0")).Stats().Lost; lost < 850 || lost > 1150 || int(lost)+len(r.nics[1].got) != 10000 {
		t.Errorf("%d packets lost, %d arrived", lost, len(r.nics[1].got))
	}
	if s := r.n.Port(r.link(t, "h1->tor0")).Stats(); s.Lost != 10000 || s.TxPackets != 10000 || s.Busy != 10000*120*80 {
		t.Errorf("a link that loses all: %+v", s)
	}
	if n := r.n.Live(); n != 0 {
		t.Errorf("%d packets live", n)
	}
}
