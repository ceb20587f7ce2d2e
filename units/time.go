package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Time is an instant on some clock or a span between two instants, in
// picoseconds. It reaches 106 days either way. Which clock an instant belongs
// to (simulated, host, NIC) is the business of whoever passes it on.
type Time int64

// Spans.
const (
	Picosecond  Time = 1
	Nanosecond       = 1000 * Picosecond
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond
)

// Never is later than any instant that is reached.
const Never Time = math.MaxInt64

// FromDuration converts from time.Duration, saturating at about 106 days.
func FromDuration(d time.Duration) Time {
	const limit = math.MaxInt64 / int64(Nanosecond)
	switch {
	case int64(d) > limit:
		return Never
	case int64(d) < -limit:
		return -Never
	}
	return Time(d) * Nanosecond
}

// Duration converts to time.Duration, rounding towards zero.
func (t Time) Duration() time.Duration { return time.Duration(t / Nanosecond) }

// Seconds returns t in seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// Microseconds returns t in microseconds.
func (t Time) Microseconds() float64 { return float64(t) / float64(Microsecond) }

// Nanoseconds returns t in nanoseconds.
func (t Time) Nanoseconds() float64 { return float64(t) / float64(Nanosecond) }

// FromSeconds rounds s seconds to the nearest picosecond, saturating.
func FromSeconds(s float64) Time {
	ps := math.Round(s * float64(Second))
	switch {
	case ps >= math.MaxInt64:
		return Never
	case ps <= -math.MaxInt64:
		return -Never
	}
	return Time(ps)
}

var timeUnits = []struct {
	name string
	unit Time
}{{"s", Second}, {"ms", Millisecond}, {"us", Microsecond}, {"ns", Nanosecond}, {"ps", Picosecond}}

// String prints t exactly, in the largest unit in which it is at least one:
// "61.25us".
func (t Time) String() string {
	if t == Never {
		return "never"
	}
	if t == 0 {
		return "0s"
	}
	for _, u := range timeUnits {
		if t >= u.unit || t <= -u.unit {
			return decimal(int64(t), int64(u.unit)) + u.name
		}
	}
	return strconv.FormatInt(int64(t), 10) + "ps"
}

// ParseTime reads a span such as "1.5us", "20ms" or "0". The units are s, ms,
// us (or µs), ns and ps.
func ParseTime(s string) (Time, error) {
	if s == "never" {
		return Never, nil
	}
	v, err := parse(s, "time", "us", func(suffix string) (float64, bool) {
		suffix = strings.Replace(suffix, "µ", "u", 1)
		for _, u := range timeUnits {
			if suffix == u.name {
				return float64(u.unit), true
			}
		}
		return 0, false
	})
	return Time(v), err
}

// UnmarshalText implements encoding.TextUnmarshaler by ParseTime.
func (t *Time) UnmarshalText(b []byte) (err error) {
	*t, err = ParseTime(string(b))
	return err
}

// MarshalText implements encoding.TextMarshaler by String.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// decimal prints v/unit exactly; unit is a power of ten.
func decimal(v, unit int64) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	whole, frac := v/unit, v%unit
	if frac == 0 {
		return sign + strconv.FormatInt(whole, 10)
	}
	digits := len(strconv.FormatInt(unit, 10)) - 1
	return sign + strconv.FormatInt(whole, 10) + "." +
		strings.TrimRight(fmt.Sprintf("%0*d", digits, frac), "0")
}
