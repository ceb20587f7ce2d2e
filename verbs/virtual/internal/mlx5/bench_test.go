package mlx5

import (
	"context"
	"math/bits"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// instant is a back end that completes what it gets at once.
type instant struct {
	verbs.Device
	verbs.PD
	verbs.CompChannel
	qps uint32
}

func (i *instant) AllocPD() (verbs.PD, error)                    { return i, nil }
func (i *instant) CreateCompChannel() (verbs.CompChannel, error) { return i, nil }
func (i *instant) CreateCQ(verbs.CQInitAttr) (verbs.CQ, error) {
	return &instantCQ{wc: make([]verbs.WC, 0, 4096)}, nil
}
func (i *instant) Close() error { return nil }
func (i *instant) Wait(context.Context, time.Duration) (verbs.CQ, error) {
	return nil, verbs.ErrTimeout
}
func (i *instant) CreateAH(verbs.AddressVector) (verbs.AH, error) { return i, nil }
func (i *instant) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	i.qps++
	return &instantQP{num: i.qps, send: a.SendCQ.(*instantCQ), recv: a.RecvCQ.(*instantCQ)}, nil
}
func (i *instant) CreateSRQ(verbs.SRQInitAttr) (verbs.SRQ, error) { return &instantSRQ{}, nil }

type instantSRQ struct{ verbs.SRQ }

func (*instantSRQ) SetRecvSource(verbs.RecvSource) {}

type instantCQ struct{ wc []verbs.WC }

func (c *instantCQ) Poll(wc []verbs.WC) (int, error) {
	n := copy(wc, c.wc)
	c.wc = c.wc[:copy(c.wc, c.wc[n:])]
	return n, nil
}
func (c *instantCQ) ReqNotify(bool) error { return nil }
func (c *instantCQ) Cap() int             { return 4096 }
func (c *instantCQ) Close() error         { return nil }

// instantQP takes a receive for each request.
type instantQP struct {
	num        uint32
	send, recv *instantCQ
	source     verbs.RecvSource
	fetched    [16]verbs.RecvWR
	have       []verbs.RecvWR
}

func (q *instantQP) Num() uint32     { return q.num }
func (q *instantQP) Type() ib.QPType { return ib.RC }
func (q *instantQP) PostSend(wrs []verbs.SendWR) (int, error) {
	for i := range wrs {
		if wrs[i].Flags&verbs.SendSignaled != 0 {
			q.send.wc = append(q.send.wc, verbs.WC{WRID: wrs[i].WRID, QPN: q.num})
		}
		if q.source == nil {
			continue
		}
		if len(q.have) == 0 {
			q.have = q.fetched[:q.source.FetchRecv(q.fetched[:])]
		}
		if len(q.have) > 0 {
			q.recv.wc = append(q.recv.wc, verbs.WC{WRID: q.have[0].WRID, QPN: q.num, Opcode: ib.WCRecv})
			q.have = q.have[1:]
		}
	}
	return len(wrs), nil
}
func (q *instantQP) PostRecv(wrs []verbs.RecvWR) (int, error)    { return len(wrs), nil }
func (q *instantQP) Modify(verbs.QPAttr, verbs.QPAttrMask) error { return nil }
func (q *instantQP) Query() (verbs.QPAttr, error)                { return verbs.QPAttr{}, nil }
func (q *instantQP) Close() error                                { return nil }
func (q *instantQP) SetRecvSource(s verbs.RecvSource)            { q.source = s }

// ready returns a program with a queue pair in RTS on an instant back end, with receives
// or without.
func ready(t testing.TB, typ ib.QPType, recvs int) (*program, *pair) {
	p := newProgram(t, &instant{}, true)
	q := p.newCQ(1024, 64)
	x := p.newQP(pairConfig{typ: typ, blocks: 256, recvs: recvs, stride: 64}, q, q)
	x.qp.onState(ib.RTS)
	p.e.Scan()
	return p, x
}

// spin posts n requests with one doorbell, and polls their CQEs.
func spin(x *pair, ws []wr, encoded [][]byte) {
	for _, b := range encoded {
		i := int(x.cur) & (x.blocks - 1)
		copy(x.p.mem.at(x.sq+uint64(i*64), len(b)), b)
		x.cur += uint32(len(b)+63) / 64
	}
	if x.recvs > 0 {
		x.recvHead += len(ws)
		x.p.mem.put32(x.record, uint32(x.recvHead)&0xffff)
	}
	x.ring()
	x.p.e.Scan()
	q := x.sendCQ
	for {
		b := q.p.mem.at(q.buffer+uint64(int(q.ci)&(q.entries-1)*q.size), q.size)
		if own := b[63]; own>>4 == connectx.CQEInvalid || own&1 != uint8(q.ci>>bits.Len(uint(q.entries-1)))&1 {
			break
		}
		q.ci++
	}
	q.p.mem.put32(q.record, q.ci&0xffffff)
}

var loads = []struct {
	name  string
	typ   ib.QPType
	n     int
	recvs int
	w     wr
	calls int // of the program's memory, for a doorbell
}{
	{"write", ib.RC, 1, 0, wr{opcode: connectx.OpWrite, flags: signal, sgl: []verbs.SGE{{Addr: 1, Length: 8, LKey: 3}}}, 2},
	{"inline", ib.RC, 1, 0, wr{opcode: connectx.OpSend, flags: signal, inline: make([]byte, 24)}, 2},
	{"8 writes", ib.RC, 8, 0, wr{opcode: connectx.OpWrite, flags: signal, sgl: []verbs.SGE{{Addr: 1, Length: 8, LKey: 3}}}, 2},
	{"64 writes", ib.RC, 64, 0, wr{opcode: connectx.OpWrite, flags: signal, sgl: []verbs.SGE{{Addr: 1, Length: 8, LKey: 3}}}, 3},
	{"send and receive", ib.RC, 16, 64, wr{opcode: connectx.OpSend, flags: signal, sgl: []verbs.SGE{{Addr: 1, Length: 8, LKey: 3}}}, 5},
	{"datagram", ib.UD, 1, 0, wr{opcode: connectx.OpSend, flags: signal, to: &destination{}, sgl: []verbs.SGE{{Addr: 1, Length: 8, LKey: 3}}}, 2},
}

// A doorbell costs few calls, however many requests it is for, and no allocation.
func TestCallsAndAllocations(t *testing.T) {
	for _, c := range loads {
		p, x := ready(t, c.typ, c.recvs)
		ws, encoded := requests(x, c.w, c.n)
		for range 2000 / c.n { // the CQ wraps
			spin(x, ws, encoded)
		}
		if allocs := testing.AllocsPerRun(100, func() { spin(x, ws, encoded) }); allocs != 0 {
			t.Errorf("%s: %v allocations", c.name, allocs)
		}
		before := p.mem.calls.Load()
		const rounds = 100
		for range rounds {
			spin(x, ws, encoded)
		}
		// Reading ahead does not reach over the ring's end, and the consumer index is read
		// when the CQ seems full.
		if calls := float64(p.mem.calls.Load()-before) / rounds; calls > float64(c.calls)+0.2 {
			t.Errorf("%s: %v calls a doorbell, expected %d", c.name, calls, c.calls)
		}
		if x.sendCQ.ci < uint32(2000/c.n*c.n) || x.failed > 0 || x.sendCQ.failed > 0 {
			t.Errorf("%s: %d CQEs", c.name, x.sendCQ.ci)
		}
	}
}

func requests(x *pair, w wr, n int) (ws []wr, encoded [][]byte) {
	for range n {
		ws = append(ws, w)
		encoded = append(encoded, x.encode(&w))
	}
	return ws, encoded
}

// A doorbell's worth of requests, from the doorbell to their CQEs.
func BenchmarkDoorbell(b *testing.B) {
	for _, c := range loads {
		b.Run(c.name, func(b *testing.B) {
			_, x := ready(b, c.typ, c.recvs)
			ws, encoded := requests(x, c.w, c.n)
			b.ReportAllocs()
			for b.Loop() {
				spin(x, ws, encoded)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.n), "ns/request")
		})
	}
}
