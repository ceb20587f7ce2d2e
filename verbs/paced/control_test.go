package paced_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// barrier holds up the control calls of a device that are named, until the test lets
// them go.
type barrier struct {
	mu     sync.Mutex
	held   string
	inside chan string // a call has begun
	leave  chan struct{}
}

func (g *barrier) hold(call string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = call
}

func (g *barrier) pass(call string) {
	g.mu.Lock()
	held := g.held == call
	g.mu.Unlock()
	if held {
		g.inside <- call
		<-g.leave
	}
}

// gatedDevice is a nullDevice whose control calls go through a barrier.
type gatedDevice struct {
	verbs.Device
	*barrier
	cqs atomic.Int64
}

func (d *gatedDevice) Port(n int) (verbs.PortAttr, error) { d.pass("Port"); return d.Device.Port(n) }
func (d *gatedDevice) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	d.pass("CreateCQ")
	if ch, ok := a.Channel.(*gatedChannel); ok {
		a.Channel = ch.CompChannel
	}
	cq, err := d.Device.CreateCQ(a)
	return &gatedCQ{CQ: cq, barrier: d.barrier, poll: "Poll of CQ " + strconv.Itoa(int(d.cqs.Add(1)))}, err
}
func (d *gatedDevice) AllocPD() (verbs.PD, error) {
	d.pass("AllocPD")
	pd, err := d.Device.AllocPD()
	return &gatedPD{pd, d.barrier}, err
}

func (d *gatedDevice) CreateCompChannel() (verbs.CompChannel, error) {
	return &gatedChannel{barrier: d.barrier}, nil
}

func (d *gatedDevice) Close() error { d.pass("Close"); return nil }

type gatedChannel struct {
	verbs.CompChannel
	*barrier
}

func (c *gatedChannel) Destroy() error { c.pass("ch.Destroy"); return nil }
func (c *gatedChannel) Wait(time.Duration) (verbs.CQ, error) {
	c.pass("Wait")
	return nil, verbs.ErrTimeout
}

type gatedCQ struct {
	verbs.CQ
	*barrier
	poll   string // what its Poll is called
	refuse error
}

func (c *gatedCQ) Poll(wc []verbs.WC) (int, error) { c.pass(c.poll); return c.CQ.Poll(wc) }

func (c *gatedCQ) ReqNotify(bool) error {
	c.pass("ReqNotify")
	return c.refuse
}
func (c *gatedCQ) Destroy() error {
	c.pass("cq.Destroy")
	return c.refuse
}

type gatedPD struct {
	verbs.PD
	*barrier
}

func (p *gatedPD) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	p.pass("CreateQP")
	a.SendCQ, a.RecvCQ = a.SendCQ.(*gatedCQ).CQ, a.RecvCQ.(*gatedCQ).CQ
	q, err := p.PD.CreateQP(a)
	return &gatedQP{QP: q, barrier: p.barrier}, err
}

type gatedQP struct {
	verbs.QP
	*barrier
	refuse bool
}

func (q *gatedQP) PostSend(wrs []verbs.SendWR) (int, error) {
	if q.refuse {
		return 0, verbs.ErrAccess
	}
	q.pass("PostSend")
	return q.QP.PostSend(wrs)
}
func (q *gatedQP) PostRecv([]verbs.RecvWR) (int, error) { q.pass("PostRecv"); return 1, nil }
func (q *gatedQP) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	q.pass("Modify")
	if mask == verbs.AttrState {
		q.pass("Modify " + a.State.String())
	}
	return q.QP.Modify(a, mask)
}
func (q *gatedQP) Query() (verbs.QPAttr, error) { q.pass("Query"); return verbs.QPAttr{}, nil }
func (q *gatedQP) SetRateLimit(int64) error     { q.pass("SetRateLimit"); return nil }
func (q *gatedQP) Destroy() error               { q.pass("qp.Destroy"); return q.QP.Destroy() }

// While the provider takes its time for a control call, of whichever queue pair or
// object, other queue pairs post, are polled and make progress, and so do their
// threads' statistics.
func TestControlCallsHoldUpNobody(t *testing.T) {
	for name, c := range map[string]struct {
		call string
		do   func(x *gated) error
	}{
		"Modify": {"Modify", func(x *gated) error { return x.q.Modify(verbs.QPAttr{State: ib.SQD}, verbs.AttrState) }},
		"Modify to RTS": {"Modify", func(x *gated) error {
			return verbs.ConnectRC(x.fresh, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC())
		}},
		"Modify to RESET":   {"Modify RESET", func(x *gated) error { return x.q.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState) }},
		"Modify to ERR":     {"Modify ERR", func(x *gated) error { return x.q.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState) }},
		"after a refusal":   {"Modify ERR", func(x *gated) error { return x.fail() }},
		"CreateQP":          {"CreateQP", func(x *gated) error { _, err := x.create(x.cq); return err }},
		"CreateQP's Port":   {"Port", func(x *gated) error { _, err := x.create(x.cq); return err }},
		"CreateQP's CQ":     {"CreateCQ", func(x *gated) error { _, err := x.create(x.channelled); return err }},
		"CreateQP's arming": {"ReqNotify", func(x *gated) error { _, err := x.create(x.channelled); return err }},
		"CreateCQ":          {"CreateCQ", func(x *gated) error { _, err := x.shim.CreateCQ(verbs.CQInitAttr{CQE: 1}); return err }},
		"AllocPD":           {"AllocPD", func(x *gated) error { _, err := x.shim.AllocPD(); return err }},
		"SetRateLimit":      {"SetRateLimit", func(x *gated) error { return x.q.(*paced.QP).SetRateLimit(1e9) }},
		"Query":             {"Query", func(x *gated) error { _, err := x.q.Query(); return err }},
		"Destroy of a QP":   {"qp.Destroy", func(x *gated) error { return x.q.Destroy() }},
		"Destroy of a CQ":   {"cq.Destroy", func(x *gated) error { return x.spare.Destroy() }},
		"of a channel":      {"ch.Destroy", func(x *gated) error { return x.ch.Destroy() }},
		"arming":            {"ReqNotify", func(x *gated) error { return x.cq.ReqNotify(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			x := newGated(t)
			x.gate.hold(c.call)
			done := make(chan error)
			go func() { done <- c.do(x) }()
			wait(t, x.gate.inside, "the provider's call")
			busy := make(chan struct{})
			go func() {
				defer close(busy)
				for range 3 {
					if _, err := x.other.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Length: 40 << 10}}}}); err != nil {
						t.Errorf("PostSend: %v", err)
						return
					}
					for n := 0; n == 0; {
						var wc [4]verbs.WC
						var err error
						if n, err = x.cq.Poll(wc[:]); err != nil {
							t.Errorf("Poll: %v", err)
							return
						}
						for _, wc := range wc[:n] {
							if wc.QPN != x.other.Num() {
								n-- // of the queue pair that failed
							}
						}
					}
					if err := x.shim.Progress(x.shim.Clock()); err != nil {
						t.Errorf("Progress: %v", err)
					}
					x.shim.Stats()
					x.shim.Deadline()
				}
			}()
			wait(t, busy, "another queue pair, while the provider carries out a control call,")
			x.gate.hold("")
			x.gate.leave <- struct{}{}
			if err := wait(t, done, "the call"); err != nil {
				t.Errorf("the call: %v", err)
			}
		})
	}
}

// wait receives from c, which takes no time unless something hangs.
func wait[V any](t *testing.T, c <-chan V, what string) V {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not come to an end", what)
	}
	panic("not reached")
}

// gated is a shim over a gatedDevice.
type gated struct {
	t              *testing.T
	gate           *barrier
	shim           *paced.Shim
	pd             verbs.PD
	cq, spare      verbs.CQ
	channelled     verbs.CQ
	ch             verbs.CompChannel
	q, other       verbs.QP // in RTS
	fresh          verbs.QP // in RESET
	receiveChannel verbs.CompChannel
}

func newGated(t *testing.T) *gated {
	g := &barrier{inside: make(chan string), leave: make(chan struct{})}
	cfg := paced.DefaultConfig()
	cfg.Engine = func(cc.Env) (cc.Engine, error) {
		return &fixed{control: cc.Control{Rate: 100 * units.Gbps, Window: cc.Unlimited}, quiet: true}, nil
	}
	x := &gated{t: t, gate: g}
	x.shim = must(paced.Wrap(&gatedDevice{Device: &nullDevice{}, barrier: g}, cfg))(t)
	x.pd = must(x.shim.AllocPD())(t)
	x.cq = must(x.shim.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
	x.spare = must(x.shim.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
	x.ch = must(x.shim.CreateCompChannel())(t)
	x.receiveChannel = must(x.shim.CreateCompChannel())(t)
	x.channelled = must(x.shim.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: x.receiveChannel}))(t)
	for _, q := range []*verbs.QP{&x.q, &x.other} {
		*q = must(x.create(x.cq))(t)
		if err := verbs.ConnectRC(*q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
			t.Fatal(err)
		}
	}
	x.fresh = must(x.create(x.cq))(t)
	return x
}

func (x *gated) create(cq verbs.CQ) (verbs.QP, error) {
	return x.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}})
}

// fail posts what the provider refuses, so that the shim takes its queue pair to ERR.
func (x *gated) fail() error {
	x.q.(*paced.QP).Unwrap().(*gatedQP).refuse = true
	_, err := x.q.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Length: 10}}}})
	return err
}
