package thetapowertcp

import (
	"cmp"
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/internal/cwnd"
	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:    "theta-powertcp",
		Summary: "PowerTCP's law on the RTT and its gradient; needs only NIC timestamps",
		Source:  "Addanki et al., NSDI 2022, Algorithm 2 (appendix D)",
		Sets:    []cc.Set{cc.NewSet("artefact", "inet-tub/ns3-datacenter, 6ddb4a4, UpdateRatePower", ArtefactConfig)},
	}, DefaultConfig, New)
}

// state is a flow's memory between acknowledgements.
type state struct {
	cwnd.Bytes
	smooth float64 // normalised power, smoothed over tau

	// The window changes once a round trip, so that what is acknowledged at
	// the next change was sent before the latest one: under oldCwnd. Where it changes
	// by each acknowledgement, oldCwnd is what it was a round trip ago.
	oldCwnd     float64
	lastUpdated units.Bytes // Sent at the latest change

	tau float64 // picoseconds

	prevRTT units.Time
	prevAt  units.Time // arrival of the previous acknowledgement (t_c)
	primed  bool       // prevRTT and prevAt are set
}

// params is a Config made ready, in the units of state.
type params struct {
	gamma, beta float64 // beta in bytes
	minCurrent  float64
	eta         float64
	leastRTT    bool
	eachAck     bool
	perBase     float64    // one over the base RTT
	packet      units.Time // of a full packet at the line rate
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
		norm := power(float64(rtt), float64(s.prevRTT), dt, s.tau, p.minCurrent)
		dt = min(dt, s.tau)
		s.smooth = (float64(s.smooth*(s.tau-dt)) + float64(norm*dt)) / s.tau
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
	if p.leastRTT {
		s.tau = min(s.tau, float64(rtt))
	}
	p.normPower(s, a.Now, rtt)
	if p.eachAck {
		p.fromRound(s, a)
		return
	}
	if a.Acked < s.lastUpdated {
		return
	}
	// A power of zero asks for an infinite window; the bound catches it.
	cwnd := s.Clamp(window(s.Cwnd, s.oldCwnd, s.smooth/p.eta, p.gamma, p.beta))
	s.oldCwnd = s.Cwnd
	if cwnd <= s.Cwnd || !a.AppLimited {
		s.Cwnd = cwnd
	}
	s.lastUpdated = a.Sent
}

// fromRound sets the window from that of the latest round trip.
func (p *params) fromRound(s *state, a *cc.Ack) {
	cwnd := s.Clamp(window(s.oldCwnd, s.oldCwnd, s.smooth/p.eta, p.gamma, p.beta))
	if cwnd <= s.Cwnd || !a.AppLimited {
		s.Cwnd = cwnd
	}
	if a.Acked >= s.lastUpdated {
		s.oldCwnd, s.lastUpdated = s.Cwnd, a.Sent
	}
}

type engine struct {
	p params
	state
}

// New makes the engine of one flow.
func New(c Config, env cc.Env) (cc.Engine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := env.Validate(); err != nil {
		return nil, fmt.Errorf("theta-powertcp: %w", err)
	}
	return cacheline.New(start(c, env)), nil
}

// start returns the state of a flow that has sent nothing. The arguments are valid.
func start(c Config, env cc.Env) engine {
	env.BaseRTT = cmp.Or(c.BaseRTT, env.BaseRTT)
	p := params{
		gamma: c.Gamma, beta: cwnd.BDP(env) / c.Flows,
		minCurrent: c.MinCurrent, eta: c.Eta, leastRTT: c.LeastRTT, eachAck: c.EachAck,
		perBase: 1 / float64(env.BaseRTT),
		packet:  env.LineRate.Serialize(env.MTU),
	}
	// Equation 7 itself never goes below beta. Section 3.3: cwnd_init = HostBw tau.
	w := cwnd.NewBytes(env, p.beta, c.MaxWindow)
	// The smoothed power has no initial value in the paper; 1 is that of
	// equilibrium.
	return engine{p: p, state: state{Bytes: w, oldCwnd: w.Cwnd, smooth: 1, tau: float64(env.BaseRTT)}}
}

// OnAck updates the power from the RTT, and once a round trip the window.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	e.p.next(&e.state, a)
	if e.p.leastRTT {
		return e.AnswerOver(e.tau * e.p.perBase)
	}
	return e.Answer()
}

// SetBack implements cc.Timed.
func (e *engine) SetBack(by units.Time) { e.prevAt = e.prevAt.SetBack(by) }
