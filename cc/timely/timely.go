package timely

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:    "timely",
		Summary: "rate from the gradient of the RTT; needs only NIC timestamps",
		Source:  "Mittal et al., SIGCOMM 2015, Algorithm 1; patched: Zhu et al., CoNEXT 2016, Algorithm 2",
		Sets:    []cc.Set{cc.NewSet("artefact", "inet-tub/ns3-datacenter, 6ddb4a4, UpdateRateTimely", ArtefactConfig)},
	}, DefaultConfig, New)
}

// state is a flow's memory between completions.
type state struct {
	rate    float64     // bits per second
	prevRTT units.Time  // of the previous completion
	primed  bool        // prevRTT is one
	rttDiff float64     // moving average of RTT differences, picoseconds
	falling int         // negative gradients in a row, or with HAIAny increases
	until   units.Bytes // sent at the latest update, with PerRTT
}

// params is a Config made ready: in the units of state, defaults resolved.
type params struct {
	tLow, tHigh       units.Time
	delta, haiDelta   float64 // bits per second
	haiCount          int
	beta, alpha       float64
	minRTT            float64 // picoseconds
	minRate, maxRate  float64 // bits per second
	keep              float64 // least share of the rate that an update leaves
	patched           bool
	haiAny, perRTT    bool
	patchedBeta, rRef float64 // rRef in picoseconds
}

// next is Algorithm 1: it takes s past a completion whose RTT, less the
// segment's serialisation, is rtt. scale is the completion's share of a minimum
// RTT's update (section 5). mayRise is false for an application-limited flow.
func (p *params) next(s *state, rtt units.Time, scale float64, mayRise bool) {
	// The first completion has no predecessor: its difference is zero.
	diff := 0.0
	if s.primed {
		diff = float64(rtt - s.prevRTT)
	}
	s.prevRTT, s.primed = rtt, true
	s.rttDiff = float64((1-p.alpha)*s.rttDiff) + float64(p.alpha*diff)
	// An average below the resolution of any clock is not a gradient. Without this
	// check it approaches zero from above where round trips have become constant, and
	// the rate neither falls nor rises.
	if math.Abs(s.rttDiff) < 0.5 {
		s.rttDiff = 0
	}

	// Section 4.3: "negative for several consecutive completion times". The gradient,
	// rttDiff over minRTT, has the sign of rttDiff.
	rises := s.rttDiff < 0
	if p.haiAny {
		rises = rtt < p.tLow || rtt <= p.tHigh && s.rttDiff <= 0
	}
	if rises {
		s.falling = min(s.falling+1, p.haiCount)
	} else {
		s.falling = 0
	}
	step := p.delta
	if s.falling >= p.haiCount {
		step = p.haiDelta
	}

	rate := s.rate
	switch {
	case rtt < p.tLow:
		if !p.haiAny {
			step = p.delta
		}
		rate += float64(scale * step)
	case rtt > p.tHigh:
		// R (1 - beta (1 - Thigh/RTT)), section 4.3.
		cut := p.beta * (1 - float64(p.tHigh)/float64(rtt))
		rate *= 1 - float64(scale*cut)
	case p.patched:
		// Zhu et al., Algorithm 2: delta (1-w) + R (1 - beta w error).
		w := weight(s.rttDiff / p.minRTT)
		off := (float64(rtt) - p.rRef) / p.rRef
		cut := float64(p.patchedBeta*w) * off
		rate = float64(scale*float64(p.delta*(1-w))) + float64(rate*(1-float64(scale*cut)))
	case s.rttDiff <= 0:
		rate += float64(scale * step)
	default:
		// R (1 - beta gradient): negative for a gradient above 1/beta, which
		// the bounds below catch.
		rate *= 1 - float64(scale*float64(p.beta*(s.rttDiff/p.minRTT)))
	}

	rate = max(rate, float64(p.keep*s.rate))
	if !mayRise {
		rate = min(rate, s.rate)
	}
	s.rate = min(max(rate, p.minRate), p.maxRate)
}

// weight is Zhu et al., section 4.3: the share of a step that follows the RTT
// itself, as opposed to probing. It goes from 0 to 1 as the gradient goes from -1/4
// to 1/4.
func weight(gradient float64) float64 {
	switch {
	case gradient <= -0.25:
		return 0
	case gradient >= 0.25:
		return 1
	}
	return float64(2*gradient) + 0.5
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
		return nil, fmt.Errorf("timely: %w", err)
	}
	if maxRate := orDefault(c.MaxRate, env.LineRate); c.MinRate > maxRate {
		return nil, field.Bad("timely", "min_rate", c.MinRate, "choose at most the line rate, %v", env.LineRate)
	}
	return cacheline.New(start(c, env)), nil
}

// start returns the state of a flow that has sent nothing. The arguments are valid.
func start(c Config, env cc.Env) engine {
	maxRate := orDefault(c.MaxRate, env.LineRate)
	p := params{
		tLow: c.TLow, tHigh: c.THigh,
		delta: float64(c.Delta), haiDelta: float64(c.Delta) * float64(c.HAISteps), haiCount: c.HAICount,
		beta: c.Beta, alpha: c.weight(),
		minRTT:  float64(c.MinRTT),
		minRate: float64(c.MinRate), maxRate: float64(maxRate),
		keep:   1 - c.MaxDecrease,
		haiAny: c.HAIAny, perRTT: c.PerRTT,
		patched: c.Patched, patchedBeta: c.PatchedBeta, rRef: float64(c.RTTRef),
	}
	if c.MinRTT == 0 {
		p.minRTT = float64(env.BaseRTT)
	}
	if c.RTTRef == 0 {
		p.rRef = float64(c.TLow)
	}
	rate := orDefault(c.InitialRate, maxRate)
	return engine{p: p, s: state{rate: float64(rate)}, control: cc.Control{Rate: rate, Window: cc.Unlimited}}
}

// orDefault is a rate that zero leaves at its bound.
func orDefault(r, most units.Rate) units.Rate {
	if r == 0 {
		return most
	}
	return min(r, most)
}

// OnAck updates the rate from the RTT of a completed segment, if it has one.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	if a.RTT <= 0 && a.NetRTT <= 0 {
		return e.control // no sample
	}
	scale := a.Scale
	if e.p.perRTT {
		if a.Acked <= e.s.until {
			return e.control
		}
		first := e.s.until == 0
		e.s.until = a.Sent
		if scale = 1; first {
			// Nothing to compare with: the simulations change nothing.
			e.s.prevRTT, e.s.primed = max(a.NetRTT, 0), true
			return e.control
		}
	}
	e.p.next(&e.s, max(a.NetRTT, 0), scale, !a.AppLimited)
	e.control.Rate = units.Rate(detmath.Int64(e.s.rate))
	return e.control
}

// OnLoss changes nothing: TIMELY knows no signal but the RTT. It "is not
// concerned with reliability" (section 5), and its fabric loses nothing.
func (e *engine) OnLoss(units.Time) cc.Control { return e.control }

// OnTimeout changes nothing, as OnLoss.
func (e *engine) OnTimeout(units.Time) cc.Control { return e.control }

// OnCNP changes nothing, as OnLoss.
func (e *engine) OnCNP(units.Time) cc.Control { return e.control }

// Bounds implements cc.Bounded.
func (e *engine) Bounds() (floor, ceiling units.Rate) {
	return units.Rate(detmath.Int64(e.p.minRate)), units.Rate(detmath.Int64(e.p.maxRate))
}

// Control returns the rate that holds; the window is unlimited.
func (e *engine) Control() cc.Control { return e.control }
