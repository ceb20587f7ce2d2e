package thetapowertcp

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:    "theta-powertcp",
		Summary: "PowerTCP's law on the RTT and its gradient; needs only NIC timestamps",
		Source:  "Addanki et al., NSDI 2022, Algorithm 2 (appendix D)",
	}, DefaultConfig, New)
}

// state is what a flow remembers between acknowledgements.
type state struct {
	cwnd   float64 // bytes
	smooth float64 // normalised power, smoothed over tau

	// The window changes once a round trip, so that what is acknowledged at
	// the next change was sent before the latest one: under oldCwnd.
	oldCwnd     float64
	lastUpdated units.Bytes // Sent at the latest change

	prevRTT units.Time
	prevAt  units.Time // arrival of the previous acknowledgement (t_c)
	primed  bool       // prevRTT and prevAt are set
}

// params is a Config made ready, in the units of state.
type params struct {
	tau              float64 // picoseconds
	gamma, beta      float64 // beta in bytes
	minCurrent       float64
	minCwnd, maxCwnd float64    // bytes
	packet           units.Time // of a full packet at the line rate
	bitsPerSecond    float64    // of a byte each tau
	mtu, perMTU      float64    // bytes, and one over it
}

// power is lines 12 to 14 (equation 8): (1 + dRTT/dt) RTT / tau.
func power(rtt, prevRTT, dt, tau, minCurrent float64) float64 {
	current := max((rtt-prevRTT)/dt+1, minCurrent)
	return float64(current*rtt) / tau
}

// normPower is lines 10 to 15. Of acknowledgements at one instant the first
// counts: the gradient has no meaning between them.
func (p *params) normPower(s *state, now, rtt units.Time) {
	dt := float64(now - s.prevAt)
	if s.primed && dt <= 0 {
		return
	}
	if s.primed {
		norm := power(float64(rtt), float64(s.prevRTT), dt, p.tau, p.minCurrent)
		dt = min(dt, p.tau)
		s.smooth = (float64(s.smooth*(p.tau-dt)) + float64(norm*dt)) / p.tau
	}
	s.prevRTT, s.prevAt, s.primed = rtt, now, true
}

// window is equation 7 (line 20).
func window(cwnd, oldCwnd, power, gamma, beta float64) float64 {
	return float64(gamma*(oldCwnd/power+beta)) + float64((1-gamma)*cwnd)
}

// next is NEWACK (lines 2 to 9); the power is taken on each acknowledgement, the
// window changes once a round trip (line 17).
func (p *params) next(s *state, a *cc.Ack) {
	// The RTT of one packet: what a burst takes at the NIC beyond that is no
	// queue.
	rtt := a.RTT
	if a.NetRTT > 0 {
		rtt = a.NetRTT + p.packet
	}
	if rtt <= 0 {
		return // no sample
	}
	p.normPower(s, a.Now, rtt)
	if a.Acked < s.lastUpdated {
		return
	}
	// A power of zero asks for an infinite window; the bound catches it.
	cwnd := min(max(window(s.cwnd, s.oldCwnd, s.smooth, p.gamma, p.beta), p.minCwnd), p.maxCwnd)
	s.oldCwnd = s.cwnd
	if cwnd <= s.cwnd || !a.AppLimited {
		s.cwnd = cwnd
	}
	s.lastUpdated = a.Sent
}

type engine struct {
	p        params
	s        state
	lineRate units.Rate
	control  cc.Control
}

// New makes the engine of one flow.
func New(c Config, env cc.Env) (cc.Engine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := env.Validate(); err != nil {
		return nil, fmt.Errorf("theta-powertcp: %w", err)
	}
	tau := c.BaseRTT
	if tau == 0 {
		tau = env.BaseRTT
	}
	const byteTime = 8 * float64(units.Second) // bit/s times ps are bytes over this
	bdp := float64(float64(env.LineRate)*float64(tau)) / byteTime
	p := params{
		tau: float64(tau), gamma: c.Gamma, beta: bdp / c.Flows, maxCwnd: bdp,
		minCurrent:    c.MinCurrent,
		packet:        env.LineRate.Serialize(env.MTU),
		bitsPerSecond: byteTime / float64(tau),
		mtu:           float64(env.MTU), perMTU: 1 / float64(env.MTU),
	}
	if c.MaxWindow > 0 {
		p.maxCwnd = float64(c.MaxWindow)
	}
	// Equation 7 itself never goes below beta.
	p.minCwnd = min(p.beta, p.maxCwnd)
	start := min(bdp, p.maxCwnd) // section 3.3: cwnd_init = HostBw tau
	// The smoothed power has no initial value in the paper; 1 is that of
	// equilibrium.
	e := &engine{p: p, lineRate: env.LineRate, s: state{cwnd: start, oldCwnd: start, smooth: 1}}
	e.set()
	return e, nil
}

// set derives the control from the window: rate = cwnd / tau (line 6). The
// window is whole packets, rounded up: pacing carries the fraction, where a
// window that a last packet does not fit into would cost up to one packet a
// round trip.
func (e *engine) set() cc.Control {
	rate := units.Rate(float64(e.s.cwnd*e.p.bitsPerSecond) + 0.5)
	packets := max(math.Ceil(float64(e.s.cwnd*e.p.perMTU)-1e-9), 1) // less what rounding adds
	e.control = cc.Control{
		Rate:   min(max(rate, 1), e.lineRate),
		Window: units.Bytes(float64(packets * e.p.mtu)),
	}
	return e.control
}

// OnAck updates the power from the RTT, and once a round trip the window.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	e.p.next(&e.s, a)
	return e.set()
}

// OnLoss changes nothing: the algorithm has no rule for losses, and the window
// keeps bounding what is in flight.
func (e *engine) OnLoss(units.Time) cc.Control { return e.control }

// OnTimeout changes nothing, as OnLoss.
func (e *engine) OnTimeout(units.Time) cc.Control { return e.control }

// OnCNP changes nothing: the RTT is the only signal.
func (e *engine) OnCNP(units.Time) cc.Control { return e.control }

// Control returns the rate and the window that hold.
func (e *engine) Control() cc.Control { return e.control }
