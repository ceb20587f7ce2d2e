package fabric

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/units"
)

// Integral is bytes summed over time, such as those of a queue: byte-picoseconds, exactly,
// in 128 bits. A queue of 2 GiB outgrows 64 bits in 9 ms. The zero value is nothing.
type Integral struct{ hi, lo uint64 }

// Sub returns the integral since b, an earlier value for the same bytes.
func (a Integral) Sub(b Integral) Integral {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return Integral{hi, lo}
}

// add returns the sum of two.
func (a Integral) add(b Integral) Integral {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return Integral{hi, lo}
}

// Over returns the mean, in bytes, over a span above 0.
func (a Integral) Over(span units.Time) float64 {
	const two64 = 1 << 64
	return (float64(float64(a.hi)*two64) + float64(a.lo)) / float64(span)
}

// moment accumulates an Integral. Bytes count from their arrival to their departure. So
// the integral up to now is now times the bytes present, less the arrivals' bytes times
// their arrival times, plus the departures' bytes times their departure times. A change
// takes one product and does not need the time of the previous change; reading changes
// nothing. In between the value may be below zero, modulo 2^128.
type moment struct{ hi, lo uint64 }

// enter counts n bytes from now on.
func (m *moment) enter(now units.Time, n uint64) {
	hi, lo := bits.Mul64(uint64(now), n)
	var borrow uint64
	m.lo, borrow = bits.Sub64(m.lo, lo, 0)
	m.hi, _ = bits.Sub64(m.hi, hi, borrow)
}

// leave counts n bytes no longer.
func (m *moment) leave(now units.Time, n uint64) {
	hi, lo := bits.Mul64(uint64(now), n)
	var carry uint64
	m.lo, carry = bits.Add64(m.lo, lo, 0)
	m.hi, _ = bits.Add64(m.hi, hi, carry)
}

// integral returns it up to now, when n bytes are there.
func (m moment) integral(now units.Time, n uint64) Integral {
	m.leave(now, n)
	return Integral(m)
}
