package cwnd

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/units"
)

// Rules are an engine's rules for a window in packets.
type Rules struct {
	Initial     float64 // packets
	Least, Most float64 // packets; Least is no more than Most
	// Cut is the share of the window that a loss or a timeout leaves at the most, in
	// (0, 1).
	Cut float64
	// ResetAfter timeouts without an acknowledgement leave Least.
	ResetAfter int
	// MinRate is the lowest rate of a paced flow, in bits per second. Without it a
	// flow whose last round trip was very long would not learn that the path is free
	// again.
	MinRate float64
	// After holds the next decrease back until more than a round trip has passed; else
	// a round trip is enough.
	After bool
}

// Packets is a window in packets, paced where it is less than one (Swift, SIGCOMM
// 2020, Algorithm 1; Poseidon, NSDI 2023, Algorithms 1 and 2, which has it from
// Swift). It falls once a round trip at the most.
type Packets struct {
	Rules
	Cwnd        float64    // packets
	RTT         units.Time // of the latest acknowledgement
	Retransmits int        // timeouts since the latest acknowledgement

	lastDecrease units.Time
	decreased    bool // lastDecrease is set

	mtu      float64 // bytes
	mtuBits  float64 // bits times picoseconds per second
	lineRate units.Rate
	control  cc.Control
}

// MaxPackets keeps windows, in bytes, far from the end of their range.
const MaxPackets = 1e9

// NewPackets returns the window that a flow starts with.
func NewPackets(env cc.Env, r Rules) Packets {
	w := Packets{
		Rules: r, Cwnd: min(max(r.Initial, r.Least), r.Most), RTT: env.BaseRTT,
		mtu: float64(env.MTU), mtuBits: float64(8*env.MTU) * float64(units.Second), lineRate: env.LineRate,
	}
	w.control = w.derive()
	return w
}

// Rate returns the window over a round trip, in bits per second.
func (w *Packets) Rate(rtt units.Time) float64 {
	return float64(w.Cwnd*w.mtuBits) / float64(rtt)
}

// Observe remembers what every law needs from an acknowledgement.
func (w *Packets) Observe(a *cc.Ack) {
	if a.RTT > 0 {
		w.RTT = a.RTT
	}
	w.Retransmits = 0
}

// Acked returns the packets that an acknowledgement counts for. No more than a
// window's can come back in a round trip.
func (w *Packets) Acked(a *cc.Ack) float64 { return min(float64(a.Packets), max(w.Cwnd, 1)) }

// MayDecrease holds decreases to one a round trip (Swift, Algorithm 1 line 3;
// Poseidon, Algorithm 1 line 7 and Algorithm 2 lines 6 and 11).
func (w *Packets) MayDecrease(now units.Time) bool {
	since := now - w.lastDecrease
	return !w.decreased || since > w.RTT || since == w.RTT && !w.After
}

// Set bounds the window and notes when it falls, as Algorithm 1 of both papers does
// after each event.
func (w *Packets) Set(cwnd float64, now units.Time) {
	switch {
	case !(cwnd > w.Least): // NaN too: no window keeps it
		cwnd = w.Least
	case cwnd > w.Most:
		cwnd = w.Most
	}
	if cwnd < w.Cwnd {
		w.lastDecrease, w.decreased = now, true
	}
	w.Cwnd = cwnd
}

// Answer returns the control of the window as it is now. Where the flow may not grow, a
// shorter RTT alone does not shorten the pacing delay.
func (w *Packets) Answer(mayGrow bool) cc.Control {
	c := w.derive()
	if !mayGrow {
		c.Rate = min(c.Rate, w.control.Rate)
	}
	w.control = c
	return c
}

// derive is the end of Algorithm 1: pacing only below a window of one packet, with
// rtt/cwnd between packets.
func (w *Packets) derive() cc.Control {
	if w.Cwnd >= 1 {
		return cc.Control{Rate: w.lineRate, Window: units.Bytes(detmath.Int64(w.Cwnd * w.mtu))}
	}
	rate := min(max(w.Rate(w.RTT), w.MinRate), float64(w.lineRate))
	return cc.Control{Rate: units.Rate(detmath.Int64(rate)), Window: units.Bytes(detmath.Int64(w.mtu))}
}

// OnLoss is "On Fast Recovery" of Swift's Algorithm 1, FastRecovery of Poseidon's
// Algorithm 2.
func (w *Packets) OnLoss(now units.Time) cc.Control {
	w.Retransmits = 0
	if w.MayDecrease(now) {
		w.Set(w.Cwnd*w.Cut, now)
	}
	return w.Answer(true)
}

// OnTimeout is "On Retransmit Timeout" of Swift's Algorithm 1, RetransmitTimeout of
// Poseidon's Algorithm 2.
func (w *Packets) OnTimeout(now units.Time) cc.Control {
	w.Retransmits = min(w.Retransmits+1, w.ResetAfter)
	if w.Retransmits >= w.ResetAfter {
		w.Set(w.Least, now)
	} else if w.MayDecrease(now) {
		w.Set(w.Cwnd*w.Cut, now)
	}
	return w.Answer(true)
}

// OnCNP changes nothing: these engines read no ECN.
func (w *Packets) OnCNP(units.Time) cc.Control { return w.control }

// Control returns the rate and the window that hold.
func (w *Packets) Control() cc.Control { return w.control }

// SetBack implements cc.Timed for the engine that it is part of.
func (w *Packets) SetBack(by units.Time) { w.lastDecrease = w.lastDecrease.SetBack(by) }
