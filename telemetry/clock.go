package telemetry

import "github.com/sluice-rdma/sluice/units"

// SwitchClock is how a switch's pipeline tells a program how long a packet was in
// the queue: as the difference of two readings of a clock of that tick, kept in
// that many bits.
type SwitchClock struct {
	Tick units.Time // of the readings, positive
	Bits uint8      // of the difference, 1 to 63; it wraps
}

// Clocks of the architectures that the programs in p4 are for.
var (
	// V1ModelClock is v1model's standard_metadata.deq_timedelta.
	V1ModelClock = SwitchClock{units.Microsecond, 32}
	// TofinoClock is TNA's egress_intrinsic_metadata_t.deq_timedelta on Tofino 1: it
	// wraps at 262 us.
	TofinoClock = SwitchClock{units.Nanosecond, 18}
	// Tofino2Clock is the same on Tofino 2.
	Tofino2Clock = SwitchClock{units.Nanosecond, 32}
)

// InQueue returns the time that a program sees for a packet that was enqueued and
// dequeued at these times: a multiple of the tick, at most a tick more or less than
// the truth, less whole wraps. Neither time may be negative.
func (c SwitchClock) InQueue(enqueued, dequeued units.Time) units.Time {
	ticks := uint64(dequeued/c.Tick) - uint64(enqueued/c.Tick)
	return units.Time(ticks&(1<<c.Bits-1)) * c.Tick
}
