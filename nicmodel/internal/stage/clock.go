package stage

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// Clock is the clock of a stage, by its frequency in hertz. Cycle c begins at c/f.
// A period that is not a whole number of picoseconds keeps its remainder: instants
// are computed from the cycle's number, never by adding rounded periods.
type Clock uint64

const second = uint64(units.Second)

// Picoseconds is the clock of what is measured in time and not in cycles.
const Picoseconds = Clock(second)

// CycleAfter returns the first cycle that begins at or after t.
func (f Clock) CycleAfter(t units.Time) int64 {
	if f == Picoseconds {
		return int64(t)
	}
	hi, lo := bits.Mul64(uint64(t), uint64(f))
	q, r := bits.Div64(hi, lo, second)
	if r > 0 {
		q++
	}
	return int64(q)
}

// Begin returns the instant at which a cycle begins, rounded down to a
// picosecond, so that CycleAfter(Begin(c)) is c.
func (f Clock) Begin(cycle int64) units.Time {
	if f == Picoseconds {
		return units.Time(cycle)
	}
	hi, lo := bits.Mul64(uint64(cycle), second)
	q, _ := bits.Div64(hi, lo, uint64(f))
	return units.Time(q)
}

// parseClock reads a clock's rate such as "500MHz" or "1 GHz", with one of the units
// Hz, KHz, MHz and GHz, rounded to a whole number of cycles a second.
func parseClock(s string) (Clock, error) {
	text := strings.ToLower(s)
	if number, ok := strings.CutSuffix(text, "hz"); ok {
		// The decimal prefixes are those of rates.
		if r, err := units.ParseRate(number + "bps"); err == nil && r >= 0 {
			return Clock(r), nil
		}
	}
	return 0, fmt.Errorf("%q is no clock rate: write it with its unit, such as 500MHz", s)
}

// String returns the rate with its unit, exactly.
func (f Clock) String() string {
	return strings.TrimSuffix(units.Rate(f).String(), "bps") + "Hz"
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Clock) UnmarshalText(b []byte) (err error) {
	*f, err = parseClock(string(b))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (f Clock) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// Counter is the free-running counter from which a NIC stamps completions: it
// counts at a nominal rate with an error in parts per billion, and wraps.
// It is a clock of its own, apart from the stages' clocks and from the host's.
type Counter struct {
	// Hz is the nominal rate.
	Hz uint64 `yaml:"hz" range:"[1,1000000000000]"`
	// PPB is the deviation of the true rate from Hz, parts per billion.
	PPB int64 `yaml:"ppb" range:"[-100000000,100000000]"`
	// Bits is the width.
	Bits int `yaml:"bits" range:"[8,63]"`
	// Phase is how long before time 0 it read zero.
	Phase units.Time `yaml:"phase" range:"[0,1000000s]"`
}

// Read returns the counter at t.
func (c Counter) Read(t units.Time) uint64 {
	// ticks = (t+phase) * Hz * (1 + PPB/1e9), in integers throughout.
	hi, lo := bits.Mul64(uint64(t+c.Phase), c.Hz)
	ticks, frac := bits.Div64(hi, lo, second)
	hi, lo = bits.Mul64(ticks, uint64(1e9+c.PPB))
	drifted, rem := bits.Div64(hi, lo, 1e9)
	// What the whole ticks leave over, so that no tick is longer than others.
	fhi, flo := bits.Mul64(frac, uint64(1e9+c.PPB))
	sub, _ := bits.Div64(fhi, flo, second)
	drifted += (rem + sub) / 1e9
	return drifted & (1<<c.Bits - 1)
}
