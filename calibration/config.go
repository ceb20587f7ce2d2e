package calibration

import (
	"fmt"

	"github.com/sluice-rdma/sluice/units"
)

// Config describes the NIC's clock and how much the clocks may misbehave.
// DefaultConfig fills what is not a fact of the device.
type Config struct {
	// CounterBits is the counter's width, 8 to 64: 41 for mlx5, 48 for mlx4.
	CounterBits int
	// NominalHz is the counter's rate, 1 kHz to 100 GHz: 156.25e6 for example.
	// How far the true rate is off is found out.
	NominalHz float64

	// MaxDriftPPM bounds how far the counter's rate may be from NominalHz by
	// the host's clock. Ethernet lets a clock be 100 ppm off either way; 5 to
	// 10 ppm between two clocks are typical, and 30 is the most that Geng et
	// al. saw (Huygens, NSDI 2018).
	MaxDriftPPM float64
	// MaxWanderPPM bounds how much the drift may change in a second, in ppm: of
	// a crystal, what a change of its temperature makes of it.
	MaxWanderPPM float64
	// HostResolution is the step of the host's clock: HostAfter may be that
	// much early.
	HostResolution units.Time

	// MinSamples is the number of samples a generation needs to be trusted.
	MinSamples int
	// Window is the length of history in which the drift is looked for. Past
	// sqrt(2 * bracket width / MaxWander) nothing is gained.
	Window units.Time
	// MaxBound is the largest bound of a mapping that is still trusted.
	MaxBound units.Time
	// MaxAge is the largest distance of an instant from the last sample. A step or a
	// reset can go unseen that long.
	MaxAge units.Time
	// MinInterval and MaxInterval limit what NextSample advises.
	MinInterval, MaxInterval units.Time
}

// DefaultConfig returns a configuration for a counter of that width and rate.
func DefaultConfig(counterBits int, nominalHz float64) Config {
	return Config{
		CounterBits:    counterBits,
		NominalHz:      nominalHz,
		MaxDriftPPM:    300,
		MaxWanderPPM:   1,
		HostResolution: units.Nanosecond,
		MinSamples:     8,
		Window:         4 * units.Second,
		MaxBound:       5 * units.Microsecond,
		MaxAge:         units.Second,
		MinInterval:    units.Millisecond,
		MaxInterval:    250 * units.Millisecond,
	}
}

func (c Config) validate() error {
	positive := func(name string, t, most units.Time) error {
		if t <= 0 || t > most {
			return fmt.Errorf("calibration: %s is %v, expected above 0 and at most %v", name, t, most)
		}
		return nil
	}
	switch {
	case c.CounterBits < 8 || c.CounterBits > 64:
		return fmt.Errorf("calibration: CounterBits is %d, expected from 8 to 64", c.CounterBits)
	case !(c.NominalHz >= 1e3 && c.NominalHz <= 1e11):
		return fmt.Errorf("calibration: NominalHz is %g, expected from 1e3 to 1e11 Hz", c.NominalHz)
	case !(c.MaxDriftPPM > 0 && c.MaxDriftPPM <= 10_000):
		return fmt.Errorf("calibration: MaxDriftPPM is %g, expected above 0 and at most 10000", c.MaxDriftPPM)
	case !(c.MaxWanderPPM >= 0 && c.MaxWanderPPM <= 1000):
		return fmt.Errorf("calibration: MaxWanderPPM is %g, expected from 0 to 1000 ppm a second", c.MaxWanderPPM)
	case c.HostResolution < 0 || c.HostResolution > units.Millisecond:
		return fmt.Errorf("calibration: HostResolution is %v, expected from 0 to 1ms", c.HostResolution)
	case c.MinSamples < 2:
		return fmt.Errorf("calibration: MinSamples is %d, expected at least 2", c.MinSamples)
	case c.MinInterval > c.MaxInterval:
		return fmt.Errorf("calibration: MinInterval, %v, is above MaxInterval, %v", c.MinInterval, c.MaxInterval)
	}
	for _, span := range []struct {
		name    string
		t, most units.Time
	}{
		{"Window", c.Window, 3600 * units.Second},
		{"MaxBound", c.MaxBound, units.Second},
		{"MaxAge", c.MaxAge, 3600 * units.Second},
		{"MinInterval", c.MinInterval, units.Second},
		{"MaxInterval", c.MaxInterval, 60 * units.Second},
	} {
		if err := positive(span.name, span.t, span.most); err != nil {
			return err
		}
	}
	return nil
}
