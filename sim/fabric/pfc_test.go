package fabric

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// incast has every host but 0 send to host 0.
func (r *rig) incast(packets int, size int32) {
	for h := 1; h < r.topo.Hosts(); h++ {
		for range packets {
			r.send(0, whole{Size: size, Src: int32(h)})
		}
	}
}

func losslessConfig(pfc PFC) Config {
	c := Default()
	c.Priorities = 2
	pfc.Lossless = true
	c.Switch.Classes[0].PFC = pfc
	return c
}

func TestPFCKeepsAnIncastLossless(t *testing.T) {
	l := gig(100, units.Microsecond)
	for name, topo := range map[string]*Topology{
		"star":     Star(17, l),
		"dumbbell": Dumbbell(1, 16, l, l),
	} {
		cfg := losslessConfig(PFC{XOFF: 50 * units.KB})
		r := newRig(t, topo, cfg, 1)
		r.incast(500, 1000)
		r.run()
		if tot := r.n.Totals(); tot.Dropped != 0 || tot.Delivered != 16*500 {
			t.Errorf("%s: %+v", name, tot)
		}
		var paused units.Time
		var frames uint64
		for h := 1; h < 17; h++ {
			paused += r.n.Port(r.n.linkOf(r.n.hosts[h].port)).Stats().Paused[0]
			frames += r.n.Port(r.n.linkOf(r.n.hosts[h].down)).Stats().PauseFrames
			if s := r.n.Port(r.n.linkOf(r.n.hosts[h].port)).Stats(); s.Paused[1] != 0 {
				t.Errorf("%s: priority 1 was paused for %v", name, s.Paused[1])
			}
		}
		// 16 hosts share a link for 500 packets each: all of them rest, in sum,
		// nearly 15/16 of 16 * 500 * 16 packets' time.
		if total := 8000 * 16 * 81600 * units.Picosecond; paused < total*8/10 || paused > total {
			t.Errorf("%s: hosts were paused for %v, of %v", name, paused, total)
		}
		if frames == 0 || frames%2 != 0 {
			t.Errorf("%s: %d pause frames", name, frames)
		}

		// The same without PFC drops, so that this test can fail.
		cfg.Switch.Classes[0].PFC.Lossless = false
		cfg.Switch.Buffer = units.MB
		r = newRig(t, topo, cfg, 1)
		r.incast(500, 1000)
		r.run()
		if r.n.Totals().Dropped == 0 {
			t.Errorf("%s: nothing dropped without PFC", name)
		}
	}
}

// The computed headroom suffices for any link, and no loss means that it is not
// too small. That it isn't far too large is for TestHeadroomIsNeeded.
func TestHeadroomIsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := losslessConfig(PFC{XOFF: units.Bytes(rapid.IntRange(1, 20000).Draw(t, "xoff"))})
		cfg.Switch.Latency = units.Time(rapid.IntRange(0, 2000).Draw(t, "latency")) * units.Nanosecond
		cfg.Switch.Buffer = 64 * units.MiB
		cfg.MaxFrame = units.Bytes(rapid.SampledFrom([]int{1024, 4096, 9216}).Draw(t, "max frame"))
		cfg.Switch.Classes[1].PFC = cfg.Switch.Classes[0].PFC
		r := newRig(t, drawTopology(t, true), cfg, 1)
		for src := 1; src < r.topo.Hosts(); src++ {
			for range 60 {
				// Both ways, so that pause frames have to wait.
				p := whole{Size: int32(cfg.MaxFrame), Src: int32(src), Priority: uint8(src % 2)}
				r.send(0, p)
				p.Src, p.Dst = p.Dst, p.Src
				r.send(0, p)
			}
		}
		r.run()
		if tot := r.n.Totals(); tot.Dropped != 0 {
			t.Fatalf("%d packets dropped", tot.Dropped)
		}
		r.drained(t)
	})
}

func TestHeadroomIsNeeded(t *testing.T) {
	drops := func(share float64) uint64 {
		r := newRig(t, Star(3, gig(100, 5*units.Microsecond)), losslessConfig(PFC{XOFF: 10 * units.KB}), 1)
		for i := range r.n.holds {
			r.n.holds[i].headroom = int32(share * float64(r.n.holds[i].headroom))
		}
		r.n.sendPause(0, 0, 1) // while nothing leaves, all that comes must fit
		r.e.RunUntil(20 * units.Microsecond)
		r.incast(500, 4352)
		for range 500 { // the reverse link is taken, too
			r.send(0, whole{Size: 4352, Dst: 1, Priority: 1})
			r.send(0, whole{Size: 4352, Dst: 2, Priority: 1})
		}
		r.e.RunUntil(100 * units.Microsecond)
		r.n.sendPause(r.e.Now(), 0, 0)
		r.run()
		return r.n.Totals().Dropped
	}
	if d := drops(1); d != 0 {
		t.Errorf("%d drops with the computed headroom", d)
	}
	if drops(0.95) == 0 {
		t.Error("no drops with 95 percent of the computed headroom")
	}
}

// Dynamic XOFF, little buffer and several congested ports: the shared part may
// run out at any time, and still nothing is lost.
func TestDynamicXOFFIsLossless(t *testing.T) {
	cfg := losslessConfig(PFC{})
	cfg.Switch.Buffer = 4 * units.MB // of which all but 10 percent is headroom
	r := newRig(t, Star(60, gig(100, units.Microsecond)), cfg, 1)
	if b, _ := r.n.Buffer("tor0"); b.Shared > cfg.Switch.Buffer/2 {
		t.Fatalf("%v of the buffer is shared: the test needs less", b.Shared)
	}
	for src := range int32(60) {
		for i := range int32(100) {
			r.send(0, whole{Size: 4096, Src: src, Dst: (src/20*20 + 1 + (src+i)%3) % 60})
		}
	}
	r.run()
	if tot := r.n.Totals(); tot.Dropped != 0 || tot.Delivered != 6000 {
		t.Errorf("%+v", tot)
	}
}

// An XOFF above all the shared buffer there is comes to the same: what does not
// fit there is for the headroom.
func TestStaticXOFFAboveTheBufferIsLossless(t *testing.T) {
	cfg := losslessConfig(PFC{XOFF: units.GB})
	cfg.Switch.Buffer = units.MB
	r := newRig(t, Star(17, gig(100, units.Microsecond)), cfg, 1)
	r.incast(500, 1000)
	r.run()
	b, _ := r.n.Buffer("tor0")
	if tot := r.n.Totals(); tot.Dropped != 0 || b.MaxUsed > b.Shared || b.MaxUsed < b.Shared-1000 {
		t.Errorf("%+v, buffer %+v", tot, b)
	}
}

// With headroom and XOFF below a packet nothing can be admitted; the sender must
// not be left paused for ever.
func TestAbsurdThresholdsDoNotHang(t *testing.T) {
	r := newRig(t, Star(3, gig(100, 0)), losslessConfig(PFC{XOFF: 10, Headroom: 10}), 1)
	r.incast(10, 1000)
	r.run()
	if tot := r.n.Totals(); tot.Sent != 20 || tot.Dropped == 0 || tot.Sent != tot.Dropped+tot.Delivered {
		t.Errorf("%+v", tot)
	}
}

func TestPauseFramesTakeTheirTime(t *testing.T) {
	r := newRig(t, Star(2, gig(100, units.Microsecond)), Default(), 1)
	down := r.n.Port(r.link(t, "tor0->h0"))
	// A packet of 1480 bytes takes the uplink for 120 ns; the frame of 64 bytes
	// follows for 6.72 ns, and then needs 1 us to the switch, whose latency is
	// not in its way.
	const ns = units.Nanosecond
	r.send(0, whole{Size: 1480, Dst: 1})
	r.send(0, whole{Size: 1480, Dst: 1})
	r.e.RunUntil(50 * ns)
	r.n.sendPause(50*ns, 0, 0b101)
	arrives := 120*ns + 6720 + 1000*ns
	r.e.RunUntil(arrives - 1)
	if down.Paused() != 0 {
		t.Error("the pause has effect too early")
	}
	r.e.RunUntil(arrives)
	if down.Paused() != 0b101 {
		t.Errorf("at %v the port's pauses are %b", arrives, down.Paused())
	}
	r.n.sendPause(r.e.Now(), 0, 0b001)
	r.run()
	back := arrives + 6720 + 1000*ns
	s := down.Stats()
	if s.Paused[2] != back-arrives || s.Paused[1] != 0 || s.Paused[0] != r.e.Now()-arrives {
		t.Errorf("paused for %v; want %v in priority 2 and %v, so far, in 0", s.Paused, back-arrives, r.e.Now()-arrives)
	}
	// The second packet had to wait for the frame.
	got := r.nics[1].got
	if want := 120*ns + 6720; got[1].At-got[0].At != want {
		t.Errorf("the packets are %v apart, want %v", got[1].At-got[0].At, want)
	}
	if up := r.n.Port(r.link(t, "h0->tor0")).Stats(); up.PauseFrames != 2 || up.TxPackets != 2 || up.Busy != 2*120*ns+2*6720 {
		t.Errorf("uplink: %+v", up)
	}
}

// A switch whose port is busy sends its pause frame after the packet in progress and
// before waiting packets.
func TestPauseFrameGoesBeforeTheQueue(t *testing.T) {
	cfg := losslessConfig(PFC{XOFF: 1500, Headroom: 100 * units.KB})
	r := newRig(t, Star(4, gig(100, 0)), cfg, 1)
	// h1, h2 and h3 send to h0, which congests its port; h0 and h3 send to h1,
	// so that the pause frame for h1 meets a queue.
	for range 20 {
		for _, p := range []whole{{Src: 1}, {Src: 2}, {Src: 3}, {Src: 0, Dst: 1, Priority: 1}, {Src: 3, Dst: 1, Priority: 1}} {
			p.Size = 1480
			r.send(0, p)
		}
	}
	r.run()
	if len(r.nics[1].pauses) < 2 || r.nics[1].pauses[0].Priority != 1 {
		t.Fatalf("h1 heard %v", r.nics[1].pauses)
	}
	// The port to h1 never rests while packets wait for it, pause frames come
	// between packets: gaps are whole numbers of frames.
	got := r.nics[1].got
	frames := units.Time(0)
	for i := 1; i < len(got); i++ {
		gap := got[i].At - got[i-1].At - 120*units.Nanosecond
		if gap%6720 != 0 && gap < 120*units.Nanosecond {
			t.Fatalf("packets %d and %d are %v more than a packet apart", i-1, i, gap)
		}
		if gap > 0 && gap < 120*units.Nanosecond {
			frames += gap / 6720
		}
	}
	if frames == 0 {
		t.Error("no pause frame came between two packets")
	}
	if tot := r.n.Totals(); tot.Dropped != 0 || tot.Delivered != 100 {
		t.Errorf("%+v", tot)
	}
}

// Pauses spread from the congested port hop by hop and end everywhere.
func TestCongestionSpreadsAndEnds(t *testing.T) {
	l := gig(100, units.Microsecond)
	r := newRig(t, Chain(3, 4, l, l), losslessConfig(PFC{XOFF: 30 * units.KB}), 1)
	for h := int32(1); h < 12; h++ {
		for range 300 {
			r.send(0, whole{Size: 1000, Src: h})
		}
	}
	r.run()
	for _, link := range []string{"tor1->tor0", "tor2->tor1", "h11->tor2"} {
		if s := r.n.Port(r.link(t, link)).Stats(); s.Paused[0] == 0 {
			t.Errorf("%s was never paused", link)
		}
	}
	if tot := r.n.Totals(); tot.Dropped != 0 || tot.Delivered != 11*300 {
		t.Errorf("%+v", tot)
	}
	for l := range LinkID(r.topo.Links()) {
		if p := r.n.Port(l); p.Paused() != 0 || p.Queue() != 0 {
			t.Errorf("%s ends with pauses %b and %v queued", p.Name(), p.Paused(), p.Queue())
		}
	}
}
