package paced_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

const (
	line    = 10 * units.Gbps
	latency = 10 * units.Microsecond
	us      = units.Microsecond
)

// tb is the common part of testing.TB and rapid.T.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// fixed is an engine that a test sets; it records what it was told.
type fixed struct {
	control cc.Control
	acks    []cc.Ack
	cnps    []units.Time
	onAck   func(*cc.Ack)
	quiet   bool // records nothing
	env     cc.Env
}

func (e *fixed) OnAck(a *cc.Ack) cc.Control {
	if !e.quiet {
		e.acks = append(e.acks, *a)
	}
	if e.onAck != nil {
		e.onAck(a)
	}
	return e.control
}
func (e *fixed) OnLoss(units.Time) cc.Control    { return e.control }
func (e *fixed) OnTimeout(units.Time) cc.Control { return e.control }
func (e *fixed) OnCNP(now units.Time) cc.Control {
	e.cnps = append(e.cnps, now)
	return e.control
}
func (e *fixed) Control() cc.Control { return e.control }

// bench is a paced device "a" and a plain one "b" that it writes to, in
// simulated time. The test is the driver that calls Progress.
type bench struct {
	t    tb
	w    *fakenic.World
	a, b *fakenic.Device
	over verbs.Device // what is wrapped: a, unless it is set
	shim *paced.Shim

	pdA, pdB   verbs.PD
	cq         verbs.CQ // of all paced QPs
	cqB        verbs.CQ
	bufA, bufB []byte
	mrA, mrB   verbs.MR
	posts      []post
}

// post is a segment as the provider got it.
type post struct {
	at  units.Time
	qp  uint32
	wr  verbs.SendWR
	len int
}

// newBench wraps device a with c after tune, if any, changed the devices.
func newBench(t tb, c paced.Config, tune func(*bench)) *bench {
	t.Helper()
	w := fakenic.New()
	p := &bench{t: t, w: w, a: w.NewDevice("a", line, latency), b: w.NewDevice("b", line, latency)}
	p.a.OnPost = func(q *fakenic.QP, wr *verbs.SendWR) {
		kept := *wr
		kept.SGL = append([]verbs.SGE(nil), wr.SGL...)
		p.posts = append(p.posts, post{w.Now(), q.Num(), kept, wr.Length()})
	}
	p.over = p.a
	if tune != nil {
		tune(p)
	}
	p.shim = must(paced.Wrap(p.over, c))(t)
	p.pdA, p.pdB = must(p.shim.AllocPD())(t), must(p.b.AllocPD())(t)
	p.cq = must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 4096}))(t)
	p.cqB = must(p.b.CreateCQ(verbs.CQInitAttr{CQE: 1 << 16}))(t)
	p.bufA, p.bufB = make([]byte, 1<<20), make([]byte, 1<<20)
	const all = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic
	p.mrA, p.mrB = must(p.pdA.RegMR(p.bufA, all))(t), must(p.pdB.RegMR(p.bufB, all))(t)
	return p
}

func (p *bench) recv(q verbs.QP, wrs ...verbs.RecvWR) {
	p.t.Helper()
	if n, err := q.PostRecv(wrs); err != nil || n != len(wrs) {
		p.t.Fatalf("PostRecv took %d of %d: %v", n, len(wrs), err)
	}
}

func (p *bench) arm(cq verbs.CQ, solicitedOnly bool) {
	p.t.Helper()
	if err := cq.ReqNotify(solicitedOnly); err != nil {
		p.t.Fatal(err)
	}
}

func must[V any](v V, err error) func(tb) V {
	return func(t tb) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func defaultCap() verbs.QPCap {
	return verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 256, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 128}
}

// connect makes a paced QP and its peer, connected.
func (p *bench) connect(cap verbs.QPCap) (*paced.QP, verbs.QP) {
	p.t.Helper()
	return p.connectOn(p.cq, p.cq, cap)
}

func (p *bench) connectOn(send, recv verbs.CQ, cap verbs.QPCap) (*paced.QP, verbs.QP) {
	p.t.Helper()
	q := must(p.pdA.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: send, RecvCQ: recv, Cap: cap}))(p.t)
	peer := must(p.pdB.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: p.cqB, RecvCQ: p.cqB, Cap: defaultCap()}))(p.t)
	rc := verbs.DefaultRC()
	a, b := verbs.Endpoint{QPN: q.Num()}, verbs.Endpoint{QPN: peer.Num()}
	if err := verbs.ConnectRC(peer, b, a, rc); err != nil {
		p.t.Fatal(err)
	}
	if err := verbs.ConnectRC(q, a, b, rc); err != nil {
		p.t.Fatal(err)
	}
	return q.(*paced.QP), peer
}

// run is an event-driven driver: it calls Progress when the NIC did something
// and at the deadline, until nothing is left before the given time.
func (p *bench) run(until units.Time) {
	p.t.Helper()
	for range 10_000_000 {
		t := min(p.w.Next(), p.shim.Deadline().Time())
		if t > until || t == units.Never {
			if until != units.Never {
				p.w.RunUntil(until)
			}
			return
		}
		p.w.RunUntil(t)
		if err := p.shim.Progress(p.w.Now().Long()); err != nil {
			p.t.Fatal(err)
		}
		if d := p.shim.Deadline().Time(); d <= p.w.Now() {
			p.t.Fatalf("at %v the deadline right after Progress is %v", p.w.Now(), d)
		}
	}
	p.t.Fatal("the driver does not come to an end")
}

func (p *bench) post(q verbs.QP, wrs ...verbs.SendWR) {
	p.t.Helper()
	if n, err := q.PostSend(wrs); err != nil || n != len(wrs) {
		p.t.Fatalf("PostSend took %d of %d: %v", n, len(wrs), err)
	}
}

// poll takes what there is.
func (p *bench) poll(cq verbs.CQ) []verbs.WC {
	p.t.Helper()
	var all []verbs.WC
	for range 2 { // sends and receives take turns
		for {
			var wc [16]verbs.WC
			n, err := cq.Poll(wc[:])
			if err != nil {
				p.t.Fatal(err)
			}
			all = append(all, wc[:n]...)
			if n == 0 {
				break
			}
		}
	}
	return all
}

// write is an RDMA Write of n bytes at offset 0 of both buffers.
func (p *bench) write(id uint64, n int) verbs.SendWR {
	return verbs.SendWR{
		WRID: id, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{verbs.SGEOf(p.mrA, 0, n)}, RemoteAddr: p.mrB.Addr(), RKey: p.mrB.RKey(),
	}
}

func (p *bench) read(id uint64, n int) verbs.SendWR {
	wr := p.write(id, n)
	wr.Opcode = ib.WRRDMARead
	return wr
}

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i>>8)*31 + byte(i)*7 + seed
	}
}

// uncalibrated is the default configuration without clock readings, so that
// nothing but the work under test makes events.
func uncalibrated() paced.Config {
	c := paced.DefaultConfig()
	c.CalibrateEvery = 0
	return c
}

// steered is uncalibrated with one engine for all queue pairs.
func steered(e *fixed) paced.Config {
	c := uncalibrated()
	c.Engine = func(env cc.Env) (cc.Engine, error) {
		e.env = env
		return e, nil
	}
	return c
}

func TestAWriteIsCutAndCompletesOnce(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	fill(p.bufA, 1)
	const n = 100_000
	p.post(q, p.write(7, n))
	p.run(units.Never)

	if !bytes.Equal(p.bufA[:n], p.bufB[:n]) {
		t.Error("the bytes at the peer differ")
	}
	if p.bufB[n] != 0 {
		t.Error("a byte past the message was written")
	}
	wcs := p.poll(p.cq)
	if len(wcs) != 1 || wcs[0].WRID != 7 || wcs[0].Status != ib.WCSuccess || wcs[0].Opcode != ib.WCRDMAWrite || wcs[0].ByteLen != n || wcs[0].QPN != q.Num() {
		t.Errorf("completions %+v", wcs)
	}
	if len(p.posts) != 7 { // 6 x 16384 + 1696
		t.Errorf("%d segments, want 7", len(p.posts))
	}
	for i, s := range p.posts {
		want := 16384
		if i == 6 {
			want = n - 6*16384
		}
		if s.len != want || s.wr.RemoteAddr != p.mrB.Addr()+uint64(i)*16384 {
			t.Errorf("segment %d: %d bytes at offset %d", i, s.len, s.wr.RemoteAddr-p.mrB.Addr())
		}
	}
	if got := p.shim.Stats(); got.Messages != 1 || got.Failed != 0 || got.Segments != 7 || got.SegmentBytes != n || got.Stray != 0 {
		t.Errorf("stats %+v", got)
	}
}

func TestFlagsAndImmediateRideOnTheRightSegment(t *testing.T) {
	c := uncalibrated()
	c.CutImmediate = true
	p := newBench(t, c, nil)
	q, peer := p.connect(defaultCap())
	p.recv(peer, verbs.RecvWR{WRID: 1})
	wr := p.write(1, 40_000)
	wr.Opcode, wr.Imm = ib.WRRDMAWriteWithImm, 0xfeed
	wr.Flags |= verbs.SendSolicited | verbs.SendFence
	p.post(q, wr)
	p.run(units.Never)

	for i, s := range p.posts {
		last := i == len(p.posts)-1
		if (s.wr.Opcode == ib.WRRDMAWriteWithImm) != last || (s.wr.Imm == 0xfeed) != last {
			t.Errorf("segment %d is a %v with immediate %#x", i, s.wr.Opcode, s.wr.Imm)
		}
		if (s.wr.Flags&verbs.SendSolicited != 0) != last || (s.wr.Flags&verbs.SendFence != 0) != (i == 0) || s.wr.Flags&verbs.SendSignaled == 0 {
			t.Errorf("segment %d has flags %#x", i, s.wr.Flags)
		}
	}
	wcs := p.poll(p.cqB)
	if len(wcs) != 1 || wcs[0].Imm != 0xfeed || wcs[0].Opcode != ib.WCRecvRDMAWithImm {
		t.Errorf("the peer got %+v", wcs)
	}
}

// The receiver of a Write with immediate data sees how long it was. Its bytes count for
// the pace as those of segments do.
func TestAWriteWithImmediateIsWhole(t *testing.T) {
	c := uncalibrated()
	c.Engine = func(cc.Env) (cc.Engine, error) {
		return &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}}, nil
	}
	p := newBench(t, c, nil)
	q, peer := p.connect(defaultCap())
	p.recv(peer, verbs.RecvWR{WRID: 1})
	wr := p.write(1, 200_000)
	wr.Opcode, wr.Imm = ib.WRRDMAWriteWithImm, 0xfeed
	p.post(q, wr, p.write(2, 10))
	if out := q.Outstanding(); out != 200_000 {
		t.Errorf("%v outstanding, expected 200000B", out)
	}
	p.run(units.Never)
	if len(p.posts) != 2 || p.posts[0].len != 200_000 {
		t.Fatalf("segments %+v", p.posts)
	}
	if gap := p.posts[1].at - p.posts[0].at; gap < units.Gbps.Serialize(199_000) || gap > units.Gbps.Serialize(201_000) {
		t.Errorf("the next segment left %v later, expected %v", gap, units.Gbps.Serialize(200_000))
	}
	wcs := p.poll(p.cqB)
	if len(wcs) != 1 || wcs[0].Imm != 0xfeed || wcs[0].ByteLen != 200_000 {
		t.Errorf("the peer got %+v", wcs)
	}
}

func TestSendsAndInlineAreNotCut(t *testing.T) {
	c := uncalibrated()
	c.Segment = 4 * units.KiB
	p := newBench(t, c, nil)
	cap := defaultCap()
	cap.MaxInlineData = 8 << 10
	q, peer := p.connect(cap)
	p.recv(peer, verbs.RecvWR{WRID: 9, SGL: []verbs.SGE{verbs.SGEOf(p.mrB, 0, 200_000)}})
	fill(p.bufA, 3)
	send := p.write(1, 200_000)
	send.Opcode = ib.WRSend
	inline := p.write(2, 0)
	inline.SGL, inline.Flags, inline.RemoteAddr = nil, inline.Flags|verbs.SendInline, p.mrB.Addr()+300_000
	inline.Inline = append([]byte(nil), p.bufA[:6000]...)
	p.post(q, send, inline)
	clear(inline.Inline) // it was copied
	p.run(units.Never)

	if len(p.posts) != 2 || p.posts[0].len != 200_000 || p.posts[1].len != 6000 {
		t.Fatalf("%d posts", len(p.posts))
	}
	if !bytes.Equal(p.bufB[:200_000], p.bufA[:200_000]) || !bytes.Equal(p.bufB[300_000:306_000], p.bufA[:6000]) {
		t.Error("the bytes at the peer differ")
	}
	if wcs := p.poll(p.cq); len(wcs) != 2 {
		t.Errorf("completions %+v", wcs)
	}
}

func TestReadsComeBackWhole(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	fill(p.bufB, 5)
	wr := p.read(3, 0)
	wr.SGL = []verbs.SGE{ // three pieces out of order, one of them empty
		verbs.SGEOf(p.mrA, 500_000, 30_001), verbs.SGEOf(p.mrA, 0, 0),
		verbs.SGEOf(p.mrA, 100_000, 3), verbs.SGEOf(p.mrA, 200_000, 70_000),
	}
	p.post(q, wr)
	p.run(units.Never)
	want := p.bufB[:100_004]
	got := append(append(append([]byte(nil), p.bufA[500_000:530_001]...), p.bufA[100_000:100_003]...), p.bufA[200_000:270_000]...)
	if !bytes.Equal(got, want) {
		t.Error("the bytes read differ")
	}
	if wcs := p.poll(p.cq); len(wcs) != 1 || wcs[0].ByteLen != 100_004 || wcs[0].Opcode != ib.WCRDMARead {
		t.Errorf("completions %+v", wcs)
	}
}

func TestAFencedRequestWaitsForReads(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	fenced := p.write(2, 100)
	fenced.Flags |= verbs.SendFence
	p.post(q, p.read(1, 1000), fenced, p.write(3, 100))
	if len(p.posts) != 1 {
		t.Fatalf("%d posts before the read is back", len(p.posts))
	}
	p.run(units.Never)
	if len(p.posts) != 3 || p.posts[1].at < latency || p.posts[1].wr.Flags&verbs.SendFence == 0 {
		t.Errorf("posts %+v", p.posts)
	}
	if wcs := p.poll(p.cq); len(wcs) != 3 || wcs[0].WRID != 1 || wcs[1].WRID != 2 || wcs[2].WRID != 3 {
		t.Errorf("completions %+v", wcs)
	}
}

func TestNoMoreReadsThanTheResponderTakes(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	const most = 2
	if err := q.Modify(verbs.QPAttr{MaxRdAtomic: most}, verbs.AttrMaxQPRdAtomic); err != nil {
		t.Fatal(err)
	}
	with := 0
	p.a.OnPost = func(q *fakenic.QP, _ *verbs.SendWR) { with = max(with, q.Queued()+1) }
	for i := range 10 {
		p.post(q, p.read(uint64(i), 1000))
	}
	p.run(units.Never)
	if with != most {
		t.Errorf("%d reads were with the NIC at once, the queue pair has %d", with, most)
	}
	if wcs := p.poll(p.cq); len(wcs) != 10 {
		t.Errorf("%d completions of 10 reads", len(wcs))
	}
}

// A change takes effect where the mask names it, and leaves the rest.
func TestAChangeIsOfWhatTheMaskNames(t *testing.T) {
	e := &fixed{control: cc.Control{Rate: line, Window: cc.Unlimited}}
	p := newBench(t, steered(e), nil)
	q, _ := p.connect(defaultCap())
	with := 0
	p.a.OnPost = func(q *fakenic.QP, _ *verbs.SendWR) { with = max(with, q.Queued()+1) }
	for i, c := range []struct {
		a       verbs.QPAttr
		mask    verbs.QPAttrMask
		reads   int
		packets int32 // of a read of 4000 bytes
	}{
		{verbs.QPAttr{MaxRdAtomic: 2, PathMTU: 512}, verbs.AttrMaxQPRdAtomic | verbs.AttrPathMTU, 2, 8},
		{verbs.QPAttr{MaxRdAtomic: 9, PathMTU: 256}, verbs.AttrMinRNRTimer, 2, 8},
		{verbs.QPAttr{MaxRdAtomic: 3, PathMTU: 256}, verbs.AttrMaxQPRdAtomic, 3, 8},
		{verbs.QPAttr{MaxRdAtomic: 9, PathMTU: 2048}, verbs.AttrPathMTU, 3, 2},
		{verbs.QPAttr{}, verbs.AttrPathMTU, 3, 2},
	} {
		if err := q.Modify(c.a, c.mask); err != nil {
			t.Fatal(err)
		}
		with, e.acks = 0, nil
		for range 10 {
			p.post(q, p.read(1, 4000))
		}
		p.run(units.Never)
		if wcs := p.poll(p.cq); len(wcs) != 10 || with != c.reads {
			t.Errorf("change %d: %d completions, %d reads were with the NIC at once, want %d", i, len(wcs), with, c.reads)
		}
		if len(e.acks) != 10 || e.acks[0].Packets != c.packets {
			t.Errorf("change %d: %d acknowledgements, the first of %d packets, want %d", i, len(e.acks), e.acks[0].Packets, c.packets)
		}
	}
}

func TestTheWrapperPassesTheDeviceOn(t *testing.T) {
	p := newBench(t, uncalibrated(), func(p *bench) { p.a.ClockHz = 1e9 })
	if p.shim.Name() != p.a.Name() || p.shim.Unwrap() != verbs.Device(p.a) || p.shim.Attr() != p.a.Attr() {
		t.Error("another device")
	}
	p.w.RunUntil(5 * us)
	if p.shim.Now() != 5*time.Microsecond || p.shim.NowPrecise() != 5*us || p.shim.Clock().Time() != 5*us {
		t.Error("another time")
	}
	if ticks, err := p.shim.ReadClock(); err != nil || ticks != 5000 {
		t.Errorf("the clock reads %d, %v", ticks, err)
	}
	p.a.ClockHz = 0
	if _, err := p.shim.ReadClock(); err == nil {
		t.Error("a clock that is not there can be read")
	}
	var _ verbs.Runner = p.shim
	ran := false
	if err := verbs.Run(p.shim, func() error { ran = true; return nil }); err != nil || !ran {
		t.Error("Run did not run")
	}
	if a, err := p.shim.Port(1); err != nil || a.LinkRate != int64(line) {
		t.Errorf("port %+v, %v", a, err)
	}
	q, _ := p.connect(defaultCap())
	if a, err := q.Query(); err != nil || a.State != ib.RTS || a.Cap.MaxSendWR != 64 {
		t.Errorf("the queue pair is %+v, %v", a, err)
	}
	p.a.Raise(verbs.AsyncEvent{Type: ib.EventQPFatal, QP: q.Unwrap()})
	if e, err := p.shim.AsyncEvent(t.Context(), 0); err != nil || e.QP != verbs.QP(q) {
		t.Errorf("event %+v, %v: want the paced queue pair", e, err)
	}
}

func TestEverythingIsFreed(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	ch := must(p.shim.CreateCompChannel())(t)
	cq := must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 16, Channel: ch}))(t)
	q1, _ := p.connect(defaultCap())
	q2, _ := p.connectOn(cq, cq, defaultCap())
	for name, err := range map[string]error{"close": p.shim.Close(), "cq": cq.Close(), "channel": ch.Close()} {
		if err == nil {
			t.Errorf("%s was freed while in use", name)
		}
	}
	for _, f := range []func() error{q1.Close, q2.Close, cq.Close, p.cq.Close, ch.Close, p.pdA.Close, p.shim.Close} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	if q1.Close() == nil {
		t.Error("destroyed twice")
	}
}
