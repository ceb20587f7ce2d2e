package fast

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:    "fast",
		Summary: "rate that keeps a set amount of traffic queued, from the RTT; needs only NIC timestamps",
		Source:  "Mittal et al., SIGCOMM 2015, section 6.1 (FAST*); Wei et al., ToN 2006",
	}, DefaultConfig, New)
}

// state is a flow's memory between completions.
type state struct {
	rate float64    // bits per second
	rtt  units.Time // of the latest completion
	base shortest
}

// shortest is the shortest round trip of the present window of time and of the one
// before; 0 where there was none.
type shortest struct {
	now, before units.Time
	until       units.Time // when the present window ends
	started     bool
}

// see takes a round trip, and returns the shortest.
func (m *shortest) see(now, rtt, window units.Time) units.Time {
	if !m.started || now >= m.until {
		m.before = m.now
		if m.started && now-m.until >= window {
			m.before = 0 // a window has passed without a round trip
		}
		m.now, m.started = 0, true
		m.until = now + min(window, units.Never-max(now, 0))
	}
	if m.now == 0 || rtt < m.now {
		m.now = rtt
	}
	if m.before > 0 {
		return min(m.now, m.before)
	}
	return m.now
}

// params is a Config made ready, in the units of state.
type params struct {
	alpha            float64 // bits per second
	gamma            float64
	base, window     units.Time // base is 0 if it is the shortest seen
	minRate, maxRate float64    // bits per second
}

// next is FAST TCP's equation, with the rate in place of the window:
//
//	w <- min(2w, (1 - gamma) w + gamma (baseRTT/RTT w + alpha))
//
// scaled by the completion's share of a round trip.
func (p *params) next(s *state, now, rtt units.Time, scale float64, mayRise bool) {
	base := s.base.see(now, rtt, p.window)
	if p.base > 0 {
		base = p.base
	}
	s.rtt = rtt
	target := float64(s.rate*float64(base))/float64(rtt) + p.alpha
	rate := min(2*s.rate, float64((1-p.gamma)*s.rate)+float64(p.gamma*target))
	rate = s.rate + float64(scale*(rate-s.rate))
	if !mayRise {
		rate = min(rate, s.rate)
	}
	s.rate = min(max(rate, p.minRate), p.maxRate)
}

type engine struct {
	p       params
	s       state
	control cc.Control
}

// New makes the engine of one flow.
func New(c Config, env cc.Env) (cc.Engine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := env.Validate(); err != nil {
		return nil, fmt.Errorf("fast: %w", err)
	}
	if c.MinRate > env.LineRate {
		return nil, field.Bad("fast", "min_rate", c.MinRate, "choose at most the line rate, %v", env.LineRate)
	}
	return cacheline.New(start(c, env)), nil
}

// start returns the state of a flow that has sent nothing. The arguments are valid.
func start(c Config, env cc.Env) engine {
	rate := env.LineRate
	if c.InitialRate > 0 {
		rate = min(c.InitialRate, rate)
	}
	return engine{
		p: params{
			alpha: float64(c.Alpha), gamma: c.Gamma, base: c.BaseRTT, window: c.BaseWindow,
			minRate: float64(c.MinRate), maxRate: float64(env.LineRate),
		},
		s:       state{rate: float64(rate)},
		control: cc.Control{Rate: rate, Window: cc.Unlimited},
	}
}

// OnAck updates the rate from the RTT of a completed segment, if it has one.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	if a.RTT <= 0 || a.NetRTT <= 0 {
		return e.control // no sample
	}
	e.p.next(&e.s, a.Now, a.NetRTT, a.Scale, !a.AppLimited)
	e.control.Rate = units.Rate(detmath.Int64(e.s.rate))
	return e.control
}

// OnLoss changes nothing: TIMELY's setting leaves losses to the transport (section
// 5), and its fabric loses nothing.
func (e *engine) OnLoss(units.Time) cc.Control { return e.control }

// OnTimeout changes nothing, as OnLoss.
func (e *engine) OnTimeout(units.Time) cc.Control { return e.control }

// OnCNP changes nothing, as OnLoss.
func (e *engine) OnCNP(units.Time) cc.Control { return e.control }

// SetBack implements cc.Timed.
func (e *engine) SetBack(by units.Time) { e.s.base.until = e.s.base.until.SetBack(by) }

// Control returns the rate that holds; the window is unlimited.
func (e *engine) Control() cc.Control { return e.control }
