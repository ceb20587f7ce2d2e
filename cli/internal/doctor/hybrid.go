package doctor

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// hybrid says by which of two means the device could pace the packets within a segment,
// the lower half of the hybrid of TIMELY's section 5: a limit of a queue pair's rate, or the
// static rate of its path.
func (e *examination) hybrid(s *Section) error {
	const what = "hybrid pacing"
	pacing, err := e.packetPacing()
	if err != nil {
		return err
	}
	if pacing == "" {
		s.add(OK, what, "packet pacing: RC queue pairs take a rate, and paced.Config.NICRate can smooth segments")
		return nil
	}
	static, heeded, err := e.staticRate()
	switch {
	case err != nil:
		return err
	case heeded:
		s.add(OK, what, "static_rate: %s. RC queue pairs have no packet pacing (%s)", static, pacing).
			mend("paced.Config.NICRate sets it, rounded up to a step of enum ibv_rate")
	default:
		s.add(Note, what, "neither packet pacing (%s) nor static_rate (%s): segments leave at line rate, a gap apart", pacing, static)
	}
	return nil
}

// packetPacing tries the device's own rate limit on a queue pair, and returns why it has none.
func (e *examination) packetPacing() (whyNot string, err error) {
	l, err := e.newLoop(nil)
	defer func() { err = errors.Join(err, l.close()) }()
	if err != nil {
		return "", err
	}
	q, ok := l.qp[0].(verbs.RateLimitQP)
	if !ok {
		return "queue pairs of this provider have none", nil
	}
	port, err := e.dev.Port(e.options.Port)
	if err != nil {
		return "", err
	}
	if err := errors.Join(q.SetRateLimit(port.LinkRate/2), q.SetRateLimit(0)); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

// staticRates are some that libibverbs has, the lowest last.
var staticRates = []units.Rate{100 * units.Gbps, 50 * units.Gbps, 25 * units.Gbps, 10 * units.Gbps, 5 * units.Gbps, 2_500_000_000}

// staticRate measures whether a connection heeds the static rate of its path.
func (e *examination) staticRate() (how string, heeded bool, err error) {
	for _, rate := range staticRates {
		if e.gbps*1e9 < 3*float64(rate) {
			continue
		}
		got, err := e.atStaticRate(rate)
		switch {
		case errors.Is(err, verbs.ErrNotSupported), errors.Is(err, verbs.ErrInvalid):
			return fmt.Sprintf("%v", err), false, nil
		case err != nil:
			return "", false, err
		case got < 1.1*float64(rate):
			return fmt.Sprintf("%.2f Gbps at a static rate of %v", got/1e9, rate), true, nil
		}
		return fmt.Sprintf("taken, and not heeded: %.2f Gbps at %v", got/1e9, rate), false, nil
	}
	return fmt.Sprintf("the least is 2.5 Gbps, and at %.2f Gbps without one its effect can't be seen", e.gbps), false, nil
}

// atStaticRate returns at how many bits per second a connection with a static rate writes.
func (e *examination) atStaticRate(rate units.Rate) (bps float64, err error) {
	l, err := e.newLoop(func(p *verbs.RCParams) { p.StaticRate = int64(rate) })
	defer func() { err = errors.Join(err, l.close()) }()
	if err != nil {
		return 0, err
	}
	const n = 16
	start := e.dev.Now()
	if err := l.do(ib.WRRDMAWrite, 0, l.mr[1].RKey(), n); err != nil {
		return 0, err
	}
	return n * testBytes * 8 / (e.dev.Now() - start).Seconds(), nil
}
