package fabric

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

func TestIdlePathTakesTheClosedForm(t *testing.T) {
	slow, fast := gig(25, 1500*units.Nanosecond), gig(100, 5*units.Microsecond)
	ib := slow
	ib.Framing = InfiniBand
	for _, c := range []struct {
		name string
		topo *Topology
		dst  int32
		want units.Time
	}{
		// A byte lasts 320 ps at 25 Gbps and 80 ps at 100; 1000 bytes and 20 of
		// framing; 600 ns in a switch.
		{"star", Star(2, slow), 1, 2*(1020*320+1500_000) + 600_000},
		{"infiniband", Star(2, ib), 1, 2*(1000*320+1500_000) + 600_000},
		{"dumbbell", Dumbbell(1, 1, slow, fast), 1, 2*(1020*320+1500_000) + 1020*80 + 5000_000 + 2*600_000},
		{"host to host", backToBack(slow), 1, 1020*320 + 1500_000},
	} {
		r := newRig(t, c.topo, Default(), 1)
		if a := r.lone(t, whole{Size: 1000, Dst: c.dst}); a.At != c.want {
			t.Errorf("%s: %v, want %v", c.name, a.At, c.want)
		}
		if d := r.n.BaseDelay(0, int(c.dst), 1000); d != c.want {
			t.Errorf("%s: BaseDelay is %v, want %v", c.name, d, c.want)
		}
		if events, hops := r.e.Events(), r.n.Totals().PacketHops; events-1 != hops { // less the sender's
			t.Errorf("%s: %d events for %d hops of a lone packet", c.name, events-1, hops)
		}
	}
}

func TestBackToBackPacketsKeepTheWireBusy(t *testing.T) {
	r := newRig(t, Star(2, gig(100, units.Microsecond)), Default(), 1)
	for range 10 {
		r.send(0, whole{Size: 1480, Dst: 1}) // 120 ns with framing
	}
	r.run()
	for i, a := range r.nics[1].got {
		if want := units.Time(i+2)*120*units.Nanosecond + 2600*units.Nanosecond; a.At != want {
			t.Errorf("packet %d arrives at %v, want %v", i, a.At, want)
		}
		if a.Hops != 1 {
			t.Errorf("packet %d passed %d switches", i, a.Hops)
		}
	}
	// A packet leaves the switch as the next arrives: nothing ever waits.
	if s := r.n.Port(r.link(t, "tor0->h1")).Stats(); s.MaxQueue != 0 || s.Busy != 1200*units.Nanosecond || s.TxBytes != 14800 || s.TxPackets != 10 {
		t.Errorf("%+v", s)
	}
}

func TestBusyCountsWhatHasLeft(t *testing.T) {
	r := newRig(t, Star(2, gig(100, units.Microsecond)), Default(), 1)
	up := r.n.Port(r.link(t, "h0->tor0"))
	for range 3 {
		r.send(100*units.Nanosecond, whole{Size: 1480, Dst: 1}) // 120 ns with framing
	}
	for _, c := range []struct{ at, busy units.Time }{{50, 0}, {100, 0}, {130, 30}, {220, 120}, {221, 121}, {460, 360}, {900, 360}} {
		r.e.RunUntil(c.at * units.Nanosecond)
		if busy := up.Stats().Busy; busy != c.busy*units.Nanosecond {
			t.Errorf("at %d ns the port has been busy for %v, want %d ns", c.at, busy, c.busy)
		}
	}
}

// Packets may follow each other on a long link at any distance.
func TestLongLinks(t *testing.T) {
	const ms = units.Millisecond
	r := newRig(t, backToBack(gig(100, 30*ms)), Default(), 1)
	times := []units.Time{0, 0, 4 * ms, 9 * ms, 9*ms + 1, 29 * ms, 60 * ms}
	for _, at := range times {
		r.send(at, whole{Size: 105, Dst: 1}) // 10 ns with framing
	}
	r.run()
	want := []units.Time{10, 20, 4_000_010, 9_000_010, 9_000_020, 29_000_010, 60_000_010}
	for i, a := range r.nics[1].got {
		if at := a.At - 30*ms; at != want[i]*units.Nanosecond {
			t.Errorf("packet %d arrives at %v, want %d ns", i, at, want[i])
		}
	}
}

// At a rate at which a byte takes no whole number of picoseconds, the remainder
// is carried and nothing drifts.
func TestRemaindersAddUp(t *testing.T) {
	const rate = 56*units.Gbps + 1
	r := newRig(t, backToBack(Link{Rate: rate}), Default(), 1)
	for range 1000 {
		r.send(0, whole{Size: 1001, Dst: 1})
	}
	r.run()
	got := r.nics[1].got
	want, _ := rate.SerializeRem(1000*1021, 0)
	if last := got[len(got)-1].At; last != want {
		t.Errorf("the last packet arrives at %v, want %v", last, want)
	}
	if busy := r.n.Port(0).Stats().Busy; busy != want {
		t.Errorf("busy %v, want %v", busy, want)
	}
}

func TestBaseDelaysOnRandomGraphs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, drawTopology(t, false), Default(), rapid.Uint64().Draw(t, "seed"))
		size := units.Bytes(rapid.IntRange(64, 4096).Draw(t, "size"))
		hosts := r.topo.Hosts()
		delay := make([][]units.Time, hosts)
		ack := make([][]units.Time, hosts)
		for a := range hosts {
			delay[a], ack[a] = make([]units.Time, hosts), make([]units.Time, hosts)
			for b := range hosts {
				if a == b {
					continue
				}
				delay[a][b], ack[a][b] = slowest(r.topo, a, b, size), slowest(r.topo, a, b, 64)
				if got := r.n.BaseDelay(a, b, size); got != delay[a][b] {
					t.Fatalf("BaseDelay(%d, %d) is %v, brute force says %v", a, b, got, delay[a][b])
				}
			}
		}
		var rtt units.Time
		for a := range hosts {
			for b := range hosts {
				if a == b {
					continue
				}
				if got, want := r.n.BaseRTT(a, b, size, 64), delay[a][b]+ack[b][a]; got != want {
					t.Fatalf("BaseRTT(%d, %d) is %v, want %v", a, b, got, want)
				}
				rtt = max(rtt, delay[a][b]+ack[b][a])
			}
		}
		if got := r.n.MaxBaseRTT(size, 64); got != rtt {
			t.Fatalf("MaxBaseRTT is %v, brute force says %v", got, rtt)
		}

		// And a packet takes just what the links of its path say.
		hash := rapid.Uint32().Draw(t, "hash")
		var want units.Time
		path := r.n.Path(nil, 0, 1, hash)
		for _, l := range path {
			want += crossing(r.topo, l, size)
		}
		a := r.lone(t, whole{Size: int32(size), Dst: 1, FlowHash: hash})
		if a.At != want || want > delay[0][1] {
			t.Fatalf("a packet takes %v, its path %v, the slowest path %v", a.At, want, delay[0][1])
		}
		for _, l := range path {
			if r.n.Port(l).Stats().TxPackets != 1 {
				t.Fatalf("the packet did not cross %s, which Path names", r.topo.LinkName(l))
			}
		}
		if hops := r.n.Totals().PacketHops; hops != uint64(len(path)) {
			t.Fatalf("%d hops on a path of %d links", hops, len(path))
		}
	})
}

// crossing restates how long a link takes, with the latency of Default's switches.
func crossing(topo *Topology, l LinkID, size units.Bytes) units.Time {
	spec := topo.Link(l)
	t := spec.Rate.Serialize(size+spec.Framing.Bytes()) + spec.Delay
	if topo.nodes[topo.head(l)].isSwitch {
		t += 600 * units.Nanosecond
	}
	return t
}

// slowest tries all walks from one host to another and returns the slowest of
// those with the fewest links.
func slowest(topo *Topology, from, to int, size units.Bytes) units.Time {
	for links := 1; ; links++ {
		if t := walk(topo, topo.hosts[from], topo.hosts[to], links, size); t >= 0 {
			return t
		}
	}
}

func walk(topo *Topology, from, to Node, links int, size units.Bytes) units.Time {
	slowest := units.Time(-1)
	for _, l := range topo.nodes[from].ports {
		head := topo.head(l)
		switch {
		case links == 1 && head == to:
			slowest = max(slowest, crossing(topo, l, size))
		case links > 1 && topo.nodes[head].isSwitch:
			if rest := walk(topo, head, to, links-1, size); rest >= 0 {
				slowest = max(slowest, crossing(topo, l, size)+rest)
			}
		}
	}
	return slowest
}
