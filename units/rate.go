package units

import (
	"math"
	"math/bits"
	"strings"
)

// Rate is a data rate in bits per second.
type Rate int64

// Rates. The prefixes are decimal, as line rates are quoted.
const (
	BitPerSecond Rate = 1
	Kbps              = 1000 * BitPerSecond
	Mbps              = 1000 * Kbps
	Gbps              = 1000 * Mbps
	Tbps              = 1000 * Gbps
)

const picosecondsPerSecond = uint64(Second)

// Gbps returns r in gigabits per second.
func (r Rate) Gbps() float64 { return float64(r) / float64(Gbps) }

// BytesPerSecond returns r in bytes per second.
func (r Rate) BytesPerSecond() float64 { return float64(r) / 8 }

// Serialize returns how long n bytes last at rate r, rounded up to a
// picosecond. It is Never for a rate that is not positive, a negative size, or
// a span that overflows.
func (r Rate) Serialize(n Bytes) Time {
	t, rem := r.SerializeRem(n, 0)
	if rem > 0 {
		t++
	}
	return t
}

// SerializeRem is Serialize for a stream of sends without drift: it adds rem,
// what the previous call left over, rounds down, and returns what is left over
// this time (in bit-picoseconds, below r). Any number of sends at one rate then
// add up to their exact span. A remainder carried across a change of rate must
// be below the new rate; carry 0 instead, at a cost below one picosecond.
//
// The span is Never, with no remainder, in the cases named at Serialize.
func (r Rate) SerializeRem(n Bytes, rem uint64) (Time, uint64) {
	if r <= 0 || n < 0 {
		return Never, 0
	}
	hi, lo := bits.Mul64(uint64(n)*8, picosecondsPerSecond)
	lo, carry := bits.Add64(lo, rem, 0)
	hi += carry
	if hi >= uint64(r) {
		return Never, 0
	}
	q, m := bits.Div64(hi, lo, uint64(r))
	if q >= math.MaxInt64 {
		return Never, 0
	}
	return Time(q), m
}

// BytesIn returns how many whole bytes r carries in t: the bandwidth-delay
// product when t is a round trip. It is 0 if either is not positive and
// saturates at the largest Bytes.
func (r Rate) BytesIn(t Time) Bytes {
	if r <= 0 || t <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(r), uint64(t))
	if hi >= 8*picosecondsPerSecond {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, 8*picosecondsPerSecond)
	if q > math.MaxInt64 {
		return math.MaxInt64
	}
	return Bytes(q)
}

// RateOf returns the rate that carries n bytes in t, rounded down; 0 if t is
// not positive.
func RateOf(n Bytes, t Time) Rate {
	if t <= 0 || n <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n)*8, picosecondsPerSecond)
	if hi >= uint64(t) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(t))
	if q > math.MaxInt64 {
		return math.MaxInt64
	}
	return Rate(q)
}

var rateUnits = []struct {
	name string
	unit Rate
}{{"Tbps", Tbps}, {"Gbps", Gbps}, {"Mbps", Mbps}, {"Kbps", Kbps}, {"bps", BitPerSecond}}

// String prints r exactly, in the largest unit in which it is at least one:
// "2.5Gbps".
func (r Rate) String() string {
	if r == 0 {
		return "0bps"
	}
	for _, u := range rateUnits {
		if r >= u.unit || r <= -u.unit {
			return decimal(int64(r), int64(u.unit)) + u.name
		}
	}
	panic("unreachable: every integer rate is at least one bit per second")
}

// ParseRate reads a rate such as "400Gbps" or "10 Mbps". The units are bps,
// Kbps, Mbps, Gbps and Tbps in any case, also written bit/s, Kbit/s and so on.
func ParseRate(s string) (Rate, error) {
	v, err := parse(s, "rate", "Gbps", func(suffix string) (float64, bool) {
		suffix = strings.ToLower(suffix)
		suffix = strings.Replace(suffix, "bit/s", "bps", 1)
		suffix = strings.Replace(suffix, "b/s", "bps", 1)
		for _, u := range rateUnits {
			if suffix == strings.ToLower(u.name) {
				return float64(u.unit), true
			}
		}
		return 0, false
	})
	return Rate(v), err
}

// UnmarshalText implements encoding.TextUnmarshaler by ParseRate.
func (r *Rate) UnmarshalText(b []byte) (err error) {
	*r, err = ParseRate(string(b))
	return err
}

// MarshalText implements encoding.TextMarshaler by String.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
