package storm

import (
	"context"
	"net/netip"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// guard is the device that a program sees: above the shim. Each call may be the one at
// which the process crashes or stands still, and what it returns is held against the
// contract of package verbs.
type guard struct {
	dev verbs.Device
	p   *Process
}

func closed(op string) error { return verbs.Errorf(op, "process", verbs.ErrClosed, "it has crashed") }

// Name implements verbs.Device.
func (g *guard) Name() string { return g.dev.Name() }

// Attr implements verbs.Device.
func (g *guard) Attr() verbs.DeviceAttr { return g.dev.Attr() }

// Port implements verbs.Device.
func (g *guard) Port(num int) (verbs.PortAttr, error) { return g.dev.Port(num) }

// GID implements verbs.Device.
func (g *guard) GID(port, index int) (netip.Addr, error) { return g.dev.GID(port, index) }

// Now implements verbs.Device.
func (g *guard) Now() time.Duration { return g.dev.Now() }

// NowPrecise implements verbs.PreciseClock.
func (g *guard) NowPrecise() units.Time { return g.p.Now() }

// Run implements verbs.Runner. A program is an application already, so this fails.
func (g *guard) Run(f ...func() error) error { return verbs.Run(g.dev, f...) }

// Blocking implements verbs.Runner.
func (g *guard) Blocking(f func()) { verbs.Blocking(g.dev, f) }

// Sleep implements verbs.Runner.
func (g *guard) Sleep(d time.Duration) { g.p.Sleep(d) }

// ReadClock implements verbs.ClockReader.
func (g *guard) ReadClock() (uint64, error) {
	if !g.p.enter() {
		return 0, closed("query_rt_values")
	}
	return g.dev.(verbs.ClockReader).ReadClock()
}

// AsyncEvent implements verbs.Device.
func (g *guard) AsyncEvent(ctx context.Context, timeout time.Duration) (e verbs.AsyncEvent, err error) {
	err = g.p.bounded(timeout, "get_async_event", func(d time.Duration) error {
		e, err = g.dev.AsyncEvent(ctx, d)
		return err
	})
	if q := g.p.qps[e.QP]; q != nil {
		e.QP = q
	}
	if c := g.p.cqs[e.CQ]; c != nil {
		e.CQ = c
	}
	return e, err
}

// Close implements verbs.Device.
func (g *guard) Close() error {
	if !g.p.enter() {
		return closed("close_device")
	}
	return g.dev.Close()
}

// AllocPD implements verbs.Device.
func (g *guard) AllocPD() (verbs.PD, error) {
	if !g.p.enter() {
		return nil, closed("alloc_pd")
	}
	pd, err := g.dev.AllocPD()
	if err != nil {
		return nil, err
	}
	return &guardPD{pd, g.p}, nil
}

type guardPD struct {
	pd verbs.PD
	p  *Process
}

// RegMR implements verbs.PD.
func (d *guardPD) RegMR(buf []byte, access ib.AccessFlags) (verbs.MR, error) {
	if !d.p.enter() {
		return nil, closed("reg_mr")
	}
	m, err := d.pd.RegMR(buf, access)
	if err != nil {
		return nil, err
	}
	return &guardMR{m, d.p}, nil
}

// RegMemory implements verbs.MemoryPD.
func (d *guardPD) RegMemory(mem verbs.Memory, addr, length, iova uint64, access ib.AccessFlags) (verbs.MR, error) {
	if !d.p.enter() {
		return nil, closed("reg_mr")
	}
	inner, ok := d.pd.(verbs.MemoryPD)
	if !ok {
		return nil, verbs.Errorf("reg_mr", d.p.dev.Name(), verbs.ErrNotSupported, "")
	}
	m, err := inner.RegMemory(mem, addr, length, iova, access)
	if err != nil {
		return nil, err
	}
	return &guardMR{m, d.p}, nil
}

// AllocMW implements verbs.WindowPD.
func (d *guardPD) AllocMW(kind ib.MWType) (verbs.MW, error) {
	if !d.p.enter() {
		return nil, closed("alloc_mw")
	}
	m, err := verbs.AllocMW(d.pd, kind)
	if err != nil {
		return nil, err
	}
	return &guardMW{m, d.p}, nil
}

type guardMW struct {
	verbs.MW
	p *Process
}

// Close implements verbs.MW.
func (m *guardMW) Close() error {
	if !m.p.enter() {
		return closed("dealloc_mw")
	}
	return m.MW.Close()
}

// CreateSRQ implements verbs.PD.
func (d *guardPD) CreateSRQ(a verbs.SRQInitAttr) (verbs.SRQ, error) {
	if !d.p.enter() {
		return nil, closed("create_srq")
	}
	s, err := d.pd.CreateSRQ(a)
	if err != nil {
		return nil, err
	}
	return &guardSRQ{srq: s, p: d.p}, nil
}

// CreateAH implements verbs.PD.
func (d *guardPD) CreateAH(av verbs.AddressVector) (verbs.AH, error) {
	if !d.p.enter() {
		return nil, closed("create_ah")
	}
	a, err := d.pd.CreateAH(av)
	if err != nil {
		return nil, err
	}
	return &guardAH{a, d.p}, nil
}

// Close implements verbs.PD.
func (d *guardPD) Close() error {
	if !d.p.enter() {
		return closed("dealloc_pd")
	}
	return d.pd.Close()
}

type guardMR struct {
	verbs.MR
	p *Process
}

// Close implements verbs.MR.
func (m *guardMR) Close() error {
	if !m.p.enter() {
		return closed("dereg_mr")
	}
	return m.MR.Close()
}

type guardAH struct {
	ah verbs.AH
	p  *Process
}

// Close implements verbs.AH.
func (a *guardAH) Close() error {
	if !a.p.enter() {
		return closed("destroy_ah")
	}
	return a.ah.Close()
}

type guardSRQ struct {
	srq verbs.SRQ
	p   *Process
	// The receives that wait, by how often their WRID was posted.
	posted map[uint64]int
}

// PostRecv implements verbs.SRQ.
func (s *guardSRQ) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if !s.p.enter() {
		return 0, closed("post_srq_recv")
	}
	n, err := s.srq.PostRecv(wrs)
	if s.posted == nil {
		s.posted = map[uint64]int{}
	}
	for i := range wrs[:n] {
		s.posted[wrs[i].WRID]++
	}
	return n, err
}

// SetLimit implements verbs.LimitSRQ.
func (s *guardSRQ) SetLimit(n int) error {
	if !s.p.enter() {
		return closed("modify_srq")
	}
	if l, ok := s.srq.(verbs.LimitSRQ); ok {
		return l.SetLimit(n)
	}
	return verbs.Errorf("modify_srq", "process", verbs.ErrNotSupported, "")
}

// Close implements verbs.SRQ.
func (s *guardSRQ) Close() error {
	if !s.p.enter() {
		return closed("destroy_srq")
	}
	return s.srq.Close()
}

// CreateCQ implements verbs.Device.
func (g *guard) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	if !g.p.enter() {
		return nil, closed("create_cq")
	}
	if ch, ok := a.Channel.(*guardChannel); ok {
		a.Channel = ch.ch
	}
	c, err := g.dev.CreateCQ(a)
	if err != nil {
		return nil, err
	}
	own := &guardCQ{cq: c, p: g.p}
	g.p.cqs[c] = own
	return own, nil
}

type guardCQ struct {
	cq verbs.CQ
	p  *Process
}

// Poll implements verbs.CQ.
func (c *guardCQ) Poll(wc []verbs.WC) (int, error) {
	if !c.p.enter() {
		return 0, closed("poll_cq")
	}
	n, err := c.cq.Poll(wc)
	for i := range wc[:n] {
		c.p.completed(&wc[i])
	}
	for i := range wc[:n] {
		if q := c.p.byNum[wc[i].QPN]; q != nil {
			q.holdsItsOwn(q.init.SendCQ == c.cq)
		}
	}
	return n, err
}

// ReqNotify implements verbs.CQ.
func (c *guardCQ) ReqNotify(solicitedOnly bool) error {
	if !c.p.enter() {
		return closed("req_notify_cq")
	}
	return c.cq.ReqNotify(solicitedOnly)
}

// Resize implements verbs.ResizableCQ.
func (c *guardCQ) Resize(cqe int) error {
	if !c.p.enter() {
		return closed("resize_cq")
	}
	if r, ok := c.cq.(verbs.ResizableCQ); ok {
		return r.Resize(cqe)
	}
	return verbs.Errorf("resize_cq", "process", verbs.ErrNotSupported, "")
}

// Cap implements verbs.CQ.
func (c *guardCQ) Cap() int { return c.cq.Cap() }

// Close implements verbs.CQ.
func (c *guardCQ) Close() error {
	if !c.p.enter() {
		return closed("destroy_cq")
	}
	err := c.cq.Close()
	if err == nil {
		delete(c.p.cqs, c.cq)
	}
	return err
}

// CreateCompChannel implements verbs.Device.
func (g *guard) CreateCompChannel() (verbs.CompChannel, error) {
	if !g.p.enter() {
		return nil, closed("create_comp_channel")
	}
	ch, err := g.dev.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	return &guardChannel{ch, g.p}, nil
}

type guardChannel struct {
	ch verbs.CompChannel
	p  *Process
}

// Wait implements verbs.CompChannel.
func (ch *guardChannel) Wait(ctx context.Context, timeout time.Duration) (c verbs.CQ, err error) {
	err = ch.p.bounded(timeout, "get_cq_event", func(d time.Duration) error {
		c, err = ch.ch.Wait(ctx, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	own := ch.p.cqs[c]
	if own == nil {
		ch.p.Failf("a completion event is of a queue that does not exist")
		return nil, err
	}
	return own, nil
}

// Close implements verbs.CompChannel.
func (ch *guardChannel) Close() error {
	if !ch.p.enter() {
		return closed("destroy_comp_channel")
	}
	return ch.ch.Close()
}
