package nicmodel

import "github.com/sluice-rdma/sluice/units"

// RoundTripShare is what two such NICs add to the round trip of a packet with
// empty queues, from its first bit on the wire to its acknowledgement in the
// transport: parse, transport and pipeline at both ends, and the
// acknowledgement's own way to the wire.
func (c *Config) RoundTripShare() units.Time {
	return 2*c.CoreClock.Begin(c.ParseCycles+c.TransportCycles) + 3*c.PipelineLatency
}
