package poseidon

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
		Name:      "poseidon",
		Summary:   "max-min fair shares from the largest per-hop delay against a target that falls with the rate",
		Source:    "Wang et al., NSDI 2023, Algorithms 1 and 2",
		Telemetry: telemetry.MaxDelay,
	}, DefaultConfig, New)
}

// params is a Config made ready, in the units of cwnd.Packets.
type params struct {
	law
	maxMI    float64
	source   source
	unqueued units.Time // NetRTT of a packet that meets no queue
}

// source is the kind of signal.
type source uint8

const (
	fromHops    source = iota
	fromBoth           // brownfield: the delay between the ends counts too
	fromTheEnds        // the ablation: that alone
)

// signal returns the delay that the flow reacts to, and whether there is one. It is
// the largest of any hop or, in brownfield (section 4.1), the delay that the path
// added beyond the largest hops of both directions, if that is more. Without
// per-hop delays (section 5.6.1) it is the queueing delay of the whole round trip.
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

type engine struct {
	p params
	cwnd.Packets
}

// New makes the engine of one flow.
func New(c Config, env cc.Env) (cc.Engine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := env.Validate(); err != nil {
		return nil, fmt.Errorf("poseidon: %w", err)
	}
	minRate, maxRate := c.rates(env)
	switch {
	case minRate >= maxRate:
		return nil, field.Bad("poseidon", "min_rate", minRate, "choose less than the line rate, %v", maxRate)
	case minRate > env.LineRate:
		return nil, field.Bad("poseidon", "min_rate", minRate, "choose at most the line rate, %v", env.LineRate)
	}
	if r := rules(c, env); r.Most < r.Least {
		if c.MaxCwnd > 0 {
			return nil, field.Bad("poseidon", "max_cwnd", c.MaxCwnd, "choose at least the smallest window, %v packets, or lower min_cwnd", r.Least)
		}
		return nil, field.Bad("poseidon", "min_cwnd", c.MinCwnd, "choose at most the largest window, %v packets, or raise max_cwnd", r.Most)
	}
	return cacheline.New(start(c, env)), nil
}

// start returns the state of a flow that has sent nothing. The arguments are valid.
func start(c Config, env cc.Env) engine {
	minRate, maxRate := c.rates(env)
	p := params{
		law:      newLaw(float64(c.P), float64(c.K), c.M, float64(minRate), float64(maxRate)).boundGain(c.MaxGain).with(c, env.BaseRTT),
		maxMI:    c.MaxMI,
		unqueued: cmp.Or(c.BaseDelay, env.BaseRTT) - env.LineRate.Serialize(env.MTU),
	}
	switch {
	case c.Brownfield:
		p.source = fromBoth
	case c.Signal == SignalRTT:
		p.source = fromTheEnds
	}
	return engine{p: p, Packets: cwnd.NewPackets(env, rules(c, env))}
}

// rates are those between which targets differ.
func (c Config) rates(env cc.Env) (least, most units.Rate) {
	most = cmp.Or(c.MaxRate, env.LineRate)
	return cmp.Or(c.MinRate, max(most/10_000, 1)), most
}

// rules are the bounds of the window.
func rules(c Config, env cc.Env) cwnd.Rules {
	minRate, _ := c.rates(env)
	return cwnd.Rules{
		Initial:    cmp.Or(c.InitialCwnd, packets(env.LineRate, env.BaseRTT, env.MTU)),
		Least:      cmp.Or(c.MinCwnd, min(packets(minRate, env.BaseRTT, env.MTU), 1)),
		Most:       cmp.Or(c.MaxCwnd, min(max(packets(env.LineRate, env.BaseRTT+c.P+c.K, env.MTU), 1), cwnd.MaxPackets)),
		Cut:        c.MinMD,
		ResetAfter: c.RetxResetThreshold,
		MinRate:    float64(minRate), // the lowest rate that the target distinguishes
		After:      true,
	}
}

// packets is the window that rate fills in span.
func packets(rate units.Rate, span units.Time, mtu units.Bytes) float64 {
	return float64(float64(rate)*span.Seconds()) / float64(8*mtu)
}

// OnAck is ReceiveACK of Algorithm 1. An application-limited flow, and one whose
// acknowledgement carries no signal, does not grow.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	e.Observe(a)
	delay, ok := e.p.signal(a)
	if !ok {
		return e.Answer(false)
	}
	var ratio float64
	if e.p.quarter && !e.p.bounded(float64(e.RTT)) {
		ratio = e.p.quarterRatio(e.Rate(e.RTT), float64(delay))
	} else {
		ratio = e.p.anyRatio(&e.Packets, float64(delay))
	}
	switch {
	case ratio < 1: // mpd > mpt
		if e.MayDecrease(a.Now) {
			e.Set(e.Cwnd*max(ratio, e.Cut), a.Now)
		}
	case !a.AppLimited:
		// cwnd (1 + (ratio-1)/cwnd num_acked), line 5.
		e.Set(e.Cwnd+float64((min(ratio, e.p.maxMI)-1)*e.Acked(a)), a.Now)
	}
	return e.Answer(!a.AppLimited)
}
