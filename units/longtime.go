package units

import (
	"math"
	"time"
)

// LongTime is an instant or a span that may not fit Time: a reading of a clock that
// runs for years, or a sum of spans. It reaches 292 years either way. Two are equal
// (==) where their times are. The zero value is the clock's origin, or no time.
type LongTime struct {
	ns time.Duration
	ps Time // from 0 to 999
}

// LongNever is later than any instant that is reached.
var LongNever = LongTime{ns: math.MaxInt64}

// Long converts from time.Duration.
func Long(d time.Duration) LongTime { return LongTime{ns: d} }

// Long returns t as a LongTime.
func (t Time) Long() LongTime {
	if t == Never {
		return LongNever
	}
	return LongTime{}.Add(t)
}

// Add returns the time t after l.
func (l LongTime) Add(t Time) LongTime {
	l.ps += t % Nanosecond
	l.ns += time.Duration(t / Nanosecond)
	if l.ps < 0 {
		l.ps, l.ns = l.ps+Nanosecond, l.ns-1
	} else if l.ps >= Nanosecond {
		l.ps, l.ns = l.ps-Nanosecond, l.ns+1
	}
	return l
}

// Plus returns the sum of two spans.
func (l LongTime) Plus(m LongTime) LongTime {
	l.ns += m.ns
	return l.Add(m.ps)
}

// Minus returns the difference of two spans.
func (l LongTime) Minus(m LongTime) LongTime {
	l.ns -= m.ns
	return l.Add(-m.ps)
}

// Sub returns the span from m to l. One that Time can't hold, 106 days either way,
// comes as Never or -Never.
func (l LongTime) Sub(m LongTime) Time {
	const limit = math.MaxInt64/int64(Nanosecond) - 1
	ns := l.ns - m.ns
	if uint64(int64(ns)+limit) <= 2*uint64(limit) { // which spares most calls the rest
		return Time(ns)*Nanosecond + l.ps - m.ps
	}
	if l.Before(m) {
		return -Never
	}
	return Never
}

// Before reports whether l is earlier than m.
func (l LongTime) Before(m LongTime) bool {
	return l.ns < m.ns || l.ns == m.ns && l.ps < m.ps
}

// Time returns l as a Time: Never or -Never where Time can't hold it.
func (l LongTime) Time() Time { return l.Sub(LongTime{}) }

// Duration converts to time.Duration, rounding down.
func (l LongTime) Duration() time.Duration { return l.ns }

// Picoseconds returns l in picoseconds.
func (l LongTime) Picoseconds() float64 { return float64(float64(l.ns)*1000) + float64(l.ps) }

// Seconds returns l in seconds.
func (l LongTime) Seconds() float64 { return l.Picoseconds() / float64(Second) }

// String prints l as Time does, and in whole nanoseconds where Time can't.
func (l LongTime) String() string {
	if l == LongNever {
		return "never"
	}
	if t := l.Time(); t != Never && t != -Never {
		return t.String()
	}
	return l.ns.String()
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
