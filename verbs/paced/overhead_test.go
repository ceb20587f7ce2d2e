package paced_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/quantile"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// overhead is one way of using the null provider: turns of posting batch requests of one
// segment, and one poll, on qps queue pairs.
type overhead struct {
	timely     bool
	batch, qps int
	// bypass is TIMELY at line rate, spared by Config.Bypass.
	bypass bool
	// group has all queue pairs share one engine.
	group bool
}

const (
	// overheadSegment is small, so that a batch of 16 at overheadPace comes due
	// within what the scheduler makes up for.
	overheadSegment = 4 << 10
	// overheadPace is the rate of all queue pairs of a paced run together.
	overheadPace = 80 * units.Gbps
)

// unsteady is TIMELY, whose answer is made to differ by a bit per second from
// one acknowledgement to the next: over a provider without a network it would
// keep its rate, and a new rate is what costs the shim most.
type unsteady struct {
	cc.Engine
	flip units.Rate
}

func (e *unsteady) OnAck(a *cc.Ack) cc.Control {
	c := e.Engine.OnAck(a)
	e.flip ^= 1
	c.Rate -= e.flip
	return c
}

// turner takes turns on a device, the null provider's or the shim's.
type turner struct {
	overhead
	shim bool
	dev  *nullDevice
	cq   verbs.CQ
	qps  []verbs.QP // of consecutive numbers
	// stats are the shim's, if it is one.
	stats func() paced.Stats
	next  int
	wrs   [16]verbs.SendWR
	wc    [16]verbs.WC
	// What the next turn posts: one request on each of these, or as many on one
	// queue pair where due is one.
	due  [16]verbs.QP
	nDue int
}

func newTurner(t testing.TB, o overhead, shim bool) *turner {
	w := &turner{overhead: o, shim: shim, dev: &nullDevice{start: time.Now()}}
	for i := range w.wrs {
		w.wrs[i] = verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Addr: 4096, Length: overheadSegment, LKey: 1}}}
	}
	var dev verbs.Device = w.dev
	if shim {
		cfg := paced.DefaultConfig()
		if o.timely {
			cfg.Bypass = o.bypass
			if o.group {
				cfg.Group = paced.ByPort
			}
			cfg.Engine = func(env cc.Env) (cc.Engine, error) {
				c := timely.DefaultConfig()
				if o.bypass {
					return timely.New(c, env)
				}
				c.MaxRate = overheadPace / units.Rate(o.qps)
				if o.group {
					c.MaxRate = overheadPace
				}
				c.MinRate = min(c.MaxRate, env.LineRate)
				e, err := timely.New(c, env)
				return &unsteady{Engine: e}, err
			}
		}
		s := must(paced.Wrap(dev, cfg))(t)
		dev, w.stats = s, s.Stats
	}
	pd := must(dev.AllocPD())(t)
	w.cq = must(dev.CreateCQ(verbs.CQInitAttr{CQE: 1 << 14}))(t)
	for range o.qps {
		q := must(pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 64, MaxSendSGE: 1}}))(t)
		if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
			t.Fatal(err)
		}
		w.qps = append(w.qps, q)
	}
	if o.timely && shim && !o.bypass {
		// What is paced has requests waiting, and comes due one queue pair after
		// the other.
		for _, q := range w.qps {
			w.pass(1)
			for range max(2, 32/o.qps) {
				w.post(t, q, 1)
			}
		}
	} else {
		w.aim()
	}
	for range 4 * o.qps / o.batch {
		w.turn(t)
	}
	return w
}

// pass lets the time of n segments at the pace of all pass.
func (w *turner) pass(n int) { w.dev.time += units.Time(n) * overheadPace.Serialize(overheadSegment) }

func (w *turner) post(t testing.TB, q verbs.QP, n int) {
	if _, err := q.PostSend(w.wrs[:n]); err != nil {
		t.Fatal(err)
	}
}

// spread reports whether a batch goes to as many queue pairs: paced ones come due in
// turn.
func (w *turner) spread() bool { return w.timely && !w.bypass && len(w.qps) > 1 }

// aim chooses what the next turn posts, one queue pair after the other.
func (w *turner) aim() {
	w.nDue = w.batch
	for i := range w.batch {
		if i == 0 || w.spread() {
			w.due[i] = w.qps[w.next]
			if w.next++; w.next == len(w.qps) {
				w.next = 0
			}
		}
	}
}

// turn posts and polls once, and returns how many segments completed.
func (w *turner) turn(t testing.TB) int {
	switch {
	case w.spread():
		for _, q := range w.due[:w.nDue] {
			w.post(t, q, 1)
		}
	case w.nDue > 0:
		w.post(t, w.due[0], w.nDue)
	}
	w.pass(w.batch)
	n, err := w.cq.Poll(w.wc[:])
	if err != nil {
		t.Fatal(err)
	}
	if !w.shim || !w.timely || w.bypass {
		w.aim()
		return n
	}
	// What completed is posted anew.
	w.nDue = n
	for i := range n {
		w.due[i] = w.qps[w.wc[i].QPN-w.qps[0].Num()]
	}
	return n
}

// BenchmarkOverhead states what the shim adds to a segment, post and poll
// together: it takes turns on the null provider with the shim and without, two
// hundred segments each, and compares the medians.
func BenchmarkOverhead(b *testing.B) {
	for _, timely := range []bool{false, true} {
		for _, batch := range []int{1, 16} {
			for _, qps := range []int{1, 1000} {
				o := overhead{timely: timely, batch: batch, qps: qps}
				b.Run(fmt.Sprintf("timely=%v/batch=%d/qps=%d", timely, batch, qps), func(b *testing.B) {
					raw, shim := newTurner(b, o, false), newTurner(b, o, true)
					m := medians(b, func() int { return raw.turn(b) }, func() int { return shim.turn(b) })
					b.ReportMetric(m[0], "raw-ns/segment")
					b.ReportMetric(m[1], "shim-ns/segment")
					b.ReportMetric(m[1]-m[0], "added-ns/segment")
				})
			}
		}
	}
	for _, qps := range []int{1, 1000} {
		o := overhead{timely: true, batch: 16, qps: qps, bypass: true}
		b.Run(fmt.Sprintf("bypass/batch=16/qps=%d", qps), func(b *testing.B) {
			raw, shim := newTurner(b, o, false), newTurner(b, o, true)
			m := medians(b, func() int { return raw.turn(b) }, func() int { return shim.turn(b) })
			b.ReportMetric(m[1]-m[0], "added-ns/segment")
			s := shim.stats()
			b.ReportMetric(100*float64(s.Bypassed)/float64(s.Samples), "bypassed-%")
		})
	}
	for _, qps := range []int{16, 1000} {
		o := overhead{timely: true, batch: 16, qps: qps}
		b.Run(fmt.Sprintf("group/batch=16/qps=%d", qps), func(b *testing.B) {
			raw, each := newTurner(b, o, false), newTurner(b, o, true)
			o.group = true
			group := newTurner(b, o, true)
			m := medians(b, func() int { return raw.turn(b) }, func() int { return each.turn(b) }, func() int { return group.turn(b) })
			b.ReportMetric(m[1]-m[0], "alone-added-ns/segment")
			b.ReportMetric(m[2]-m[0], "added-ns/segment")
		})
	}
	// What of it is not the shim's own: it reads the clock twice for a turn, and
	// calls the engine for each segment.
	b.Run("parts", func(b *testing.B) {
		dev := newTurner(b, overhead{batch: 1, qps: 1}, false).dev
		e, err := timely.New(timely.DefaultConfig(), cc.Env{LineRate: overheadPace, BaseRTT: 20 * units.Microsecond, MTU: 1024})
		if err != nil {
			b.Fatal(err)
		}
		engine, ack := cc.Engine(&unsteady{Engine: e}), cc.Ack{RTT: 1, Bytes: overheadSegment, Packets: 4, Scale: 1}
		m := medians(b, func() int { dev.NowPrecise(); return 1 }, func() int { engine.OnAck(&ack); return 1 })
		b.ReportMetric(m[0], "clock-ns")
		b.ReportMetric(m[1], "engine-ns")
	})
}

// medians runs two things in turn, each until it has done two hundred, and returns
// the median time of one of each.
func medians(b *testing.B, do ...func() int) []float64 {
	took := make([][]float64, len(do))
	for b.Loop() {
		for i, do := range do {
			start, n := time.Now(), 0
			for n < 200 {
				n += do()
			}
			took[i] = append(took[i], float64(time.Since(start).Nanoseconds())/float64(n))
		}
	}
	b.ReportMetric(0, "ns/op")
	var out []float64
	for _, x := range took {
		slices.Sort(x)
		out = append(out, quantile.Of(x, 0.5))
	}
	return out
}

func TestTheWholeWayAllocatesNothing(t *testing.T) {
	for _, o := range []overhead{
		{batch: 1, qps: 1}, {batch: 16, qps: 8}, {timely: true, batch: 1, qps: 1}, {timely: true, batch: 16, qps: 8},
		{timely: true, batch: 16, qps: 8, bypass: true}, {timely: true, batch: 16, qps: 8, group: true},
	} {
		w := newTurner(t, o, true)
		done := 0
		if n := testing.AllocsPerRun(1000, func() { done += w.turn(t) }); n != 0 {
			t.Errorf("%+v: %v allocations a turn", o, n)
		}
		if done < 900*o.batch {
			t.Errorf("%+v: %d segments in 1000 turns", o, done)
		}
	}
}
