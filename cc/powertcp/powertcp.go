package powertcp

import (
	"cmp"
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/internal/cwnd"
	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:      "powertcp",
		Summary:   "window from the power of the bottleneck; needs per-hop telemetry",
		Source:    "Addanki et al., NSDI 2022, Algorithm 1",
		Telemetry: telemetry.PerHop,
		Sets:      []cc.Set{cc.NewSet("artefact", "inet-tub/ns3-datacenter, 6ddb4a4, UpdateRatePower", ArtefactConfig)},
	}, DefaultConfig, New)
}

// state is a flow's memory between acknowledgements.
type state struct {
	cwnd.Bytes
	smooth float64 // normalised power, smoothed over tau

	memory  memory      // of old windows (section 3.3)
	updated units.Bytes // how much had been sent when the window was last set, or round was
	round   float64     // the window that the last round trip ended with, with FromRound

	prev   telemetry.Stack // records of the previous acknowledgement
	primed bool            // prev is one
}

// params is a Config made ready, in the units of state.
type params struct {
	tau         float64 // picoseconds
	gamma, beta float64 // beta in bytes
	eta         float64
	minCurrent  float64
	remember    units.Bytes // times a round trip
	oncePerRTT  bool
	fromRound   bool
}

const bytesPerPicosecond = 1 / 8e12 // per bit per second

// power is lines 11 to 19 for one egress port: its power between two records,
// normalised by e = b^2 tau, and the time between them. ok is false where the pair
// has no information: the port's clock or counter did not advance, or the records
// are of two different ports.
func power(prev, cur *telemetry.Hop, tau, minCurrent float64) (norm, dt float64, ok bool) {
	elapsed := cur.Time - prev.Time
	sent := cur.TxBytes - prev.TxBytes
	if elapsed <= 0 || sent < 0 || cur.Rate != prev.Rate || cur.Rate <= 0 {
		return 0, 0, false
	}
	dt = float64(elapsed)
	b := float64(cur.Rate) * bytesPerPicosecond
	bdp := float64(b * tau)
	carried := float64(b * dt)
	// lambda dt = dq + mu dt (lines 12 to 14); v = q + b tau (lines 15, 16).
	arrived := float64(cur.QLen - prev.QLen + sent)
	if least := float64(minCurrent * carried); arrived < least {
		arrived = least
	}
	voltage := float64(cur.QLen) + bdp
	return float64(arrived*voltage) / float64(carried*bdp), dt, true
}

// normPower is lines 8 to 25: the largest power of any hop, smoothed over tau.
// It reports false, and leaves the smoothed power alone, without a usable pair
// of records.
func (p *params) normPower(s *state, path *telemetry.Stack) bool {
	largest, dt, usable := 0.0, 0.0, false
	// A different number of hops is a different path.
	if s.primed && path.N == s.prev.N {
		was := s.prev.Path()
		for i := range was {
			norm, d, ok := power(&was[i], &path.Hops[i], p.tau, p.minCurrent)
			if ok && (norm > largest || !usable) {
				largest, dt, usable = norm, d, true
			}
		}
	}
	s.prev.N = uint8(copy(s.prev.Hops[:], path.Path()))
	s.primed = true
	if usable {
		// Line 24, with that hop's dt, at most tau. Queues do not go below
		// zero, but garbled records can.
		dt = min(dt, p.tau)
		s.smooth = (float64(s.smooth*(p.tau-dt)) + float64(max(largest, 0)*dt)) / p.tau
	}
	return usable
}

// window is equation 7 (line 27).
func window(cwnd, oldCwnd, power, gamma, beta float64) float64 {
	return float64(gamma*(oldCwnd/power+beta)) + float64((1-gamma)*cwnd)
}

// next is NEWACK (lines 2 to 7).
func (p *params) next(s *state, a *cc.Ack) {
	if p.fromRound {
		p.nextOfRound(s, a)
		return
	}
	old := s.memory.recall(a.Acked)
	if p.oncePerRTT {
		old = s.Cwnd // all since the last update, and so what sets the next, was sent under it
	}
	if a.Path != nil && p.normPower(s, a.Path) && (!p.oncePerRTT || a.Acked > s.updated) {
		// A power of zero asks for an infinite window; the bound catches it.
		cwnd := s.Clamp(window(s.Cwnd, old, s.smooth/p.eta, p.gamma, p.beta))
		if cwnd <= s.Cwnd || !a.AppLimited {
			s.Cwnd = cwnd
		}
		s.updated = a.Sent
	}
	s.memory.remember(s.Cwnd, a.Acked, a.Sent, p.remember)
}

// nextOfRound is next with FromRound.
func (p *params) nextOfRound(s *state, a *cc.Ack) {
	if a.Path == nil || !p.normPower(s, a.Path) {
		return
	}
	cwnd := s.Clamp(window(s.round, s.round, s.smooth/p.eta, p.gamma, p.beta))
	if cwnd <= s.Cwnd || !a.AppLimited {
		s.Cwnd = cwnd
	}
	if a.Acked > s.updated {
		s.round, s.updated = s.Cwnd, a.Sent
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
		return nil, fmt.Errorf("powertcp: %w", err)
	}
	return cacheline.New(start(c, env)), nil
}

// start returns the state of a flow that has sent nothing. The arguments are valid.
func start(c Config, env cc.Env) engine {
	env.BaseRTT = cmp.Or(c.BaseRTT, env.BaseRTT)
	p := params{
		tau: float64(env.BaseRTT), gamma: c.Gamma, beta: cwnd.BDP(env) / c.Flows, eta: c.Eta,
		minCurrent: c.MinCurrent, remember: units.Bytes(c.Remember), oncePerRTT: c.OncePerRTT, fromRound: c.FromRound,
	}
	// Equation 7 itself never goes below beta. Section 3.3: cwnd_init = HostBw tau.
	w := cwnd.NewBytes(env, p.beta, c.MaxWindow)
	// The smoothed power has no initial value in the paper; 1 is that of
	// equilibrium.
	return engine{p: p, state: state{Bytes: w, smooth: 1, memory: memory{old: w.Cwnd}, round: w.Cwnd}}
}

// OnAck updates the window from the records of the path.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	e.p.next(&e.state, a)
	return e.Answer()
}
