package paced_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

func TestAConfigurationIsChecked(t *testing.T) {
	for field, change := range map[string]func(*paced.Config){
		"segment":         func(c *paced.Config) { c.Segment = 4095 },
		"segment ":        func(c *paced.Config) { c.Segment = 64*units.KiB + 1 },
		"max_outstanding": func(c *paced.Config) { c.MaxOutstanding = c.Segment - 1 },
		"Scheme":          func(c *paced.Config) { c.Scheme, c.Engine = "x", func(cc.Env) (cc.Engine, error) { return nil, nil } },
		"SchemeConfig":    func(c *paced.Config) { c.SchemeConfig = new(int) },
		"line_rate":       func(c *paced.Config) { c.LineRate = -1 },
		"base_rtt":        func(c *paced.Config) { c.BaseRTT = 0 },
		"nic_rate":        func(c *paced.Config) { c.NICRate = -1 },
		"nic_rate ":       func(c *paced.Config) { c.LineRate, c.NICRate = line, line },
		"calibrate_every": func(c *paced.Config) { c.CalibrateEvery = -1 },
		"CatchUp":         func(c *paced.Config) { c.CatchUp = 2 * units.Second },
		"batch":           func(c *paced.Config) { c.Batch = 0 },
		"Clock":           func(c *paced.Config) { c.Clock = 3 },
		"no rate engine":  func(c *paced.Config) { c.Scheme = "no such engine" },
		"a bad engine": func(c *paced.Config) {
			c.Engine = func(cc.Env) (cc.Engine, error) { return nil, errors.New("a bad engine") }
		},
		"chooses paths": func(c *paced.Config) {
			c.Engine = func(cc.Env) (cc.Engine, error) { return wanderer{}, nil }
		},
	} {
		c := paced.DefaultConfig()
		change(&c)
		_, err := paced.Wrap(fakenic.New().NewDevice("a", line, latency), c)
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(field)) {
			t.Errorf("%s: %v", field, err)
		}
	}
	c := paced.DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// wanderer is an engine that has a say in the choice of path.
type wanderer struct{ cc.Engine }

func (wanderer) Path() uint32 { return 0 }

func TestMistakesGetErrors(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	ok := p.write(1, 8)
	change := func(f func(*verbs.SendWR)) verbs.SendWR {
		wr := ok
		f(&wr)
		return wr
	}
	five := make([]verbs.SGE, 5)
	for name, wr := range map[string]verbs.SendWR{
		"opcode":  change(func(w *verbs.SendWR) { w.Opcode = 10 }),
		"opcode ": change(func(w *verbs.SendWR) { w.Opcode = 77 }),
		"SGEs":    change(func(w *verbs.SendWR) { w.SGL = five }),
		"inline":  change(func(w *verbs.SendWR) { w.SGL, w.Inline, w.Flags = nil, make([]byte, 129), verbs.SendInline }),
		"can't be inline": change(func(w *verbs.SendWR) {
			w.SGL, w.Inline, w.Flags, w.Opcode = nil, make([]byte, 8), verbs.SendInline, ib.WRRDMARead
		}),
		"atomic": change(func(w *verbs.SendWR) {
			w.Opcode, w.SGL = ib.WRAtomicFetchAndAdd, []verbs.SGE{verbs.SGEOf(p.mrA, 0, 9)}
		}),
		"at most 2147483648": change(func(w *verbs.SendWR) { w.SGL = []verbs.SGE{{Length: 1 << 31}, {Length: 1}} }),
	} {
		n, err := q.PostSend([]verbs.SendWR{ok, wr, ok})
		if n != 1 || !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: took %d, %v", name, n, err)
		}
		p.run(units.Never)
		if wcs := p.poll(p.cq); len(wcs) != 1 {
			t.Errorf("%s: %d completions of the request before it", name, len(wcs))
		}
	}

	make := func(f func(*verbs.QPInitAttr)) error {
		a := verbs.QPInitAttr{Type: ib.RC, SendCQ: p.cq, RecvCQ: p.cq, Cap: defaultCap()}
		f(&a)
		_, err := p.pdA.CreateQP(a)
		return err
	}
	if err := make(func(a *verbs.QPInitAttr) { a.Type = ib.UD }); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("a UD queue pair: %v", err)
	}
	if err := make(func(a *verbs.QPInitAttr) { a.SendCQ = p.cqB }); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a CQ of another device: %v", err)
	}
	if err := make(func(a *verbs.QPInitAttr) { a.Cap.MaxSendWR = -1 }); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a negative queue: %v", err)
	}
	if _, err := p.shim.CreateCQ(verbs.CQInitAttr{CQE: 1, Channel: must(p.b.CreateCompChannel())(t)}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a channel of another device: %v", err)
	}

	fresh := must(p.pdA.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: p.cq, RecvCQ: p.cq, Cap: defaultCap()}))(t)
	if _, err := fresh.PostSend([]verbs.SendWR{ok}); !errors.Is(err, verbs.ErrState) || !strings.Contains(err.Error(), "RESET") {
		t.Errorf("a post in RESET: %v", err)
	}
	noRate := newBench(t, uncalibrated(), func(p *bench) { p.a.LineRate = 0 })
	q2 := must(noRate.pdA.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: noRate.cq, RecvCQ: noRate.cq, Cap: defaultCap()}))(t)
	if err := verbs.ConnectRC(q2, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err == nil || !strings.Contains(err.Error(), "LineRate") {
		t.Errorf("a port without a rate: %v", err)
	}
}

// The longest message is the port's own, on the provider as below the shim.
func TestTheLongestMessageIsThePorts(t *testing.T) {
	for _, c := range []struct{ says, most uint32 }{{0, ib.MaxMessage}, {ib.MaxMessage, ib.MaxMessage}, {5000, 5000}, {1, 1}} {
		p := newBench(t, uncalibrated(), func(p *bench) { p.a.MaxMsg = c.says })
		q, _ := p.connect(defaultCap())
		for _, n := range []uint32{c.most - 1, c.most, c.most + 1} {
			for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead, ib.WRSend} {
				if n == c.most+1 || c.most < ib.MaxMessage { // the longest of all would be more memory than there is
					wr := p.write(1, 0)
					wr.Opcode, wr.SGL = op, []verbs.SGE{{Addr: p.mrA.Addr(), LKey: p.mrA.LKey(), Length: n}}
					took, err := q.PostSend([]verbs.SendWR{wr})
					if fits := n <= c.most; (took == 1) != fits || !fits && (!errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("at most %d", c.most))) {
						t.Errorf("the port says %d: %v of %d bytes: took %d, %v", c.says, op, n, took, err)
					}
				}
			}
			p.run(units.Never)
			p.poll(p.cq)
		}
	}
}

func TestAFullQueueIsAnError(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	cap := defaultCap()
	cap.MaxSendWR = 3
	q, _ := p.connect(cap)
	full := func(want int) {
		t.Helper()
		wr := p.write(1, 100_000)
		if n, err := q.PostSend([]verbs.SendWR{wr, wr, wr, wr, wr}); n != want || !errors.Is(err, verbs.ErrQueueFull) {
			t.Fatalf("took %d, %v: want %d and a full queue", n, err, want)
		}
	}
	full(3)
	full(0)
	p.run(units.Never)
	full(0) // nothing was polled
	var wc [2]verbs.WC
	if n, _ := p.cq.Poll(wc[:]); n != 2 {
		t.Fatalf("%d completions", n)
	}
	full(2)
	p.run(units.Never)
	if wcs := p.poll(p.cq); len(wcs) != 3 {
		t.Fatalf("%d completions", len(wcs))
	}
	// One that is silent gives its place back when a later one is polled.
	silent := p.write(1, 100)
	silent.Flags = 0
	p.post(q, silent, p.write(2, 100), silent)
	full(0)
	p.run(units.Never)
	full(0) // nothing was polled
	if wcs := p.poll(p.cq); len(wcs) != 1 {
		t.Fatalf("completions, of one that is signaled: %+v", wcs)
	}
	full(2)
}

func TestAFailedSegmentFailsItsMessage(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	fill(p.bufA, 2)
	k := 0
	p.a.Fail = func(*fakenic.QP, *verbs.SendWR) ib.WCStatus {
		if k++; k == 6 { // the third segment of the second request
			return ib.WCRemOpErr
		}
		return ib.WCSuccess
	}
	silent := p.write(2, 100_000)
	silent.Flags = 0
	last := p.write(4, 10)
	last.Flags = 0
	p.post(q, p.write(1, 3*16<<10), silent, p.write(3, 100), last)
	p.run(units.Never)
	wcs := p.poll(p.cq)
	if len(wcs) != 4 {
		t.Fatalf("completions %+v", wcs)
	}
	for i, want := range []struct {
		status ib.WCStatus
		bytes  uint32
	}{{ib.WCSuccess, 3 * 16 << 10}, {ib.WCRemOpErr, 2 * 16 << 10}, {ib.WCWRFlushErr, 0}, {ib.WCWRFlushErr, 0}} {
		if wcs[i].WRID != uint64(i+1) || wcs[i].Status != want.status || wcs[i].ByteLen != want.bytes {
			t.Errorf("completion %d: %+v, want %v with %d bytes", i, wcs[i], want.status, want.bytes)
		}
	}
	if wcs[1].VendorErr != 0x100|uint32(ib.WCRemOpErr) {
		t.Errorf("vendor error %#x", wcs[1].VendorErr)
	}
	// More is taken, and flushed.
	p.post(q, p.write(5, 100_000), p.write(6, 0))
	if wcs := p.poll(p.cq); len(wcs) != 2 || wcs[0].Status != ib.WCWRFlushErr || wcs[1].WRID != 6 {
		t.Errorf("completions in error %+v", wcs)
	}
	if s := p.shim.Stats(); s.Failed != 5 || s.Messages != 6 {
		t.Errorf("stats %+v", s)
	}
}

func TestWhatTheProviderRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want ib.WCStatus
	}{
		"access":    {verbs.ErrAccess, ib.WCLocProtErr},
		"invalid":   {verbs.ErrInvalid, ib.WCLocQPOpErr},
		"state":     {verbs.ErrState, ib.WCWRFlushErr},
		"something": {errors.New("no idea"), ib.WCGeneralErr},
	} {
		t.Run(name, func(t *testing.T) {
			p := newBench(t, uncalibrated(), nil)
			q, _ := p.connect(defaultCap())
			n := 0
			p.a.PostError = func(*fakenic.QP, *verbs.SendWR) error {
				if n++; n > 3 { // the third segment of the second request
					return c.err
				}
				return nil
			}
			p.post(q, p.write(1, 16<<10), p.write(2, 300_000), p.write(3, 1))
			p.run(units.Never)
			wcs := p.poll(p.cq)
			if len(wcs) != 3 || wcs[0].Status != ib.WCSuccess && wcs[0].Status != ib.WCWRFlushErr || wcs[1].Status != c.want || wcs[2].Status != ib.WCWRFlushErr {
				t.Fatalf("completions %+v, want the second to be %v", wcs, c.want)
			}
			if a, _ := q.Query(); a.State != ib.Err {
				t.Errorf("the provider's queue pair is in %v", a.State)
			}
		})
	}
}

func TestAProviderThatIsFullIsTriedAgain(t *testing.T) {
	cfg := uncalibrated()
	cfg.Batch = 1
	p := newBench(t, cfg, func(p *bench) {
		n := 0
		p.a.PostError = func(q *fakenic.QP, _ *verbs.SendWR) error {
			if n++; n%3 != 0 && q.Queued() > 0 {
				return verbs.ErrQueueFull
			}
			return nil
		}
	})
	q, _ := p.connect(defaultCap())
	fill(p.bufA, 7)
	p.post(q, p.write(1, 500_000))
	p.run(units.Never)
	if wcs := p.poll(p.cq); len(wcs) != 1 || wcs[0].Status != ib.WCSuccess || string(p.bufA[:500_000]) != string(p.bufB[:500_000]) {
		t.Errorf("completions %+v, or other bytes", wcs)
	}
	if s := p.shim.Stats(); s.ProviderFull == 0 || s.Segments != 31 || s.SegmentBytes != 500_000 {
		t.Errorf("stats %+v", s)
	}
	// A provider with less room than it promised is no reason to spin.
	p.a.PostError = func(q *fakenic.QP, _ *verbs.SendWR) error {
		if q.Queued() >= 2 {
			return verbs.ErrQueueFull
		}
		return nil
	}
	p.post(q, p.write(1, 500_000))
	p.run(units.Never)
	if wcs := p.poll(p.cq); len(wcs) != 1 || wcs[0].Status != ib.WCSuccess {
		t.Errorf("completions %+v", wcs)
	}
	// One that is full with nothing outstanding will never have room.
	p.a.PostError = func(*fakenic.QP, *verbs.SendWR) error { return verbs.ErrQueueFull }
	p.post(q, p.write(2, 1))
	p.run(units.Never)
	if wcs := p.poll(p.cq); len(wcs) != 1 || wcs[0].Status != ib.WCGeneralErr {
		t.Errorf("completions %+v", wcs)
	}
}

// What a provider had no room for is counted, and what of a list it took is sent once.
func TestWhatAFullProviderTookIsCounted(t *testing.T) {
	for takes := range 10 {
		cfg := uncalibrated()
		cfg.MaxOutstanding = units.MiB
		n := 0
		p := newBench(t, cfg, func(p *bench) {
			p.a.PostError = func(*fakenic.QP, *verbs.SendWR) error {
				if n++; n == takes+2 { // one is sent before
					return verbs.ErrQueueFull
				}
				return nil
			}
		})
		q, _ := p.connect(defaultCap())
		fill(p.bufA, 7)
		p.post(q, p.write(1, 1))
		p.post(q, p.write(2, 10*16<<10))
		p.run(units.Never)
		if wcs := p.poll(p.cq); len(wcs) != 2 || wcs[1].Status != ib.WCSuccess || string(p.bufA[:10*16<<10]) != string(p.bufB[:10*16<<10]) {
			t.Errorf("%d taken: completions %+v, or other bytes", takes, wcs)
		}
		if s := p.shim.Stats(); s.ProviderFull != uint64(10-takes) || s.Segments != 11 || s.SegmentBytes != 1+10*16<<10 || s.Stray != 0 {
			t.Errorf("%d taken: %+v", takes, s)
		}
	}
}

func TestResetForgetsAndStartsAnew(t *testing.T) {
	e := &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}}
	p := newBench(t, steered(e), nil)
	q, peer := p.connect(defaultCap())
	p.post(q, p.write(1, 500_000), p.write(2, 1))
	p.run(270 * us)
	p.w.RunUntil(290 * us) // the third segment has completed, and no one has seen it
	if err := q.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if d := p.shim.Deadline().Time(); d != units.Never || q.Outstanding() != 0 {
		t.Errorf("after the reset, %v is outstanding and the deadline is %v", q.Outstanding(), d)
	}
	p.run(units.Never)
	if wcs := p.poll(p.cq); len(wcs) != 0 {
		t.Errorf("completions of forgotten requests: %+v", wcs)
	}
	p.a.OnPoll = func() { t.Error("the provider is polled for nothing") }
	if err := p.shim.Progress(p.w.Now().Long()); err != nil {
		t.Error(err)
	}
	p.a.OnPoll = nil
	if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{QPN: peer.Num()}, verbs.DefaultRC()); err != nil {
		t.Fatal(err)
	}
	fill(p.bufA, 8)
	p.post(q, p.write(3, 100_000))
	p.run(units.Never)
	if wcs := p.poll(p.cq); len(wcs) != 1 || wcs[0].WRID != 3 || wcs[0].Status != ib.WCSuccess {
		t.Errorf("completions %+v", wcs)
	}
}

func TestDestroyWithWorkOutstanding(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 16<<10))
	p.run(units.Never)
	if err := p.shim.Progress(p.w.Now().Long()); err != nil {
		t.Fatal(err)
	}
	p.post(q, p.write(2, 500_000))
	p.w.RunUntil(p.w.Now() + 30*us) // it has completed a segment that no one has seen
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	// Another takes its place; what comes back late is not taken for its own.
	q2, _ := p.connect(defaultCap())
	p.post(q2, p.write(3, 100_000))
	p.run(units.Never)
	wcs := p.poll(p.cq)
	if len(wcs) != 1 || wcs[0].WRID != 3 {
		t.Errorf("completions %+v, want that of the new queue pair", wcs)
	}
	if s := p.shim.Stats(); s.Messages != 2 {
		t.Errorf("stats %+v", s)
	}
}

// Completions that were not polled go with RESET, and the places that they hold come
// back (verbs.QP).
func TestResetTakesCompletions(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	caps := defaultCap()
	caps.MaxSendWR = 2
	q, peer := p.connect(caps)
	for range 3 {
		p.post(q, p.write(1, 100), p.write(2, 100))
		p.run(units.Never)
		if err := p.shim.Progress(p.w.Now().Long()); err != nil {
			t.Fatal(err)
		}
		if err := q.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
		if wcs := p.poll(p.cq); len(wcs) != 0 {
			t.Errorf("completions of before the reset: %+v", wcs)
		}
		if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{QPN: peer.Num()}, verbs.DefaultRC()); err != nil {
			t.Fatal(err)
		}
	}
}

// The same while another goroutine is about to poll the CQ in which its segments
// complete: what that finds is not taken for another queue pair's.
func TestDestroyWhileAnotherPolls(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 100))
	p.w.RunUntil(50 * us)
	p.a.OnPoll = func() {
		p.a.OnPoll = nil
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		q2, _ := p.connect(defaultCap())
		p.post(q2, p.write(9, 16<<10))
	}
	if err := p.shim.Progress(p.w.Now().Long()); err != nil {
		t.Fatal(err)
	}
	if wcs := p.poll(p.cq); len(wcs) != 0 || p.shim.Stats().Stray != 1 {
		t.Errorf("completions %+v, %d strays", wcs, p.shim.Stats().Stray)
	}
	p.run(units.Never)
	if wcs := p.poll(p.cq); len(wcs) != 1 || wcs[0].WRID != 9 {
		t.Errorf("completions %+v", wcs)
	}
}

// Queue pairs come and go, with work outstanding, without filling a CQ.
func TestComingAndGoing(t *testing.T) {
	p := newBench(t, uncalibrated(), func(p *bench) {
		p.a.Attrs = func(a *verbs.DeviceAttr) { a.MaxCQE = 70 }
	})
	for i := range 50 {
		q, peer := p.connect(defaultCap())
		for range 64 {
			p.post(q, p.write(1, 1))
		}
		p.w.RunUntil(p.w.Now() + units.Millisecond) // completed, not seen
		if i%2 == 0 {
			if err := q.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
				t.Fatal(err)
			}
			if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{QPN: peer.Num()}, verbs.DefaultRC()); err != nil {
				t.Fatal(err)
			}
			for range 64 {
				p.post(q, p.write(1, 1))
			}
			p.w.RunUntil(p.w.Now() + units.Millisecond)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if wcs := p.poll(p.cq); len(wcs) != 0 {
		t.Errorf("%d completions of forgotten requests", len(wcs))
	}
	if p.a.CQs != 2 {
		t.Errorf("%d CQs of the provider, want one for segments and one for receives", p.a.CQs)
	}
}

// A request that has begun ends before the provider's queue pair is in SQD, so that it
// reports no drained queue in the middle. None begins.
func TestSQDSendsWhatHasBegun(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 100_000), p.write(2, 1))
	sqd := verbs.QPAttr{State: ib.SQD}
	if err := q.Modify(sqd, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if err := q.Modify(sqd, verbs.AttrState); !errors.Is(err, verbs.ErrState) {
		t.Errorf("a second change before the queue drained: %v", err)
	}
	drained := func(expected bool) {
		t.Helper()
		below, own := must(q.Unwrap().Query())(t), must(q.Query())(t)
		if (below.State == ib.SQD) != expected || own.State != ib.SQD {
			t.Errorf("%v at the provider, %v here, with %d segments posted", below.State, own.State, len(p.posts))
		}
	}
	for len(p.posts) < 7 {
		drained(false)
		p.run(p.w.Now() + us)
	}
	drained(false) // the last segment is under way
	p.run(units.Never)
	drained(true)
	if wcs := p.poll(p.cq); len(p.posts) != 7 || len(wcs) != 1 || wcs[0].WRID != 1 {
		t.Fatalf("%d segments posted, completions %+v", len(p.posts), wcs)
	}
	// With nothing under way it is there at once, also from another queue pair's RTS.
	p.post(q, p.write(3, 1))
	if err := q.Modify(verbs.QPAttr{State: ib.RTS}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	p.run(units.Never)
	if wcs := p.poll(p.cq); len(wcs) != 2 || wcs[1].WRID != 3 {
		t.Errorf("completions %+v", wcs)
	}
	if err := q.Modify(sqd, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	drained(true)
}

// A queue pair that goes elsewhere before its queue has drained is not taken to SQD later.
func TestADrainEnds(t *testing.T) {
	for _, to := range []ib.QPState{ib.RTS, ib.Err, ib.Reset} {
		p := newBench(t, uncalibrated(), nil)
		q, _ := p.connect(defaultCap())
		p.post(q, p.write(1, 100_000), p.write(2, 1))
		for _, state := range []ib.QPState{ib.SQD, to} {
			if err := q.Modify(verbs.QPAttr{State: state}, verbs.AttrState); err != nil {
				t.Fatalf("to %v: %v", state, err)
			}
		}
		p.run(units.Never)
		below, own := must(q.Unwrap().Query())(t), must(q.Query())(t)
		if below.State != to || own.State != to {
			t.Errorf("%v at the provider, %v here, expected %v", below.State, own.State, to)
		}
		if expected := map[ib.QPState]int{ib.RTS: 2, ib.Err: 2}[to]; len(p.poll(p.cq)) != expected {
			t.Errorf("to %v: expected %d completions", to, expected)
		}
	}
}

// Who waits for the event makes the progress that it takes.
func TestAwaitingADrainMakesProgress(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 100_000))
	if err := q.Modify(verbs.QPAttr{State: ib.SQD}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := p.shim.AsyncEvent(t.Context(), 0); !errors.Is(err, verbs.ErrTimeout) {
			t.Fatal(err)
		}
		p.w.RunUntil(p.w.Now() + 10*us)
	}
	if a := must(q.Unwrap().Query())(t); a.State != ib.SQD {
		t.Errorf("%v at the provider, expected SQD", a.State)
	}
}

// A CQ of the provider that fails holds up its own queue pairs only.
func TestACQThatFails(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	ch := must(p.shim.CreateCompChannel())(t)
	cq := must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 16, Channel: ch}))(t)
	stuck, _ := p.connectOn(cq, cq, defaultCap())
	fine, _ := p.connect(defaultCap())
	p.post(stuck, p.write(1, 100_000))
	p.post(fine, p.write(2, 100_000))
	overrun := errors.New("overrun")
	p.a.PollError = func(channel bool) error {
		if channel {
			return overrun
		}
		return nil
	}
	for range 100 {
		p.w.RunUntil(p.w.Now() + 10*us)
		if err := p.shim.Progress(p.w.Now().Long()); !errors.Is(err, overrun) {
			t.Fatalf("Progress: %v", err)
		}
	}
	if fine.Outstanding() != 0 || stuck.Outstanding() == 0 {
		t.Errorf("outstanding: %v and %v", fine.Outstanding(), stuck.Outstanding())
	}
	if _, err := cq.Poll(make([]verbs.WC, 1)); !errors.Is(err, overrun) {
		t.Errorf("Poll: %v", err)
	}
	if n, err := p.cq.Poll(make([]verbs.WC, 1)); n != 1 || err != nil {
		t.Errorf("Poll of the other: %d, %v", n, err)
	}
}

func TestManyQueuePairsShareFewCQs(t *testing.T) {
	cqs := 0
	p := newBench(t, uncalibrated(), func(p *bench) {
		p.a.Attrs = func(a *verbs.DeviceAttr) { a.MaxCQE = 1 << 13 }
	})
	for range 300 {
		q, _ := p.connect(defaultCap())
		p.post(q, p.write(1, 1), p.write(2, 1))
	}
	p.a.OnPoll = func() { cqs++ }
	if err := p.shim.Progress(units.LongTime{}); err != nil {
		t.Fatal(err)
	}
	if cqs > 4 {
		t.Errorf("%d CQs of the provider for 300 queue pairs of 64 requests", cqs)
	}
	p.a.OnPoll = nil
	p.run(units.Never)
	if n := len(p.poll(p.cq)); n != 600 {
		t.Errorf("%d completions of 600", n)
	}
}
