package fabric

import (
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Report says how a switch measures what it reports, and how it writes that into packets:
// as a P4 program would see and write it. It is not changed once in use.
type Report struct {
	// Clock is the source of delays and times.
	Clock telemetry.SwitchClock
	// PacketUnits is a packet's size, in telemetry.CellBytes, for a switch that counts
	// a queue's packets, not its bytes. 0 is a switch that counts cells of that size.
	PacketUnits int64
	// Delay is the form of the largest delay.
	Delay telemetry.DelayFormat
	// INT is the form of per-hop records.
	INT telemetry.INTFormat
	// Hops is with how many records a packet is full for the switch, which leaves
	// packets with more alone. 0 is as many as the form has.
	Hops uint8
}

// delay returns the delay that a switch reads for a packet's wait in the queue.
func (r *Report) delay(now, waited units.Time) units.Time {
	return r.Delay.Quantised(r.Clock.InQueue(now-waited, now))
}

// hop returns the record as a reader sees it, for a queue of the given packets.
func (r *Report) hop(h telemetry.Hop, packets uint32) telemetry.Hop {
	written := h
	written.Time -= h.Time % r.Clock.Tick
	written.QLen = units.Bytes(r.queue(int64(h.QLen), int64(packets))) * telemetry.CellBytes
	return r.INT.Quantised(written)
}
