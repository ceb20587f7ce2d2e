package nicmodel

import "github.com/sluice-rdma/sluice/units"

// RoundTripShare is what two such NICs add to the round trip of a packet with
// empty queues, from its first bit on the wire to its acknowledgement in the
// transport: parse, transport and pipeline at both ends, and the
// acknowledgement's own way to the wire.
func (c *Config) RoundTripShare() units.Time {
	return 2*c.CoreClock.Begin(c.ParseCycles+c.TransportCycles) + 3*c.PipelineLatency
}

// FixedLatencies is what a NIC adds to packets and completions where nothing
// waits, beside the wire.
type FixedLatencies struct {
	Send       units.Time // the transmit pipeline
	Receive    units.Time // the receive pipeline, parsing and transport
	Completion units.Time // a completion written, until the host sees it
}

// FixedLatencies returns those of the NIC: what a reduced NIC has of it for every packet
// and completion. What comes before that, for a flow, is FirstPacket.
func (c *Config) FixedLatencies() FixedLatencies {
	return FixedLatencies{
		Send:       c.PipelineLatency,
		Receive:    c.CoreClock.Begin(c.ParseCycles+c.TransportCycles) + c.PipelineLatency,
		Completion: c.CoreClock.Begin(c.CQECycles) + c.PCIe.Rate.Serialize(units.Bytes(c.CQEBytes+pieces(c.CQEBytes, c.PCIe.MPS)*c.PCIe.Headers.request())) + c.PCIe.WriteLatency,
	}
}
