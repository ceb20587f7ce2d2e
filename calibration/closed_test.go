package calibration

import (
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// Two samples of a counter of 156.25 MHz, far enough apart that the second bracket alone
// says when its tick began: all that the calibration then says has a closed form.
func TestTwoSamples(t *testing.T) {
	const (
		tick   = 6400 // ps
		drift  = 300e-6
		wander = 2e-18                   // in a picosecond
		early  = 6402                    // a tick at the largest drift, rounded up
		ns     = int64(units.Nanosecond) // the host clock's step
		w1, w2 = 2000*ns + 17, 1500*ns + 2
		ticks  = 3_125_000
		apart  = ticks * tick // 20 ms
	)
	cfg := DefaultConfig(48, 156.25e6)
	cfg.MinSamples, cfg.MaxWanderPPM = 2, 2
	const start = 1<<48 - 1000
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	raw := func(n int64) uint64 { return uint64(start+n) & (1<<48 - 1) }
	c.Add(Sample{0, raw(0), units.Time(w1)})
	if _, ok := c.ToHost(raw(0)); ok {
		t.Error("mapped after one of two samples")
	}
	if v := c.Add(Sample{apart, raw(ticks), units.Time(apart + w2)}); v != Accepted {
		t.Fatal(v)
	}

	// The tick began between lo and hi: at the first sample, and at the second.
	lo1, hi1 := int64(-early), w1+ns
	lo2, hi2 := int64(apart-early), apart+w2+ns
	bend := float64(apart)*wander/2 + ulp
	slow := float64(lo2-hi1-apart)/apart - bend
	fast := float64(hi2-lo1-apart)/apart + bend
	period := tick * (1 + (slow+fast)/2)
	off := (fast - slow) / 2
	host := lo2 + (hi2-lo2)/2 + int64(period/2)
	base := (hi2-lo2+1)/2 + int64(math.Ceil(tick*(1+drift)/2)) + 4
	bound := func(e float64) float64 { return float64(base) + e*(off+e*wander/2) }

	s := c.Status(units.Time(host))
	if math.Abs(s.DriftPPM-(slow+fast)/2*1e6) > 1e-9 || math.Abs(s.DriftBoundPPM-off*1e6) > 1e-9 || s.Reason != Trusted || int64(s.Bound) != base {
		t.Errorf("status %+v, expected a drift of %v ppm, give or take %v, and a bound of %d ps", s, (slow+fast)/2*1e6, off*1e6, base)
	}
	for _, dx := range []int64{0, 1, 1000, 1_000_000, -1, -1000, -ticks} {
		m, ok := c.ToHost(raw(ticks + dx))
		e := math.Abs(float64(dx)) * tick
		if want := float64(host) + float64(dx)*period; !ok || math.Abs(float64(m.Host)-want) > 2 || math.Abs(float64(m.Bound)-bound(e)) > 1 {
			t.Errorf("%d ticks on: %+v, %v, expected %.0f, give or take %.0f", dx, m, ok, want, bound(e))
		}
	}
	if m, _ := c.ToHost(raw(ticks)); int64(m.Bound) != base {
		t.Errorf("the bound at the last sample is %d, expected %d", m.Bound, base)
	}
	if _, ok := c.ToHost(raw(-1)); ok {
		t.Error("mapped an instant before the first sample")
	}

	// The next sample is due when a quarter of the precision is lost.
	wait := float64(int64(c.NextSample()) - hi2)
	if loss, want := bound(wait)-float64(base), float64((hi2-lo2+1)/2)/4; math.Abs(loss-want) > 2 {
		t.Errorf("the next sample is due after %v ps, when %.0f ps are lost, expected %.0f", wait, loss, want)
	}

	// A mapping is trusted up to the instant at which its bound reaches MaxBound.
	cfg.MaxBound = units.Time(base) + units.Microsecond
	if c, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	c.Add(Sample{0, raw(0), units.Time(w1)})
	c.Add(Sample{apart, raw(ticks), units.Time(apart + w2)})
	for _, way := range []int64{1, -1} {
		reach, far := int64(0), int64(ticks)
		for far-reach > 1 {
			mid := (reach + far) / 2
			if _, ok := c.ToHost(raw(ticks + way*mid)); ok {
				reach = mid
			} else {
				far = mid
			}
		}
		m, ok := c.ToHost(raw(ticks + way*reach))
		if short := cfg.MaxBound - m.Bound; !ok || short < 0 || short > 2 {
			t.Errorf("trusted for %d ticks, to a bound of %v, expected one of %v", way*reach, m.Bound, cfg.MaxBound)
		}
	}
}

// Wide brackets later do not widen what is known of the drift by more than it wanders.
func TestTheDriftIsNotForgotten(t *testing.T) {
	cfg := DefaultConfig(48, 1e9)
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sample := func(at, width units.Time) {
		t.Helper()
		middle := at + width/2
		if v := c.Add(Sample{at, uint64(middle / units.Nanosecond), at + width}); v != Accepted {
			t.Fatalf("at %v: %v", at, v)
		}
	}
	now := units.Time(0)
	for ; now < 2*units.Second; now += 20 * units.Millisecond {
		sample(now, units.Microsecond)
	}
	known, since := c.Status(now).DriftBoundPPM, now-20*units.Millisecond
	if known > 3 {
		t.Fatalf("the drift is known to %v ppm only", known)
	}
	for ; now < 12*units.Second; now += 200 * units.Millisecond {
		sample(now, units.Millisecond)
		s := c.Status(now)
		most := known + (now-since+units.Millisecond).Seconds()*cfg.MaxWanderPPM
		if s.DriftBoundPPM > most || math.Abs(s.DriftPPM) > s.DriftBoundPPM {
			t.Fatalf("at %v a drift of %v ppm, give or take %v, expected at most %v", now, s.DriftPPM, s.DriftBoundPPM, most)
		}
	}
}

// A wide bracket is not taken for one more wrap of a counter that wraps often.
func TestAWideBracketOfANarrowCounter(t *testing.T) {
	cfg := DefaultConfig(16, 1e9) // it wraps every 65.5 us
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	const us = units.Microsecond
	for i := range units.Time(20) {
		at := i * 10 * us
		if v := c.Add(Sample{at, uint64(at/units.Nanosecond) & 0xffff, at + us/10}); v != Accepted {
			t.Fatalf("sample %d: %v", i, v)
		}
	}
	read := 215 * us // in the middle
	if v := c.Add(Sample{read - 15*us, uint64(read/units.Nanosecond) & 0xffff, read + 15*us}); v != Accepted {
		t.Errorf("a bracket of 30us: %v", v)
	}
}

// The limits of a configuration are within it.
func TestConfigsAtTheirLimits(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"the slowest":    func(c *Config) { c.NominalHz = 1e3 },
		"the fastest":    func(c *Config) { c.NominalHz = 1e11 },
		"the narrowest":  func(c *Config) { c.CounterBits = 8 },
		"the widest":     func(c *Config) { c.CounterBits = 64 },
		"most drift":     func(c *Config) { c.MaxDriftPPM = 10_000 },
		"no wander":      func(c *Config) { c.MaxWanderPPM = 0 },
		"most wander":    func(c *Config) { c.MaxWanderPPM = 1000 },
		"no resolution":  func(c *Config) { c.HostResolution = 0 },
		"coarsest":       func(c *Config) { c.HostResolution = units.Millisecond },
		"two samples":    func(c *Config) { c.MinSamples = 2 },
		"longest spans":  func(c *Config) { c.Window, c.MaxAge = 3600*units.Second, 3600*units.Second },
		"largest bound":  func(c *Config) { c.MaxBound = units.Second },
		"longest waits":  func(c *Config) { c.MinInterval, c.MaxInterval = units.Second, 60*units.Second },
		"one wait":       func(c *Config) { c.MinInterval = c.MaxInterval },
		"shortest spans": func(c *Config) { c.Window, c.MaxBound, c.MaxAge, c.MinInterval, c.MaxInterval = 1, 1, 1, 1, 1 },
	} {
		c := DefaultConfig(48, 1e9)
		set(&c)
		if _, err := New(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
