package poseidon

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:      "poseidon",
		Summary:   "max-min fair shares from the largest per-hop delay against a target that falls with the rate",
		Source:    "Wang et al., NSDI 2023, Algorithms 1 and 2",
		Telemetry: telemetry.MaxDelay,
	}, DefaultConfig, New)
}

// state is what a flow remembers between acknowledgements.
type state struct {
	cwnd         float64    // packets
	rtt          units.Time // of the latest acknowledgement
	lastDecrease units.Time
	decreased    bool // lastDecrease is set
	retransmits  int  // timeouts since the latest acknowledgement
}

// params is a Config made ready, in the units of state.
type params struct {
	law
	minMD, maxMI     float64
	minCwnd, maxCwnd float64 // packets
	resetAfter       int
	mtuBits          float64 // bits times picoseconds per second
	source           source
	unqueued         units.Time // NetRTT of a packet that meets no queue
}

// source says what the signal is.
type source uint8

const (
	fromHops    source = iota
	fromBoth           // brownfield: the delay between the ends counts too
	fromTheEnds        // the ablation: that alone
)

// signal is the delay that the flow reacts to, and whether there is one: the
// largest of any hop, and in brownfield (section 4.1) what the path added
// beyond the largest hops of both directions, if that is more. Without per-hop
// delays (section 5.6.1) it is what queues added to the whole round trip.
func (p *params) signal(a *cc.Ack) (units.Time, bool) {
	if p.source == fromHops {
		return a.MaxHopDelay, a.HasMaxDelay
	}
	if p.source == fromTheEnds {
		return max(0, a.NetRTT-p.unqueued), a.NetRTT > 0
	}
	var hop, reverse units.Time
	if a.HasMaxDelay {
		hop, reverse = a.MaxHopDelay, a.ReverseMaxHopDelay
	}
	return max(hop, a.NetRTT-p.unqueued-hop-reverse), a.HasMaxDelay || a.NetRTT > 0
}

// mayDecrease holds decreases to one a round trip (Algorithm 1 line 7,
// Algorithm 2 lines 6 and 11).
func (s *state) mayDecrease(now units.Time) bool {
	return !s.decreased || now-s.lastDecrease > s.rtt
}

// receiveACK is ReceiveACK of Algorithm 1. An application-limited flow, and one
// whose acknowledgement carries no signal, does not grow: it reports whether
// this one may.
func (p *params) receiveACK(s *state, a *cc.Ack) (mayGrow bool) {
	if a.RTT > 0 {
		s.rtt = a.RTT
	}
	s.retransmits = 0
	delay, ok := p.signal(a)
	if !ok {
		return false
	}
	var ratio float64
	if p.quarter {
		ratio = p.quarterRatio(float64(s.cwnd*p.mtuBits)/float64(s.rtt), float64(delay))
	} else {
		ratio = p.anyRatio(s, float64(delay))
	}
	before := s.cwnd
	switch {
	case ratio < 1: // mpd > mpt
		if s.mayDecrease(a.Now) {
			s.cwnd *= max(ratio, p.minMD)
		}
	case !a.AppLimited:
		// cwnd (1 + (ratio-1)/cwnd num_acked), line 5. No more packets than a
		// window's can come back in a round trip.
		acked := min(float64(a.Packets), max(s.cwnd, 1))
		s.cwnd += float64((min(ratio, p.maxMI) - 1) * acked)
	}
	p.settle(s, before, a.Now)
	return !a.AppLimited
}

// retransmitTimeout is RetransmitTimeout of Algorithm 2.
func (p *params) retransmitTimeout(s *state, now units.Time) {
	before := s.cwnd
	s.retransmits = min(s.retransmits+1, p.resetAfter)
	if s.retransmits >= p.resetAfter {
		s.cwnd = p.minCwnd
	} else if s.mayDecrease(now) {
		s.cwnd *= p.minMD
	}
	p.settle(s, before, now)
}

// fastRecovery is FastRecovery of Algorithm 2.
func (p *params) fastRecovery(s *state, now units.Time) {
	before := s.cwnd
	s.retransmits = 0
	if s.mayDecrease(now) {
		s.cwnd *= p.minMD
	}
	p.settle(s, before, now)
}

// settle is lines 18 to 20 of Algorithm 1.
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
		return nil, fmt.Errorf("poseidon: %w", err)
	}
	maxRate := c.MaxRate
	if maxRate == 0 {
		maxRate = env.LineRate
	}
	minRate := c.MinRate
	if minRate == 0 {
		minRate = max(maxRate/10_000, 1)
	}
	switch {
	case minRate >= maxRate:
		return nil, fmt.Errorf("poseidon: min_rate (%v) is not below the line rate (%v): lower min_rate", minRate, maxRate)
	case minRate > env.LineRate:
		return nil, fmt.Errorf("poseidon: min_rate (%v) is above the line rate (%v): lower min_rate", minRate, env.LineRate)
	}
	baseDelay := c.BaseDelay
	if baseDelay == 0 {
		baseDelay = env.BaseRTT
	}
	// packets is the window that rate fills in span.
	packets := func(rate units.Rate, span units.Time) float64 {
		return float64(float64(rate)*span.Seconds()) / float64(8*env.MTU)
	}
	orDefault := func(v, otherwise float64) float64 {
		if v == 0 {
			return otherwise
		}
		return v
	}
	p := params{
		law:        newLaw(float64(c.P), float64(c.K), c.M, float64(minRate), float64(maxRate)).with(c, env.BaseRTT),
		minMD:      c.MinMD,
		maxMI:      c.MaxMI,
		minCwnd:    orDefault(c.MinCwnd, min(packets(minRate, env.BaseRTT), 1)),
		maxCwnd:    orDefault(c.MaxCwnd, min(max(packets(env.LineRate, env.BaseRTT+c.P+c.K), 1), maxPackets)),
		resetAfter: c.RetxResetThreshold,
		mtuBits:    float64(8*env.MTU) * float64(units.Second),
		unqueued:   baseDelay - env.LineRate.Serialize(env.MTU),
	}
	switch {
	case c.Brownfield:
		p.source = fromBoth
	case c.Signal == SignalRTT:
		p.source = fromTheEnds
	}
	if p.maxCwnd < p.minCwnd {
		return nil, fmt.Errorf("poseidon: the largest window (%v packets) is below the smallest (%v): set max_cwnd or min_cwnd", p.maxCwnd, p.minCwnd)
	}
	start := orDefault(c.InitialCwnd, packets(env.LineRate, env.BaseRTT))
	e := &engine{
		p: p, mtu: float64(env.MTU), lineRate: env.LineRate,
		s: state{cwnd: min(max(start, p.minCwnd), p.maxCwnd), rtt: env.BaseRTT},
	}
	e.control = e.derive()
	return e, nil
}

// derive is lines 21 to 23 of Algorithm 1: pacing only below a window of one
// packet, with rtt/cwnd between packets. A flow whose last round trip was very
// long still sends at min_rate, the slowest that its target tells apart, or it
// would not learn that the path is free again.
func (e *engine) derive() cc.Control {
	if e.s.cwnd >= 1 {
		return cc.Control{Rate: e.lineRate, Window: units.Bytes(float64(e.s.cwnd * e.mtu))}
	}
	rate := float64(e.s.cwnd*e.p.mtuBits) / float64(e.s.rtt)
	rate = min(max(rate, e.p.minRate), float64(e.lineRate))
	return cc.Control{Rate: units.Rate(rate), Window: units.Bytes(e.mtu)}
}

// OnAck is ReceiveACK of Algorithm 1.
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

// OnLoss is FastRecovery of Algorithm 2.
func (e *engine) OnLoss(now units.Time) cc.Control {
	e.p.fastRecovery(&e.s, now)
	e.control = e.derive()
	return e.control
}

// OnTimeout is RetransmitTimeout of Algorithm 2.
func (e *engine) OnTimeout(now units.Time) cc.Control {
	e.p.retransmitTimeout(&e.s, now)
	e.control = e.derive()
	return e.control
}

// OnCNP changes nothing: Poseidon reads no ECN.
func (e *engine) OnCNP(units.Time) cc.Control { return e.control }

// Control returns the rate and the window that hold.
func (e *engine) Control() cc.Control { return e.control }
