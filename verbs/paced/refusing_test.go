package paced_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

// refusing is a device of which one call, counted from 1, is refused.
type refusing struct {
	*fakenic.Device
	at, calls int
	refused   string // that call
	counts    map[string]int
	onPost    func() // what else happens while a list is posted
	cqs       map[verbs.CQ]*refusingCQ
}

var errRefusing = errors.New("refused this once")

func (d *refusing) call(name string) error {
	if d.counts == nil {
		d.counts = map[string]int{}
	}
	d.counts[name]++
	if d.calls++; d.calls == d.at {
		d.refused = name
		return errRefusing
	}
	return nil
}

func (d *refusing) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	if err := d.call("CreateCQ"); err != nil {
		return nil, err
	}
	if ch, ok := a.Channel.(*refusingChannel); ok {
		a.Channel = ch.CompChannel
	}
	cq, err := d.Device.CreateCQ(a)
	if err != nil {
		return nil, err
	}
	d.cqs[cq] = &refusingCQ{cq, d}
	return d.cqs[cq], nil
}

func (d *refusing) AllocPD() (verbs.PD, error) {
	if err := d.call("AllocPD"); err != nil {
		return nil, err
	}
	pd, err := d.Device.AllocPD()
	return &refusingPD{pd, d}, err
}

func (d *refusing) CreateCompChannel() (verbs.CompChannel, error) {
	if err := d.call("CreateCompChannel"); err != nil {
		return nil, err
	}
	ch, err := d.Device.CreateCompChannel()
	return &refusingChannel{ch, d}, err
}

func (d *refusing) ReadClock() (uint64, error) {
	if err := d.call("ReadClock"); err != nil {
		return 0, err
	}
	return d.Device.ReadClock()
}

func (d *refusing) Close() error { return errors.Join(d.call("Close"), d.Device.Close()) }

type refusingChannel struct {
	verbs.CompChannel
	d *refusing
}

func (c *refusingChannel) Wait(ctx context.Context, timeout time.Duration) (verbs.CQ, error) {
	if err := c.d.call("Wait"); err != nil {
		return nil, err
	}
	cq, err := c.CompChannel.Wait(ctx, timeout)
	if err != nil {
		return nil, err
	}
	c.d.counts["event"]++
	return c.d.cqs[cq], nil
}

func (c *refusingChannel) Close() error {
	if err := c.d.call("ch.Close"); err != nil {
		return err
	}
	return c.CompChannel.Close()
}

type refusingCQ struct {
	verbs.CQ
	d *refusing
}

func (c *refusingCQ) Poll(wc []verbs.WC) (int, error) {
	if err := c.d.call("Poll"); err != nil {
		return 0, err
	}
	return c.CQ.Poll(wc)
}

func (c *refusingCQ) ReqNotify(solicited bool) error {
	if err := c.d.call("ReqNotify"); err != nil {
		return err
	}
	return c.CQ.ReqNotify(solicited)
}

func (c *refusingCQ) Close() error {
	if err := c.d.call("cq.Close"); err != nil {
		return err
	}
	return c.CQ.Close()
}

type refusingPD struct {
	verbs.PD
	d *refusing
}

func (p *refusingPD) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	if err := p.d.call("CreateQP"); err != nil {
		return nil, err
	}
	a.SendCQ, a.RecvCQ = a.SendCQ.(*refusingCQ).CQ, a.RecvCQ.(*refusingCQ).CQ
	q, err := p.PD.CreateQP(a)
	return &refusingQP{q, p.d}, err
}

func (p *refusingPD) Close() error {
	if err := p.d.call("pd.Close"); err != nil {
		return err
	}
	return p.PD.Close()
}

type refusingQP struct {
	verbs.QP
	d *refusing
}

func (q *refusingQP) PostSend(wrs []verbs.SendWR) (int, error) {
	if err := q.d.call("PostSend"); err != nil {
		return 0, err
	}
	if q.d.onPost != nil {
		q.d.onPost()
	}
	return q.QP.PostSend(wrs)
}

func (q *refusingQP) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	if err := q.d.call("Modify"); err != nil {
		return err
	}
	return q.QP.Modify(a, mask)
}

func (q *refusingQP) Close() error {
	if err := q.d.call("qp.Close"); err != nil {
		return err
	}
	return q.QP.Close()
}

// Whichever one call a provider refuses, the program hears of it and may try again: nothing is
// lost, nothing is left over, and only a refused post costs requests.
func TestAnyCallMayBeRefused(t *testing.T) {
	for at, calls := 1, 1; at <= calls; at++ {
		calls = anyCall(t, at)
		if t.Failed() {
			t.Fatalf("with call %d refused", at)
		}
	}
}

// anyCall runs a program of which one call of the provider is refused, and returns how many it has.
func anyCall(t *testing.T, at int) int {
	w := fakenic.New()
	w.PollCost = 200 * units.Nanosecond
	d := &refusing{Device: w.NewDevice("a", line, latency), at: at, cqs: map[verbs.CQ]*refusingCQ{}}
	p := &bench{t: t, w: w, a: d.Device, b: w.NewDevice("b", line, latency)}
	// try calls once more what was refused.
	try := func(what string, f func() error) {
		t.Helper()
		err := f()
		if errors.Is(err, errRefusing) {
			err = f()
		}
		if err != nil {
			t.Fatalf("%s: %v (%s was refused)", what, err, d.refused)
		}
	}
	cfg := paced.DefaultConfig()
	cfg.Engine = func(cc.Env) (cc.Engine, error) {
		return &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}, quiet: true}, nil
	}
	var ch verbs.CompChannel
	var recv verbs.CQ
	var q verbs.QP
	try("Wrap", func() (err error) { p.shim, err = paced.Wrap(d, cfg); return err })
	try("AllocPD", func() (err error) { p.pdA, err = p.shim.AllocPD(); return err })
	try("CreateCompChannel", func() (err error) { ch, err = p.shim.CreateCompChannel(); return err })
	try("CreateCQ", func() (err error) { p.cq, err = p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: ch}); return err })
	try("CreateCQ", func() (err error) { recv, err = p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64}); return err })
	try("CreateQP", func() (err error) {
		q, err = p.pdA.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: p.cq, RecvCQ: recv, Cap: defaultCap()})
		return err
	})
	p.pdB, p.cqB = must(p.b.AllocPD())(t), must(p.b.CreateCQ(verbs.CQInitAttr{CQE: 1 << 16}))(t)
	p.bufA, p.bufB = make([]byte, 1<<20), make([]byte, 1<<20)
	const all = ib.AccessLocalWrite | ib.AccessRemoteWrite
	p.mrA, p.mrB = must(p.pdA.RegMR(p.bufA, all))(t), must(p.pdB.RegMR(p.bufB, all))(t)
	peer := must(p.pdB.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: p.cqB, RecvCQ: p.cqB, Cap: defaultCap()}))(t)
	reset := func() error { return q.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState) }
	for round := range 2 {
		a, b := verbs.Endpoint{QPN: q.Num()}, verbs.Endpoint{QPN: peer.Num()}
		if err := errors.Join(peer.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState), verbs.ConnectRC(peer, b, a, verbs.DefaultRC())); err != nil {
			t.Fatal(err)
		}
		try("connect", func() error {
			err := verbs.ConnectRC(q, a, b, verbs.DefaultRC())
			if err != nil {
				err = errors.Join(err, reset())
			}
			return err
		})
		fill(p.bufA, byte(round))
		try("ReqNotify", func() error { return p.cq.ReqNotify(false) })
		before := d.refused
		const n, size = 3, 100_000
		for i := range n {
			p.post(q, p.write(uint64(i), size))
		}
		for got := 0; got < n; {
			try("Wait", func() error {
				c, err := ch.Wait(t.Context(), time.Second)
				if err == nil && c != p.cq {
					t.Fatalf("an event of %v", c)
				}
				return err
			})
			try("ReqNotify", func() error { return p.cq.ReqNotify(false) })
			for k := 1; k > 0; {
				var wc [2]verbs.WC
				try("Poll", func() (err error) { k, err = p.cq.Poll(wc[:]); return err })
				for _, c := range wc[:k] {
					lost := d.refused == "PostSend" && before == ""
					if c.WRID != uint64(got) || (c.Status != ib.WCSuccess) && !lost {
						t.Fatalf("completion %+v, want %d (%s was refused)", c, got, d.refused)
					}
					got++
				}
			}
		}
		if lost := d.refused == "PostSend" && before == ""; !lost && !bytes.Equal(p.bufA[:size], p.bufB[:size]) {
			t.Fatalf("other bytes (%s was refused)", d.refused)
		}
		if s := p.shim.Stats(); s.Messages != uint64((round+1)*n) || s.Stray != 0 {
			t.Fatalf("%+v (%s was refused)", s, d.refused)
		}
		try("RESET", reset)
	}
	gone := false
	try("Close of the queue pair", func() error {
		err := q.Close()
		if gone && errors.Is(err, verbs.ErrClosed) {
			return nil // it was what followed that was refused
		}
		gone = true
		return err
	})
	for what, c := range map[string]func() error{"sends": p.cq.Close, "receives": recv.Close} {
		try("Close of the CQ for "+what, c)
	}
	try("Close of the region", p.mrA.Close)
	try("Close of the domain", p.pdA.Close)
	try("Close of the channel", ch.Close)
	try("Close", p.shim.Close)
	return d.calls
}

// A sleeper arms the provider's queue once for each event of it, and not each time that it wakes.
func TestASleeperArmsOnceForAnEvent(t *testing.T) {
	w := fakenic.New()
	w.PollCost = 200 * units.Nanosecond
	d := &refusing{Device: w.NewDevice("a", line, latency), cqs: map[verbs.CQ]*refusingCQ{}}
	e := &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}, quiet: true}
	p := newBench(t, steered(e), func(p *bench) { p.w, p.a, p.b, p.over = w, d.Device, w.NewDevice("b", line, latency), d })
	ch := must(p.shim.CreateCompChannel())(t)
	cq := must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: ch}))(t)
	q, _ := p.connectOn(cq, cq, defaultCap())
	p.arm(cq, false)
	p.post(q, p.write(1, 7*16<<10))
	if _, err := ch.Wait(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	events, arms := d.counts["event"], d.counts["ReqNotify"]-1 // the program's
	if events < 7 || arms < events || arms > events+1 || d.counts["Wait"] <= arms {
		t.Errorf("%d events, armed %d times, slept %d times", events, arms, d.counts["Wait"])
	}
}

// What becomes due while a full batch is posted leaves with the same call.
func TestTheClockIsReadAfterAFullBatch(t *testing.T) {
	d := &refusing{Device: fakenic.New().NewDevice("a", line, latency), cqs: map[verbs.CQ]*refusingCQ{}}
	e := &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}, quiet: true}
	cfg := steered(e)
	cfg.Batch, cfg.MaxOutstanding = 1, units.MiB
	p := newBench(t, cfg, func(p *bench) { p.w, p.a, p.b, p.over = d.World, d.Device, d.World.NewDevice("b", line, latency), d })
	q, _ := p.connect(defaultCap())
	gap := units.Gbps.Serialize(16 * units.KiB)
	p.post(q, p.write(1, 7*16<<10))
	p.w.RunUntil(p.w.Now() + gap)
	posts := 0
	d.onPost = func() { posts++; p.w.RunUntil(p.w.Now() + gap) }
	if _, err := p.cq.Poll(make([]verbs.WC, 1)); err != nil {
		t.Fatal(err)
	}
	if posts != 6 { // one has left as it was posted
		t.Errorf("%d posts, want 6", posts)
	}
}
