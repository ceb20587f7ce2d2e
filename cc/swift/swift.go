package swift

import (
	"cmp"
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/internal/cwnd"
	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/internal/field"
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
	cwnd.Packets
	delay units.Time // Packets.RTT for one packet
	hops  int        // of the forward path
	above bool       // the latest delay was on the target or above it
}

// params is a Config made ready, in the units of state.
type params struct {
	target
	ai, beta float64
	packet   units.Time // that one takes at the line rate
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
		return nil, fmt.Errorf("swift: %w", err)
	}
	if r := rules(c, env); r.Most < r.Least {
		return nil, field.Bad("swift", "min_cwnd", c.MinCwnd, "choose at most the largest window, %v packets, or raise max_cwnd", r.Most)
	}
	if c.PLB {
		return cacheline.New(startPathed(c, env)), nil
	}
	return cacheline.New(start(c, env)), nil
}

// start returns the state of a flow that has sent nothing, without PLB. The arguments
// are valid.
func start(c Config, env cc.Env) engine {
	base := c.baseTarget(env)
	return engine{
		p: params{
			target: newTarget(float64(base), float64(c.HopScale), float64(c.FSRange), c.FSMinCwnd, c.FSMaxCwnd),
			ai:     c.AI,
			beta:   c.Beta,
			packet: env.LineRate.Serialize(env.MTU),
		},
		state: state{Packets: cwnd.NewPackets(env, rules(c, env)), delay: env.BaseRTT, hops: c.Hops},
	}
}

// baseTarget is BaseTarget or what stands for zero: empty queues must not exceed the
// target.
func (c Config) baseTarget(env cc.Env) units.Time {
	return cmp.Or(c.BaseTarget, max(25*units.Microsecond, env.BaseRTT+env.BaseRTT/4))
}

// rules are the bounds of the window.
func rules(c Config, env cc.Env) cwnd.Rules {
	large := c.baseTarget(env) + units.Time(c.Hops)*c.HopScale // the target of a large window
	mtuBits := float64(8*env.MTU) * float64(units.Second)
	return cwnd.Rules{
		Initial:    cmp.Or(c.InitialCwnd, packets(env.LineRate, env.BaseRTT, mtuBits)),
		Least:      c.MinCwnd,
		Most:       cmp.Or(c.MaxCwnd, packets(env.LineRate, large, mtuBits)),
		Cut:        1 - c.MaxMDF,
		ResetAfter: c.RetxResetThreshold,
		MinRate:    max(float64(c.MinCwnd*mtuBits)/float64(large+c.FSRange), 1), // the least window in the largest target
	}
}

// packets is the window that the line rate fills in span. mtuBits is a packet's bits
// times picoseconds per second.
func packets(line units.Rate, span units.Time, mtuBits float64) float64 {
	return min(max(float64(float64(line)*float64(span))/mtuBits, 1), cwnd.MaxPackets)
}

// OnAck is "On Receiving ACK" of Algorithm 1 (lines 4 to 14). An application-limited
// flow, and one whose acknowledgement carries no RTT, does not grow.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	e.Observe(a)
	if e.above = false; a.RTT <= 0 {
		return e.Answer(false)
	}
	e.delay = a.RTT
	if a.NetRTT > 0 {
		// The delay of one packet: what a burst takes at the NIC beyond that
		// is no queue.
		e.delay = a.NetRTT + e.p.packet
	}
	if a.Path != nil && a.Path.N > 0 {
		e.hops = int(a.Path.N)
	}
	delay, target := float64(e.delay), e.p.targetDelay(e.Cwnd, e.hops)
	e.above = delay >= target
	switch {
	case e.above:
		if e.MayDecrease(a.Now) {
			e.Set(e.Cwnd*max(1-float64(e.p.beta*(delay-target))/delay, e.Cut), a.Now) // line 14
		}
	case a.AppLimited:
	case e.Cwnd >= 1:
		e.Set(e.Cwnd+float64(e.p.ai*e.Acked(a))/e.Cwnd, a.Now) // line 9
	default:
		e.Set(e.Cwnd+float64(e.p.ai*e.Acked(a)), a.Now) // line 11
	}
	return e.Answer(!a.AppLimited)
}
