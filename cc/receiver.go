package cc

import "github.com/sluice-rdma/sluice/units"

// Granted is an Engine whose flow's receiver takes part in deciding how far it may
// send.
type Granted interface {
	Engine
	// OnGrant handles a grant. Grants may arrive late, out of order, or not at all.
	// sent is Ack.Sent at that moment, for engines that treat granted and ungranted
	// bytes differently.
	OnGrant(now units.Time, sent units.Bytes, g Grant) Control
}

// Grant is a receiver's permission for one flow to send.
type Grant struct {
	// Limit counts payload bytes from the flow's first: those below it may be sent.
	Limit units.Bytes
	// Class is the granted bytes' Control.Class.
	Class uint8
}

// Data is one data packet's report to its receiver.
type Data struct {
	Now units.Time // when it arrived
	// Flow names the flow among those to this host: small numbers, used again
	// when a flow has ended.
	Flow uint32
	// Size is the payload of the whole flow, 0 if that is not known.
	Size units.Bytes
	// Bytes is the packet's payload. Arrived is the flow's payload received so far,
	// including this packet; duplicates count once.
	Bytes, Arrived units.Bytes
	SentAt         units.Time // when the packet was handed to the wire
	ECN            bool       // it met a congestion mark
}

// Receiver decides at one host what the senders of its flows may send. It belongs
// to the goroutine of its driver.
type Receiver interface {
	// OnStart reports that a flow begins, before its first packet if the transport
	// announces flows, else with it; size is as Data.Size. OnEnd reports that the last
	// byte has arrived, or that the sender has given up.
	OnStart(now units.Time, flow uint32, size units.Bytes)
	OnEnd(now units.Time, flow uint32)
	// OnData takes one data packet, once for each that is placed.
	OnData(d *Data)
	// Deadline returns when to call OnTimer, or units.Never.
	Deadline() units.Time
	OnTimer(now units.Time)
	// Next returns a grant to send, or false if there is none. The driver calls it
	// after each of the calls above; a grant travels as a packet of its own, or on an
	// acknowledgement that leaves at that moment.
	Next() (flow uint32, g Grant, ok bool)
}
