package swift

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:      "swift",
		Summary:   "window from the delay against a target that grows with hops and flows; needs only NIC timestamps",
		Source:    "Kumar et al., SIGCOMM 2020, Algorithm 1 and section 3.5",
		Telemetry: telemetry.None,
	}, DefaultConfig, New)
}

// state is what a flow remembers between acknowledgements.
type state struct {
	cwnd         float64    // packets
	rtt          units.Time // of the latest acknowledgement
	delay        units.Time // the same for one packet
	hops         int        // of the forward path
	lastDecrease units.Time
	decreased    bool // lastDecrease is set
	retransmits  int  // timeouts since the latest acknowledgement
}

// params is a Config made ready, in the units of state.
type params struct {
	target
	ai, beta, maxMDF float64
	minCwnd, maxCwnd float64 // packets
	resetAfter       int
	packet           units.Time // that one takes at the line rate
	mtuBits          float64    // bits times picoseconds per second
	minRate          float64    // of a paced flow, bits per second
}

// canDecrease holds decreases to one a round trip (line 3).
func (s *state) canDecrease(now units.Time) bool {
	return !s.decreased || now-s.lastDecrease >= s.rtt
}

// receiveACK is "On Receiving ACK" of Algorithm 1 (lines 4 to 14). An
// application-limited flow, and one whose acknowledgement carries no RTT, does
// not grow: it reports whether this one may.
func (p *params) receiveACK(s *state, a *cc.Ack) (mayGrow bool) {
	s.retransmits = 0
	if a.RTT <= 0 {
		return false
	}
	s.rtt, s.delay = a.RTT, a.RTT
	if a.NetRTT > 0 {
		// The delay of one packet: what a burst takes at the NIC beyond that
		// is no queue.
		s.delay = a.NetRTT + p.packet
	}
	if a.Path != nil && a.Path.N > 0 {
		s.hops = int(a.Path.N)
	}
	before := s.cwnd
	delay, target := float64(s.delay), p.targetDelay(s.cwnd, s.hops)
	switch {
	case delay >= target:
		if s.canDecrease(a.Now) {
			s.cwnd *= max(1-float64(p.beta*(delay-target))/delay, 1-p.maxMDF) // line 14
		}
	case a.AppLimited:
	default:
		// No more packets than a window's can come back in a round trip.
		acked := min(float64(a.Packets), max(s.cwnd, 1))
		if s.cwnd >= 1 {
			s.cwnd += float64(p.ai*acked) / s.cwnd // line 9
		} else {
			s.cwnd += float64(p.ai * acked) // line 11
		}
	}
	p.settle(s, before, a.Now)
	return !a.AppLimited
}

// retransmitTimeout is "On Retransmit Timeout" of Algorithm 1.
func (p *params) retransmitTimeout(s *state, now units.Time) {
	before := s.cwnd
	s.retransmits = min(s.retransmits+1, p.resetAfter)
	if s.retransmits >= p.resetAfter {
		s.cwnd = p.minCwnd
	} else if s.canDecrease(now) {
		s.cwnd *= 1 - p.maxMDF
	}
	p.settle(s, before, now)
}

// fastRecovery is "On Fast Recovery" of Algorithm 1.
func (p *params) fastRecovery(s *state, now units.Time) {
	before := s.cwnd
	s.retransmits = 0
	if s.canDecrease(now) {
		s.cwnd *= 1 - p.maxMDF
	}
	p.settle(s, before, now)
}

// settle clamps the window and notes when it fell, as Algorithm 1 does after each
// event.
func (p *params) settle(s *state, before float64, now units.Time) {
	s.cwnd = min(max(s.cwnd, p.minCwnd), p.maxCwnd)
	if s.cwnd < before {
		s.lastDecrease, s.decreased = now, true
	}
}

type engine struct {
	p        params
	s        state
	mtu      float64
	lineRate units.Rate
	control  cc.Control
}

// New makes the engine of one flow.
func New(c Config, env cc.Env) (cc.Engine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := env.Validate(); err != nil {
		return nil, fmt.Errorf("swift: %w", err)
	}
	base := c.BaseTarget
	if base == 0 {
		// Empty queues must not exceed the target.
		base = max(25*units.Microsecond, env.BaseRTT+env.BaseRTT/4)
	}
	large := base + units.Time(c.Hops)*c.HopScale // the target of a large window
	mtuBits := float64(8*env.MTU) * float64(units.Second)
	// packets is the window that the line rate fills in span.
	packets := func(span units.Time) float64 {
		return min(max(float64(float64(env.LineRate)*float64(span))/mtuBits, 1), maxPackets)
	}
	orDefault := func(v, otherwise float64) float64 {
		if v == 0 {
			return otherwise
		}
		return v
	}
	p := params{
		target:     newTarget(float64(base), float64(c.HopScale), float64(c.FSRange), c.FSMinCwnd, c.FSMaxCwnd),
		ai:         c.AI,
		beta:       c.Beta,
		maxMDF:     c.MaxMDF,
		minCwnd:    c.MinCwnd,
		maxCwnd:    orDefault(c.MaxCwnd, packets(large)),
		resetAfter: c.RetxResetThreshold,
		packet:     env.LineRate.Serialize(env.MTU),
		mtuBits:    mtuBits,
		minRate:    max(float64(c.MinCwnd*mtuBits)/float64(large+c.FSRange), 1),
	}
	if p.maxCwnd < p.minCwnd {
		return nil, fmt.Errorf("swift: the largest window (%v packets) is below min_cwnd (%v): set max_cwnd or lower min_cwnd", p.maxCwnd, p.minCwnd)
	}
	start := orDefault(c.InitialCwnd, packets(env.BaseRTT))
	e := &engine{
		p: p, mtu: float64(env.MTU), lineRate: env.LineRate,
		s: state{cwnd: min(max(start, p.minCwnd), p.maxCwnd), rtt: env.BaseRTT, delay: env.BaseRTT, hops: c.Hops},
	}
	e.control = e.derive()
	return e, nil
}

// derive is the end of Algorithm 1: pacing only below a window of one packet,
// with rtt/cwnd between packets. A flow whose last round trip was beyond any
// target still sends as fast as the least window does in the largest target, or
// it would not learn that the path is free again.
func (e *engine) derive() cc.Control {
	if e.s.cwnd >= 1 {
		return cc.Control{Rate: e.lineRate, Window: units.Bytes(float64(e.s.cwnd * e.mtu))}
	}
	rate := float64(e.s.cwnd*e.p.mtuBits) / float64(e.s.rtt)
	rate = min(max(rate, e.p.minRate), float64(e.lineRate))
	return cc.Control{Rate: units.Rate(rate), Window: units.Bytes(e.mtu)}
}

// OnAck is Algorithm 1 on receiving an acknowledgement.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	mayGrow := e.p.receiveACK(&e.s, a)
	c := e.derive()
	if !mayGrow {
		// A shorter RTT alone would shorten the pacing delay.
		c.Rate = min(c.Rate, e.control.Rate)
	}
	e.control = c
	return c
}

// OnLoss is Algorithm 1 on fast recovery.
func (e *engine) OnLoss(now units.Time) cc.Control {
	e.p.fastRecovery(&e.s, now)
	e.control = e.derive()
	return e.control
}

// OnTimeout is Algorithm 1 on a retransmission timeout.
func (e *engine) OnTimeout(now units.Time) cc.Control {
	e.p.retransmitTimeout(&e.s, now)
	e.control = e.derive()
	return e.control
}

// OnCNP changes nothing: Swift reads no ECN.
func (e *engine) OnCNP(units.Time) cc.Control { return e.control }

// Control returns the rate and the window that hold.
func (e *engine) Control() cc.Control { return e.control }
