package fabric

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

// Whatever fails when, every packet is delivered, dropped or lost, no buffer keeps
// anything and no pause outlives its reason.
func TestConservationUnderFailures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t, true)
		topo := drawTopology(t, true)
		for range rapid.IntRange(1, 5).Draw(t, "failures") {
			from := units.Time(rapid.IntRange(0, 10_000).Draw(t, "from")) * units.Nanosecond
			f := Failure{
				Link: topo.LinkName(LinkID(rapid.IntRange(0, topo.Links()-1).Draw(t, "link"))), Both: rapid.Bool().Draw(t, "both"),
				From: from, To: from + units.Time(rapid.IntRange(1, 20_000).Draw(t, "for"))*units.Nanosecond,
			}
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				f.Down = true
			case 1:
				f.Rate = units.Gbps
			case 2:
				f.Loss = 0.3
			}
			if rapid.Bool().Draw(t, "for ever") {
				f.To = 0
			}
			cfg.Failures = append(cfg.Failures, f)
		}
		cfg.Reroute = rapid.SampledFrom([]units.Time{0, us}).Draw(t, "reroute")
		cfg.Switch.Classes[0].PFC.Watchdog = rapid.SampledFrom([]units.Time{0, us, 20 * us}).Draw(t, "watchdog")
		cfg.Switch.Classes[0].PFC.WatchdogForwards = rapid.Bool().Draw(t, "forwards")
		r := newRig(t, topo, cfg, rapid.Uint64().Draw(t, "seed"))
		drawTraffic(t, r, 100)
		for until := units.Time(0); r.e.Pending() > 0; until += us {
			r.e.RunUntil(until)
			tot := r.n.Totals()
			if tot.Sent != tot.Delivered+tot.Dropped+tot.Lost+uint64(r.n.Live()) {
				t.Fatalf("%+v with %d packets in the network", tot, r.n.Live())
			}
		}
		r.drained(t)
		r.inOrder(t)
		if r.n.Totals().Sent != 100 {
			t.Fatalf("%d of 100 packets were sent", r.n.Totals().Sent)
		}
	})
}

// failingRig is two hosts on a switch. A packet of 1230 bytes takes 100 ns on a
// wire of 100 Gbps, with 1 us to go.
func failingRig(t *testing.T, failures ...Failure) *rig {
	t.Helper()
	cfg := Default()
	cfg.Switch.Latency = 0
	cfg.Failures = failures
	return newRig(t, Star(2, gig(100, us)), cfg, 1)
}

// What is on a wire when it is cut is lost, and what is put on it before it is
// whole again.
func TestDownLosesWhatIsOnTheWire(t *testing.T) {
	r := failingRig(t, Failure{Link: "h0->tor0", From: 10 * us, To: 12 * us, Down: true})
	for i := range 200 {
		r.send(units.Time(i)*100*units.Nanosecond, whole{Size: 1230, Dst: 1, User: uint64(i)})
	}
	r.run()
	// Packet i is on the wire from 100 i ns to 100 i + 1100 ns: the last bit of 89
	// comes as the link is cut, at 10 us; 90 to 119 are lost. At 12 us the
	// link is up before the host sends.
	lost := map[uint64]bool{}
	for i := range uint64(200) {
		lost[i] = true
	}
	for _, a := range r.nics[1].got {
		delete(lost, a.User)
	}
	for i := range uint64(200) {
		if want := i >= 90 && i < 120; lost[i] != want {
			t.Errorf("packet %d lost: %v", i, lost[i])
		}
	}
	s := r.n.Port(r.link(t, "h0->tor0")).Stats()
	if s.Lost != uint64(len(lost)) || r.n.Totals().Lost != s.Lost || s.TxPackets != 200 {
		t.Errorf("%d lost of %d, totals %+v", s.Lost, s.TxPackets, r.n.Totals())
	}
}

// A packet that was cut off stays lost when the link is cut again before its event
// comes, and what was put on the wire in between has its own fate. Packets of 100 ns
// on the wire come 1.1 us after they start, and are inside the switch 600 ns later; a
// host takes 500 ns before the first bit.
func TestCutTwice(t *testing.T) {
	const ns = units.Nanosecond
	for _, c := range []struct {
		name   string
		send   units.Time // of HostSend
		starts []units.Time
		downs  []units.Time // each for 50 ns
		got    []uint64
	}{
		{"both before the event", 0, []units.Time{0}, []units.Time{500 * ns, 1200 * ns}, nil},
		{"arrived before the second", 0, []units.Time{0, 600 * ns}, []units.Time{500 * ns, 1750 * ns}, []uint64{1}},
		{"cut in the second", 0, []units.Time{0, 600 * ns}, []units.Time{500 * ns, 1200 * ns}, nil},
		{"inside the switch", 0, []units.Time{0}, []units.Time{1200 * ns}, []uint64{0}},
		{"the host's part is no part of the switch", 500 * ns, []units.Time{0}, []units.Time{1400 * ns}, nil},
	} {
		cfg := Default()
		cfg.HostSend = c.send
		for _, at := range c.downs {
			cfg.Failures = append(cfg.Failures, Failure{Link: "h0->tor0", From: at, To: at + 50*ns, Down: true})
		}
		r := newRig(t, Star(2, gig(100, us)), cfg, 1)
		for i, at := range c.starts {
			r.send(at, whole{Size: 1230, Dst: 1, User: uint64(i)})
		}
		r.run()
		var got []uint64
		for _, a := range r.nics[1].got {
			got = append(got, a.User)
		}
		if !slices.Equal(got, c.got) {
			t.Errorf("%s: packets %v have come, want %v", c.name, got, c.got)
		}
	}
}

func TestDegradedRate(t *testing.T) {
	r := failingRig(t, Failure{Link: "tor0->h1", From: 10 * us, To: 30 * us, Rate: 10 * units.Gbps}, Failure{Link: "tor0->h1", From: 20 * us, To: 25 * us, Rate: 25 * units.Gbps})
	for _, at := range []units.Time{0, 15 * us, 22 * us, 35 * us} {
		r.send(at, whole{Size: 1230, Dst: 1})
	}
	r.run()
	var took []units.Time
	for i, at := range []units.Time{0, 15 * us, 22 * us, 35 * us} {
		took = append(took, r.nics[1].got[i].At-at)
	}
	for i, want := range []units.Time{2200, 3100, 3100, 2200} {
		if took[i] != want*units.Nanosecond {
			t.Errorf("packet %d took %v, want %d ns", i, took[i], want)
		}
	}
	if s := r.n.Port(r.link(t, "tor0->h1")).Stats(); s.Busy != 2200*units.Nanosecond {
		t.Errorf("busy for %v, want 2.2us", s.Busy)
	}
	if rate := r.n.kinds[r.n.ports[r.n.portOf[r.link(t, "tor0->h1")]].kind].rate; rate != 100*units.Gbps {
		t.Errorf("afterwards the link has %v", rate)
	}
}

func TestLossForAWhile(t *testing.T) {
	r := failingRig(t, Failure{Link: "tor0->h1", Both: true, From: 100 * us, To: 200 * us, Loss: 0.25})
	for i := range 3000 {
		r.send(units.Time(i)*100*units.Nanosecond, whole{Size: 1230, Dst: 1, User: uint64(i)})
	}
	r.run()
	if lost := r.n.Totals().Lost; lost < 200 || lost > 300 { // of 1000, and 3.6 standard deviations
		t.Errorf("%d packets lost", lost)
	}
	if got := r.nics[1].got; got[800].User != 800 || got[len(got)-900].User != 2100 {
		t.Errorf("packets were lost outside of the time")
	}
}

// After Reroute, traffic takes the paths that are left, and when the link is back
// it is used again; a leaf without any is not looked for in circles.
func TestReroute(t *testing.T) {
	cfg := Default()
	cfg.Reroute = 20 * us
	cfg.Failures = []Failure{{Link: "tor0->spine0", Both: true, From: 100 * us, To: 300 * us, Down: true}}
	topo := LeafSpine(LeafSpineSpec{Leaves: 3, Spines: 2, HostsPerLeaf: 1, Host: gig(100, us), Trunk: gig(100, us)})
	lost := func(cfg Config) (at []int, spine0 int) {
		r := newRig(t, topo, cfg, 1)
		for i := range 500 {
			for _, p := range []whole{{Src: 0, Dst: 1}, {Src: 1, Dst: 0}, {Src: 2, Dst: 1}} {
				p.Size, p.FlowHash = 1000, uint32(i)
				r.send(units.Time(i)*us, p)
			}
		}
		r.run()
		if tot := r.n.Totals(); tot.Sent != tot.Delivered+tot.Lost || tot.PacketHops > 4*tot.Sent {
			t.Errorf("%+v", tot)
		}
		got := make([]int, 500)
		for _, c := range r.nics {
			for _, a := range c.got {
				got[a.User/3]++
			}
		}
		for i, n := range got {
			if n < 3 {
				at = append(at, i)
			}
		}
		return at, int(r.n.Port(r.link(t, "tor0->spine0")).Stats().TxPackets)
	}
	at, uses := lost(cfg)
	if len(at) < 5 || at[0] < 97 || at[len(at)-1] > 121 {
		t.Errorf("packets were lost that were sent at %v us", at)
	}
	// Half of the packets of 300 us, those before the failure and after it.
	if uses < 100 || uses > 200 {
		t.Errorf("the link carried %d packets", uses)
	}
	cfg.Reroute = 0
	if at, _ = lost(cfg); at[len(at)-1] < 290 {
		t.Errorf("without new paths packets were lost that were sent at %v us", at)
	}
	cfg.Reroute = us
	cfg.Failures = append(cfg.Failures, Failure{Link: "tor0->spine1", From: 100 * us, Both: true, Down: true}, Failure{Link: "spine1->tor2", From: 150 * us, Down: true})
	if at, _ = lost(cfg); at[len(at)-1] < 290 {
		t.Errorf("without any path packets were lost that were sent at %v us", at)
	}
}

func TestFailureErrors(t *testing.T) {
	for want, f := range map[string]Failure{
		"failures[0].for is -1ps":         {Link: "tor0->h1", From: 2, To: 1, Down: true},
		"failures[0].loss is 2":           {Link: "tor0->h1", Loss: 2},
		"failures[0].rate is -1bps":       {Link: "tor0->h1", Rate: -1},
		"failures[0]: it changes nothing": {Link: "tor0->h1"},
		`there is no link "tor0->h9"`:     {Link: "tor0->h9", Down: true},
		"set less than that of the link":  {Link: "tor0->h1", Rate: 100 * units.Gbps},
	} {
		cfg := Default()
		cfg.Failures = []Failure{f}
		if _, err := New(des.New(), Star(2, gig(100, us)), cfg, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", f, err, want)
		}
	}
	cfg := Default()
	cfg.Reroute = -1
	cfg.Switch.Classes[0].PFC.Watchdog = -1
	cfg.Switch.Classes[1].EIN = Notice{Gradient: -1}
	cfg.Switch.Classes[2].EIN = Notice{Gradient: 0.25}
	cfg.Switch.Classes[3].EIN = Notice{Gradient: 0.25, Window: 50, HighWater: -1}
	err := cfg.Validate()
	for _, want := range []string{"fabric: reroute is -1ps: choose", "classes[0].pfc.watchdog is -1ps: choose", "classes[1].ein.gradient is -1: choose", "classes[2].ein.window is 0: choose", "classes[3].ein.high_water is -1B: choose"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// stuck is an incast of which host 0 stops everything for 200 us.
func stuck(t *testing.T, pfc PFC) *rig {
	t.Helper()
	cfg := losslessConfig(pfc)
	r := newRig(t, Star(3, gig(100, us)), cfg, 1)
	r.n.sendPause(0, 0, 1)
	for i := range 100 {
		r.send(units.Time(i)*us, whole{Size: 1230, Src: 1})
		r.send(units.Time(i)*us, whole{Size: 1230, Src: 1, Priority: 1})
	}
	r.e.RunUntil(200 * us)
	r.n.sendPause(200*us, 0, 0)
	r.send(210*us, whole{Size: 1230, Src: 1})
	r.run()
	return r
}

func TestWatchdog(t *testing.T) {
	port := func(r *rig) PortStats { return r.n.Port(r.link(t, "tor0->h0")).Stats() }
	if s, got := port(stuck(t, PFC{})), stuck(t, PFC{}).nics[0].got; s.WatchdogTrips != 0 || s.Drops != 0 || len(got) != 201 {
		t.Errorf("without a watchdog: %+v, %d delivered", s, len(got))
	}
	// The pause begins at some 1 us and is too old 50 us later. What has come by
	// then, and comes before the pause ends, is dropped.
	r := stuck(t, PFC{Watchdog: 50 * us})
	if s := port(r); s.WatchdogTrips != 1 || s.WatchdogDrops != 100 || s.Drops != 100 || len(r.nics[0].got) != 101 {
		t.Errorf("dropping: %+v, %d delivered", s, len(r.nics[0].got))
	}
	if last := r.nics[0].got[100]; last.Priority != 0 || last.At < 210*us {
		t.Errorf("after the pause: %+v", last)
	}
	r = stuck(t, PFC{Watchdog: 50 * us, WatchdogForwards: true})
	if s := port(r); s.WatchdogTrips != 1 || s.Drops != 0 || len(r.nics[0].got) != 201 || r.nics[0].got[180].At > 110*us || s.Paused[0] > 51*us {
		t.Errorf("forwarding: %+v, %d delivered", s, len(r.nics[0].got))
	}
	r = stuck(t, PFC{Watchdog: 300 * us})
	if s := port(r); s.WatchdogTrips != 0 || s.Drops != 0 {
		t.Errorf("too patient: %+v", s)
	}
}

// A circle of switches that wait for each other stands still for ever; a watchdog
// breaks it.
func TestWatchdogBreaksADeadlock(t *testing.T) {
	deadlocked := func(watchdog units.Time) (live int, trips uint64) {
		topo := &Topology{}
		l := gig(100, us)
		var switches []Node
		for _, name := range []string{"s0", "s1", "s2", "s3", "s4"} {
			switches = append(switches, topo.AddSwitch(name))
		}
		for i := range switches {
			topo.Connect(switches[i], switches[(i+1)%5], l)
			for _, name := range []string{"a", "b"} {
				topo.Connect(topo.AddHost(name+string(rune('0'+i))), switches[i], l)
			}
		}
		cfg := losslessConfig(PFC{XOFF: 20 * units.KB, Watchdog: watchdog})
		r := newRig(t, topo, cfg, 1)
		// Both hosts of each switch send two switches on, clockwise: each link
		// between switches has more than it carries.
		for range 500 {
			for h := range 10 {
				r.send(0, whole{Size: 1230, Src: int32(h), Dst: int32((h + 4) % 10), FlowHash: uint32(h)})
			}
		}
		r.e.RunUntil(units.Second)
		for i := range topo.Links() {
			trips += r.n.Port(LinkID(i)).Stats().WatchdogTrips
		}
		if tot := r.n.Totals(); tot.Sent != tot.Delivered+tot.Dropped+uint64(r.n.Live()) {
			t.Errorf("%+v", tot)
		}
		return r.n.Live(), trips
	}
	if live, trips := deadlocked(0); live == 0 || trips != 0 {
		t.Errorf("without a watchdog %d packets stand still, %d trips", live, trips)
	}
	if live, trips := deadlocked(100 * us); live != 0 || trips == 0 {
		t.Errorf("with a watchdog %d packets stand still, %d trips", live, trips)
	}
}

// EIN begins with the first packet that leaves a growing queue behind, of three that
// send to one, and ends with the one that leaves no more than HighWater.
func TestEIN(t *testing.T) {
	cfg := Default()
	cfg.Switch.Classes[0].EIN = Notice{Gradient: 0.25, Window: 5, HighWater: 5_000}
	r := newRig(t, Star(4, gig(100, us)), cfg, 1)
	r.incast(20, 1000)
	r.run()
	// Three send one packet each in the time in which one leaves: the queue grows by
	// two packets of 1000 bytes in what takes 1020, 40 times, and drains.
	gradients, queue, on, marked := []float64{0, 0, 0, 0, 0}, 0, false, 0
	got := r.nics[0].got
	for i, a := range got {
		// Arrivals are three at a time until 20 have come from each, and at one
		// instant departures go first.
		come := min(3*i, 60)
		before := queue
		if queue = (come - i - 1) * 1000; i == 0 {
			queue = 0 // the first found its port idle
		} else {
			gradients = append(gradients[1:], float64(queue-before)/1020)
		}
		mean := 0.0
		for _, g := range gradients {
			mean += g / 5
		}
		if mean > 0.25 {
			on = true
		} else if queue <= 5_000 {
			on = false
		}
		if got := a.Flags&EIN != 0; got != on {
			t.Errorf("packet %d leaves %d behind: EIN %v, want %v", i, queue, got, on)
		}
		if a.Flags&EIN != 0 {
			marked++
		}
	}
	if s := r.n.Port(r.link(t, "tor0->h0")).Stats(); marked == 0 || marked == len(got) || s.EINMarks != uint64(marked) || s.Marks != 0 {
		t.Errorf("%d of %d marked, the port says %d", marked, len(got), s.EINMarks)
	}
}

// lostOf returns the packets, sent every 100 ns from 0 on, that failures of h0's link lose.
func lostOf(t *testing.T, packets int, failures ...Failure) (lost []int, r *rig) {
	t.Helper()
	r = failingRig(t, failures...)
	for i := range packets {
		r.send(units.Time(i)*100*units.Nanosecond, whole{Size: 1230, Dst: 1, User: uint64(i)})
	}
	r.e.RunUntil(units.Time(packets) * us) // those that flap for ever have no end
	came := map[int]bool{}
	for _, a := range r.nics[1].got {
		came[int(a.User)] = true
	}
	for i := range packets {
		if !came[i] {
			lost = append(lost, i)
		}
	}
	return lost, r
}

// A link that flaps is down after each beginning, as often as is said.
func TestFlapping(t *testing.T) {
	for _, times := range []int{0, 1, 3} {
		// Silent, so that nothing is lost but what is put on it: from 2 us on for 1 us, each 5 us.
		lost, _ := lostOf(t, 400, Failure{Link: "h0->tor0", From: 2 * us, To: 3 * us, Every: 5 * us, Times: times, Loss: 1})
		var want []int
		for k := range 8 {
			if times > 0 && k >= times {
				break
			}
			for i := range 10 {
				want = append(want, 20+50*k+i)
			}
		}
		if !slices.Equal(lost, want) {
			t.Errorf("%d times: lost %v, expected %v", times, lost, want)
		}
	}
}

// A failure begins after the packet that it waits for, and lasts as long as it says.
func TestFromPacketOn(t *testing.T) {
	for _, c := range []struct {
		f    Failure
		want []int
	}{
		{Failure{Packet: 10, To: 500 * units.Nanosecond, Loss: 1}, []int{10, 11, 12, 13}},
		{Failure{Packet: 1, To: 150 * units.Nanosecond, Loss: 1}, []int{1}},
		{Failure{Packet: 18, Loss: 1, Both: true}, []int{18, 19}},
		{Failure{Packet: 21, Loss: 1}, nil},
	} {
		c.f.Link = "h0->tor0"
		if lost, _ := lostOf(t, 20, c.f); !slices.Equal(lost, c.want) {
			t.Errorf("%+v: lost %v, expected %v", c.f, lost, c.want)
		}
	}
	r := failingRig(t, Failure{Link: "h0->tor0", Packet: 10, Loss: 1})
	if err := r.n.Divide(2); err == nil || !strings.Contains(err.Error(), "begins with a packet") {
		t.Errorf("dividing a network with such a failure: %v", err)
	}
}

// A switch that reboots has all of its links down, and no other link.
func TestSwitchDown(t *testing.T) {
	cfg := Default()
	cfg.Failures = []Failure{{Switch: "spine1", From: us, To: 2 * us, Down: true}}
	topo := LeafSpine(LeafSpineSpec{Leaves: 2, Spines: 2, HostsPerLeaf: 1, Host: gig(100, us), Trunk: gig(100, us)})
	r := newRig(t, topo, cfg, 1)
	down := func() (all []string) {
		for l := range LinkID(topo.Links()) {
			if r.n.Down(l) {
				all = append(all, topo.LinkName(l))
			}
		}
		slices.Sort(all)
		return all
	}
	for _, c := range []struct {
		at   units.Time
		want []string
	}{{0, nil}, {us, []string{"spine1->tor0", "spine1->tor1", "tor0->spine1", "tor1->spine1"}}, {2 * us, nil}} {
		r.e.RunUntil(c.at)
		if got := down(); !slices.Equal(got, c.want) {
			t.Errorf("at %v %v are down, expected %v", c.at, got, c.want)
		}
	}
	cfg.Failures[0].Switch = "spine2"
	if _, err := New(des.New(), topo, cfg, 1); err == nil || !strings.Contains(err.Error(), `there is no switch "spine2"`) {
		t.Errorf("a switch that is not there: %v", err)
	}
}

// Corrupt packets take their time on the link, are lost, and counted as such.
func TestCorrupt(t *testing.T) {
	lost, r := lostOf(t, 2000, Failure{Link: "h0->tor0", Corrupt: 0.1})
	s := r.n.Port(r.link(t, "h0->tor0")).Stats()
	if n := len(lost); n < 150 || n > 250 || s.Corrupted != uint64(n) || s.Lost != s.Corrupted || s.TxPackets != 2000 {
		t.Errorf("%d of 2000 packets lost, %+v", n, s)
	}
}

// A storm of pause frames holds back one direction's lossless priorities, from its beginning to its end; a watchdog
// lets the others go on.
func TestPauseStorm(t *testing.T) {
	storm := func(pfc PFC, from string) (paused [2]units.Time, last units.Time, s PortStats) {
		cfg := losslessConfig(pfc)
		cfg.Failures = []Failure{{Link: from, Both: true, From: 10 * us, To: 110 * us, Storm: true}}
		r := newRig(t, Star(2, gig(100, us)), cfg, 1)
		for i := range 100 {
			r.send(units.Time(i)*us, whole{Size: 1230, Src: 1})
			r.send(units.Time(i)*us, whole{Size: 1230, Src: 1, Priority: 1})
		}
		r.run()
		for i, name := range []string{"tor0->h0", "h1->tor0"} {
			paused[i] = r.n.Port(r.link(t, name)).Stats().Paused[0]
			if p := r.n.Port(r.link(t, name)).Stats().Paused[1]; p != 0 {
				t.Errorf("%s: a lossy priority was paused for %v", name, p)
			}
		}
		got := r.nics[0].got
		return paused, got[len(got)-1].At, r.n.Port(r.link(t, "tor0->h0")).Stats()
	}
	if paused, last, s := storm(PFC{}, "h0->tor0"); paused != [2]units.Time{100 * us, 0} || last < 110*us || s.Drops != 0 {
		t.Errorf("a host's storm: paused for %v, the last came at %v, %+v", paused, last, s)
	}
	if paused, last, _ := storm(PFC{}, "tor0->h1"); paused != [2]units.Time{0, 100 * us} || last < 110*us {
		t.Errorf("a switch's storm: paused for %v, the last came at %v", paused, last)
	}
	if _, last, s := storm(PFC{Watchdog: 20 * us}, "h0->tor0"); s.WatchdogTrips != 1 || s.WatchdogDrops < 80 || last > 105*us {
		t.Errorf("with a watchdog: the last came at %v, %+v", last, s)
	}
}

// What becomes of a link is told once a change, of both directions.
func TestOnFailure(t *testing.T) {
	r := failingRig(t,
		Failure{Link: "h0->tor0", Both: true, From: 10 * us, To: 20 * us, Down: true},
		Failure{Link: "h0->tor0", From: 12 * us, To: 30 * us, Rate: 10 * units.Gbps, Loss: 0.25},
		Failure{Link: "tor0->h0", From: 10 * us, To: 15 * us, Down: true, Corrupt: 0.5})
	type told struct {
		at units.Time
		c  LinkChange
	}
	var got []told
	r.n.OnFailure(func(now units.Time, c LinkChange) {
		got = append(got, told{now, c})
		if r.n.Down(c.Link) != c.Down {
			t.Errorf("at %v: %+v, and Down says otherwise", now, c)
		}
	})
	r.run()
	out, in := r.link(t, "h0->tor0"), r.link(t, "tor0->h0")
	full, slow := 100*units.Gbps, 10*units.Gbps
	want := []told{
		{10 * us, LinkChange{out, true, full, 0, 0, false}}, {10 * us, LinkChange{in, true, full, 0, 0.5, false}},
		{12 * us, LinkChange{out, true, slow, 0, 0, false}}, {15 * us, LinkChange{in, true, full, 0, 0, false}},
		{20 * us, LinkChange{out, false, slow, 0.25, 0, false}}, {20 * us, LinkChange{in, false, full, 0, 0, false}},
		{30 * us, LinkChange{out, false, full, 0, 0, false}},
	}
	if !slices.Equal(got, want) {
		t.Errorf("told\n%+v, expected\n%+v", got, want)
	}
}
