package units

import (
	"math"
	"math/bits"
	"time"
)

// LongTime is an instant or a span in picoseconds that may not fit Time: a reading of a
// clock that runs for years, or a sum of spans. It has 128 bits and reaches as far as
// anybody needs. Two are equal (==) where their times are. The zero value is the
// clock's origin, or no time.
type LongTime struct {
	hi int64
	lo uint64
}

// LongNever is later than any instant that is reached.
var LongNever = LongTime{math.MaxInt64, math.MaxUint64}

// Long converts from time.Duration.
func Long(d time.Duration) LongTime { return longNanoseconds(int64(d)) }

// longNanoseconds returns a time in nanoseconds as a LongTime.
func longNanoseconds(ns int64) LongTime {
	hi, lo := bits.Mul64(uint64(ns), uint64(Nanosecond))
	if ns < 0 {
		hi -= uint64(Nanosecond)
	}
	return LongTime{int64(hi), lo}
}

// Long returns t as a LongTime.
func (t Time) Long() LongTime {
	if t == Never {
		return LongNever
	}
	return LongTime{int64(t >> 63), uint64(t)}
}

// Add returns the time t after l.
func (l LongTime) Add(t Time) LongTime { return l.Plus(LongTime{int64(t >> 63), uint64(t)}) }

// Plus returns the sum of two spans.
func (l LongTime) Plus(m LongTime) LongTime {
	lo, carry := bits.Add64(l.lo, m.lo, 0)
	return LongTime{l.hi + m.hi + int64(carry), lo}
}

// Minus returns the difference of two spans.
func (l LongTime) Minus(m LongTime) LongTime {
	lo, borrow := bits.Sub64(l.lo, m.lo, 0)
	return LongTime{l.hi - m.hi - int64(borrow), lo}
}

// Sub returns the span from m to l. One that Time can't hold, 106 days either way,
// comes as Never or -Never.
func (l LongTime) Sub(m LongTime) Time {
	d := l.Minus(m)
	if d.hi == int64(d.lo)>>63 {
		return Time(d.lo)
	}
	return d.far()
}

func (l LongTime) far() Time {
	if l.hi < 0 {
		return -Never
	}
	return Never
}

// Before reports whether l is earlier than m.
func (l LongTime) Before(m LongTime) bool {
	return l.hi < m.hi || l.hi == m.hi && l.lo < m.lo
}

// Time returns l as a Time: Never or -Never where Time can't hold it.
func (l LongTime) Time() Time { return l.Sub(LongTime{}) }

// Duration converts to time.Duration, rounding down, 292 years at most either way.
func (l LongTime) Duration() time.Duration {
	if l.hi == int64(l.lo)>>63 {
		d := int64(l.lo) / int64(Nanosecond)
		if int64(l.lo) < d*int64(Nanosecond) {
			d--
		}
		return time.Duration(d)
	}
	if l.hi < 0 {
		above := LongTime{}.Minus(l).Plus(LongTime{lo: uint64(Nanosecond - 1)})
		return -above.Duration()
	}
	if l.hi >= int64(Nanosecond)/2 {
		return math.MaxInt64
	}
	ns, _ := bits.Div64(uint64(l.hi), l.lo, uint64(Nanosecond))
	return time.Duration(ns)
}

// Picoseconds returns l in picoseconds.
func (l LongTime) Picoseconds() float64 {
	if l.hi == int64(l.lo)>>63 {
		return float64(int64(l.lo))
	}
	return math.Ldexp(float64(l.hi), 64) + float64(l.lo)
}

// String prints l as Time does, and in whole nanoseconds where Time can't.
func (l LongTime) String() string {
	if l == LongNever {
		return "never"
	}
	if t := l.Time(); t != Never && t != -Never {
		return t.String()
	}
	return l.Duration().String()
}

// LongAgo is as early as SetBack takes an instant, 26 days before 0. The span from it
// to an instant of up to 79 days fits Time.
const LongAgo Time = -1 << 61

// MostSetBack is the most by which SetBack sets a clock back, 53 days: nothing of the
// past is then later than LongAgo.
const MostSetBack = -2 * LongAgo

// SetBack returns the instant t of a clock that is set back by by. Never stays; an
// instant that would be earlier than LongAgo becomes LongAgo; one that is earlier
// already stays.
func (t Time) SetBack(by Time) Time {
	if t == Never || t <= LongAgo {
		return t
	}
	return max(t-min(by, MostSetBack), LongAgo)
}
