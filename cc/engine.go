package cc

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Engine decides how fast one flow may send. Each call returns the Control that
// holds from then on; Control returns it without an event, also before the
// first one.
type Engine interface {
	// OnAck takes one acknowledgement: of a packet where the NIC runs the
	// engine, of a segment where the host does. The engine keeps no reference
	// to a.
	OnAck(a *Ack) Control
	// OnLoss reports that packets were lost and are being sent again because the
	// receiver requested them (a NAK).
	OnLoss(now units.Time) Control
	// OnTimeout says that the retransmission timer expired.
	OnTimeout(now units.Time) Control
	// OnCNP says that a congestion notification packet arrived (RoCEv2, IBA
	// annex A17).
	OnCNP(now units.Time) Control

	Control() Control
}

// Control is an engine's decision: the sender's permission to send.
type Control struct {
	// Rate bounds the sending rate, in payload bits per second. It is never
	// zero. A rate at or above the line rate means no pacing.
	Rate units.Rate
	// Window bounds the payload bytes that are sent and not acknowledged, or is
	// Unlimited. It is at least one byte; a sender may always have one packet (or
	// segment, where it sends segments) outstanding. The window of a Granted engine
	// may be 0: then nothing is sent until the engine raises it.
	Window units.Bytes
	// Class is the fabric's priority for the flow's next packets, plus one; 0
	// leaves them at the flow's own. Only schemes that say so (Scheme.Classes)
	// set it.
	Class uint8
}

// Unlimited is the Window of an engine that has none.
const Unlimited units.Bytes = math.MaxInt64

// Ack is one acknowledgement's report about the path. Fields that a driver
// can't know are zero, with the exceptions stated. Times are on one clock, the
// driver's.
type Ack struct {
	Now    units.Time // when the acknowledgement arrived
	SentAt units.Time // when what it acknowledges was handed to the wire or, by a host, to the NIC

	// RTT is all of Now - SentAt. NetRTT is RTT less the time that the
	// acknowledged burst takes to serialise at the NIC's line rate (TIMELY
	// section 3.1), or at the NIC limiter's rate where one paces the burst
	// (section 5). For a single packet the two differ by one packet's time.
	RTT, NetRTT units.Time

	// Held is the part of RTT for which the receiving end kept the newest packet before
	// it answered: endpoint delay, where the rest is the fabric's.
	Held units.Time

	Bytes   units.Bytes // payload newly acknowledged
	Packets int32       // the same in packets of the path MTU, at least 1
	// Acked and Sent are the flow's payload bytes acknowledged and sent so
	// far, this acknowledgement included; what is sent again does not count
	// again. An engine that acts once a round trip remembers Sent and waits
	// until Acked reaches it.
	Acked, Sent units.Bytes

	ECN bool // the acknowledged packet, or one of a burst, met a congestion mark
	EIN bool // the same for an explicit incast notification
	// Hops is the number of switches on the path.
	Hops uint8
	// Circuit says that the newest of them left a virtual output queue whose circuit
	// was up or announced.
	Circuit bool

	// MaxHopDelay is the largest queueing delay that any one switch added on
	// the forward path; ReverseMaxHopDelay is the same for the
	// acknowledgement's own way back. Both are valid only with HasMaxDelay.
	MaxHopDelay        units.Time
	ReverseMaxHopDelay units.Time
	HasMaxDelay        bool

	// Path is the record of each hop on the forward path, or nil. It belongs
	// to the driver and is valid during the call only.
	Path *telemetry.Stack

	// AppLimited says that the application, not the engine, held the flow
	// below 80 percent of its rate (TIMELY section 5). An engine must not
	// raise its rate or window on such an acknowledgement.
	AppLimited bool

	// Scale is this acknowledgement's share of one round trip's update, in (0, 1]:
	// below 1 where several completions fall into one minimum RTT (TIMELY section 5).
	// Engines that count round trips or acknowledged packets themselves ignore it.
	Scale float64
}

// Env describes the engine's surroundings. All fields are set, except where a field says
// what zero means.
type Env struct {
	LineRate units.Rate  // of the sender's port
	BaseRTT  units.Time  // round trip of one packet over the longest path with empty queues
	MTU      units.Bytes // payload of a full packet

	// FlowSize is the payload of the whole flow, 0 if it is not known ahead.
	FlowSize units.Bytes
}

// Validate reports a field that can't be.
func (e Env) Validate() error {
	switch {
	case e.LineRate <= 0:
		return fmt.Errorf("the line rate is %v: set the rate of the sender's port", e.LineRate)
	case e.BaseRTT <= 0:
		return fmt.Errorf("the base RTT is %v: set the round trip of one packet with empty queues", e.BaseRTT)
	case e.MTU <= 0:
		return fmt.Errorf("the MTU is %v: set the payload of a full packet", e.MTU)
	case e.FlowSize < 0:
		return fmt.Errorf("the flow's size is %v: set 0, for unknown, or more", e.FlowSize)
	}
	return nil
}
