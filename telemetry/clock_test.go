package telemetry

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

func TestInQueue(t *testing.T) {
	const ns, us = units.Nanosecond, units.Microsecond
	for _, c := range []struct {
		name     string
		clock    SwitchClock
		from, to units.Time
		want     units.Time
	}{
		{"v1model: two readings, not the difference rounded", V1ModelClock, 900 * ns, 1100 * ns, us},
		{"v1model: under a tick", V1ModelClock, 1100 * ns, 1900 * ns, 0},
		{"v1model: the difference rounded would be 2 us", V1ModelClock, 900 * ns, 2950 * ns, 2 * us},
		{"Tofino", TofinoClock, 10*us + 300, 12*us - 1, 1999 * ns},
		{"Tofino wraps", TofinoClock, 0, 262144 * ns, 0},
		{"Tofino wraps", TofinoClock, 5 * ns, 262150 * ns, 1 * ns},
		{"Tofino 2 does not", Tofino2Clock, 0, 262144 * ns, 262144 * ns},
	} {
		if got := c.clock.InQueue(c.from, c.to); got != c.want {
			t.Errorf("%s: %v to %v reads as %v, want %v", c.name, c.from, c.to, got, c.want)
		}
	}
}
