package fabric

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Three hosts at 100 Gbps, 1 us away from a switch of 600 ns latency, each send a
// packet at 0 to h0, and h1 a second one. A byte lasts 80 ps.
//
//	size 1000 from h1, h2, h3 (1020 bytes on the wire, 81.6 ns each)
//	all enter the switch at 81.6 + 1000 + 600 = 1681.6 ns
//	h1's leaves at once; 1000 + 8 bytes last (1008+20)*80 = 82.24 ns
//	h2's leaves at 1763.84, h3's at 1846.08
//	h1's second, of 500 bytes, enters at 1681.6 + 520*0.08 = 1723.2 and leaves at 1928.32
func TestPerHopRecordsByHand(t *testing.T) {
	r := newRig(t, Star(4, gig(100, units.Microsecond)), Default(), 1)
	for src := range int32(3) {
		r.send(0, whole{Size: 1000, Src: src + 1, Telemetry: telemetry.PerHop})
	}
	r.send(0, whole{Size: 500, Src: 1, Telemetry: telemetry.PerHop})
	r.run()
	want := []struct {
		src  int32
		size int32
		at   units.Time
		hop  telemetry.Hop
	}{
		{1, 1008, 1681_600 + 82_240 + 1000_000, telemetry.Hop{TxBytes: 0, QLen: 0, Time: 1681_600, Rate: 100 * units.Gbps}},
		{2, 1008, 1763_840 + 82_240 + 1000_000, telemetry.Hop{TxBytes: 1008, QLen: 1500, Time: 1763_840, Rate: 100 * units.Gbps}},
		{3, 1008, 1846_080 + 82_240 + 1000_000, telemetry.Hop{TxBytes: 2016, QLen: 500, Time: 1846_080, Rate: 100 * units.Gbps}},
		{1, 508, 1928_320 + 42_240 + 1000_000, telemetry.Hop{TxBytes: 3024, QLen: 0, Time: 1928_320, Rate: 100 * units.Gbps}},
	}
	for i, a := range r.nics[0].got {
		w := want[i]
		if a.Src != w.src || a.Size != w.size || a.At != w.at || !slices.Equal(a.Path, []telemetry.Hop{w.hop}) || a.MaxDelay != 0 {
			t.Errorf("packet %d: from %d, %d bytes, at %v, %+v; want %+v", i, a.Src, a.Size, a.At, a.Path, w)
		}
	}
}

// The same with the largest delay: packets do not grow.
func TestMaxDelayByHand(t *testing.T) {
	for _, on := range []bool{true, false} {
		cfg := Default()
		cfg.Switch.INT = on
		r := newRig(t, Star(4, gig(100, units.Microsecond)), cfg, 1)
		for src := range int32(3) {
			r.send(0, whole{Size: 1000, Src: src + 1, Telemetry: telemetry.MaxDelay})
		}
		r.send(0, whole{Size: 500, Src: 1, Telemetry: telemetry.MaxDelay})
		r.send(0, whole{Size: 500, Src: 2})
		r.run()
		// The fourth enters at 1723.2 ns and leaves at 1681.6 + 3 * 81.6; the
		// fifth asks for nothing.
		want := []units.Time{0, 81_600, 163_200, 1681_600 + 3*81_600 - 1723_200, 0}
		for i, a := range r.nics[0].got {
			if !on {
				want[i] = 0
			}
			if a.MaxDelay != want[i] || a.Path != nil {
				t.Errorf("telemetry %v: packet %d has waited %v, want %v", on, i, a.MaxDelay, want[i])
			}
		}
	}
}

// Of two congested hops, the larger delay counts: MaxDelay is no sum.
func TestMaxDelayIsTheLargestOfThePath(t *testing.T) {
	l := gig(100, 0)
	r := newRig(t, Chain(3, 6, l, l), Default(), 1)
	probe := whole{Size: 1000, Src: 0, Dst: 12, Telemetry: telemetry.MaxDelay, User: 1}
	for src := range int32(4) { // congest tor0->tor1, probe last
		r.send(0, whole{Size: 1000, Src: 5 - src, Dst: 13})
	}
	r.send(0, whole{Size: 1000, Src: 0, Dst: 13})
	r.send(0, probe)
	for src := range int32(3) { // and tor2->h12
		for range 10 {
			r.send(0, whole{Size: 1000, Src: 14 + src, Dst: 12})
		}
	}
	r.run()
	for _, a := range r.nics[12].got {
		if a.Telemetry != telemetry.MaxDelay {
			continue
		}
		// On an idle path it would have taken this long; all the rest is queueing.
		waited := a.At - 81600 - r.n.BaseDelay(0, 12, 1000)
		if a.MaxDelay <= 0 || a.MaxDelay >= waited {
			t.Errorf("the largest delay is %v of %v waited", a.MaxDelay, waited)
		}
		return
	}
	t.Error("the probe is missing")
}

func TestRecordsOverflow(t *testing.T) {
	l := gig(100, 0)
	r := newRig(t, Chain(11, 1, l, l), Default(), 1)
	a := r.lone(t, whole{Size: 1000, Dst: 10, Telemetry: telemetry.PerHop})
	if len(a.Path) != telemetry.MaxHops || a.Hops != 11 || a.Size != 1000+8*8 {
		t.Errorf("%d records, %d hops, %d bytes", len(a.Path), a.Hops, a.Size)
	}
	if r.n.Live() != 0 {
		t.Error("records outlive their packet")
	}
}

// Brownfield: only some switches report.
func TestTelemetryBySwitch(t *testing.T) {
	l := gig(100, 0)
	cfg := Default()
	plain := cfg.Switch
	plain.INT = false
	cfg.Switches = map[string]SwitchConfig{"tor1": plain}
	r := newRig(t, Chain(3, 1, l, l), cfg, 1)
	a := r.lone(t, whole{Size: 1000, Dst: 2, Telemetry: telemetry.PerHop})
	if len(a.Path) != 2 || a.Hops != 3 || a.Size != 1016 {
		t.Errorf("%d records from %d switches, %d bytes", len(a.Path), a.Hops, a.Size)
	}
}

// An acknowledgement of kind PerHop adds to the records it echoes.
func TestEchoedRecordsGrow(t *testing.T) {
	r := newRig(t, Star(2, gig(100, 0)), Default(), 1)
	n := r.n
	data := n.Alloc()
	n.Attach(1, turn{n})
	n.Transmit(0, 0, data, &Frame{Size: 1000, Dst: 1, Telemetry: telemetry.PerHop})
	r.run()
	if got := r.nics[0].got; len(got) != 1 || len(got[0].Path) != 2 || got[0].Path[0].Time >= got[0].Path[1].Time {
		t.Errorf("%+v", got)
	}
}

// turn answers a packet with one that carries its records.
type turn struct{ n *Network }

func (e turn) Pause(*Lane, units.Time, uint8) {}
func (e turn) Arrive(_ *Lane, now units.Time, h Handle, f *Frame) {
	ack := e.n.Alloc()
	back := Frame{Size: 64, Telemetry: telemetry.PerHop}
	e.n.MoveINT(h, f, ack, &back)
	e.n.Free(h)
	e.n.Transmit(now, 1, ack, &back)
}

// ecnRig sends 8:1 with per-hop records, so that each packet tells the queue it
// left behind.
func ecnRig(t *testing.T, cfg Config, rate units.Rate, flags Flags) []arrival {
	r := newRig(t, Star(9, gig(rate, units.Microsecond)), cfg, 1)
	for src := 1; src < 9; src++ {
		for range 400 {
			r.send(0, whole{Size: 1000, Src: int32(src), Flags: flags, Telemetry: telemetry.PerHop})
		}
	}
	r.run()
	var marks uint64
	for _, a := range r.nics[0].got {
		if a.Flags&CE != 0 {
			marks++
		}
	}
	if s := r.n.Port(r.link(t, "tor0->h0")).Stats(); s.Marks != marks {
		t.Errorf("%d marks arrive, %d counted", marks, s.Marks)
	}
	return r.nics[0].got
}

func TestECNStep(t *testing.T) {
	cfg := Default()
	cfg.Switch.Classes[0].ECN = ECN{Kmin: 100 * units.KB, Kmax: 100 * units.KB}
	var marked int
	for _, a := range ecnRig(t, cfg, 100, ECT) {
		ce := a.Flags&CE != 0
		if ce != (a.Path[0].QLen > 100*units.KB) {
			t.Fatalf("a packet that left %v behind: marked %v", a.Path[0].QLen, ce)
		}
		if ce {
			marked++
		}
	}
	if marked == 0 {
		t.Error("nothing was marked")
	}
	for _, a := range ecnRig(t, cfg, 100, 0) {
		if a.Flags != 0 {
			t.Fatal("a packet without ECT was marked")
		}
	}
}

func TestECNProbability(t *testing.T) {
	cfg := Default()
	cfg.Switch.Classes[0].ECN = ECN{Kmin: 200 * units.KB, Kmax: 1200 * units.KB, Pmax: 0.4}
	var expect, variance, marked float64
	var sure int
	for _, a := range ecnRig(t, cfg, 100, ECT) {
		q := float64(a.Path[0].QLen)
		ce := a.Flags&CE != 0
		switch {
		case q <= 200e3 && ce:
			t.Fatalf("marked at %v", q)
		case q > 1200e3 && !ce:
			t.Fatalf("not marked at %v", q)
		case q > 1200e3:
			sure++
		case q > 200e3:
			p := 0.4 * (q - 200e3) / 1000e3
			expect += p
			variance += p * (1 - p)
			if ce {
				marked++
			}
		}
	}
	if sure == 0 || expect < 100 {
		t.Fatalf("%v marks expected, %d packets above Kmax: too few to tell", expect, sure)
	}
	if d := marked - expect; d*d > 16*variance {
		t.Errorf("%v marks, expected %v, variance %v", marked, expect, variance)
	}
}

func TestECNThresholdsScaleWithTheRate(t *testing.T) {
	cfg := Default()
	cfg.Switch.Classes[0].ECN = ECN{Kmin: 100 * units.KB, Kmax: 100 * units.KB, AtRate: 25 * units.Gbps}
	for _, a := range ecnRig(t, cfg, 100, ECT) {
		if (a.Flags&CE != 0) != (a.Path[0].QLen > 400*units.KB) {
			t.Fatalf("a packet that left %v behind has flags %b", a.Path[0].QLen, a.Flags)
		}
	}
}
