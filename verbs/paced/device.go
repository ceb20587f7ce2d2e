package paced

import (
	"context"
	"net/netip"
	"time"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Name implements verbs.Device.
func (s *Shim) Name() string { return s.dev.Name() }

// Attr implements verbs.Device.
func (s *Shim) Attr() verbs.DeviceAttr { return s.attr }

// Port implements verbs.Device.
func (s *Shim) Port(num int) (verbs.PortAttr, error) { return s.dev.Port(num) }

// GID implements verbs.Device.
func (s *Shim) GID(port, index int) (netip.Addr, error) { return s.dev.GID(port, index) }

// Now implements verbs.Device.
func (s *Shim) Now() time.Duration { return s.dev.Now() }

// NowPrecise implements verbs.PreciseClock. Where the provider's clock counts
// nanoseconds, so does this; it ends at units.Never, 106 days after the clock's origin,
// where Clock goes on.
func (s *Shim) NowPrecise() units.Time { return s.Clock().Time() }

// ReadClock implements verbs.ClockReader. It fails with ErrNotSupported if the
// provider's device has no counter that can be read.
func (s *Shim) ReadClock() (uint64, error) {
	if r, ok := s.dev.(verbs.ClockReader); ok {
		return r.ReadClock()
	}
	return 0, verbs.Errorf("query_rt_values", s.dev.Name(), verbs.ErrNotSupported, "the device has no clock that can be read")
}

// Run implements verbs.Runner.
func (s *Shim) Run(applications ...func() error) error { return verbs.Run(s.dev, applications...) }

// Blocking implements verbs.Runner.
func (s *Shim) Blocking(f func()) { verbs.Blocking(s.dev, f) }

// Sleep implements verbs.Runner. The shim makes no progress meanwhile.
func (s *Shim) Sleep(d time.Duration) { verbs.Sleep(s.dev, d) }

// AllocPD implements verbs.Device. The PD's CreateQP returns a *QP.
func (s *Shim) AllocPD() (verbs.PD, error) {
	inner, err := s.dev.AllocPD()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects++
	return &pd{PD: inner, shim: s}, nil
}

// Close implements verbs.PD.
func (p *pd) Close() error {
	if err := p.PD.Close(); err != nil {
		return err
	}
	p.shim.mu.Lock()
	defer p.shim.mu.Unlock()
	p.shim.objects--
	return nil
}

// AsyncEvent implements verbs.Device. Events come with the application's own
// objects. While a queue pair is on its way to SQD it makes progress, so that
// ib.EventSQDrained does not wait for a poll.
func (s *Shim) AsyncEvent(ctx context.Context, timeout time.Duration) (verbs.AsyncEvent, error) {
	e, err := s.asyncEvent(ctx, timeout)
	if err != nil {
		return e, err
	}
	if e.QP != nil {
		if q, ok := s.known(e.QP).(*QP); ok {
			e.QP = q
		}
	}
	if e.CQ != nil {
		switch c := s.known(e.CQ).(type) {
		case *CQ:
			e.CQ = c
		case *sendCQ:
			e.CQ = nil // none of the application's
		}
	}
	return e, nil
}

// unused fails if objects exist.
func (s *Shim) unused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects > 0 {
		return verbs.Errorf("close_device", s.dev.Name(), verbs.ErrBusy, "%d PDs, CQs and channels exist: free them first", s.objects)
	}
	return nil
}

// Close implements verbs.Device.
func (s *Shim) Close() error {
	if err := s.unused(); err != nil {
		return err
	}
	if err := s.destroySendCQs(nil); err != nil {
		return err
	}
	return s.dev.Close()
}
