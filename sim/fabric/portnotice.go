package fabric

import (
	"math"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// PortNotice is a Notice as switches that report by clocks and cells, and P4
// programs, apply it to one port: telemetry.IncastRule in the units of configuration.
// Such a switch has one detector for all priorities of a port.
type PortNotice struct {
	Window    int
	Threshold units.Rate
	MaxGap    units.Time // what the largest frame takes on the wire, in whole ticks
	HighWater units.Bytes
}

// OfPort converts n for a port with that link. The switch has that Report, ECN is
// for ports of atRate (0: all), and frames are maxFrame at most.
func (n Notice) OfPort(r *Report, link Link, atRate units.Rate, maxFrame units.Bytes) PortNotice {
	wire := link.Rate.Serialize(maxFrame + grown(r.INT.Form) + units.Bytes(link.Framing.Bytes()))
	return PortNotice{
		Window:    n.Window,
		Threshold: units.Rate(math.Round(float64(n.Gradient*float64(link.Rate))/float64(units.Mbps))) * units.Mbps,
		MaxGap:    (wire + r.Clock.Tick - 1) / r.Clock.Tick * r.Clock.Tick,
		HighWater: units.Bytes(scale(n.HighWater, link.Rate, atRate)),
	}
}

// rule returns the switch's rule for a port of that rate. Tofino's has the one
// threshold that it can compute, where it can.
func (p *PortNotice) rule(r *Report, rate units.Rate) telemetry.IncastRule {
	if r.Clock.Tick == telemetry.V1ModelClock.Tick {
		return telemetry.V1ModelIncast(p.Window, p.Threshold, p.HighWater, p.MaxGap)
	}
	rule, ok := telemetry.TofinoIncast(p.Window, rate, p.HighWater, p.MaxGap)
	if !ok {
		rule.Growth, rule.Time = 8*telemetry.CellBytes*1000, uint64(p.Threshold/units.Mbps)
	}
	return rule
}

// queue is the queue's length as the switch reads it, in telemetry.CellBytes.
func (r *Report) queue(bytes, packets int64) int64 {
	if r.PacketUnits > 0 {
		return packets * r.PacketUnits
	}
	return (bytes + telemetry.CellBytes - 1) / telemetry.CellBytes
}
