package hpcc

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
		Name:      "hpcc",
		Summary:   "window from what is in flight through the busiest hop; needs per-hop telemetry",
		Source:    "Li et al., SIGCOMM 2019, Algorithm 1",
		Telemetry: telemetry.PerHop,
		Sets:      []cc.Set{cc.NewSet("artefact", "inet-tub/ns3-datacenter, 6ddb4a4, UpdateRateHp", ArtefactConfig)},
	}, DefaultConfig, New)
}

// state is a flow's memory between acknowledgements.
type state struct {
	cwnd.Bytes             // W
	reference  float64     // W_c, bytes
	inflight   float64     // U, normalised, smoothed over T
	stage      int         // incStage
	lastUpdate units.Bytes // lastUpdateSeq

	prev   telemetry.Stack // L, the records of the previous acknowledgement
	primed bool            // prev is one
}

// params is a Config made ready, in the units of state.
type params struct {
	t          float64 // T, picoseconds
	eta        float64
	maxStage   int
	oncePerRTT bool
	wAI        float64 // bytes
}

const bytesPerPicosecond = 1 / 8e12 // per bit per second

// utilisation is lines 4 and 5 for one egress port: what is in flight through it,
// normalised by its bandwidth-delay product, and the time between its records. ok
// is false where the pair has no information: the port's clock or counter did not
// advance, or the records are of two different ports.
func utilisation(prev, cur *telemetry.Hop, t float64) (u, dt float64, ok bool) {
	elapsed := cur.Time - prev.Time
	sent := cur.TxBytes - prev.TxBytes
	if elapsed <= 0 || sent < 0 || cur.Rate != prev.Rate || cur.Rate <= 0 {
		return 0, 0, false
	}
	dt = float64(elapsed)
	b := float64(cur.Rate) * bytesPerPicosecond
	// The lesser of the two queues filters what a single packet meets. q/(b T)
	// + txRate/b has one division as (q dt + sent T)/(b T dt).
	queue := float64(min(cur.QLen, prev.QLen))
	return (float64(queue*dt) + float64(float64(sent)*t)) / float64(float64(b*t)*dt), dt, true
}

// measureInflight is MEASUREINFLIGHT (lines 1 to 10): U from the hop that is
// used most, smoothed over T. It reports false, and leaves U alone, without a
// usable pair of records.
func (p *params) measureInflight(s *state, path *telemetry.Stack) bool {
	largest, tau, usable := 0.0, 0.0, false
	// A different number of hops is a different path.
	if s.primed && path.N == s.prev.N {
		was := s.prev.Path()
		for i := range was {
			u, dt, ok := utilisation(&was[i], &path.Hops[i], p.t)
			if ok && (u > largest || !usable) {
				largest, tau, usable = u, dt, true
			}
		}
	}
	s.prev.N = uint8(copy(s.prev.Hops[:], path.Path())) // line 27, L = ack.L
	s.primed = true
	if usable {
		tau = min(tau, p.t)
		// Queues do not go below zero, but garbled records can.
		s.inflight = (float64(s.inflight*(p.t-tau)) + float64(max(largest, 0)*tau)) / p.t
	}
	return usable
}

// computeWind is COMPUTEWIND (lines 11 to 20): the window from the reference, and
// the stage that the reference is in if it takes that window.
func (p *params) computeWind(s *state) (cwnd float64, next int) {
	if s.inflight >= p.eta || s.stage >= p.maxStage {
		// With nothing in flight this asks for an infinite window; the bound
		// catches it.
		cwnd = float64(float64(s.reference*p.eta)/s.inflight) + p.wAI
	} else {
		cwnd, next = s.reference+p.wAI, s.stage+1
	}
	return s.Clamp(cwnd), next
}

// next is NEWACK (lines 21 to 27).
func (p *params) next(s *state, a *cc.Ack) {
	if a.Path == nil || a.Path.N == 0 {
		return
	}
	first := !s.primed
	if !p.measureInflight(s, a.Path) {
		if first {
			// The first round trip of a flow ends when what is sent by now
			// comes back.
			s.lastUpdate = a.Sent
		}
		return
	}
	if p.oncePerRTT && a.Acked <= s.lastUpdate {
		return
	}
	cwnd, stage := p.computeWind(s)
	if a.AppLimited && cwnd > s.Cwnd {
		return
	}
	s.Cwnd = cwnd
	if a.Acked > s.lastUpdate {
		s.reference, s.stage, s.lastUpdate = cwnd, stage, a.Sent
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
		return nil, fmt.Errorf("hpcc: %w", err)
	}
	return cacheline.New(start(c, env)), nil
}

// start returns the state of a flow that has sent nothing. The arguments are valid.
func start(c Config, env cc.Env) engine {
	env.BaseRTT = cmp.Or(c.BaseRTT, env.BaseRTT)
	p := params{
		t: float64(env.BaseRTT), eta: c.Eta, maxStage: c.MaxStage, oncePerRTT: c.OncePerRTT,
		wAI: float64(cwnd.BDP(env)*(1-c.Eta)) / c.Flows,
	}
	if c.AdditiveIncrease > 0 {
		p.wAI = float64(c.AdditiveIncrease)
	}
	// Line 13 itself never goes below W_AI. Section 3.2: W_init = B_NIC T.
	w := cwnd.NewBytes(env, p.wAI, c.MaxWindow)
	// U has no initial value in Algorithm 1; 1 is what a flow that starts at
	// its port's rate makes of that port.
	return engine{p: p, state: state{Bytes: w, reference: w.Cwnd, inflight: 1}}
}

// OnAck updates the window from the records of the path.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	e.p.next(&e.state, a)
	return e.Answer()
}
