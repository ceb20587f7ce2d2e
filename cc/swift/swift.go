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
		Source:    "Kumar et al., SIGCOMM 2020, Algorithm 1, sections 3.3 and 3.5",
		Telemetry: telemetry.None,
	}, DefaultConfig, New)
}

// state is a flow's memory between acknowledgements.
type state struct {
	cwnd.Packets              // the fabric's window
	endpoint     cwnd.Packets // that of the receiver's end
	held         units.Time   // the latest packet at the receiver's end
	delay        units.Time   // Packets.RTT for one packet, less what it was held
	hops         int          // of the forward path
	above        bool         // the latest delay was on the target or above it
}

// params is a Config made ready, in the units of state.
type params struct {
	target
	ai, beta float64
	endpoint float64    // the target of the time that the host holds a packet, in picoseconds
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
	w := cwnd.NewPackets(env, rules(c, env))
	return engine{
		p: params{
			target:   newTarget(float64(base), float64(c.HopScale), float64(c.FSRange), c.FSMinCwnd, c.FSMaxCwnd),
			ai:       c.AI,
			beta:     c.Beta,
			endpoint: float64(cmp.Or(c.EndpointTarget, base)),
			packet:   env.LineRate.Serialize(env.MTU),
		},
		state: state{Packets: w, endpoint: w, delay: env.BaseRTT, hops: c.Hops},
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

// OnAck is "On Receiving ACK" of Algorithm 1 (lines 4 to 14), for both windows. An
// application-limited flow, and one whose acknowledgement carries no RTT, does not grow.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	e.Observe(a)
	e.endpoint.Observe(a)
	if e.above = false; a.RTT <= 0 {
		return e.answer(false)
	}
	e.held = min(max(a.Held, 0), a.RTT)
	e.delay = a.RTT
	if a.NetRTT > 0 {
		// The delay of one packet: what a burst takes at the NIC beyond that
		// is no queue.
		e.delay = a.NetRTT + e.p.packet
	}
	e.delay = max(e.delay-e.held, 1)
	switch {
	case a.Hops > 0:
		e.hops = int(a.Hops)
	case a.Path != nil && a.Path.N > 0:
		e.hops = int(a.Path.N)
	}
	e.above = e.p.update(&e.Packets, float64(e.delay), e.p.targetDelay(e.Cwnd, e.hops), a)
	e.p.update(&e.endpoint, float64(e.held), e.p.endpoint, a)
	return e.answer(!a.AppLimited)
}

// update moves a window by a delay and its target, and reports whether the delay was on
// the target or above it.
func (p *params) update(w *cwnd.Packets, delay, target float64, a *cc.Ack) (above bool) {
	above = delay >= target
	switch {
	case above:
		if w.MayDecrease(a.Now) {
			w.Set(w.Cwnd*max(1-float64(p.beta*(delay-target))/delay, w.Cut), a.Now) // line 14
		}
	case a.AppLimited:
	case w.Cwnd >= 1:
		w.Set(w.Cwnd+float64(p.ai*w.Acked(a))/w.Cwnd, a.Now) // line 9
	default:
		w.Set(w.Cwnd+float64(p.ai*w.Acked(a)), a.Now) // line 11
	}
	return above
}

// answer returns the control of the smaller window.
func (e *engine) answer(mayGrow bool) cc.Control {
	fabric := e.Answer(mayGrow)
	endpoint := e.endpoint.Answer(mayGrow)
	return least(fabric, endpoint)
}

func least(a, b cc.Control) cc.Control {
	return cc.Control{Rate: min(a.Rate, b.Rate), Window: min(a.Window, b.Window)}
}

// OnLoss cuts the fabric's window: a loss there says nothing of the receiver's end.
func (e *engine) OnLoss(now units.Time) cc.Control {
	fabric := e.Packets.OnLoss(now)
	return least(fabric, e.endpoint.Control())
}

// OnTimeout cuts the fabric's window, as OnLoss does.
func (e *engine) OnTimeout(now units.Time) cc.Control {
	fabric := e.Packets.OnTimeout(now)
	return least(fabric, e.endpoint.Control())
}

// OnCNP changes nothing: Swift reads no ECN.
func (e *engine) OnCNP(units.Time) cc.Control { return e.Control() }

// Control implements cc.Engine.
func (e *engine) Control() cc.Control { return least(e.Packets.Control(), e.endpoint.Control()) }

// SetBack implements cc.Timed.
func (e *engine) SetBack(by units.Time) {
	e.Packets.SetBack(by)
	e.endpoint.SetBack(by)
}
