package nicmodel

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

const testQKey = 0x1234

// datagrams makes a UD queue pair that is ready to send.
func (b *bed) datagrams(host, depth int, srq *SRQ) end {
	b.t.Helper()
	n := b.nics[host]
	cq, err := n.CreateCQ(4096)
	if err != nil {
		b.t.Fatal(err)
	}
	e := end{nic: n, pd: b.pd(host), cq: cq}
	if e.qpn, err = n.CreateQP(QPConfig{Type: ib.UD, PD: e.pd, SendCQ: cq, RecvCQ: cq, SendDepth: depth, RecvDepth: depth, SGEs: 4, SRQ: srq}); err != nil {
		b.t.Fatal(err)
	}
	n.Init(e.qpn)
	n.SetQKey(e.qpn, testQKey)
	if err := n.ReadyToReceive(e.qpn, Peer{}, Congestion{}, rc.Config{MTU: 4096}); err != nil {
		b.t.Fatal(err)
	}
	if err := n.ReadyToSend(e.qpn, rc.SendConfig{}); err != nil {
		b.t.Fatal(err)
	}
	return e
}

func datagramTo(y end, data []byte) WR {
	return WR{
		Request: rc.Request{Op: ib.WRSend, Signaled: true, Length: uint32(len(data))}, Inline: data,
		To: Peer{Host: y.nic.Host(), QPN: y.qpn}, QKey: testQKey,
	}
}

// A datagram comes with its header before it, whatever pieces its
// receive has; within an InfiniBand subnet there is no header, and nothing is
// written to that room.
func TestDatagramLayout(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		preset := preset(t, rapid.SampledFrom([]string{"cx6dx", "connectib"}).Draw(rt, "nic"))
		b := newBed(t, 2, 100*units.Gbps, preset, nil)
		x, y := b.datagrams(0, 4, nil), b.datagrams(1, 4, nil)
		payload := pattern(rapid.IntRange(0, 300).Draw(rt, "payload"), 3)
		header := make([]byte, rc.GRHBytes)
		if rapid.Bool().Draw(rt, "written") {
			header = pattern(rc.GRHBytes, 5)
			y.nic.OnDatagram(func(h *[rc.GRHBytes]byte, d Datagram) {
				if *h != [rc.GRHBytes]byte{} || d.Src != 0 || int(d.Frame.Dst) != 1 {
					rt.Errorf("a datagram from %d to %d with %x", d.Src, d.Frame.Dst, *h)
				}
				copy(h[:], header)
			})
		}
		buf := bytes.Repeat([]byte{0xaa}, 500)
		r := y.region(t, buf)
		var sgl []memory.SGE
		want := bytes.Repeat([]byte{0xaa}, 500)
		room := 0
		for i := range 4 { // pieces in order, with gaps
			n := rapid.IntRange(1, 100).Draw(rt, "piece")
			at := i * 110
			sgl = append(sgl, memory.SGE{Addr: r.Addr + uint64(at), Length: uint32(n), Key: r.Key})
			for k := range n {
				switch p := room + k; {
				case p < rc.GRHBytes && preset.Framing != fabric.InfiniBand:
					want[at+k] = header[p]
				case p >= rc.GRHBytes && p < rc.GRHBytes+len(payload):
					want[at+k] = payload[p-rc.GRHBytes]
				}
			}
			room += n
		}
		if err := y.nic.RecvQueue(y.qpn).PostRecv(9, sgl); err != nil {
			t.Fatal(err)
		}
		wr := datagramTo(y, payload)
		wr.Request.Op, wr.Request.Imm = ib.WRSendWithImm, 5
		b.post(x, wr)
		b.e.RunUntil(20 * units.Microsecond)
		sent, got := b.poll(x), b.poll(y)
		if len(sent) != 1 || sent[0].Status != ib.WCSuccess {
			rt.Fatalf("sent %+v", sent)
		}
		if room < rc.GRHBytes+len(payload) {
			want = bytes.Repeat([]byte{0xaa}, 500)
			if len(got) != 0 || y.nic.Counters(y.qpn).RespLocalLengthError != 1 {
				rt.Fatalf("%d bytes in a receive of %d: %+v", len(payload), room, got)
			}
		} else {
			c := CQE{
				WRID: 9, QPN: y.qpn, SrcQPN: x.qpn, ByteLen: uint32(rc.GRHBytes + len(payload)), Imm: 5, Opcode: ib.WCRecv,
				HasImm: true, HasGRH: preset.Framing != fabric.InfiniBand,
			}
			if len(got) == 1 {
				c.Timestamp, c.Visible = got[0].Timestamp, got[0].Visible
			}
			if len(got) != 1 || got[0] != c {
				rt.Fatalf("received %+v, want %+v", got, c)
			}
		}
		if !bytes.Equal(buf, want) {
			rt.Fatalf("memory differs: % x\nwant % x", buf, want)
		}
		if wire := y.nic.PCIe().Traffic(pcie.Upstream, pcie.MemWr, pcie.ForPayload).Packets; (wire == 0) != (len(got) == 0 || preset.Framing == fabric.InfiniBand && len(payload) == 0) {
			rt.Fatalf("%d payload writes for %d bytes", wire, len(payload))
		}
	})
}

// What does not belong is dropped and counted, completes at its sender, and does the
// receiver no harm.
func TestDatagramsThatAreDropped(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, y := b.datagrams(0, 16, nil), b.datagrams(1, 16, nil)
	r := y.region(t, make([]byte, 4096))
	qp := func() rc.Counters { return y.nic.Counters(y.qpn) }
	for _, c := range []struct {
		name    string
		recv    uint32 // bytes of the receive, 0 for none
		change  func(*WR)
		counter func() uint64
	}{
		{"no receive", 0, func(*WR) {}, func() uint64 { return qp().OutOfBuffer }},
		{"a receive too small", 139, func(*WR) {}, func() uint64 { return qp().RespLocalLengthError }},
		{"another Q_Key", 0, func(wr *WR) { wr.QKey++ }, func() uint64 { return y.nic.Stats().BadQKey }},
		{"no queue pair", 0, func(wr *WR) { wr.To.QPN += 16 }, func() uint64 { return y.nic.Stats().NoQP }},
	} {
		if c.recv > 0 {
			if err := y.nic.RecvQueue(y.qpn).PostRecv(1, []memory.SGE{{Addr: r.Addr, Length: c.recv, Key: r.Key}}); err != nil {
				t.Fatal(err)
			}
		}
		before := c.counter()
		wr := datagramTo(y, make([]byte, 100))
		c.change(&wr)
		b.post(x, wr)
		b.e.RunUntil(b.e.Now() + 10*units.Microsecond)
		if sent := b.poll(x); len(sent) != 1 || sent[0].Status != ib.WCSuccess {
			t.Errorf("%s: sent %+v", c.name, sent)
		}
		if got := b.poll(y); len(got) != 0 || c.counter() != before+1 || y.nic.State(y.qpn) != ib.RTS {
			t.Errorf("%s: completions %+v, counted %d, state %v", c.name, got, c.counter()-before, y.nic.State(y.qpn))
		}
	}
	// The receive that was too small is still there for one that fits.
	b.post(x, datagramTo(y, make([]byte, 99)))
	b.e.RunUntil(b.e.Now() + 10*units.Microsecond)
	if got := b.poll(y); len(got) != 1 || got[0].Status != ib.WCSuccess {
		t.Errorf("received %+v", got)
	}
}

// Memory that a request names wrongly ends the send queue alone, until it is resumed;
// memory that a receive names wrongly ends the queue pair, and leaves a shared
// receive queue to others.
func TestDatagramMemoryFaults(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x := b.datagrams(0, 16, nil)
	srq, err := b.nics[1].CreateSRQ(8, 1)
	if err != nil {
		t.Fatal(err)
	}
	y, z := b.datagrams(1, 16, srq), b.datagrams(1, 16, srq)
	bad := datagramTo(y, nil)
	bad.Inline, bad.SGL, bad.Request.Length = nil, []memory.SGE{{Addr: 1, Length: 8, Key: 99}}, 8
	b.post(x, datagramTo(y, nil), bad, datagramTo(y, nil))
	b.e.RunUntil(b.e.Now() + 10*units.Microsecond)
	var got []ib.WCStatus
	for _, c := range b.poll(x) {
		got = append(got, c.Status)
	}
	if len(got) != 3 || got[0] != ib.WCSuccess || got[1] != ib.WCLocProtErr || got[2] != ib.WCWRFlushErr || x.nic.State(x.qpn) != ib.SQE {
		t.Fatalf("completions %v, state %v", got, x.nic.State(x.qpn))
	}
	b.post(x, datagramTo(y, nil))
	b.e.RunUntil(b.e.Now() + 10*units.Microsecond)
	if c := b.poll(x); len(c) != 1 || c[0].Status != ib.WCWRFlushErr {
		t.Errorf("in SQE: %+v", c)
	}
	if err := x.nic.Resume(x.qpn); err != nil {
		t.Fatal(err)
	}
	r := z.region(t, make([]byte, 100)) // of z's protection domain, not y's
	for i := range 2 {
		if err := srq.PostRecv(uint64(i), []memory.SGE{{Addr: r.Addr, Length: 100, Key: r.Key}}); err != nil {
			t.Fatal(err)
		}
	}
	b.post(x, datagramTo(y, []byte("one")), datagramTo(z, []byte("two")))
	b.e.RunUntil(b.e.Now() + 10*units.Microsecond)
	atY, atZ := b.poll(y), b.poll(z)
	if len(atY) != 1 || atY[0].Status != ib.WCLocProtErr || y.nic.State(y.qpn) != ib.Err {
		t.Errorf("without access: %+v, state %v", atY, y.nic.State(y.qpn))
	}
	if len(atZ) != 1 || atZ[0].Status != ib.WCSuccess || atZ[0].WRID != 1 {
		t.Errorf("the other one: %+v", atZ)
	}
}

// Nothing comes back for an engine, or with telemetry.
func TestUnreliableHasNoEngine(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x := b.datagrams(0, 4, nil)
	x.nic.Reset(x.qpn)
	x.nic.Init(x.qpn)
	for _, c := range []Congestion{{Engine: &pacer{}}, {Telemetry: telemetry.PerHop}} {
		if err := x.nic.ReadyToReceive(x.qpn, Peer{}, c, rc.Config{MTU: 1024}); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

// Datagrams of many senders over a network that loses some, to receives that are not
// always there: what comes is whole and in order, every send completes once, and all
// that did not come is counted somewhere.
func TestDatagramsWithLosses(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		b := newBed(t, 4, 100*units.Gbps, preset(t, []string{"cx6dx", "connectib"}[seed%2]), func(c *fabric.Config) {
			c.Faults = []fabric.Fault{{Link: "*", Loss: 0.03}}
		})
		const each = 150
		y := b.datagrams(0, 64, nil)
		buf := make([]byte, 64*1024)
		r := y.region(t, buf)
		recv := func(slot int) {
			if err := y.nic.RecvQueue(y.qpn).PostRecv(uint64(slot), []memory.SGE{{Addr: r.Addr + uint64(slot)*1024, Length: 1024, Key: r.Key}}); err != nil {
				t.Fatal(err)
			}
		}
		for slot := range 40 {
			recv(slot)
		}
		var xs []end
		next := map[uint32]uint64{}
		posted, sent, came := map[uint32]uint64{}, map[uint32]int{}, 0
		for h := 1; h < 4; h++ {
			x := b.datagrams(h, 32, nil)
			xs = append(xs, x)
		}
		key := func(x end) uint32 { return uint32(x.nic.Host())<<24 | x.qpn }
		for quiet := 0; quiet < 100; {
			quiet++
			for _, x := range xs {
				if k := key(x); posted[k] < each && x.nic.Room(x.qpn) > 0 {
					data := make([]byte, 12+rng.IntN(1024-rc.GRHBytes-12+1))
					binary.LittleEndian.PutUint32(data, k)
					binary.LittleEndian.PutUint64(data[4:], posted[k])
					for i := 12; i < len(data); i++ {
						data[i] = byte(posted[k]) + byte(i)
					}
					wr := datagramTo(y, data)
					b.post(x, wr)
					posted[k]++
					quiet = 0
				}
				for _, c := range b.poll(x) {
					if c.Status != ib.WCSuccess {
						t.Fatalf("seed %d: %+v", seed, c)
					}
					sent[key(x)]++
				}
			}
			for _, c := range b.poll(y) {
				data := buf[c.WRID*1024+rc.GRHBytes : c.WRID*1024+uint64(c.ByteLen)]
				k, n := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint64(data[4:])
				if c.Status != ib.WCSuccess || c.SrcQPN != k&0xffffff || n < next[k] {
					t.Fatalf("seed %d: %+v of sender %#x, number %d after %d", seed, c, k, n, next[k])
				}
				for i := 12; i < len(data); i++ {
					if data[i] != byte(n)+byte(i) {
						t.Fatalf("seed %d: byte %d of number %d of %#x differs", seed, i, n, k)
					}
				}
				next[k] = n + 1
				came++
				recv(int(c.WRID))
			}
			b.e.RunUntil(b.e.Now() + units.Time(rng.IntN(600))*units.Nanosecond)
		}
		total := 0
		for _, x := range xs {
			if sent[key(x)] != each {
				t.Errorf("seed %d: %d of %d sends completed", seed, sent[key(x)], each)
			}
			total += each
		}
		lost, none := int(b.net.Totals().Lost), int(y.nic.Counters(y.qpn).OutOfBuffer)
		if came+lost+none != total || lost == 0 || came < total/2 {
			t.Errorf("seed %d: of %d datagrams %d came, %d were lost, %d found no receive", seed, total, came, lost, none)
		}
	}
}

// A datagram, from the post to the completions of both ends and the next receive,
// allocates nothing.
func TestDatagramsDoNotAllocate(t *testing.T) {
	for _, nic := range []string{"cx6dx", "connectib"} {
		b := newBed(t, 2, 100*units.Gbps, preset(t, nic), nil)
		x, y := b.datagrams(0, 64, nil), b.datagrams(1, 64, nil)
		r := y.region(t, make([]byte, 4096))
		sgl := []memory.SGE{{Addr: r.Addr, Length: 4096, Key: r.Key}}
		wr := datagramTo(y, make([]byte, 64))
		out := make([]CQE, 64)
		came := 0
		round := func() {
			if err := y.nic.RecvQueue(y.qpn).PostRecv(1, sgl); err != nil {
				t.Fatal(err)
			}
			if err := x.nic.PostSend(x.qpn, &wr); err != nil {
				t.Fatal(err)
			}
			x.nic.Ring(b.e.Now(), x.qpn, 1)
			b.e.RunUntil(b.e.Now() + 4*units.Microsecond)
			came += y.nic.PollCQ(b.e.Now(), y.cq, out)
			x.nic.PollCQ(b.e.Now(), x.cq, out)
		}
		for range 200 {
			round()
		}
		if n := testing.AllocsPerRun(1000, round); n != 0 {
			t.Errorf("%s: %v allocations a datagram", nic, n)
		}
		if came < 1200 {
			t.Errorf("%s: %d datagrams came", nic, came)
		}
	}
}

// Requests of an unreliable connection complete as their last packet goes on the
// wire: a NIC that is paused does not complete them.
func TestUnreliableCompletesOnTheWire(t *testing.T) {
	for _, kind := range []ib.QPType{ib.UC, ib.UD} {
		b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
		var x end
		size := uint32(3000)
		if kind == ib.UD {
			x = b.datagrams(0, 4, nil)
		} else {
			n := b.nics[0]
			cq, err := n.CreateCQ(16)
			if err != nil {
				t.Fatal(err)
			}
			x = end{nic: n, pd: n.AllocPD(), cq: cq}
			if x.qpn, err = n.CreateQP(QPConfig{Type: ib.UC, PD: x.pd, SendCQ: cq, RecvCQ: cq, SendDepth: 4, SGEs: 1}); err != nil {
				t.Fatal(err)
			}
			n.Init(x.qpn)
			if err := n.ReadyToReceive(x.qpn, Peer{Host: 1, QPN: 16}, Congestion{}, rc.Config{MTU: 1024}); err != nil {
				t.Fatal(err)
			}
			if err := n.ReadyToSend(x.qpn, rc.SendConfig{}); err != nil {
				t.Fatal(err)
			}
		}
		r := x.region(t, make([]byte, 4096))
		x.nic.Pause(b.net.Lane(0), 0, 1)
		b.post(x, WR{Request: rc.Request{Op: ib.WRSend, Signaled: true, Length: size}, SGL: []memory.SGE{{Addr: r.Addr, Length: size, Key: r.Key}}, To: Peer{Host: 1, QPN: 16}})
		b.e.RunUntil(50 * units.Microsecond)
		if got := b.poll(x); len(got) != 0 {
			t.Errorf("%v: completed while paused: %+v", kind, got)
		}
		x.nic.Pause(b.net.Lane(0), b.e.Now(), 0)
		b.e.RunUntil(60 * units.Microsecond)
		if got := b.poll(x); len(got) != 1 || got[0].Status != ib.WCSuccess || got[0].ByteLen != size {
			t.Errorf("%v: %+v", kind, got)
		}
	}
}

// A queue pair of datagrams has nobody to send congestion notifications to.
func TestDatagramsNotifyNobody(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x := b.datagrams(0, 4, nil)
	x.nic.Reset(x.qpn)
	x.nic.Init(x.qpn)
	if err := x.nic.ReadyToReceive(x.qpn, Peer{}, Congestion{CNPInterval: units.Microsecond}, rc.Config{MTU: 1024}); err == nil {
		t.Error("taken")
	}
}
