package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// joined is two hosts with a plain connection.
func joined(t *testing.T) (*bed, end, end) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	return b, x, y
}

func TestLocalInvalidateCompletes(t *testing.T) {
	b, x, _ := joined(t)
	r := x.region(t, make([]byte, 100))
	b.post(x, WR{Request: rc.Request{ID: 1, Op: ib.WRLocalInv, Signaled: true, Imm: r.Key}})
	b.e.RunUntil(units.Second)
	if got := b.poll(x); len(got) != 1 {
		t.Errorf("completions %v", got)
	}
}

// A key that was invalidated belongs to its region until that is deregistered: however many are,
// deregistering it takes no other's away.
func TestInvalidatedKeysAreKept(t *testing.T) {
	b, x, _ := joined(t)
	var first, at = uint32(0), units.Time(0)
	for i := range 600 {
		r := x.region(t, make([]byte, 8))
		switch {
		case i == 0:
			first = r.Key
		case r.Key == first:
			t.Fatalf("key %#x is another region's, while its own is not deregistered", r.Key)
		}
		b.post(x, WR{Request: rc.Request{ID: uint64(i), Op: ib.WRLocalInv, Signaled: true, Imm: r.Key}})
		at += units.Millisecond
		b.e.RunUntil(at)
		if got := b.poll(x); len(got) != 1 {
			t.Fatalf("completions %v", got)
		}
	}
	if x.nic.DeregMR(first) {
		t.Error("an invalid key was valid, as its region was deregistered")
	}
	if r := x.region(t, make([]byte, 8)); r.Key>>8 != first>>8 {
		t.Errorf("key %#x, expected the place of %#x, which is free", r.Key, first)
	}
}

func TestLocalInvalidateStaysInItsProtectionDomain(t *testing.T) {
	b, x, _ := joined(t)
	other, _ := x.nic.RegMR(x.nic.AllocPD(), make([]byte, 100), 0, ib.AccessLocalWrite)
	b.post(x, WR{Request: rc.Request{ID: 1, Op: ib.WRLocalInv, Signaled: true, Imm: other.Key}})
	b.e.RunUntil(units.Second)
	if x.nic.regions.Find(other.Key) == nil {
		t.Error("another PD's region invalidated")
	}
}

func TestAcknowledgementsDoNotOvertakeReads(t *testing.T) {
	b, x, y := joined(t)
	l, r := x.region(t, make([]byte, 20000)), y.region(t, make([]byte, 20000))
	for i := range 8 {
		b.post(x,
			WR{Request: rc.Request{ID: uint64(2 * i), Op: ib.WRRDMARead, Signaled: true, Length: 2000, RemoteAddr: r.Addr, RKey: r.Key}, SGL: []memory.SGE{{Addr: l.Addr, Length: 2000, Key: l.Key}}},
			WR{Request: rc.Request{ID: uint64(2*i + 1), Op: ib.WRRDMAWrite, Signaled: true, Length: 8, RemoteAddr: r.Addr, RKey: r.Key}, SGL: []memory.SGE{{Addr: l.Addr, Length: 8, Key: l.Key}}})
	}
	b.e.RunUntil(10 * units.Millisecond)
	got := b.poll(x)
	c := x.nic.Counters(x.qpn)
	if len(got) != 16 || c.ImpliedNakSeqErr+c.RetransmittedPackets != 0 {
		t.Errorf("%d of 16 completions, %d implied NAKs and %d retransmissions on a lossless network", len(got), c.ImpliedNakSeqErr, c.RetransmittedPackets)
	}
}

func TestResetForgetsWhatWasPosted(t *testing.T) {
	b, x, y := joined(t)
	l, r := x.region(t, make([]byte, 20000)), y.region(t, make([]byte, 20000))
	w := func(id uint64) WR {
		return WR{Request: rc.Request{ID: id, Op: ib.WRRDMAWrite, Signaled: true, Length: 8, RemoteAddr: r.Addr, RKey: r.Key}, SGL: []memory.SGE{{Addr: l.Addr, Length: 8, Key: l.Key}}}
	}
	b.post(x, w(1), w(2), w(3))
	x.nic.Reset(x.qpn)
	x.nic.Init(x.qpn)
	if err := x.nic.ReadyToReceive(x.qpn, Peer{Host: 1, QPN: y.qpn}, Congestion{}, rc.Config{MTU: 1024}); err != nil {
		t.Fatal(err)
	}
	if err := x.nic.ReadyToSend(x.qpn, plainSend); err != nil {
		t.Fatal(err)
	}
	b.post(x, w(9))
	b.e.RunUntil(10 * units.Millisecond)
	got := b.poll(x)
	if len(got) != 1 || got[0].WRID != 9 {
		t.Errorf("completions %+v", got)
	}
	if room := x.nic.Room(x.qpn); room != 64 {
		t.Errorf("room %d", room)
	}
}

func TestOverrunRaisesAnEvent(t *testing.T) {
	b, x, _ := joined(t)
	called := 0
	x.nic.OnAsyncEvent(func(units.Time) { called++ })
	for range 1100 {
		x.nic.completions.complete(b.e.Now(), b.e.Now(), x.cq, CQE{})
	}
	if called == 0 {
		t.Error("overrun event raised without a call")
	}
}

func TestRateLimitSetBeforeRTSHolds(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	n := b.nics[0]
	cq, _ := n.CreateCQ(16)
	q, _ := n.CreateQP(QPConfig{PD: 1, SendCQ: cq, RecvCQ: cq, SendDepth: 4, RecvDepth: 4, SGEs: 1})
	n.Init(q)
	if err := n.ReadyToReceive(q, Peer{Host: 1}, Congestion{}, rc.Config{MTU: 1024}); err != nil {
		t.Fatal(err)
	}
	if err := n.ModifyRateLimit(0, q, config.RateLimit{Rate: units.Gbps}); err != nil {
		t.Fatal(err)
	}
	if err := n.ReadyToSend(q, plainSend); err != nil {
		t.Fatal(err)
	}
	if n.Control(q).Rate != units.Gbps {
		t.Errorf("rate %v", n.Control(q).Rate)
	}
}

func TestResetDropsReceives(t *testing.T) {
	_, x, _ := joined(t)
	for i := range 64 {
		if err := x.nic.RecvQueue(x.qpn).PostRecv(uint64(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	x.nic.Reset(x.qpn)
	if k := x.nic.RecvQueue(x.qpn).queue.Len(); k != 0 {
		t.Errorf("%d receives after reset", k)
	}
}

func TestDroppedPacketsLoseNoBuffers(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, _ := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	// The fabric drops a packet by freeing it; it knows of no payload.
	n := x.nic
	for range 100 {
		h, f := n.chip.Alloc()
		f.Buffer, _ = n.chip.Frames.Payload(1024)
		b.net.Free(h)
	}
	if k, _, _ := n.chip.Frames.Payloads(); k > 2 {
		t.Errorf("%d buffers for frames freed by the fabric", k)
	}
}

// A queue as deep as a preset may say can fail before it is connected.
func TestFailOfADeepQueue(t *testing.T) {
	for _, most := range []int{1 << 16, 1<<16 + 1, 1 << 20} {
		cfg := preset(t, "cx6dx")
		cfg.MaxQPWR = most
		if cfg.Validate() != nil {
			continue
		}
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		n := b.nics[0]
		cq, err := n.CreateCQ(16)
		if err != nil {
			t.Fatal(err)
		}
		q, err := n.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq, SendDepth: most, RecvDepth: 4, SGEs: 1})
		if err != nil {
			t.Fatal(err)
		}
		n.Init(q)
		n.Fail(0, q)
		if s := n.State(q); s != ib.Err {
			t.Errorf("depth %d: state %v", most, s)
		}
	}
}

// A queue pair that closes at a time answers until then, though its number is free.
func TestCloseQP(t *testing.T) {
	b, x, y := joined(t)
	q := y.nic.pairs.find(y.qpn)
	until := b.e.Now() + 5*units.Microsecond
	y.nic.CloseQP(y.qpn, until)
	num, err := y.nic.CreateQP(q.cfg)
	if err != nil || num>>qpGenerationBits != y.qpn>>qpGenerationBits || num == y.qpn {
		t.Fatalf("the next queue pair has number %#x (%v), expected that of %#x again", num, err, y.qpn)
	}
	if y.nic.pairs.find(y.qpn) != q || y.nic.pairs.find(num) == q {
		t.Errorf("the queue pair that closes is not found by its number")
	}
	b.writes(x, x.region(t, make([]byte, 1000)), y.region(t, make([]byte, 1000)))
	b.e.RunUntil(until - 1)
	if got := y.nic.Delivered(y.qpn).Payload; got != 1000 {
		t.Errorf("%d bytes arrived before the end, expected 1000", int64(got))
	}
	b.e.RunUntil(until)
	if y.nic.pairs.find(y.qpn) != nil || y.nic.pairs.find(num) == nil {
		t.Error("the wrong queue pair is gone")
	}
}
