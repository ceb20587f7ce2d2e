package nicmodel

import (
	"bytes"
	"testing"

	"github.com/sluice-rdma/sluice/des"
	"github.com/sluice-rdma/sluice/fabric"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// bed is NICs around one switch, with what tests need of hosts.
type bed struct {
	t    testing.TB
	e    *des.Engine
	net  *fabric.Network
	nics []*NIC
}

func newBed(t testing.TB, hosts int, rate units.Rate, cfg Config, change func(*fabric.Config)) *bed {
	t.Helper()
	e := des.New()
	fc := fabric.Default()
	for i := range fc.Switch.Classes {
		fc.Switch.Classes[i].PFC.Lossless = true
	}
	if change != nil {
		change(&fc)
	}
	net, err := fabric.New(e, fabric.Star(hosts, fabric.Link{Rate: rate, Delay: 500 * units.Nanosecond}), fc, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, e: e, net: net}
	frames := NewFrames(net)
	for h := range hosts {
		n, err := New(e, net, frames, h, rate, cfg)
		if err != nil {
			t.Fatal(err)
		}
		b.nics = append(b.nics, n)
	}
	return b
}

// end is one end of a connection.
type end struct {
	nic *NIC
	pd  uint32
	cq  uint32
	qpn uint32
}

// connect joins two hosts by a queue pair each.
func (b *bed) connect(from, to int, cong [2]Congestion, send rc.SendConfig, mtu ib.MTU) (x, y end) {
	b.t.Helper()
	make := func(host int) end {
		n := b.nics[host]
		cq, err := n.CreateCQ(1024)
		if err != nil {
			b.t.Fatal(err)
		}
		e := end{nic: n, pd: n.AllocPD(), cq: cq}
		if e.qpn, err = n.CreateQP(QPConfig{PD: e.pd, SendCQ: cq, RecvCQ: cq, SendDepth: 64, RecvDepth: 64, SGEs: 4}); err != nil {
			b.t.Fatal(err)
		}
		return e
	}
	x, y = make(from), make(to)
	for i, p := range [][2]end{{x, y}, {y, x}} {
		me, peer := p[0], p[1]
		me.nic.Init(me.qpn)
		err := me.nic.ReadyToReceive(me.qpn, Peer{Host: peer.nic.Host(), QPN: peer.qpn, FlowHash: uint32(me.qpn)}, cong[i], rc.Config{
			MTU: mtu, MaxDestRdAtomic: 16, MinRNRTimer: 1,
			Access: ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic,
		})
		if err != nil {
			b.t.Fatal(err)
		}
		if err := me.nic.ReadyToSend(me.qpn, send); err != nil {
			b.t.Fatal(err)
		}
	}
	return x, y
}

func (e end) region(t testing.TB, buf []byte) Region {
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

func preset(t testing.TB, name string) Config {
	c, err := Preset(name)
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
	if err := y.nic.RecvQueue(y.qpn).PostRecv(77, []SGE{{vr.Addr, 1000, vr.Key}, {vr.Addr + 1000, 2000, vr.Key}}); err != nil {
		t.Fatal(err)
	}
	b.post(x,
		WR{Request: rc.Request{ID: 1, Op: ib.WRRDMAWrite, Signaled: true, Length: 5000, RemoteAddr: rr.Addr + 10, RKey: rr.Key}, SGL: []SGE{{lr.Addr, 2000, lr.Key}, {lr.Addr + 5000, 3000, lr.Key}}},
		WR{Request: rc.Request{ID: 2, Op: ib.WRRDMARead, Signaled: true, Length: 5000, RemoteAddr: rr.Addr + 10, RKey: rr.Key}, SGL: []SGE{{br.Addr, 5000, br.Key}}},
		WR{Request: rc.Request{ID: 3, Op: ib.WRSend, Signaled: true, Length: 2500}, SGL: []SGE{{lr.Addr, 2500, lr.Key}}},
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
		return WR{Request: rc.Request{ID: id, Op: op, Signaled: true, Length: 8, RemoteAddr: rr.Addr + 8, RKey: rr.Key, Compare: compare, Swap: swap}, SGL: []SGE{{lr.Addr + at, 8, lr.Key}}}
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
		wr   func(l, r Region) WR
		want ib.WCStatus
	}{
		"remote bounds": {func(l, r Region) WR {
			return WR{Request: rc.Request{Op: ib.WRRDMAWrite, Length: 100, RemoteAddr: r.Addr + r.Length - 99, RKey: r.Key}, SGL: []SGE{{l.Addr, 100, l.Key}}}
		}, ib.WCRemAccessErr},
		"stale remote key": {func(l, r Region) WR {
			return WR{Request: rc.Request{Op: ib.WRRDMARead, Length: 100, RemoteAddr: r.Addr, RKey: r.Key + 1}, SGL: []SGE{{l.Addr, 100, l.Key}}}
		}, ib.WCRemAccessErr},
		"local bounds": {func(l, r Region) WR {
			return WR{Request: rc.Request{Op: ib.WRRDMAWrite, Length: 100, RemoteAddr: r.Addr, RKey: r.Key}, SGL: []SGE{{l.Addr + l.Length - 50, 100, l.Key}}}
		}, ib.WCLocProtErr},
		"local read target": {func(l, r Region) WR {
			return WR{Request: rc.Request{Op: ib.WRRDMARead, Length: 100, RemoteAddr: r.Addr, RKey: r.Key}, SGL: []SGE{{l.Addr, 100, l.Key ^ 0x100}}}
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
		b.post(x, WR{Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: size, RemoteAddr: rr.Addr, RKey: rr.Key}, SGL: []SGE{{lr.Addr, size, lr.Key}}})
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
		b.post(x, WR{Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: 1 << 16, RemoteAddr: rr.Addr + at, RKey: rr.Key}, SGL: []SGE{{lr.Addr + at, 1 << 16, lr.Key}}})
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
