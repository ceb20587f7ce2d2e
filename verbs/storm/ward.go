package storm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/sim/fault"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// ward is a process's device below the shim. It knows all that the process has made
// from it, so that a crash takes it away as a kernel does, and gives completions the
// time of the NIC's clock, which drifts and steps.
type ward struct {
	verbs.Device
	clock                 nicClock
	made                  []destroyer
	host                  int
	watch                 *observer // nil over the NIC model
	qps                   map[verbs.QP]verbs.QP
	cqs                   map[verbs.CQ]*wardCQ
	srqs                  map[verbs.SRQ]*wardSRQ
	paces                 map[uint32]*pace // of the shim's queue pairs, by their numbers
	lanes                 map[string]*lane // of the shim's groups
	rest                  rest
	held                  units.LongTime // for which the shim's queue pairs were at work, as they have said
	shim                  *paced.Config  // nil for none
	posts, segments, acks uint64         // that the shim has made, posted, and passed to engines
	accepted              uint64         // requests of the program
	bytes                 units.Bytes
	tells                 map[uint32]verbs.TelemetryQP // by their numbers
	telemetry             verbs.Telemetry
	later                 bool // its clock began late
	p                     *Process
}

// destroyer is an object that a process has made.
type destroyer func() error

// nicClock turns the time of a device's counter into that of a NIC's own clock.
type nicClock struct {
	hz    float64
	ppm   float64
	steps []fault.Fault // by their instant
}

func newNICClock(hz float64, process int, s fault.Schedule) nicClock {
	c := nicClock{hz: hz}
	for _, f := range s {
		switch {
		case f.A != process:
		case f.Kind == fault.Drift:
			c.ppm = f.PPM
		case f.Kind == fault.Step:
			c.steps = append(c.steps, f)
		}
	}
	slices.SortStableFunc(c.steps, func(a, b fault.Fault) int { return int(min(1, max(-1, a.At-b.At))) })
	return c
}

// steady reports whether it neither drifts nor steps.
func (c *nicClock) steady() bool { return c.ppm == 0 && len(c.steps) == 0 }

// read returns the clock's ticks when the device's counter stands at ticks.
func (c *nicClock) read(ticks uint64) uint64 {
	if c.hz == 0 || c.ppm == 0 && len(c.steps) == 0 {
		return ticks
	}
	at := units.Time(float64(ticks) / c.hz * float64(units.Second))
	shift := float64(ticks) * c.ppm / 1e6
	for _, s := range c.steps {
		if s.At <= at {
			shift += float64(s.By) / float64(units.Second) * c.hz
		}
	}
	return uint64(max(0, int64(ticks)+int64(shift)))
}

// ReadClock implements verbs.ClockReader.
func (w *ward) ReadClock() (uint64, error) {
	r, ok := w.Device.(verbs.ClockReader)
	if !ok {
		return 0, verbs.Errorf("query_rt_values", w.Name(), verbs.ErrNotSupported, "the device has no clock that can be read")
	}
	ticks, err := r.ReadClock()
	return w.clock.read(ticks), err
}

// NowPrecise implements verbs.PreciseClock.
func (w *ward) NowPrecise() units.Time { return w.Device.(verbs.PreciseClock).NowPrecise() }

// Run implements verbs.Runner.
func (w *ward) Run(f ...func() error) error { return verbs.Run(w.Device, f...) }

// Blocking implements verbs.Runner.
func (w *ward) Blocking(f func()) { verbs.Blocking(w.Device, f) }

// Sleep implements verbs.Runner.
func (w *ward) Sleep(d time.Duration) { verbs.Sleep(w.Device, d) }

// Close implements verbs.Device: the device stays open, for the next incarnation.
func (w *ward) Close() error { return nil }

// takeAway destroys all that the process has left, as a kernel does for a process that
// has died.
func (w *ward) takeAway() error {
	for len(w.made) > 0 {
		var busy []destroyer
		var why error
		for _, destroy := range slices.Backward(w.made) {
			switch err := destroy(); {
			case err == nil || errors.Is(err, verbs.ErrClosed):
			default:
				busy, why = append(busy, destroy), err
			}
		}
		slices.Reverse(busy)
		if len(busy) == len(w.made) {
			return fmt.Errorf("%d objects of a process that is gone can't be destroyed: %w", len(busy), why)
		}
		w.made = busy
	}
	return nil
}

// left counts the objects that exist, by destroying them.
func (w *ward) left() (n int, err error) {
	for _, destroy := range slices.Backward(w.made) {
		if err := destroy(); err == nil {
			n++
		}
	}
	return n, w.takeAway()
}

// AllocPD implements verbs.Device.
func (w *ward) AllocPD() (verbs.PD, error) {
	pd, err := w.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	w.made = append(w.made, pd.Close)
	return &wardPD{pd, w}, nil
}

type wardPD struct {
	verbs.PD
	w *ward
}

// RegMR implements verbs.PD.
func (p *wardPD) RegMR(buf []byte, access ib.AccessFlags) (verbs.MR, error) {
	m, err := p.PD.RegMR(buf, access)
	if err != nil {
		return nil, err
	}
	return p.registered(m, buf, access), nil
}

// registered makes the region of the ward's.
func (p *wardPD) registered(m verbs.MR, buf []byte, access ib.AccessFlags) *wardMR {
	own := &wardMR{m, p.w, &region{pd: p, addr: m.Addr(), size: uint64(m.Length()), access: access, buf: buf}}
	p.w.made = append(p.w.made, own.Close)
	if p.w.watch != nil {
		p.w.watch.regions[p.w.host][m.RKey()] = own.region
	}
	return own
}

type wardMR struct {
	verbs.MR
	w      *ward
	region *region
}

// Close implements verbs.MR.
func (m *wardMR) Close() error {
	if m.w.watch != nil {
		m.w.watch.quiet(m.w.watch.run.engine.Now(), m.w.host)
	}
	err := m.MR.Close()
	if o := m.w.watch; err == nil && o != nil && o.regions[m.w.host][m.RKey()] == m.region {
		m.region.gone = true
		delete(o.regions[m.w.host], m.RKey())
	}
	return err
}

// RegMemory implements verbs.MemoryPD, for memory of the storm's own.
func (p *wardPD) RegMemory(m verbs.Memory, addr, length, iova uint64, access ib.AccessFlags) (verbs.MR, error) {
	inner, ok := p.PD.(verbs.MemoryPD)
	if !ok {
		return nil, verbs.Errorf("reg_mr", p.w.Name(), verbs.ErrNotSupported, "")
	}
	mr, err := inner.RegMemory(m, addr, length, iova, access)
	if err != nil {
		return nil, err
	}
	return p.registered(mr, m.(interface{ bytes() []byte }).bytes(), access), nil
}

// AllocMW implements verbs.WindowPD.
func (p *wardPD) AllocMW(kind ib.MWType) (verbs.MW, error) {
	m, err := verbs.AllocMW(p.PD, kind)
	if err != nil {
		return nil, err
	}
	own := &wardMW{m, p.w}
	if o := p.w.watch; o != nil {
		o.windows[p.w.host][m.RKey()>>8] = &window{pd: p, kind: kind, key: m.RKey()}
	}
	p.w.made = append(p.w.made, own.Close)
	return own, nil
}

// wardMW is a memory window below the shim.
type wardMW struct {
	verbs.MW
	w *ward
}

// RKey implements verbs.MW.
func (m *wardMW) RKey() uint32 {
	key := m.MW.RKey()
	if o := m.w.watch; o != nil {
		o.quiet(o.run.engine.Now(), m.w.host)
		if own := o.windows[m.w.host][key>>8]; own == nil || own.key != key {
			o.run.failf("rule 13: process %d: a memory window has the key %#x, which no bind has given it", m.w.host, key)
		}
	}
	return key
}

// Close implements verbs.MW.
func (m *wardMW) Close() error {
	o := m.w.watch
	key := m.MW.RKey()
	if o != nil {
		o.quiet(o.run.engine.Now(), m.w.host)
	}
	err := m.MW.Close()
	if err == nil && o != nil {
		delete(o.windows[m.w.host], key>>8)
	}
	return err
}

// CreateQP implements verbs.PD.
func (p *wardPD) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	own := &wardQP{w: p.w, twin: &twin{host: p.w.host, service: a.Type, pd: p, send: a.SendCQ, recv: a.RecvCQ, sigAll: a.SigAll, depth: a.Cap.MaxSendWR, receives: &receives{}}}
	for _, c := range []*verbs.CQ{&a.SendCQ, &a.RecvCQ} {
		if own, ok := (*c).(*wardCQ); ok {
			*c = own.CQ
		}
	}
	if s, ok := a.SRQ.(*wardSRQ); ok {
		a.SRQ, own.twin.receives = s.SRQ, &s.receives
	}
	q, err := p.PD.CreateQP(a)
	if err != nil {
		return nil, err
	}
	own.QP = q
	if p.w.shim != nil {
		own.pace = &pace{p: p.w.p, qpn: q.Num(), cfg: p.w.shim, sends: own.twin.send, since: p.w.p.Now(), lane: &lane{window: cc.Unlimited}}
		if own.pace.line = p.w.shim.LineRate; own.pace.line == 0 {
			if port, err := p.w.Port(1); err == nil {
				own.pace.line = units.Rate(port.LinkRate)
			}
		}
		if own.pace.wire = p.w.shim.NICRate; own.pace.wire == 0 {
			own.pace.wire = own.pace.line
		}
		p.w.paces[q.Num()] = own.pace
	}
	var full verbs.QP
	if p.w.watch != nil {
		soft := q.(softQP)
		if own.pace != nil {
			own.pace.notices = soft.CNPs
		}
		full = &softWardQP{wardQP: own, CNPQP: soft, TelemetryQP: soft, RepairsQP: soft}
		own.twin.qpn = q.Num()
		p.w.tells[q.Num()] = soft
		p.w.watch.add(own.twin)
	} else {
		sim := q.(simQP)
		full = &simWardQP{wardQP: own, RateLimitQP: sim, TelemetryQP: sim, RepairsQP: sim, SentTimestampQP: sim}
		own.twin = nil
	}
	p.w.qps[q] = full
	p.w.made = append(p.w.made, full.Close)
	return full, nil
}

// CreateSRQ implements verbs.PD.
func (p *wardPD) CreateSRQ(a verbs.SRQInitAttr) (verbs.SRQ, error) {
	s, err := p.PD.CreateSRQ(a)
	if err != nil {
		return nil, err
	}
	own := &wardSRQ{SRQ: s, w: p.w}
	own.receives.shared = own
	p.w.srqs[s] = own
	p.w.made = append(p.w.made, own.Close)
	return own, nil
}

// CreateAH implements verbs.PD.
func (p *wardPD) CreateAH(av verbs.AddressVector) (verbs.AH, error) {
	a, err := p.PD.CreateAH(av)
	if err == nil {
		p.w.made = append(p.w.made, a.Close)
	}
	return a, err
}

// CreateCQ implements verbs.Device.
func (w *ward) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) {
	ch, _ := a.Channel.(*wardChannel)
	if ch != nil {
		a.Channel = ch.CompChannel
	}
	c, err := w.Device.CreateCQ(a)
	if err != nil {
		return nil, err
	}
	w.made = append(w.made, c.Close)
	own := &wardCQ{c, w}
	w.cqs[c] = own
	if ch != nil {
		ch.cqs[c] = own
	}
	return own, nil
}

// wardCQ has completions with the time of the NIC's clock.
type wardCQ struct {
	verbs.CQ
	w *ward
}

// Poll implements verbs.CQ.
func (c *wardCQ) Poll(wc []verbs.WC) (int, error) {
	n, err := c.CQ.Poll(wc)
	if o := c.w.watch; o != nil {
		o.polled(o.run.engine.Now(), c.w.host, c, wc[:n], n == len(wc) || err != nil, c.told)
	}
	for i := range wc[:n] {
		if own := c.w.paces[wc[i].QPN]; own != nil && own.sends == c {
			own.completed(&wc[i])
		}
		wc[i].Timestamp = c.w.clock.read(wc[i].Timestamp)
	}
	return n, err
}

// Resize implements verbs.ResizableCQ.
func (c *wardCQ) Resize(cqe int) error {
	if r, ok := c.CQ.(verbs.ResizableCQ); ok {
		return r.Resize(cqe)
	}
	return verbs.Errorf("resize_cq", c.w.Name(), verbs.ErrNotSupported, "")
}

// told is what the network has told of a completion that the last Poll has returned.
func (c *wardCQ) told(wc *verbs.WC) signals {
	t := &c.w.telemetry
	if q := c.w.tells[wc.QPN]; q == nil || !q.CompletionTelemetry(wc, t) {
		return signals{}
	}
	return signals{t.ECN, t.EIN, t.HasTurnaround, t.Coalesced, t.Turnaround}
}

// CreateCompChannel implements verbs.Device.
func (w *ward) CreateCompChannel() (verbs.CompChannel, error) {
	ch, err := w.Device.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	w.made = append(w.made, ch.Close)
	return &wardChannel{ch, map[verbs.CQ]*wardCQ{}}, nil
}

type wardChannel struct {
	verbs.CompChannel
	cqs map[verbs.CQ]*wardCQ
}

// Wait implements verbs.CompChannel.
func (ch *wardChannel) Wait(ctx context.Context, timeout time.Duration) (verbs.CQ, error) {
	c, err := ch.CompChannel.Wait(ctx, timeout)
	if err != nil {
		return nil, err
	}
	return ch.cqs[c], nil
}
