package nicmodel

import (
	"math"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

func TestCyclesByOpcode(t *testing.T) {
	c := config.Units{Request: 1, Answer: 2}
	for op, want := range map[ib.Opcode]int64{
		ib.SendFirst: 1, ib.SendOnlyImm: 1, ib.SendLastInv: 1, ib.SendOnlyInv: 1, ib.WriteFirst: 1, ib.WriteOnlyImm: 1, ib.ReadRequest: 1,
		ib.CompareSwap: 1, ib.FetchAdd: 1, ib.ReadResponseFirst: 2, ib.ReadResponseOnly: 2, ib.Acknowledge: 2, ib.AtomicAcknowledge: 2,
	} {
		if got := c.Cycles(op); got != want {
			t.Errorf("%v: %d cycles, want %d", op, got, want)
		}
	}
}

func testUnits() config.Units {
	return config.Units{Units: 4, Request: 100, Answer: 50}
}

// writeRate returns the number of WRITEs of 8 bytes that pairs queue pairs do in a
// microsecond, each keeping several outstanding, and checks the accounts.
func writeRate(t *testing.T, cfg config.Config, pairs int) float64 {
	t.Helper()
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	var ends []end
	var regions []memory.Region
	for range pairs {
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		ends, regions = append(ends, x), append(regions, y.region(t, make([]byte, 64)))
	}
	done := 0
	const stop = 200 * units.Microsecond
	for i, x := range ends {
		wr := inlineWrite(uint64(i), regions[i], 8)
		out := make([]CQE, 64)
		x.nic.OnCompletion(x.cq, func(now units.Time, _ bool) {
			k := x.nic.PollCQ(now, x.cq, out)
			if now > stop {
				return
			}
			done += k
			for range k {
				if err := x.nic.PostSend(x.qpn, &wr); err != nil {
					t.Error(err)
				}
			}
			x.nic.Ring(now, x.qpn, k)
		})
		var wrs []WR
		for range 48 {
			wrs = append(wrs, wr)
		}
		b.post(x, wrs...)
	}
	b.e.RunUntil(stop + units.Millisecond)
	for _, n := range b.nics {
		for _, a := range n.Accounts(b.e.Now()) {
			if a.Busy+a.Idle+sumOf(a.Stalled[:]) != a.Elapsed || a.Idle < 0 {
				t.Errorf("%s: busy %d, idle %d, stalled %v of %d", a.Stage, a.Busy, a.Idle, a.Stalled, a.Elapsed)
			}
		}
	}
	return float64(done) / (float64(stop) / float64(units.Microsecond))
}

// One queue pair is worked on by one unit at a time, several by as many as there
// are, and no more than that.
func TestUnitsServeQueuePairsSideBySide(t *testing.T) {
	cfg := preset(t, "cx6dx")
	cfg.CoreClock = 1_000_000_000
	cfg.Units = testUnits()
	// The acknowledgements of 8 queue pairs take a third of the four units.
	for pairs, want := range map[int]float64{1: 10, 2: 20, 8: 4 / 0.150} {
		if got := writeRate(t, cfg, pairs); math.Abs(got-want) > 0.07*want {
			t.Errorf("%d queue pairs: %.1f WRITEs/us, want %.1f", pairs, got, want)
		}
	}
}

// What the units are waited for is a stall of the scheduler.
func TestUnitsStallTheScheduler(t *testing.T) {
	cfg := preset(t, "cx6dx")
	cfg.Units = testUnits()
	cfg.Units.Units = 1
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	for range 2 {
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		b.post(x, inlineWrite(1, y.region(t, make([]byte, 64)), 8))
	}
	b.e.RunUntil(units.Millisecond)
	var stalled int64
	for _, a := range b.nics[0].Accounts(b.e.Now()) {
		if a.Stage == "scheduler" {
			stalled = a.Stalled[stage.StallUnits]
		}
	}
	if stalled < 50 || stalled > 100 {
		t.Errorf("the scheduler stalled %d cycles for the one unit, which takes 100", stalled)
	}
	if a := b.nics[0].receiver.units.Account(b.e.Now()); a.Busy != 2*100+2*50 {
		t.Errorf("%+v, want two requests and two acknowledgements", a)
	}
}

// Requests to send take turns with received packets, and all of it together takes what it takes.
func TestUnitsTakeTurns(t *testing.T) {
	const ns = units.Nanosecond
	u := newUnits(config.Units{Units: 2, Request: 100, Answer: 50}, 1_000_000_000)
	pairs := make([]units.Time, 20)
	for i := range 10 { // five rounds of both units
		if got, want := u.receive(0, ib.WriteOnly, 1, &pairs[i]), units.Time(i/2+1)*100*ns; got != want {
			t.Errorf("packet %d is done at %v, want %v", i, got, want)
		}
	}
	// Half of the units' time is for requests, so that one begins each 100 ns.
	for i := range 4 {
		at := units.Time(i) * 100 * ns
		if got := u.free(at); got != at {
			t.Errorf("request %d begins at %v, want %v", i, got, at)
		}
		if got := u.send(at, 1, &pairs[10+i]); got != at+100*ns {
			t.Errorf("request %d is done at %v", i, got)
		}
		if got := u.free(at); got != at+100*ns {
			t.Errorf("after request %d the next one begins at %v", i, got)
		}
	}
	// What is received later makes room: 14 packets took 700 ns of both units.
	if got := u.receive(0, ib.Acknowledge, 1, &pairs[14]); got != 750*ns {
		t.Errorf("a late packet is done at %v, want 750 ns", got)
	}
	if a := u.Account(750 * ns); a.Busy != 1450 || a.Idle != 50 {
		t.Errorf("%+v", a)
	}
}

// A packet that waits for its queue pair keeps no unit from others.
func TestAQueueDoesNotBlockUnits(t *testing.T) {
	u := newUnits(testUnits(), 1_000_000_000)
	var a, b units.Time
	for i := range 4 {
		if got, want := u.receive(0, ib.WriteOnly, 1, &a), units.Time(i+1)*100*units.Nanosecond; got != want {
			t.Errorf("packet %d of one queue is done at %v, want %v", i, got, want)
		}
	}
	if got := u.receive(100*units.Nanosecond, ib.WriteOnly, 1, &b); got != 200*units.Nanosecond {
		t.Errorf("another's is done at %v", got)
	}
	if w := u.waits; w.Units != 0 || w.Queue != 600*units.Nanosecond {
		t.Errorf("waits %+v", w)
	}
}

// Atomics at one address go one after the other, at several side by side, and the
// sum comes out right. Those whose addresses differ only above the bits that choose the lock
// go one after the other too.
func TestAtomicsLockByAddress(t *testing.T) {
	rate := func(words, stride int) float64 {
		cfg := preset(t, "cx6dx")
		cfg.Atomics = config.Atomics{InFlight: 4, Locks: 64, Cycles: 2}
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		const pairs, each = 8, 60
		buf := make([]byte, 512)
		var ends []end
		var r memory.Region
		for p := range pairs {
			x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
			r = y.region(t, buf)
			l := x.region(t, make([]byte, 8))
			var wrs []WR
			for range each {
				wrs = append(wrs, WR{Request: rc.Request{Op: ib.WRAtomicFetchAndAdd, Length: 8, RemoteAddr: r.Addr + uint64(p%words*stride), RKey: r.Key, Swap: 1, Signaled: true}, SGL: []memory.SGE{{Addr: l.Addr, Length: 8, Key: l.Key}}})
			}
			b.post(x, wrs...)
			ends = append(ends, x)
		}
		b.e.RunUntil(units.Millisecond)
		var last units.Time
		for _, x := range ends {
			for _, c := range b.poll(x) {
				if c.Status != ib.WCSuccess {
					t.Fatalf("completion %+v", c)
				}
				last = max(last, c.Visible)
			}
		}
		sum := 0
		for i := range words {
			sum += int(buf[i*stride]) + int(buf[i*stride+1])<<8
		}
		if sum != pairs*each {
			t.Errorf("%d words: %d was added, want %d", words, sum, pairs*each)
		}
		return pairs * each / (float64(last) / float64(units.Microsecond))
	}
	one, two, eight := rate(1, 8), rate(2, 8), rate(8, 8)
	// They come word by word, and those that wait for a word's lock keep the places that others could have.
	if one < 1.6 || one > 1.9 || math.Abs(two/one-2) > 0.15 || eight < two || eight > 4*one {
		t.Errorf("%.2f, %.2f and %.2f atomics/us at one, two and eight words, four at a time", one, two, eight)
	}
	if apart := rate(8, 64); math.Abs(apart/one-1) > 0.15 {
		t.Errorf("%.2f atomics/us at eight words that share a lock, %.2f at one", apart, one)
	}
}

// A READ waits for the atomics before it whose lock its address shares, and for those that wait for a place; with no atomics, or with
// others' locks, it does not.
func TestReadsBehindAtomics(t *testing.T) {
	took := func(atomics, places, locks int, at uint64) units.Time {
		cfg := preset(t, "cx6dx")
		cfg.Atomics = config.Atomics{InFlight: places, Locks: locks, Cycles: 2}
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		u, v := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		l, r := x.region(t, make([]byte, 64)), y.region(t, make([]byte, 8192))
		m, s := u.region(t, make([]byte, 64)), v.region(t, make([]byte, 8192))
		for range atomics {
			b.post(x, WR{Request: rc.Request{Op: ib.WRAtomicFetchAndAdd, Length: 8, RemoteAddr: r.Addr, RKey: r.Key, Swap: 1, Signaled: true}, SGL: []memory.SGE{{Addr: l.Addr, Length: 8, Key: l.Key}}})
		}
		for atomics > 0 && y.nic.atomics.until == 0 { // they are not at the responder yet
			b.e.RunUntil(b.e.Now() + 10*units.Nanosecond)
		}
		posted := b.e.Now()
		b.post(u, WR{Request: rc.Request{Op: ib.WRRDMARead, Length: 8, RemoteAddr: s.Addr + at + (r.Addr-s.Addr)&4095, RKey: s.Key, Signaled: true}, SGL: []memory.SGE{{Addr: m.Addr, Length: 8, Key: m.Key}}})
		b.e.RunUntil(units.Millisecond)
		cs := b.poll(u)
		if len(cs) != 1 || cs[0].Status != ib.WCSuccess || len(b.poll(x)) != atomics {
			t.Fatalf("completions %+v", cs)
		}
		return cs[0].Visible - posted
	}
	alone := took(0, 16, 4096, 0)
	lock := 400 * units.Nanosecond // at least, of each
	if got := took(12, 16, 4096, 64); got > alone+lock {
		t.Errorf("a READ of another lock took %v, alone %v", got, alone)
	}
	if got := took(12, 16, 4096, 0); got < alone+5*lock {
		t.Errorf("a READ under the lock of twelve atomics took %v, alone %v", got, alone)
	}
	if got := took(12, 16, 1, 64); got < alone+5*lock {
		t.Errorf("a READ beside twelve atomics under one lock took %v, alone %v", got, alone)
	}
	if got := took(12, 4, 4096, 64); got < alone+lock {
		t.Errorf("a READ behind twelve atomics in four places took %v, alone %v", got, alone)
	}
}

// A READ's packet whose element is not on the chip takes a unit's time twice, where the NIC replays.
func TestReplay(t *testing.T) {
	for replay, want := range map[bool]int64{false: 1, true: 2} {
		c := testUnits()
		c.Replay = replay
		u := newUnits(c, 1_000_000_000)
		if got := u.passes(true); got != want || u.passes(false) != 1 {
			t.Errorf("replay %v: %d passes, want %d", replay, got, want)
		}
		var queue units.Time
		if got := u.send(0, want, &queue); got != units.Time(want*c.Request)*units.Nanosecond {
			t.Errorf("replay %v: done at %v", replay, got)
		}
	}
}

// Every preset has an atomics unit.
func TestPresetsHaveAtomics(t *testing.T) {
	for _, name := range config.Presets() {
		locks := 4096
		if name == "cx3" {
			locks = 1
		}
		if c := preset(t, name); c.Atomics.InFlight < 1 || c.Atomics.Locks != locks {
			t.Errorf("%s: %+v", name, c.Atomics)
		}
	}
}

// A key that goes while an atomic is under way fails it; a reset forgets it.
func TestAtomicsUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(y end, r memory.Region)
		want   ib.WCStatus
	}{
		"deregistered": {func(y end, r memory.Region) { y.nic.DeregMR(r.Key) }, ib.WCRemAccessErr},
		"reset":        {func(y end, _ memory.Region) { y.nic.Reset(y.qpn) }, ib.WCRetryExcErr},
	} {
		cfg := preset(t, "connectib")
		b := newBed(t, 2, 50*units.Gbps, cfg, nil)
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		r, l := y.region(t, make([]byte, 8)), x.region(t, make([]byte, 8))
		b.post(x, WR{Request: rc.Request{Op: ib.WRAtomicFetchAndAdd, Length: 8, RemoteAddr: r.Addr, RKey: r.Key, Swap: 1, Signaled: true}, SGL: []memory.SGE{{Addr: l.Addr, Length: 8, Key: l.Key}}})
		for y.nic.atomics.pending == nil {
			b.e.RunUntil(b.e.Now() + 10*units.Nanosecond)
		}
		c.change(y, r)
		b.e.RunUntil(units.Second)
		if cs := b.poll(x); len(cs) != 1 || cs[0].Status != c.want {
			t.Errorf("%s: %+v, want %v", name, cs, c.want)
		}
	}
}

func TestPacketBytes(t *testing.T) {
	for _, c := range []struct {
		framing fabric.Framing
		op      ib.Opcode
		payload int
		want    units.Bytes
	}{
		{fabric.InfiniBand, ib.WriteOnly, 64, 8 + 12 + 16 + 64 + 4 + 2}, {fabric.InfiniBand, ib.ReadResponseOnly, 61, 8 + 12 + 4 + 64 + 4 + 2},
		{fabric.InfiniBand, ib.Acknowledge, 0, 8 + 12 + 4 + 4 + 2}, {fabric.Ethernet, ib.Acknowledge, 0, 66}, {fabric.Ethernet, ib.WriteMiddle, 1024, 50 + 12 + 1024},
	} {
		if got := frames.PacketBytes(c.framing, c.op, c.payload); got != c.want {
			t.Errorf("%v, %v, %d: %d bytes, want %d", c.framing, c.op, c.payload, got, c.want)
		}
	}
}

func TestStagedPresetsRunWithoutAllocations(t *testing.T) {
	for _, name := range []string{"cx3", "connectib"} {
		b := newBed(t, 2, 50*units.Gbps, preset(t, name), nil)
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		wr := inlineWrite(1, y.region(t, make([]byte, 64)), 8)
		out := make([]CQE, 8)
		step := func() {
			if err := x.nic.PostSend(x.qpn, &wr); err != nil {
				t.Fatal(err)
			}
			x.nic.Ring(b.e.Now(), x.qpn, 1)
			b.e.RunUntil(b.e.Now() + 10*units.Microsecond)
			if x.nic.PollCQ(b.e.Now(), x.cq, out) != 1 {
				t.Fatal("no completion")
			}
		}
		for range 100 {
			step()
		}
		if n := testing.AllocsPerRun(200, step); n != 0 {
			t.Errorf("%s: %v allocations a WRITE", name, n)
		}
	}
}

func TestUnitConfigErrors(t *testing.T) {
	for want, spoil := range map[string]func(*config.Config){
		"units.units": func(c *config.Config) { c.Units.Units = -1 }, "units is 16": func(c *config.Config) { c.Units.Answer = 0 },
		"in_flight": func(c *config.Config) { c.Atomics.InFlight = -1 }, "locks": func(c *config.Config) { c.Atomics.Locks = 3 },
		"atomics.cycles": func(c *config.Config) { c.Atomics.Cycles = -1 },
	} {
		c := preset(t, "connectib")
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}
