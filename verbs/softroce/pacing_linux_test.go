package softroce

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/quantile"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
)

// atRate is a rate engine that keeps a rate and writes down when each segment was
// handed to the provider.
type atRate struct {
	control cc.Control
	sent    []units.Time
	bytes   units.Bytes
}

func (e *atRate) OnAck(a *cc.Ack) cc.Control {
	e.sent = append(e.sent, a.SentAt)
	e.bytes += a.Bytes
	return e.control
}
func (e *atRate) OnLoss(units.Time) cc.Control    { return e.control }
func (e *atRate) OnTimeout(units.Time) cc.Control { return e.control }
func (e *atRate) OnCNP(units.Time) cc.Control     { return e.control }
func (e *atRate) Control() cc.Control             { return e.control }

// pacedEnd is one end of a connection with a shim before it.
type pacedEnd struct {
	shim   *paced.Shim
	engine *atRate
	pd     verbs.PD
	ch     verbs.CompChannel
	cq     verbs.CQ
	qp     verbs.QP
	buf    []byte
	mr     verbs.MR
}

// openPaced opens a device whose queue pairs keep a rate, with a queue pair and memory.
func openPaced(tb testing.TB, name string, rate units.Rate, segment units.Bytes, size int) *pacedEnd {
	tb.Helper()
	dev, err := verbs.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	e := &pacedEnd{engine: &atRate{control: cc.Control{Rate: rate, Window: cc.Unlimited}}, buf: make([]byte, size)}
	cfg := paced.DefaultConfig()
	cfg.CatchUp = paced.FixedRateCatchUp
	cfg.Segment = segment
	cfg.Engine = func(cc.Env) (cc.Engine, error) { return e.engine, nil }
	if e.shim, err = paced.Wrap(dev, cfg); err != nil {
		tb.Fatal(err)
	}
	check := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	e.pd, err = e.shim.AllocPD()
	check(err)
	e.ch, err = e.shim.CreateCompChannel()
	check(err)
	e.cq, err = e.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: e.ch, Timestamps: true})
	check(err)
	e.qp, err = e.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: e.cq, RecvCQ: e.cq, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
	check(err)
	e.mr, err = e.pd.RegMR(e.buf, all)
	check(err)
	tb.Cleanup(func() {
		if err := errors.Join(e.qp.Close(), e.cq.Close(), e.ch.Close(), e.mr.Close(), e.pd.Close(), e.shim.Close()); err != nil {
			tb.Error(err)
		}
	})
	return e
}

func (e *pacedEnd) endpoint(tb testing.TB) verbs.Endpoint {
	tb.Helper()
	gid, err := e.shim.GID(1, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return verbs.Endpoint{GID: gid, QPN: e.qp.Num(), PSN: 7}
}

// pacedPair connects two ends, of which the first paces.
func pacedPair(tb testing.TB, names [2]string, rate units.Rate, segment units.Bytes, size int) (x, y *pacedEnd) {
	tb.Helper()
	x, y = openPaced(tb, names[0], rate, segment, size), openPaced(tb, names[1], rate, segment, size)
	p := verbs.DefaultRC()
	p.PathMTU = 4096
	a, b := x.endpoint(tb), y.endpoint(tb)
	if err := errors.Join(verbs.ConnectRC(x.qp, a, b, p), verbs.ConnectRC(y.qp, b, a, p)); err != nil {
		tb.Fatal(err)
	}
	return x, y
}

// write posts one Write of all memory and waits for it by wait.
func (e *pacedEnd) write(tb testing.TB, to *pacedEnd, wait func(wc []verbs.WC) (int, error)) {
	tb.Helper()
	e.engine.sent, e.engine.bytes = e.engine.sent[:0], 0
	if _, err := e.qp.PostSend([]verbs.SendWR{{
		Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(e.mr, 0, len(e.buf))}, RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey(),
	}}); err != nil {
		tb.Fatal(err)
	}
	wc := make([]verbs.WC, 1)
	if n, err := wait(wc); err != nil || n != 1 || wc[0].Status != ib.WCSuccess {
		tb.Fatalf("%d completions, %v, %v", n, wc[0].Status, err)
	}
}

func (e *pacedEnd) polling(wc []verbs.WC) (int, error) {
	for {
		if n, err := e.cq.Poll(wc); n > 0 || err != nil {
			return n, err
		}
	}
}

func (e *pacedEnd) sleeping(wc []verbs.WC) (int, error) { return sleepyPoll(e.cq, e.ch, wc) }

// segments are those of a paced Write: how many, and in which order.
func (e *pacedEnd) checkSegments(t *testing.T, to *pacedEnd, n int) {
	t.Helper()
	if len(e.engine.sent) != n || int(e.engine.bytes) != len(e.buf) {
		t.Errorf("%d segments of together %d bytes, want %d and %d", len(e.engine.sent), e.engine.bytes, n, len(e.buf))
	}
	if !slices.IsSorted(e.engine.sent) {
		t.Error("segments left before the ones before them")
	}
	if !bytes.Equal(e.buf, to.buf) {
		t.Error("other bytes came")
	}
}

// At real time: as many segments as there should be, in order, whatever the
// machine does meanwhile.
func TestPacedSegments(t *testing.T) {
	const n, segment = 1001, 4 * units.KiB
	x, y := pacedPair(t, [2]string{here, there}, 10*units.Gbps, segment, n*int(segment))
	for i := range x.buf {
		x.buf[i] = byte(i * 7 >> 3)
	}
	look := func() { // as end.look, also before its goroutines write again
		d := y.shim.Unwrap().(*device)
		d.mu.Lock()
		d.mu.Unlock() //nolint:staticcheck // an empty critical section is the point
	}
	for name, wait := range map[string]func([]verbs.WC) (int, error){"polling": x.polling, "sleeping": x.sleeping} {
		clear(y.buf)
		look()
		x.write(t, y, wait)
		look()
		t.Run(name, func(t *testing.T) { x.checkSegments(t, y, n) })
	}
}

// At simulated time nothing disturbs, and the rate is exact.
func TestPacedRateAtSimulatedTime(t *testing.T) {
	for _, rate := range []units.Rate{10 * units.Mbps, 100 * units.Mbps, units.Gbps} {
		t.Run(rate.String(), func(t *testing.T) {
			const n, segment = 1001, 16 * units.KiB
			lab := fmt.Sprintf("sim:pacing%d/", rate)
			x, y := pacedPair(t, [2]string{lab + "h0", lab + "h1"}, rate, segment, n*int(segment))
			x.write(t, y, x.sleeping)
			x.checkSegments(t, y, n)
			sent := x.engine.sent
			got := units.RateOf((n-1)*segment, sent[n-1]-sent[0])
			if off := float64(got)/float64(rate) - 1; off > 1e-6 || off < -1e-6 {
				t.Errorf("%v, off by %.2g", got, off)
			}
		})
	}
}

// loop is the plain way to pace: one goroutine that posts a segment at a time.
type loop struct {
	x, y    *end
	mx, my  verbs.MR
	segment int
}

func newLoop(tb testing.TB, segment int) *loop {
	x, y := openPair(tb, "soft:127.47.91.6", "soft:127.47.91.7", 4096)
	return &loop{x, y, x.reg(make([]byte, segment)), y.reg(make([]byte, segment)), segment}
}

// run posts n segments, each at its time after the first, and returns when each was posted.
// wait waits until a time.
func (l *loop) run(tb testing.TB, n int, gap time.Duration, wait func(until time.Time)) []units.Time {
	tb.Helper()
	sent := make([]units.Time, 0, n)
	wc := make([]verbs.WC, 16)
	posted, done := 0, 0
	poll := func() {
		k, err := l.x.cq.Poll(wc)
		if err != nil {
			tb.Fatal(err)
		}
		done += k
	}
	start := time.Now()
	for ; posted < n; posted++ {
		wait(start.Add(time.Duration(posted) * gap))
		for poll(); posted-done > 64; poll() { // what a send queue holds
		}
		sent = append(sent, units.FromDuration(time.Since(start)))
		if _, err := l.x.qp.PostSend([]verbs.SendWR{{
			Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(l.mx, 0, l.segment)}, RemoteAddr: l.my.Addr(), RKey: l.my.RKey(),
		}}); err != nil {
			tb.Fatal(err)
		}
	}
	for done < n {
		poll()
	}
	return sent
}

func spinUntil(until time.Time) {
	for time.Now().Before(until) {
	}
}

func sleepUntil(until time.Time) { time.Sleep(time.Until(until)) } //nolint:forbidigo // what is measured

// errorsOf returns by how much each segment after the first left late, by its schedule.
// That is a gap after the schedule of the one before; but a segment that left later
// than catchUp counts as scheduled for catchUp before it left. The schedule of a loop, with
// catchUp Never, begins at 0 and moves for nothing.
func errorsOf(sent []units.Time, gap, catchUp units.Time) []units.Time {
	late := make([]units.Time, 0, len(sent)-1)
	due := sent[0]
	if catchUp == units.Never {
		due = 0
	}
	for i, at := range sent[1:] {
		due = max(due, sent[i]-catchUp) + gap
		late = append(late, at-due)
	}
	return late
}

// histogram counts errors of send times.
type histogram [len(errorBounds) + 1]int

var errorBounds = [...]units.Time{
	0, units.Microsecond, 2 * units.Microsecond, 5 * units.Microsecond, 10 * units.Microsecond, 20 * units.Microsecond, 50 * units.Microsecond,
	100 * units.Microsecond, 200 * units.Microsecond, 500 * units.Microsecond, units.Millisecond, 5 * units.Millisecond,
}

func (h *histogram) add(late []units.Time) {
	for _, d := range late {
		if d < -units.Nanosecond { // rounding
			h[0]++
			continue
		}
		i, _ := slices.BinarySearch(errorBounds[1:], d)
		h[i+1]++
	}
}

// pacer is a way to pace, and what it was measured to do.
type pacer struct {
	name  string
	run   func() []units.Time
	own   units.Time // of catching up; Never for a schedule that nothing moves
	rates []float64  // of each run, relative to the rate
	late  []units.Time
	hist  histogram
}

// BenchmarkPacing measures how well segments keep their times on the loopback: by
// the shim, with a program that polls and one that sleeps in Wait, and by plain
// loops that spin and that sleep until a segment's time. They alternate, a run each.
// -benchtime 5x makes five of each. It prints a table: the rate from the first to
// the last segment, and how late segments left.
func BenchmarkPacing(b *testing.B) {
	for _, c := range []struct {
		rate    units.Rate
		segment units.Bytes
	}{{10 * units.Mbps, 4 * units.KiB}, {100 * units.Mbps, 16 * units.KiB}, {units.Gbps, 16 * units.KiB}} {
		b.Run(c.rate.String(), func(b *testing.B) {
			const n = 1001
			gap := c.rate.Serialize(c.segment)
			x, y := pacedPair(b, [2]string{here, there}, c.rate, c.segment, n*int(c.segment))
			l := newLoop(b, int(c.segment))
			shim := func(wait func([]verbs.WC) (int, error)) func() []units.Time {
				return func() []units.Time {
					x.write(b, y, wait)
					return slices.Clone(x.engine.sent)
				}
			}
			plain := func(wait func(time.Time)) func() []units.Time {
				return func() []units.Time { return l.run(b, n, gap.Duration(), wait) }
			}
			pacers := []*pacer{
				{name: "shim, polling", run: shim(x.polling), own: paced.FixedRateCatchUp},
				{name: "spinning loop", run: plain(spinUntil), own: units.Never},
				{name: "shim, waiting", run: shim(x.sleeping), own: paced.FixedRateCatchUp},
				{name: "sleeping loop", run: plain(sleepUntil), own: units.Never},
			}
			for b.Loop() {
				for _, p := range pacers {
					sent := p.run()
					if len(sent) != n {
						b.Fatalf("%s: %d segments", p.name, len(sent))
					}
					p.rates = append(p.rates, float64(n-1)*float64(gap)/float64(sent[n-1]-sent[0]))
					late := errorsOf(sent, gap, p.own)
					p.late = append(p.late, late...)
					p.hist.add(late)
				}
			}
			fmt.Printf("\n%v, segments of %v\n%s", c.rate, c.segment, table(pacers)) // a benchmark's log is cut after ten lines
		})
	}
}

// table prints what was measured.
func table(pacers []*pacer) string {
	var s strings.Builder
	row := func(what string, cell func(*pacer) string) {
		fmt.Fprintf(&s, "%-26s", what)
		for _, p := range pacers {
			fmt.Fprintf(&s, " %14s", cell(p))
		}
		s.WriteByte('\n')
	}
	row("", func(p *pacer) string { return p.name })
	for _, p := range pacers {
		slices.Sort(p.rates)
		slices.Sort(p.late)
	}
	row("runs of 1000 gaps", func(p *pacer) string { return fmt.Sprint(len(p.rates)) })
	percent := func(r float64) string { return fmt.Sprintf("%+.3f %%", (r-1)*100) }
	row("rate's error, median", func(p *pacer) string { return percent(quantile.Of(p.rates, 0.5)) })
	row("  lowest", func(p *pacer) string { return percent(p.rates[0]) })
	row("  highest", func(p *pacer) string { return percent(p.rates[len(p.rates)-1]) })
	for _, q := range []float64{50, 90, 99, 100} {
		row(fmt.Sprintf("late, %g %% of segments, us", q), func(p *pacer) string {
			return fmt.Sprintf("%.1f", quantile.Of(p.late, q/100).Microseconds())
		})
	}
	bound := func(i int) string { return errorBounds[i].String() }
	for i := range len(errorBounds) + 1 {
		name := "early"
		switch {
		case i == len(errorBounds):
			name = "later"
		case i > 0:
			name = "up to " + bound(i)
		}
		row("late by "+name, func(p *pacer) string { return fmt.Sprintf("%.1f %%", float64(p.hist[i])*100/float64(len(p.late))) })
	}
	return s.String()
}
