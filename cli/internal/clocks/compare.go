package clocks

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/units"
)

// Verdict says how two clocks are related.
type Verdict uint8

// Verdicts.
const (
	// Undecided: they were not seen for long enough, or not precisely enough.
	Undecided Verdict = iota
	// OneClock: same rate and same time, as far as can be measured.
	OneClock
	// SameRate: they run alike and show different times: one oscillator, or two
	// that are kept together.
	SameRate
	// TwoClocks: they run at different rates.
	TwoClocks
)

var verdictTexts = [...]string{"undecided", "one clock", "same rate, another epoch", "two clocks"}

// String returns the verdict in words.
func (v Verdict) String() string {
	if int(v) < len(verdictTexts) {
		return verdictTexts[v]
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// discern is the difference of rates, in ppm, that must be discernible before two
// clocks count as alike. Crystals are 5 to 10 ppm apart (Geng et al., Huygens, NSDI
// 2018), and PTP corrects a clock by the error of its crystal.
const discern = 1

// Comparison determines whether two clocks are one, from calibrations of both
// against the same host clock. It is plain state.
type Comparison struct {
	a, b comparedClock
	n    int
	from units.Time // host time of the first pair
	last units.Time
	// Bounds of the first pair and of the last, both clocks together.
	bound0, bound units.Time
}

// comparedClock is what one of the clocks has counted.
type comparedClock struct {
	hz    float64
	bits  int
	raw   uint64
	ticks float64 // since the first pair
	gen   uint32
}

// NewComparison compares the clock of a with that of b.
func NewComparison(a, b *Source) *Comparison {
	return &Comparison{a: comparedClock{hz: a.Hz, bits: a.Bits}, b: comparedClock{hz: b.Hz, bits: b.Bits}}
}

// Add takes what both clocks show at a host time, from their calibrations. It
// starts over if either was stepped or reset, and waits until both are trusted.
func (c *Comparison) Add(now units.Time, a, b *calibration.Calibrator) {
	ta, ba, oka := a.ToNIC(now)
	tb, bb, okb := b.ToNIC(now)
	sa, sb := a.Status(now), b.Status(now)
	if !oka || !okb || sa.Reason != calibration.Trusted || sb.Reason != calibration.Trusted {
		return
	}
	if c.n == 0 || sa.Generation != c.a.gen || sb.Generation != c.b.gen {
		c.a.raw, c.a.ticks, c.a.gen = ta, 0, sa.Generation
		c.b.raw, c.b.ticks, c.b.gen = tb, 0, sb.Generation
		c.n, c.from, c.last, c.bound0, c.bound = 1, now, now, ba+bb, ba+bb
		return
	}
	elapsed := (now - c.last).Seconds()
	c.a.advance(ta, elapsed)
	c.b.advance(tb, elapsed)
	c.n++
	c.last, c.bound = now, ba+bb
}

// advance adds a counter's progress, over any number of wraps, which the counter's
// rate and the elapsed time resolve.
func (k *comparedClock) advance(raw uint64, elapsed float64) {
	whole := math.Round(elapsed * k.hz)
	shift := uint(64 - k.bits)
	rest := int64((raw-k.raw-uint64(whole))<<shift) >> shift
	k.ticks += whole + float64(rest)
	k.raw = raw
}

// Compared is how two clocks differ.
type Compared struct {
	Verdict Verdict
	// RatePPM is how much faster b runs than a, within RateBoundPPM, which is
	// infinite before there are two pairs.
	RatePPM, RateBoundPPM float64
	// Offset is what b shows more than a, within OffsetBound; valid with
	// HasOffset: where both count nanoseconds and the difference fits.
	Offset, OffsetBound units.Time
	HasOffset           bool
	Span                units.Time // over which they were compared
}

// Result returns the result of the pairs so far.
func (c *Comparison) Result() Compared {
	r := Compared{RateBoundPPM: math.Inf(1), Span: c.last - c.from}
	if c.n < 2 || r.Span <= 0 {
		return r
	}
	span := r.Span.Seconds()
	gained := c.b.ticks/c.b.hz - c.a.ticks/c.a.hz
	tick := 1/c.a.hz + 1/c.b.hz
	r.RatePPM = gained / span * 1e6
	r.RateBoundPPM = ((c.bound0 + c.bound).Seconds() + 2*tick) / span * 1e6
	if c.a.hz == 1e9 && c.b.hz == 1e9 {
		d := int64(c.b.raw - c.a.raw)
		if r.HasOffset = d < math.MaxInt64/int64(units.Nanosecond) && d > math.MinInt64/int64(units.Nanosecond); r.HasOffset {
			r.Offset = units.Time(d) * units.Nanosecond
			r.OffsetBound = c.bound + 2*units.Nanosecond
		}
	}
	switch {
	case math.Abs(r.RatePPM) > r.RateBoundPPM:
		r.Verdict = TwoClocks
	case r.RateBoundPPM > discern:
		r.Verdict = Undecided
	case r.HasOffset && r.Offset <= r.OffsetBound && r.Offset >= -r.OffsetBound:
		r.Verdict = OneClock
	default:
		r.Verdict = SameRate
	}
	return r
}

// String says it in a sentence.
func (r Compared) String() string {
	if math.IsInf(r.RateBoundPPM, 1) {
		return "undecided: not both could be read for long enough"
	}
	rate := fmt.Sprintf("rates differ by %+.3f ppm, give or take %.3f", r.RatePPM, r.RateBoundPPM)
	switch r.Verdict {
	case Undecided:
		return rate + ": too little to tell, take a longer duration"
	case TwoClocks:
		return "two clocks: " + rate
	case OneClock:
		return fmt.Sprintf("one clock: %s, and they show the same time within %v", rate, r.OffsetBound)
	}
	if r.HasOffset {
		return fmt.Sprintf("%s: %s; they are %v apart", r.Verdict, rate, r.Offset)
	}
	return fmt.Sprintf("%s: %s", r.Verdict, rate)
}
