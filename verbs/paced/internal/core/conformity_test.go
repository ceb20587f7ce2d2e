package core_test

import (
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// bottleneck is a queue of segments that one link serves, whose switch marks and reports.
type bottleneck struct {
	free  units.Time // when the link has sent all that came
	sent  units.Bytes
	queue []passing // in order
	cnps  []uint64  // by queue pair
	after []units.Time
}

// passing is a segment on its way back.
type passing struct {
	m     *member
	done  units.Time
	queue units.Bytes // behind which it stood
	sent  units.Bytes
}

const (
	narrow   = 10 * units.Gbps
	baseRTT  = 20 * units.Microsecond
	markOver = 100 * units.KiB
)

func (b *bottleneck) enter(now units.Time, m *member, i int, n units.Bytes) {
	at := max(b.free, now+baseRTT/2)
	queue := narrow.BytesIn(at - now - baseRTT/2)
	b.free = at + narrow.Serialize(n)
	b.sent += n
	b.queue = append(b.queue, passing{m, b.free + baseRTT/2, queue, b.sent})
	if queue > markOver && now >= b.after[i] {
		b.cnps[i]++
		b.after[i] = now + 50*units.Microsecond
	}
}

// course returns what an engine decides, acknowledgement by acknowledgement, that steers members
// which always have something to send through a bottleneck: as a group, or a single queue pair
// without one.
func course(t *testing.T, s *cc.Scheme, members int, grouped bool) (all []cc.Control) {
	t.Helper()
	engine, err := s.New(s.DefaultConfig(), cc.Env{LineRate: line, BaseRTT: baseRTT, MTU: 1024})
	if err != nil {
		t.Fatal(err)
	}
	const plenty = 1 << 20
	c, err := core.New(core.Config{Batch: 16, BaseRTT: baseRTT}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var g core.Group
	if err := c.AddGroup(&g, line); err != nil {
		t.Fatal(err)
	}
	g.Start(0, engine, segment, plenty)
	ms := make([]*member, members)
	b := &bottleneck{cnps: make([]uint64, members), after: make([]units.Time, members)}
	for i := range ms {
		m := &member{}
		ms[i] = m
		a := core.QPConfig{Number: uint32(i), Index: i, Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1}, Segment: segment, Depth: 4096, Limit: plenty, Line: line, MTU: 1024}
		if err := c.Add(&m.QP, &a); err != nil {
			t.Fatal(err)
		}
		m.Name(uint64(i+1) << 32)
		if grouped {
			m.Join(&m.place, &g, 1, 0, 0)
			m.Start(0, nil, line, plenty, 0)
		} else {
			m.Start(0, engine, line, plenty, 0)
		}
		m.Resume(0)
	}
	now := units.Time(0)
	send := func() {
		for {
			for _, m := range ms {
				for m.Room() > 0 {
					m.Accept(&verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Length: 64 * uint32(segment)}}})
					m.Offer(now)
				}
			}
			if c.Due(now) == 0 {
				return
			}
			var batch core.Batch
			for i, ok := c.Next(0, &batch); ok; i, ok = c.Next(i, &batch) {
				k := batch.QP.Index()
				for _, wr := range batch.WRs {
					ms[k].flight = append(ms[k].flight, posted{wrid: wr.WRID})
					b.enter(now, ms[k], k, units.Bytes(wr.Length()))
				}
				c.Posted(now, &batch, len(batch.WRs), core.Refusal{})
			}
		}
	}
	var x core.Sample
	send()
	for len(all) < 4000 {
		now = c.NextDue()
		if len(b.queue) > 0 {
			now = min(now, b.queue[0].done)
		}
		if now == units.Never {
			t.Fatalf("%s: nothing goes on after %d acknowledgements", s.Name, len(all))
		}
		for len(b.queue) > 0 && b.queue[0].done <= now {
			p := b.queue[0]
			b.queue = b.queue[1:]
			wc := verbs.WC{WRID: p.m.flight[0].wrid}
			p.m.flight = p.m.flight[1:]
			p.m.Complete(&wc, &x.Segment)
			x.Reported, x.CountsCNPs, x.CNPs = true, true, b.cnps[p.m.Index()]
			x.Report.ECN = p.queue > markOver
			x.Report.HasMaxDelay, x.Report.MaxHopDelay = true, narrow.Serialize(p.queue)
			x.Report.Path.N = 1
			h := &x.Report.Path.Hops[0]
			h.Time, h.QLen, h.TxBytes, h.Rate = p.done-baseRTT/2, p.queue, p.sent, narrow
			c.Measure(now, &p.m.QP, &wc, &x)
			all = append(all, p.m.Control())
			for p.m.Finish(&p.m.sends) != nil {
			}
			var got [4]verbs.WC
			p.m.sends.Pop(got[:])
			p.m.File(now)
		}
		send()
	}
	return all
}

// What an engine decides for a group is to the bit what it decides for one queue pair, whatever
// the number of members that share what it allows; and nearly so where it lives on notifications,
// of which each member gets its own.
func TestAGroupIsOneFlowToItsEngine(t *testing.T) {
	for _, s := range cc.Schemes() {
		if s.NewReceiver != nil || s.Oracle || s.Card || s.Circuit || s.EIN {
			continue
		}
		want := course(t, &s, 1, false)
		for _, members := range []int{1, 2, 7} {
			got := course(t, &s, members, true)
			if !s.CNP {
				for i := range want {
					if got[i] != want[i] {
						t.Errorf("%s, %d members: acknowledgement %d leads to %v, alone to %v", s.Name, members, i, got[i], want[i])
						break
					}
				}
				continue
			}
			if d := float64(meanRate(got)) / float64(meanRate(want)); math.Abs(d-1) > 0.05 {
				t.Errorf("%s, %d members: %.3f of the rate that a flow has alone", s.Name, members, d)
			}
		}
	}
}

// meanRate is that of the later half.
func meanRate(all []cc.Control) units.Rate {
	sum := units.Rate(0)
	half := all[len(all)/2:]
	for _, c := range half {
		sum += min(c.Rate, line)
	}
	return sum / units.Rate(len(half))
}
