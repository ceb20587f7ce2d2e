package nicmodel

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// bed is NICs around one switch, with what tests need of hosts.
type bed struct {
	t    testing.TB
	e    *des.Engine
	net  *fabric.Network
	nics []*NIC
	// Of connections that are made from now on.
	priority uint8
	function int
	depth    int      // of send queues, 64 at least
	domains  []uint32 // protection domains by host; nil is one for each queue pair
}

// allocatesNothing holds the next events to that.
func (b *bed) allocatesNothing() {
	b.t.Helper()
	if n := testing.AllocsPerRun(3, func() {
		for range 20000 {
			b.e.Step()
		}
	}); n > 0 {
		b.t.Errorf("%v allocations in 20000 events", n)
	}
}

func newBed(t testing.TB, hosts int, rate units.Rate, cfg config.Config, change func(*fabric.Config)) *bed {
	t.Helper()
	fc := fabric.Default()
	for i := range fc.Switch.Classes {
		fc.Switch.Classes[i].PFC.Lossless = true
	}
	if change != nil {
		change(&fc)
	}
	return newBedOn(t, fabric.Star(hosts, fabric.Link{Rate: rate, Delay: 500 * units.Nanosecond}), fc, cfg)
}

// newBedOn puts NICs of these configurations, in turns, at the hosts of a network.
func newBedOn(t testing.TB, topology *fabric.Topology, fc fabric.Config, cfgs ...config.Config) *bed {
	t.Helper()
	e := des.New()
	net, err := fabric.New(e, topology, fc, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, e: e, net: net}
	slab := frames.New(net)
	for h := range topology.Hosts() {
		n, err := New(e, net, slab, h, net.LineRate(h), cfgs[h%len(cfgs)])
		if err != nil {
			t.Fatal(err)
		}
		b.nics = append(b.nics, n)
	}
	return b
}

// pd returns the protection domain for another queue pair of a host.
func (b *bed) pd(host int) uint32 {
	if b.domains == nil {
		return b.nics[host].AllocPD()
	}
	return b.domains[host]
}

// end is one end of a connection.
type end struct {
	nic *NIC
	pd  uint32
	cq  uint32
	qpn uint32
}

// connect joins two hosts by a queue pair each.
func (b *bed) connect(from, to int, cong [2]Congestion, send rc.SendConfig, mtu units.Bytes) (x, y end) {
	b.t.Helper()
	return b.connectType(ib.RC, from, to, cong, send, mtu)
}

func (b *bed) connectType(kind ib.QPType, from, to int, cong [2]Congestion, send rc.SendConfig, mtu units.Bytes) (x, y end) {
	b.t.Helper()
	make := func(host int) end {
		n := b.nics[host]
		cq, err := n.CreateCQ(1024)
		if err != nil {
			b.t.Fatal(err)
		}
		e := end{nic: n, pd: b.pd(host), cq: cq}
		if e.qpn, err = n.CreateQP(QPConfig{Type: kind, PD: e.pd, SendCQ: cq, RecvCQ: cq, SendDepth: max(64, b.depth), RecvDepth: 64, SGEs: 4}); err != nil {
			b.t.Fatal(err)
		}
		return e
	}
	x, y = make(from), make(to)
	for i, p := range [][2]end{{x, y}, {y, x}} {
		me, peer := p[0], p[1]
		me.nic.Init(me.qpn)
		if err := me.nic.SetFunction(me.qpn, b.function); err != nil {
			b.t.Fatal(err)
		}
		cfg := rc.Config{
			MTU:    mtu,
			Access: ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic,
		}
		if kind == ib.RC {
			cfg.MaxDestRdAtomic, cfg.MinRNRTimer = 16, 1
		}
		if err := me.nic.ReadyToReceive(me.qpn, Peer{Host: peer.nic.Host(), QPN: peer.qpn, FlowHash: uint32(me.qpn), Priority: b.priority}, cong[i], cfg); err != nil {
			b.t.Fatal(err)
		}
		if err := me.nic.ReadyToSend(me.qpn, send); err != nil {
			b.t.Fatal(err)
		}
	}
	return x, y
}

func (e end) region(t testing.TB, buf []byte) memory.Region {
	t.Helper()
	r, err := e.nic.RegMR(e.pd, buf, 0, ib.AccessLocalWrite|ib.AccessRemoteRead|ib.AccessRemoteWrite|ib.AccessRemoteAtomic)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *bed) post(e end, wrs ...WR) {
	b.t.Helper()
	for i := range wrs {
		if err := e.nic.PostSend(e.qpn, &wrs[i]); err != nil {
			b.t.Fatal(err)
		}
	}
	e.nic.Ring(b.e.Now(), e.qpn, len(wrs))
}

func (b *bed) poll(e end) []CQE {
	out := make([]CQE, 64)
	return out[:e.nic.PollCQ(b.e.Now(), e.cq, out)]
}

var plainSend = rc.SendConfig{Timeout: 10, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 8}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) + byte(i>>8) + seed
	}
	return b
}

func preset(t testing.TB, name string) config.Config {
	c, err := config.Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOperationsMoveTheBytes(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	local, remote := pattern(10000, 1), pattern(10000, 100)
	wantRemote := append([]byte(nil), remote...)
	lr, rr := x.region(t, local), y.region(t, remote)
	back := make([]byte, 5000)
	br := x.region(t, back)
	recv := make([]byte, 3000)
	vr := y.region(t, recv)
	if err := y.nic.RecvQueue(y.qpn).PostRecv(77, []memory.SGE{{Addr: vr.Addr, Length: 1000, Key: vr.Key}, {Addr: vr.Addr + 1000, Length: 2000, Key: vr.Key}}); err != nil {
		t.Fatal(err)
	}
	b.post(x,
		WR{Request: rc.Request{ID: 1, Op: ib.WRRDMAWrite, Signaled: true, Length: 5000, RemoteAddr: rr.Addr + 10, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr, Length: 2000, Key: lr.Key}, {Addr: lr.Addr + 5000, Length: 3000, Key: lr.Key}}},
		WR{Request: rc.Request{ID: 2, Op: ib.WRRDMARead, Signaled: true, Length: 5000, RemoteAddr: rr.Addr + 10, RKey: rr.Key}, SGL: []memory.SGE{{Addr: br.Addr, Length: 5000, Key: br.Key}}},
		WR{Request: rc.Request{ID: 3, Op: ib.WRSend, Signaled: true, Length: 2500}, SGL: []memory.SGE{{Addr: lr.Addr, Length: 2500, Key: lr.Key}}},
		WR{Request: rc.Request{ID: 4, Op: ib.WRRDMAWrite, Signaled: true, Length: 3, RemoteAddr: rr.Addr + 9000, RKey: rr.Key}, Inline: []byte("abc")},
	)
	b.e.RunUntil(units.Second)
	copy(wantRemote[10:], local[:2000])
	copy(wantRemote[2010:], local[5000:8000])
	copy(wantRemote[9000:], "abc")
	if !bytes.Equal(remote, wantRemote) {
		t.Error("the Writes did not place what they should")
	}
	if !bytes.Equal(back, wantRemote[10:5010]) {
		t.Error("the Read did not bring back what was written")
	}
	if !bytes.Equal(recv[:2500], local[:2500]) {
		t.Error("the Send did not arrive")
	}
	cs := b.poll(x)
	if len(cs) != 4 {
		t.Fatalf("%d completions: %+v", len(cs), cs)
	}
	for i, c := range cs {
		if c.WRID != uint64(i+1) || c.Status != ib.WCSuccess {
			t.Errorf("completion %d: %+v", i, c)
		}
	}
	rs := b.poll(y)
	if len(rs) != 1 || rs[0].WRID != 77 || rs[0].ByteLen != 2500 || rs[0].Opcode != ib.WCRecv {
		t.Errorf("receive completions %+v", rs)
	}
	if live := b.net.Live(); live != 0 {
		t.Errorf("%d packets were never freed", live)
	}
}

func TestAtomics(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	remote, local := make([]byte, 64), make([]byte, 64)
	remote[8] = 40
	rr, lr := y.region(t, remote), x.region(t, local)
	atomic := func(id uint64, op ib.WROpcode, at uint64, compare, swap uint64) WR {
		return WR{Request: rc.Request{ID: id, Op: op, Signaled: true, Length: 8, RemoteAddr: rr.Addr + 8, RKey: rr.Key, Compare: compare, Swap: swap}, SGL: []memory.SGE{{Addr: lr.Addr + at, Length: 8, Key: lr.Key}}}
	}
	b.post(x, atomic(1, ib.WRAtomicFetchAndAdd, 0, 0, 2), atomic(2, ib.WRAtomicCmpAndSwp, 8, 42, 7), atomic(3, ib.WRAtomicCmpAndSwp, 16, 42, 9))
	b.e.RunUntil(units.Second)
	if remote[8] != 7 || local[0] != 40 || local[8] != 42 || local[16] != 7 {
		t.Errorf("remote %d, fetched %d, %d, %d; want 7 and 40, 42, 7", remote[8], local[0], local[8], local[16])
	}
}

func TestProtection(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	for name, c := range map[string]struct {
		wr   func(l, r memory.Region) WR
		want ib.WCStatus
	}{
		"remote bounds": {func(l, r memory.Region) WR {
			return WR{Request: rc.Request{Op: ib.WRRDMAWrite, Length: 100, RemoteAddr: r.Addr + r.Length - 99, RKey: r.Key}, SGL: []memory.SGE{{Addr: l.Addr, Length: 100, Key: l.Key}}}
		}, ib.WCRemAccessErr},
		"stale remote key": {func(l, r memory.Region) WR {
			return WR{Request: rc.Request{Op: ib.WRRDMARead, Length: 100, RemoteAddr: r.Addr, RKey: r.Key + 1}, SGL: []memory.SGE{{Addr: l.Addr, Length: 100, Key: l.Key}}}
		}, ib.WCRemAccessErr},
		"local bounds": {func(l, r memory.Region) WR {
			return WR{Request: rc.Request{Op: ib.WRRDMAWrite, Length: 100, RemoteAddr: r.Addr, RKey: r.Key}, SGL: []memory.SGE{{Addr: l.Addr + l.Length - 50, Length: 100, Key: l.Key}}}
		}, ib.WCLocProtErr},
		"local read target": {func(l, r memory.Region) WR {
			return WR{Request: rc.Request{Op: ib.WRRDMARead, Length: 100, RemoteAddr: r.Addr, RKey: r.Key}, SGL: []memory.SGE{{Addr: l.Addr, Length: 100, Key: l.Key ^ 0x100}}}
		}, ib.WCLocProtErr},
	} {
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		before := pattern(1000, 9)
		remote := append([]byte(nil), before...)
		wr := c.wr(x.region(t, pattern(1000, 1)), y.region(t, remote))
		wr.Request.Signaled = true
		b.post(x, wr, wr)
		b.e.RunUntil(b.e.Now() + units.Second)
		cs := b.poll(x)
		if len(cs) != 2 || cs[0].Status != c.want || cs[1].Status != ib.WCWRFlushErr {
			t.Errorf("%s: completions %+v, want %v and a flush", name, cs, c.want)
		}
		if !bytes.Equal(remote, before) {
			t.Errorf("%s: memory was touched", name)
		}
	}
}

// A stream of Writes must fill the wire, and the accounts must close.
func TestWriteStreamFillsTheWireAndAccountsClose(t *testing.T) {
	const rate = 100 * units.Gbps
	b := newBed(t, 2, rate, preset(t, "cx6dx"), nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	lr, err := x.nic.RegMR(x.pd, nil, 1<<30, ib.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	rr, err := y.nic.RegMR(y.pd, nil, 1<<30, ib.AccessLocalWrite|ib.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	const size, messages = 1 << 20, 8
	for range messages {
		b.post(x, WR{Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: size, RemoteAddr: rr.Addr, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr, Length: size, Key: lr.Key}}})
	}
	for b.e.Step() {
	}
	now := b.e.Now()
	cs := b.poll(x)
	if len(cs) != messages {
		t.Fatalf("%d of %d completions", len(cs), messages)
	}
	ideal := rate.Serialize(messages * size / 1024 * (1024 + 82))
	last := units.Time(0)
	for _, a := range x.nic.Accounts(now) {
		if sum := a.Busy + a.Idle + sumOf(a.Stalled[:]); sum != a.Elapsed {
			t.Errorf("%s: busy, stalled and idle are %d cycles of %d", a.Stage, sum, a.Elapsed)
		}
		if a.Stage == "mac" {
			last = units.Time(a.Busy)
		}
	}
	if last < ideal || last > ideal+ideal/500 {
		t.Errorf("the MAC was busy for %v, the data last %v", last, ideal)
	}
	d := y.nic.Delivered(y.qpn)
	if d.Payload != messages*size {
		t.Errorf("delivered %v", d.Payload)
	}
	up, down := x.nic.PCIeBytes()
	if down["payload"] < messages*size || up["payload"] == 0 || down["doorbell"] == 0 || up["cqe"] == 0 {
		t.Errorf("PCIe bytes up %v, down %v", up, down)
	}
	if got := units.RateOf(messages*size, cs[messages-1].Visible); got < 90*units.Gbps {
		t.Errorf("payload at %v", got)
	}
}

func sumOf(v []int64) (sum int64) {
	for _, x := range v {
		sum += x
	}
	return sum
}

func TestLossIsRepaired(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), func(c *fabric.Config) {
		c.Faults = []fabric.Fault{{Link: "*", Loss: 0.01}}
	})
	x, y := b.connect(0, 1, [2]Congestion{}, rc.SendConfig{Timeout: 5, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 8}, 1024)
	local := pattern(1<<20, 3)
	remote := make([]byte, 1<<20)
	lr, rr := x.region(t, local), y.region(t, remote)
	for i := range 16 {
		at := uint64(i) << 16
		b.post(x, WR{Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: 1 << 16, RemoteAddr: rr.Addr + at, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr + at, Length: 1 << 16, Key: lr.Key}}})
	}
	b.e.RunUntil(units.Second)
	if cs := b.poll(x); len(cs) != 16 {
		t.Fatalf("%d of 16 completions", len(cs))
	}
	if !bytes.Equal(local, remote) {
		t.Error("the bytes differ")
	}
	c := x.nic.Counters(x.qpn)
	if c.RetransmittedPackets == 0 {
		t.Error("nothing was retransmitted, so nothing was tested")
	}
	if live := b.net.Live(); live != 0 {
		t.Errorf("%d packets were never freed", live)
	}
}

// pacer is an engine that stays where it is put, and takes notes.
type pacer struct {
	control cc.Control
	acks    int
	last    cc.Ack
	path    telemetry.Stack
	losses  int
}

func (p *pacer) OnAck(a *cc.Ack) cc.Control {
	p.acks++
	p.last = *a
	if a.Path != nil {
		p.path = *a.Path
	}
	return p.control
}
func (p *pacer) OnLoss(units.Time) cc.Control    { p.losses++; return p.control }
func (p *pacer) OnTimeout(units.Time) cc.Control { return p.control }
func (p *pacer) OnCNP(units.Time) cc.Control     { return p.control }
func (p *pacer) Control() cc.Control             { return p.control }

// stream posts Writes of phantom memory from x to y without end.
func (b *bed) stream(x, y end, size uint32, depth int) func() {
	b.t.Helper()
	lr, err := x.nic.RegMR(x.pd, nil, 1<<30, ib.AccessLocalWrite)
	if err != nil {
		b.t.Fatal(err)
	}
	rr, err := y.nic.RegMR(y.pd, nil, 1<<30, ib.AccessLocalWrite|ib.AccessRemoteWrite)
	if err != nil {
		b.t.Fatal(err)
	}
	wr := WR{Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: size, RemoteAddr: rr.Addr, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr, Length: size, Key: lr.Key}}}
	out := make([]CQE, 64)
	post := func() {
		if err := x.nic.PostSend(x.qpn, &wr); err != nil {
			b.t.Fatal(err)
		}
		x.nic.Ring(b.e.Now(), x.qpn, 1)
	}
	x.nic.OnCompletion(x.cq, func(now units.Time, _ bool) {
		for range x.nic.PollCQ(now, x.cq, out) {
			post()
		}
	})
	for range depth {
		post()
	}
	return func() { x.nic.OnCompletion(x.cq, nil) }
}

// An engine inside the NIC has its rate and its window enforced, and is told what
// the path was like.
func TestEngineInTheNIC(t *testing.T) {
	const rate = 100 * units.Gbps
	cfg := preset(t, "cx6dx")
	// From an acknowledgement that opens the window to the wire a packet takes
	// its way through the NIC and the fetch of its payload; the round trip that
	// the engine sees begins at the wire.
	fetch := cfg.PCIe.ReadLatency + cfg.PCIe.Rate.Serialize(1024) + cfg.PipelineLatency + cfg.CoreClock.Begin(cfg.SchedulerCycles+cfg.PacketiserCycles)
	for name, c := range map[string]struct {
		control cc.Control
		kind    telemetry.Kind
		want    func(span units.Time, rtt units.Time) float64 // payload bytes
	}{
		"paced": {cc.Control{Rate: 7 * units.Gbps, Window: cc.Unlimited}, telemetry.MaxDelay,
			func(span, _ units.Time) float64 { return 7e9 / 8 * span.Seconds() }},
		"window of one packet": {cc.Control{Rate: rate, Window: 1}, telemetry.None,
			func(span, rtt units.Time) float64 { return 1024 * float64(span) / float64(rtt+fetch) }},
		"window of ten": {cc.Control{Rate: rate, Window: 10240}, telemetry.PerHop,
			func(span, rtt units.Time) float64 { return 10240 * float64(span) / float64(rtt+fetch) }},
	} {
		b := newBed(t, 2, rate, cfg, nil)
		p := &pacer{control: c.control}
		cong := Congestion{Engine: p, Telemetry: c.kind, BaseRTT: 5 * units.Microsecond}
		send := plainSend
		send.AckReqEvery = 1
		x, y := b.connect(0, 1, [2]Congestion{cong, {Telemetry: c.kind}}, send, 1024)
		b.stream(x, y, 1<<20, 4)
		const span = 2 * units.Millisecond
		b.e.RunUntil(span)
		got := float64(y.nic.Delivered(y.qpn).Payload)
		if want := c.want(span, p.last.RTT); got < 0.97*want || got > 1.03*want {
			t.Errorf("%s: %.0f bytes arrived, want %.0f (RTT %v)", name, got, want, p.last.RTT)
		}
		a := p.last
		// What the receiving NIC takes from a packet's last bit to its acknowledgement.
		if held := cfg.RoundTripShare(); a.Hops != 1 || a.Held <= 0 || a.Held > held {
			t.Errorf("%s: over one switch the engine got %d, and %v held of at most %v", name, a.Hops, a.Held, held)
		}
		base := b.net.BaseRTT(0, 1, frames.FrameBytes(ib.WriteMiddle, 1024)+b.net.TelemetryBytes(c.kind, 0), frames.FrameBytes(ib.Acknowledge, 0)) + cfg.RoundTripShare()
		if a.RTT < base-20*units.Nanosecond || a.RTT > base+base/4 {
			t.Errorf("%s: RTT %v on an idle network, whose base is %v", name, a.RTT, base)
		}
		if a.Packets != 1 || a.Bytes != 1024 || a.Sent < a.Acked || a.AppLimited {
			t.Errorf("%s: ack %+v", name, a)
		}
		if a.HasMaxDelay != (c.kind == telemetry.MaxDelay) || (p.path.N == 1) != (c.kind == telemetry.PerHop) {
			t.Errorf("%s: telemetry %+v, %d hops", name, a, p.path.N)
		}
		if c.kind == telemetry.PerHop && p.path.Hops[0].Rate != rate {
			t.Errorf("%s: the hop has a rate of %v", name, p.path.Hops[0].Rate)
		}
	}
}

func TestRateLimitOfAPlainQueuePair(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	if err := x.nic.ModifyRateLimit(0, x.qpn, config.RateLimit{Rate: 3 * units.Gbps}); err != nil {
		t.Fatal(err)
	}
	b.stream(x, y, 1<<16, 4)
	b.e.RunUntil(10 * units.Millisecond)
	got, want := float64(y.nic.Delivered(y.qpn).Payload), 3e9/8*10e-3
	if got < 0.99*want || got > 1.01*want {
		t.Errorf("%.0f bytes at a limit that allows %.0f", got, want)
	}
}

// Two queue pairs of one NIC share its wire evenly, or by their weights.
func TestQueuePairsShareTheWire(t *testing.T) {
	for _, weight := range []int{0, 1, 2, 7} { // 0: none is set
		b := newBed(t, 3, 25*units.Gbps, preset(t, "cx5"), nil)
		x1, y1 := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		x2, y2 := b.connect(0, 2, [2]Congestion{}, plainSend, 1024)
		if weight > 0 {
			if err := x1.nic.SetWeight(x1.qpn, weight); err != nil {
				t.Fatal(err)
			}
		}
		b.stream(x1, y1, 1<<20, 2)
		b.stream(x2, y2, 1<<16, 8)
		b.e.RunUntil(5 * units.Millisecond)
		one, two := y1.nic.Delivered(y1.qpn).Payload, y2.nic.Delivered(y2.qpn).Payload
		want := float64(max(weight, 1))
		if ratio := float64(one) / float64(two); ratio < 0.97*want || ratio > 1.03*want {
			t.Errorf("weight %d: one gets %v, the other %v", weight, one, two)
		}
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	p := &pacer{control: cc.Control{Rate: 90 * units.Gbps, Window: 1 << 20}}
	send := plainSend
	send.AckReqEvery = 1
	x, y := b.connect(0, 1, [2]Congestion{{Engine: p, Telemetry: telemetry.PerHop, BaseRTT: 5 * units.Microsecond}, {Telemetry: telemetry.PerHop}}, send, 1024)
	b.stream(x, y, 1<<16, 8)
	b.e.RunUntil(units.Millisecond)
	b.allocatesNothing()
}

// BenchmarkWritePacket is a data packet and its acknowledgement through two NICs
// and a switch: all events of it.
func BenchmarkWritePacket(b *testing.B) {
	bed := newBed(b, 2, 100*units.Gbps, preset(b, "cx6dx"), nil)
	send := plainSend
	send.AckReqEvery = 1
	x, y := bed.connect(0, 1, [2]Congestion{}, send, 1024)
	bed.stream(x, y, 1<<20, 4)
	bed.e.RunUntil(units.Millisecond)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for at := y.nic.Delivered(y.qpn).Packets; y.nic.Delivered(y.qpn).Packets == at; {
			bed.e.Step()
		}
	}
	b.ReportMetric(float64(bed.e.Events())/float64(y.nic.Delivered(y.qpn).Packets), "events/packet")
}

func TestConfigIsChecked(t *testing.T) {
	b := newBed(t, 2, units.Gbps, preset(t, "cx5"), nil)
	for name, change := range map[string]func(*config.Config){
		"core_clock": func(c *config.Config) { c.CoreClock = 0 }, "pcie.mps": func(c *config.Config) { c.PCIe.MPS = -1 },
		"counter.bits": func(c *config.Config) { c.Counter.Bits = 64 }, "tx_buffer": func(c *config.Config) { c.TxBuffer = 0 },
	} {
		c := preset(t, "cx5")
		change(&c)
		if _, err := New(b.e, b.net, frames.New(b.net), 0, units.Gbps, c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := config.Preset("cx9"); err == nil || !strings.Contains(err.Error(), "cx7") {
		t.Errorf("an unknown preset: %v", err)
	}
}

// Two senders at line rate to one receiver over a lossless switch: the pauses
// show up as such in the accounts of their MACs, and nothing is lost.
func TestPausesAreAccountedFor(t *testing.T) {
	b := newBed(t, 3, 25*units.Gbps, preset(t, "cx5"), func(c *fabric.Config) {
		for i := range c.Switch.Classes {
			c.Switch.Classes[i].PFC.XOFF = 64 * units.KiB
		}
	})
	x1, y1 := b.connect(0, 2, [2]Congestion{}, plainSend, 1024)
	x2, y2 := b.connect(1, 2, [2]Congestion{}, plainSend, 1024)
	b.stream(x1, y1, 1<<20, 4)
	b.stream(x2, y2, 1<<20, 4)
	b.e.RunUntil(5 * units.Millisecond)
	if d := b.net.Totals().Dropped; d > 0 {
		t.Errorf("%d packets were dropped", d)
	}
	for _, x := range []end{x1, x2} {
		a := x.nic.Accounts(b.e.Now())[4]
		if a.Stage != "mac" || a.Busy+a.Idle+sumOf(a.Stalled[:]) != a.Elapsed {
			t.Fatalf("account %+v", a)
		}
		// Each has half of the wire that it could fill.
		if paused := float64(a.Stalled[stage.StallPause]) / float64(a.Elapsed); paused < 0.4 || paused > 0.6 {
			t.Errorf("the MAC was paused for %.2f of the time, want a half: %+v", paused, a)
		}
	}
}
