package core_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

const (
	line    = 100 * units.Gbps
	segment = 16 * units.KiB
	limit   = 4 * segment
	depth   = 6
)

// request is one that a core took.
type request struct {
	id       uint64
	op       ib.WROpcode
	length   uint32
	sent     uint32 // bytes posted for it, of segments that were not refused
	segments int
	signaled bool
	whole    bool
}

// posted is a segment that the provider has.
type posted struct {
	wrid  uint64
	bytes uint32
	of    *request
}

// pair is a queue pair, and what it should do.
type pair struct {
	core.QP
	control  cc.Control
	requests []*request // not completed yet
	flight   []posted
	last     units.Time // when the newest segment was posted
	lastSize units.Bytes
	failed   bool
	quiet    int // requests that ended without a completion, after the last that gave one
	sends    completions.Queue
}

// model holds a core, a driver of the plainest kind around it, to what it promises.
type model struct {
	*rapid.T
	core  *core.Core
	pairs []*pair
	now   units.Time
	ids   uint64
}

func newModel(t *rapid.T) *model {
	c, err := core.New(core.Config{Batch: rapid.IntRange(1, 5).Draw(t, "batch"), BaseRTT: 20 * units.Microsecond}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &model{T: t, core: c}
	for i := range rapid.IntRange(1, 3).Draw(t, "queue pairs") {
		p := &pair{last: -units.Second}
		if err := c.Add(&p.QP, &core.QPConfig{
			Number: uint32(i), Index: i, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 2, MaxInlineData: 64},
			Segment: segment, Depth: depth, Limit: limit, Line: line, MTU: 1024,
		}); err != nil {
			t.Fatal(err)
		}
		p.control = cc.Control{
			Rate:   rapid.SampledFrom([]units.Rate{units.Gbps, 7 * units.Gbps, line}).Draw(t, "rate"),
			Window: rapid.SampledFrom([]units.Bytes{1, segment, 3*segment + 1, cc.Unlimited}).Draw(t, "window"),
		}
		p.Name(uint64(i+1) << 32)
		p.Start(0, cc.Fixed{Keep: p.control}, line, limit, 0)
		p.Resume(0)
		m.pairs = append(m.pairs, p)
	}
	return m
}

func (m *model) pick() *pair { return rapid.SampledFrom(m.pairs).Draw(m.T, "queue pair") }

func (m *model) post() {
	p := m.pick()
	m.ids++
	r := &request{
		id: m.ids, op: rapid.SampledFrom([]ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead, ib.WRSend}).Draw(m.T, "opcode"),
		length: rapid.SampledFrom([]uint32{0, 1, 100, uint32(segment), uint32(segment) + 1, 9 * uint32(segment), 20*uint32(segment) - 1}).Draw(m.T, "bytes"), signaled: rapid.Bool().Draw(m.T, "signaled"),
	}
	first := uint32(rapid.IntRange(0, int(r.length)).Draw(m.T, "first SGE"))
	wr := verbs.SendWR{
		WRID: r.id, Opcode: r.op, RemoteAddr: r.id << 32,
		SGL: []verbs.SGE{{Addr: 1 << 40, Length: first}, {Addr: 1<<40 + uint64(first), Length: r.length - first}},
	}
	if r.signaled {
		wr.Flags |= verbs.SendSignaled
	}
	if err := p.Check(&wr); err != nil {
		m.Fatal(err)
	}
	if room := p.Room() > 0; p.Accept(&wr) != room {
		m.Fatalf("a request was accepted: %v, with room: %v", !room, room)
	} else if !room {
		return
	}
	p.requests = append(p.requests, r)
	if p.failed {
		m.finish(p)
		return
	}
	p.Offer(m.now)
	m.due()
}

// due posts what is due, with a provider that refuses now and then.
func (m *model) due() {
	for m.core.Due(m.now) > 0 {
		var b core.Batch
		for i, ok := m.core.Next(0, &b); ok; i, ok = m.core.Next(i, &b) {
			p, taken, why := m.pairs[b.QP.Index()], len(b.WRs), core.Refusal{}
			switch rapid.IntRange(0, 40).Draw(m.T, "provider") {
			case 17: // rapid prefers the ends of a range
				taken, why.Full, why.Status = rapid.IntRange(0, taken-1).Draw(m.T, "taken"), true, ib.WCGeneralErr
			case 23:
				taken, why.Status = rapid.IntRange(0, taken-1).Draw(m.T, "taken"), ib.WCLocProtErr
			}
			var sum units.Bytes
			for k := range b.WRs {
				if k < taken {
					sum += m.took(p, &b.WRs[k])
				}
			}
			short := taken < len(b.WRs)
			bytes, failed := m.core.Posted(m.now, &b, taken, why)
			if bytes != sum || failed != (short && (!why.Full || len(p.flight) == 0)) {
				m.Fatalf("%d of %d taken, %+v: %v bytes, failed %v; expected %v bytes", taken, len(b.WRs), why, bytes, failed, sum)
			}
			if failed {
				p.failed = true
				m.finish(p)
			}
		}
	}
	if at := m.core.NextDue(); at <= m.now {
		m.Fatalf("at %v all was posted, and more is due at %v", m.now, at)
	}
}

// took checks a segment that the provider takes: the next bytes of the oldest request
// that is not sent, within window and depth, and not before its time.
func (m *model) took(p *pair, wr *verbs.SendWR) units.Bytes {
	var r *request
	for _, one := range p.requests {
		if !one.whole {
			r = one
			break
		}
	}
	if r == nil || wr.RemoteAddr != r.id<<32+uint64(r.sent) {
		m.Fatalf("a segment for %#x, expected the next of %+v", wr.RemoteAddr, r)
	}
	n, at := uint32(0), uint64(1<<40)+uint64(r.sent)
	for _, s := range wr.SGL {
		if s.Length > 0 && s.Addr != at+uint64(n) {
			m.Fatalf("the memory at %#x, expected %#x", s.Addr, at+uint64(n))
		}
		n += s.Length
	}
	expected := r.length - r.sent
	if r.op != ib.WRSend {
		expected = min(expected, uint32(segment))
	}
	if n != expected || wr.Opcode != r.op || wr.Flags&verbs.SendSignaled == 0 || !p.Named(wr.WRID) {
		m.Fatalf("%+v: %d bytes, expected %d of %+v", wr, n, expected, r)
	}
	out := units.Bytes(0)
	for _, f := range p.flight {
		out += units.Bytes(f.bytes)
	}
	if len(p.flight) >= depth || len(p.flight) > 0 && out > 0 && out+units.Bytes(n) > min(limit, p.control.Window) {
		m.Fatalf("%d bytes behind %v in %d segments, with a window of %v", n, out, len(p.flight), p.control.Window)
	}
	if p.control.Rate < line {
		if gap := p.control.Rate.Serialize(p.lastSize); m.now-p.last < gap-1 {
			m.Fatalf("%v after a segment of %v, expected %v at %v", m.now-p.last, p.lastSize, gap, p.control.Rate)
		}
	}
	p.last, p.lastSize = m.now, units.Bytes(n)
	r.sent += n
	r.segments++
	r.whole = r.sent == r.length
	p.flight = append(p.flight, posted{wr.WRID, n, r})
	return units.Bytes(n)
}

// complete completes the oldest segments of a queue pair, with one completion for all
// of them.
func (m *model) complete() {
	p := m.pick()
	if len(p.flight) == 0 {
		m.Skip("nothing is with the provider")
	}
	k := rapid.IntRange(1, len(p.flight)).Draw(m.T, "segments")
	wc := verbs.WC{WRID: p.flight[k-1].wrid}
	if p.failed {
		wc.Status = ib.WCWRFlushErr
	} else if rapid.IntRange(0, 40).Draw(m.T, "fails") == 17 {
		wc.Status = ib.WCRemAccessErr
	}
	bytes, before := p.flight[k-1].bytes, m.core.InFlight()
	p.flight = p.flight[k:]
	var x core.Sample
	done, ok := p.Complete(&wc, &x.Segment)
	if !ok || done != k || m.core.InFlight() != before-k || x.Segment.Bytes != units.Bytes(bytes) {
		m.Fatalf("%d segments are done, %v, expected %d; %+v of %d bytes", done, ok, k, x.Segment, bytes)
	}
	if _, twice := p.Complete(&wc, &x.Segment); twice {
		m.Fatal("a segment completed twice")
	}
	if wc.Status == ib.WCSuccess {
		m.core.Measure(m.now, &p.QP, &wc, &x)
		if x.RTT != max(m.now-x.Segment.PostedAt, 1) || x.Ack.Bytes != units.Bytes(bytes) || x.Ack.Now != m.now {
			m.Fatalf("%+v at %v", x, m.now)
		}
	} else {
		p.Fail(m.now)
		p.failed = true
	}
	m.finish(p)
	p.File(m.now)
	m.due()
}

// finish takes completions: one for each request that is to have one, in order.
func (m *model) finish(p *pair) {
	for wc := p.Finish(&p.sends); wc != nil; wc = p.Finish(&p.sends) {
		for len(p.requests) > 0 && p.requests[0].id != wc.WRID {
			m.silent(p, p.requests[0])
		}
		if len(p.requests) == 0 {
			m.Fatalf("a completion of %d, which is none or came before", wc.WRID)
		}
		r := p.requests[0]
		if wc.Status == ib.WCSuccess && (!r.signaled || !r.whole || wc.ByteLen != r.length) || wc.Status != ib.WCSuccess && !p.failed {
			m.Fatalf("%+v of %+v, failed %v", wc, r, p.failed)
		}
		p.requests, p.quiet = p.requests[1:], 0
	}
	var wc [16]verbs.WC
	for p.sends.Pop(wc[:]) > 0 {
	}
}

// silent takes off a request that succeeded without a completion.
func (m *model) silent(p *pair, r *request) {
	if r.signaled || !r.whole {
		m.Fatalf("%+v ended without a completion", r)
	}
	p.requests = p.requests[1:]
	p.quiet++
}

// checkSums checks that all time and all segments are accounted for.
func (m *model) checkSums() {
	flight := 0
	for i, p := range m.pairs {
		flight += len(p.flight)
		var held units.LongTime
		for _, t := range p.Held(m.now) {
			held = held.Plus(t)
		}
		if held != m.now.Long() {
			m.Fatalf("queue pair %d: %v of %v are accounted for", i, held, m.now)
		}
	}
	if n := m.core.InFlight(); n != flight {
		m.Fatalf("%d segments with the provider, expected %d", n, flight)
	}
}

// Random requests, times, refusals and completions: nothing is lost or done twice, the
// order is kept, and so are window and rate.
func TestCoreAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"post":     func(t *rapid.T) { m.T = t; m.post() },
			"complete": func(t *rapid.T) { m.T = t; m.complete() },
			"fail": func(t *rapid.T) {
				m.T = t
				if rapid.IntRange(0, 20).Draw(t, "now") == 11 {
					p := m.pick()
					p.Fail(m.now)
					p.failed = true
					m.finish(p)
				}
			},
			"": func(t *rapid.T) { m.T = t; m.checkSums() },
			"time": func(t *rapid.T) {
				m.T = t
				m.now += units.Time(rapid.Int64Range(0, int64(100*units.Microsecond)).Draw(t, "passes"))
				m.due()
			},
			"next due": func(t *rapid.T) {
				m.T = t
				if at := m.core.NextDue(); at != units.Never {
					m.now = at
					m.due()
				}
			},
		})
		// To the end: all that was accepted is completed.
		for range 10_000 {
			left := 0
			for _, p := range m.pairs {
				left += len(p.flight)
				for len(p.flight) > 0 {
					wc, x := verbs.WC{WRID: p.flight[len(p.flight)-1].wrid}, core.Sample{}
					if p.failed {
						wc.Status = ib.WCWRFlushErr
					}
					p.flight = nil
					if _, ok := p.Complete(&wc, &x.Segment); !ok {
						t.Fatal("a segment was forgotten")
					}
					if !p.failed {
						m.core.Measure(m.now, &p.QP, &wc, &x)
					}
					m.finish(p)
					p.File(m.now)
				}
			}
			m.due()
			if at := m.core.NextDue(); at != units.Never {
				m.now = at
				m.due()
			} else if left == 0 {
				break
			}
		}
		for i, p := range m.pairs {
			for len(p.requests) > 0 {
				m.silent(p, p.requests[0])
			}
			if out, flight := p.Outstanding(), p.InFlight(); out != 0 || flight != 0 || p.Room() != 8-p.quiet {
				t.Errorf("queue pair %d: %v in %d segments outstanding, room for %d", i, out, flight, p.Room())
			}
		}
	})
}
