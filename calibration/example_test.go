package calibration_test

import (
	"fmt"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/units"
)

// The counter of a NIC runs at 156.25 MHz, 20 ppm fast, and turns 0 at 1 s of the
// host's clock. Each reading is bracketed by two of the host's clock, 900 ns apart.
func Example() {
	counter := func(host units.Time) uint64 {
		return uint64((host - units.Second).Seconds() * 156.25e6 * (1 + 20e-6))
	}
	c, err := calibration.New(calibration.DefaultConfig(41, 156.25e6))
	if err != nil {
		fmt.Println(err)
		return
	}
	now := units.Second
	for now < 3*units.Second {
		c.Add(calibration.Sample{
			HostBefore: now,
			NIC:        counter(now + 400*units.Nanosecond),
			HostAfter:  now + 900*units.Nanosecond,
		})
		now = c.NextSample()
	}

	// A completion carries the counter's value of 2.95 s.
	at := 2950 * units.Millisecond
	m, ok := c.ToHost(counter(at))
	off := max(m.Host-at, at-m.Host)
	fmt.Println("trusted:", ok)
	fmt.Println("within the bound:", off <= m.Bound, "and that below 1 us:", m.Bound < units.Microsecond)
	s := c.Status(now)
	fmt.Printf("period: %.0f ppm, give or take less than 3: %v\n", s.DriftPPM, s.DriftBoundPPM < 3)
	// Output:
	// trusted: true
	// within the bound: true and that below 1 us: true
	// period: -20 ppm, give or take less than 3: true
}
