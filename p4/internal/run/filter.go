package run

import (
	"fmt"

	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/units"
)

// The filters of TNA: Lpf and Wred. What the settings are called is the control plane's of Tofino ($LPF_SPEC_TYPE and its
// like); the chip's arithmetic has fewer bits than what is here.

// average is a first-order low-pass filter. It begins as 0 at time 0.
type average struct {
	v    float64
	last units.Time
}

// remains returns the share of a filter's content that is left at now.
func (a *average) remains(now, constant units.Time) float64 {
	dt := max(now-a.last, 0)
	a.last = max(a.last, now)
	if constant <= 0 {
		return 0
	}
	return detmath.Exp(-float64(dt) / float64(constant))
}

// sample takes a value, and returns the moving average.
func (a *average) sample(now, gain, decay units.Time, x float64) float64 {
	constant := gain
	if x < a.v {
		constant = decay
	}
	a.v = x + float64((a.v-x)*a.remains(now, constant))
	return a.v
}

// sum takes a value, and returns about the sum of those of the last time constant.
func (a *average) sum(now, constant units.Time, x float64) float64 {
	a.v = x + float64(a.v*a.remains(now, constant))
	return a.v
}

// LowPass is the setting of a low-pass filter. The zero value lets values through as they are.
type LowPass struct {
	// Rate has the filter give about the sum of the values of the last Gain (RATE), else
	// their moving average (SAMPLE).
	Rate bool
	// Gain and Decay are the time constants of averages that rise and that fall.
	Gain, Decay units.Time
	// ScaleDown divides what the filter gives by 2^ScaleDown: 0 to 31.
	ScaleDown int
}

// A Filter is a low-pass filter: an Lpf or a DirectLpf of TNA.
type Filter struct {
	name  string
	cells averages[LowPass]
}

// Set gives index i its setting; of a direct filter all of the table's entries, whatever i is.
func (f *Filter) Set(i int, s LowPass) error {
	if s.Gain < 0 || s.Decay < 0 || s.ScaleDown < 0 || s.ScaleDown > 31 {
		return fmt.Errorf("filter %s: time constants %v and %v, scale %d: expected times from 0 on, and 0 to 31", f.name, s.Gain, s.Decay, s.ScaleDown)
	}
	return f.cells.set("filter "+f.name, i, s)
}

func (s *LowPass) execute(a *average, now units.Time, x uint64) uint64 {
	var v float64
	if s.Rate {
		v = a.sum(now, s.Gain, float64(x))
	} else {
		v = a.sample(now, s.Gain, s.Decay, float64(x))
	}
	return whole(v) >> s.ScaleDown
}

// whole rounds to the next number of 64 bits.
func whole(v float64) uint64 {
	if v >= 1<<64 {
		return 1<<64 - 1
	}
	return uint64(v + 0.5)
}

// EarlyDrop is the setting of a weighted random early drop. The zero value drops nothing.
type EarlyDrop struct {
	// Time is the time constant of the moving average.
	Time units.Time
	// Min and Max are the averages at which drops begin and from which on all is dropped.
	Min, Max uint64
	// Probability is that of a drop just below Max: 0 to 1. From Min on it grows linearly.
	Probability float64
}

// A Wred is a Wred or a DirectWred of TNA.
type Wred struct {
	name       string
	drop, keep uint64
	cells      averages[EarlyDrop]
}

// Set gives index i its setting; of a direct one all of the table's entries, whatever i is.
func (w *Wred) Set(i int, s EarlyDrop) error {
	if s.Time < 0 || s.Max < s.Min || !(s.Probability >= 0 && s.Probability <= 1) {
		return fmt.Errorf("wred %s: time %v, thresholds %d and %d, probability %v: expected a time from 0 on, the lower threshold first, 0 to 1", w.name, s.Time, s.Min, s.Max, s.Probability)
	}
	return w.cells.set("wred "+w.name, i, s)
}

// drops decides on a value; r is random.
func (s *EarlyDrop) drops(a *average, now units.Time, x, r uint64) bool {
	v := a.sample(now, s.Time, s.Time, float64(x))
	switch {
	case s.Max == 0 || v < float64(s.Min):
		return false
	case v >= float64(s.Max):
		return true
	}
	const bits = 53 // of a float64's fraction
	p := float64(s.Probability * (v - float64(s.Min)) / float64(s.Max-s.Min))
	return float64(r>>(64-bits)) < float64(p*(1<<bits))
}

// averages are those of an array with their settings, or the setting of all entries of a table.
type averages[S any] struct {
	of       []average
	settings []*S // of each index, nil: none
	direct   *S
}

func newAverages[S any](n int) averages[S] {
	return averages[S]{make([]average, n), make([]*S, n), nil}
}

func (c *averages[S]) set(what string, i int, s S) error {
	if len(c.of) == 0 {
		c.direct = &s
		return nil
	}
	if i < 0 || i >= len(c.of) {
		return fmt.Errorf("%s: index %d is not within 0 to %d", what, i, len(c.of)-1)
	}
	c.settings[i], c.of[i] = &s, average{}
	return nil
}

// at returns the average of an index with its setting, nil if it has none or does not exist.
func (c *averages[S]) at(i uint64) (*average, *S) {
	if i >= uint64(len(c.of)) {
		return nil, nil
	}
	return &c.of[i], c.settings[i]
}

// ofEntry returns those of the table's entry that was hit.
func (c *averages[S]) ofEntry(m *machine) (*average, *S) {
	if m.cur == nil {
		return nil, nil
	}
	return &m.cur.average, c.direct
}

func newFilter(name string, n int) objectDef {
	return objectDef{name: name, make: func() object { return &Filter{name, newAverages[LowPass](n)} }}
}

func newWred(name string, n int, drop, keep uint64) objectDef {
	return objectDef{name: name, make: func() object { return &Wred{name, drop, keep, newAverages[EarlyDrop](n)} }}
}

// cellOf returns code that finds a call's average by its index; without an index it is the entry's.
func cellOf[S any](c *compiler, index ast.Expr) func(*machine, *averages[S]) (*average, *S) {
	if index == nil {
		return func(m *machine, of *averages[S]) (*average, *S) { return of.ofEntry(m) }
	}
	i := c.num(index)
	return func(m *machine, of *averages[S]) (*average, *S) { return of.at(i(m)) }
}
