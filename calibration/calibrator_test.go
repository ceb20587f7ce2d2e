package calibration

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

func TestTheBoundHolds(t *testing.T) {
	for _, s := range settings {
		t.Run(s.String(), func(t *testing.T) {
			for seed := range uint64(3) {
				f := s.run(t, seed)
				t.Logf("error p99 %v, max %v; bound p50 %v, max %v; %d mappings",
					f.error(.99), f.error(1), f.bound(.5), f.bound(1), len(f.errors))
				// A bound that holds because it is huge is no use: the best
				// bracket is 0.8 us wide.
				if f.bound(.5) > units.Microsecond {
					t.Errorf("half of the bounds are above %v", f.bound(.5))
				}
			}
		})
	}
}

func TestTheBoundHoldsForAnyClocks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := des.NewStream(rapid.Uint64().Draw(rt, "seed"), "clocks")
		hz := rapid.Float64Range(10e6, 2e9).Draw(rt, "hz")
		bits := rapid.IntRange(26, 64).Draw(rt, "bits")
		wander := rapid.Float64Range(0, 5).Draw(rt, "wander")
		b := bus{rapid.Float64Range(0, 1).Draw(rt, "share"), rapid.Float64Range(0, 0.9).Draw(rt, "spikes")}
		const length = 5 * units.Second
		start := rapid.Uint64().Draw(rt, "start")
		clocks := newSynthetic(rng, bits, hz, start, rapid.Float64Range(-200, 200).Draw(rt, "drift"), wander, 210, length+2*units.Second)
		clocks.offset = units.Time(rapid.Int64Range(-1<<60, 1<<60).Draw(rt, "offset"))
		cfg := DefaultConfig(bits, hz)
		cfg.MaxWanderPPM = wander * 1.01
		cfg.MaxBound = 100 * units.Microsecond
		c, err := New(cfg)
		if err != nil {
			rt.Fatal(err)
		}
		var f figures
		f.follow(t, c, clocks, b, rng, 0, length)
		if len(f.errors) == 0 {
			rt.Fatal("no mapping was trusted")
		}
	})
}

// TestTheBoundHoldsWhileTheDriftRuns lets the drift change steadily, as fast as
// the configuration allows, and maps far beyond the last sample: there the errors
// of offset, drift and wander all point one way.
func TestTheBoundHoldsWhileTheDriftRuns(t *testing.T) {
	for _, share := range []float64{0, 1} {
		for _, wander := range []float64{-1, 1} {
			rng := des.NewStream(1, "ramp")
			clocks := &synthetic{bits: 48, hz: 1e9, drift: []float64{0}, ticked: []float64{0}}
			for i := range 200 {
				from := clocks.drift[i]
				to := from + wander*0.999e-6*piece.Seconds()
				clocks.drift = append(clocks.drift, to)
				clocks.ticked = append(clocks.ticked, clocks.ticked[i]+clocks.hz*piece.Seconds()*(1+(from+to)/2))
			}
			cfg := DefaultConfig(48, 1e9)
			cfg.MaxAge, cfg.MaxBound = 5*units.Second, 100*units.Microsecond
			c, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			var f figures
			last := f.follow(t, c, clocks, bus{share: share}, rng, 0, 10*units.Second)
			f = figures{}
			for late := units.Time(0); late < 49*units.Second/10; late += 10 * units.Millisecond {
				f.check(t, c, clocks, last+late)
			}
			if f.refused > 0 || f.error(1) < 10*units.Microsecond {
				t.Errorf("%d mappings refused, the largest error only %v", f.refused, f.error(1))
			}
		}
	}
}

func TestToNICInvertsToHost(t *testing.T) {
	for _, hz := range []float64{156.25e6, 427e6, 1e9} {
		clocks, c, _, now := started(t, 41, hz, 1<<41-1000)
		for i := range uint64(1000) {
			ticks := (clocks.counter(now) - i*9973) & clocks.mask()
			m, ok := c.ToHost(ticks)
			if !ok {
				t.Fatal("refused")
			}
			if back, _, ok := c.ToNIC(m.Host); !ok || back != ticks {
				t.Fatalf("%g Hz: %d is from %v, when the counter shows %d", hz, ticks, m.Host, back)
			}
		}
	}
}

// started returns clocks and a calibrator that has followed them for 5 s, and the
// time then.
func started(t *testing.T, bits int, hz float64, start uint64) (*synthetic, *Calibrator, des.Stream, units.Time) {
	t.Helper()
	rng := des.NewStream(7, t.Name())
	clocks := newSynthetic(rng, bits, hz, start, 50, 0.5, 210, 60*units.Second)
	clocks.offset = 20 * units.Second
	c, err := New(DefaultConfig(bits, hz))
	if err != nil {
		t.Fatal(err)
	}
	var f figures
	now := f.follow(t, c, clocks, typical, rng, 0, 5*units.Second)
	return clocks, c, rng, now
}

var typical = bus{share: 0.5, spikes: 0.05}

// recovers feeds samples to a calibrator that has just started over for that
// reason, and wants it to refuse until it has enough, to be right afterwards, and
// to refuse instants before the first of them.
func recovers(t *testing.T, clocks *synthetic, c *Calibrator, rng des.Stream, now units.Time, why Reason) {
	t.Helper()
	first := now
	before := first - 100*units.Microsecond
	if got := c.Status(clocks.hostTime(now)); got.Reason != why || got.Generation != 2 || got.Samples != 1 {
		t.Errorf("status %+v, want %v", got, why)
	}
	for i := 1; i < c.cfg.MinSamples; i++ {
		if _, ok := c.ToHost(clocks.counter(now)); ok {
			t.Errorf("mapped after %d samples", i)
		}
		if _, _, ok := c.ToNIC(clocks.hostTime(now)); ok {
			t.Errorf("mapped back after %d samples", i)
		}
		now = max(now, c.NextSample()-clocks.offset)
		sample, done := bus{share: 0.5}.read(clocks, rng, now)
		if v := c.Add(sample); v != Accepted {
			t.Fatalf("sample %d: %v", i, v)
		}
		now = done
	}
	if _, ok := c.ToHost(clocks.counter(now)); !ok {
		t.Errorf("not trusted again: %+v", c.Status(clocks.hostTime(now)))
	}
	if _, ok := c.ToHost(clocks.counter(before)); ok {
		t.Error("mapped an instant of the generation before")
	}
	var f figures
	f.follow(t, c, clocks, typical, rng, now, now+5*units.Second)
	if len(f.errors) < 10*f.refused {
		t.Errorf("%d mappings refused, %d given", f.refused, len(f.errors))
	}
}

func TestHostClockSteps(t *testing.T) {
	for _, step := range []units.Time{
		5 * units.Microsecond, -5 * units.Microsecond, units.Millisecond, -units.Millisecond,
		-units.Second, units.Second, 30 * 24 * 3600 * units.Second, -30 * 24 * 3600 * units.Second,
	} {
		t.Run(step.String(), func(t *testing.T) {
			clocks, c, rng, now := started(t, 41, 156.25e6, 1e12)
			clocks.offset += step
			sample, done := bus{share: 0.5}.read(clocks, rng, now)
			if v := c.Add(sample); v != Stepped {
				t.Fatalf("verdict %v", v)
			}
			recovers(t, clocks, c, rng, done, AfterStep)
		})
	}
}

func TestStepWithinABracket(t *testing.T) {
	clocks, c, _, now := started(t, 41, 156.25e6, 1e12)
	host := clocks.readHost(now)
	if v := c.Add(Sample{host, clocks.counter(now), host - units.Millisecond}); v != Ignored {
		t.Errorf("a bracket of negative width was %v", v)
	}
	if s := c.Status(host); s.Reason != Trusted || s.Generation != 1 {
		t.Errorf("status %+v", s)
	}
	if next := c.NextSample(); next > host {
		t.Errorf("the next sample is advised for %v, not soon after %v", next, host-units.Millisecond)
	}
}

func TestDeviceResets(t *testing.T) {
	for name, x := range map[string]struct{ start, value uint64 }{
		"to zero":                 {1e12, 0},
		"to zero, from above":     {1<<41 - 1<<38, 1000},
		"soon after the start":    {0, 0},
		"to where it was, nearly": {1e12, 1e12},
	} {
		t.Run(name, func(t *testing.T) {
			clocks, c, rng, now := started(t, 41, 156.25e6, x.start)
			clocks.reset = append(clocks.reset, resetEvent{now, x.value})
			sample, done := bus{share: 0.5}.read(clocks, rng, now)
			if v := c.Add(sample); v != Reset {
				t.Fatalf("verdict %v", v)
			}
			recovers(t, clocks, c, rng, done, AfterReset)
		})
	}
}

func TestWildReadings(t *testing.T) {
	for _, off := range []uint64{1 << 20, 1 << 40, 1 << 62, 1 << 63, 3 << 62, 1<<63 + 1<<40, 1<<64 - 1<<40} {
		clocks, c, rng, now := started(t, 64, 1e9, 1<<50)
		sample, done := typical.read(clocks, rng, now)
		sample.NIC += off
		if v := c.Add(sample); v != Reset && v != Stepped {
			t.Errorf("a reading %#x off was %v", off, v)
		}
		if _, ok := c.ToHost(clocks.counter(done)); ok {
			t.Errorf("mapped after a reading %#x off", off)
		}
	}
}

func TestAStepAsTheCounterWrapsIsNoReset(t *testing.T) {
	const wrapsAt = 6 // seconds
	clocks, c, rng, _ := started(t, 41, 156.25e6, 1<<41-156.25e6*wrapsAt)
	before, _ := bus{share: 0.5}.read(clocks, rng, wrapsAt*units.Second-100*units.Millisecond)
	if v := c.Add(before); v != Accepted {
		t.Fatal(v)
	}
	clocks.offset -= units.Millisecond
	after, _ := bus{share: 0.5}.read(clocks, rng, wrapsAt*units.Second+100*units.Millisecond)
	if after.NIC > before.NIC {
		t.Fatal("the counter did not wrap")
	}
	if v := c.Add(after); v != Stepped {
		t.Errorf("verdict %v", v)
	}
}

func TestGapInWhichTheCounterMayHaveWrapped(t *testing.T) {
	// 24 bits at 1 GHz wrap in 16.8 ms. With the drift known to a ppm or so, a
	// few seconds are fine, an hour is not.
	clocks, c, rng, now := started(t, 24, 1e9, 0)
	if c.NextSample()-clocks.hostTime(now) > 4200*units.Microsecond {
		t.Errorf("the next sample is advised for %v later: a quarter of the range is 4.2 ms", c.NextSample()-clocks.hostTime(now))
	}
	now += 2 * units.Second
	sample, done := bus{share: 0.5}.read(clocks, rng, now)
	if v := c.Add(sample); v != Accepted {
		t.Fatalf("after 2 s: %v", v)
	}
	sample.HostBefore += 3600 * units.Second
	sample.HostAfter += 3600 * units.Second
	if v := c.Add(sample); v != Gap {
		t.Fatalf("after an hour: %v", v)
	}
	clocks.offset += 3600 * units.Second
	if s := c.Status(clocks.hostTime(done)); s.Reason != TooFewSamples || s.Generation != 2 {
		t.Errorf("status %+v", s)
	}
}

func TestStaleAndImprecise(t *testing.T) {
	clocks, c, rng, now := started(t, 48, 1e9, 0)
	later := now + 2*units.Second
	if _, ok := c.ToHost(clocks.counter(later)); ok {
		t.Error("mapped an instant 2 s after the last sample")
	}
	if _, _, ok := c.ToNIC(clocks.hostTime(later)); ok {
		t.Error("mapped back an instant 2 s after the last sample")
	}
	if s := c.Status(clocks.hostTime(later)); s.Reason != Stale {
		t.Errorf("status %+v", s)
	}

	cfg := DefaultConfig(48, 1e9)
	cfg.MaxBound = 300 * units.Nanosecond
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		sample, done := typical.read(clocks, rng, now)
		c.Add(sample)
		now = done + units.Millisecond
	}
	if s := c.Status(clocks.hostTime(now)); s.Reason != Imprecise || s.Bound < cfg.MaxBound {
		t.Errorf("status %+v", s)
	}
	if _, ok := c.ToHost(clocks.counter(now)); ok {
		t.Error("mapped with a bound above MaxBound")
	}
}

func TestSamplesThatSayNothing(t *testing.T) {
	clocks, c, rng, now := started(t, 41, 156.25e6, 0)
	older, _ := typical.read(clocks, rng, now-units.Second)
	if v := c.Add(older); v != Ignored {
		t.Errorf("an older sample was %v", v)
	}
	same, _ := typical.read(clocks, rng, now)
	for range 2 {
		if v := c.Add(same); v != Accepted {
			t.Errorf("a sample taken twice was %v", v)
		}
	}
	if v := c.Add(Sample{clocks.readHost(now), 1 << 41, clocks.readHost(now)}); v != Ignored {
		t.Errorf("a reading of 42 bits was %v", v)
	}
	if s := c.Status(clocks.hostTime(now)); s.Reason != Trusted {
		t.Errorf("status %+v", s)
	}
}

func TestASampleTakenTwiceTellsNoDrift(t *testing.T) {
	c, err := New(DefaultConfig(41, 156.25e6))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if v := c.Add(Sample{0, 7, units.Microsecond}); v != Accepted {
			t.Fatal(v)
		}
	}
	if s := c.Status(0); s.DriftPPM != 0 || math.Abs(s.DriftBoundPPM-300) > 1e-9 || s.Reason != TooFewSamples {
		t.Errorf("status %+v", s)
	}
}

func TestDriftIsFound(t *testing.T) {
	rng := des.NewStream(3, "drift")
	for _, drift := range []float64{-200, -5, 0, 80, 200} {
		clocks := newSynthetic(rng, 48, 1e9, 0, drift, 0, 210, 20*units.Second)
		c, err := New(DefaultConfig(48, 1e9))
		if err != nil {
			t.Fatal(err)
		}
		var f figures
		f.follow(t, c, clocks, typical, rng, 0, 10*units.Second)
		s := c.Status(clocks.hostTime(10 * units.Second))
		// A fast counter has a short period.
		want := (1/(1+drift*1e-6) - 1) * 1e6
		if math.Abs(s.DriftPPM-want) > s.DriftBoundPPM || s.DriftBoundPPM > 2 {
			t.Errorf("drift %g +- %g ppm, is %g", s.DriftPPM, s.DriftBoundPPM, want)
		}
	}
}

func TestAWideFirstBracketDoesNotHideTheDrift(t *testing.T) {
	rng := des.NewStream(4, "wide")
	clocks := newSynthetic(rng, 48, 1e9, 0, 100, 0, 210, 20*units.Second)
	c, err := New(DefaultConfig(48, 1e9))
	if err != nil {
		t.Fatal(err)
	}
	c.Add(Sample{0, clocks.counter(10 * units.Microsecond), 50 * units.Microsecond})
	var f figures
	now := f.follow(t, c, clocks, bus{share: 0.5}, rng, units.Millisecond, 100*units.Millisecond)
	// Two brackets of 0.8 us, 0.1 s apart, allow 8 ppm either way.
	if s := c.Status(now); s.DriftBoundPPM > 12 {
		t.Errorf("status %+v", s)
	}
}

// TestBrokenPromisesAreNoticed has clocks that do what the configuration rules
// out.
func TestBrokenPromisesAreNoticed(t *testing.T) {
	rng := des.NewStream(5, "broken")
	for name, clocks := range map[string]*synthetic{
		"drift of 500 ppm":   newSynthetic(rng, 48, 1e9, 0, 500, 0, 600, 20*units.Second),
		"wander of 50 ppm/s": newSynthetic(rng, 48, 1e9, 0, 0, 50, 200, 20*units.Second),
	} {
		c, err := New(DefaultConfig(48, 1e9))
		if err != nil {
			t.Fatal(err)
		}
		restarts := 0
		for now := units.Time(0); now < 10*units.Second; {
			sample, done := typical.read(clocks, rng, now)
			if c.Add(sample) == Stepped {
				restarts++
			}
			if s := c.Status(done); s.DriftBoundPPM < 0 || math.Abs(s.DriftPPM) > c.cfg.MaxDriftPPM {
				t.Fatalf("%s: status %+v", name, s)
			}
			now = max(done, c.NextSample())
		}
		if restarts == 0 {
			t.Errorf("%s went unnoticed", name)
		}
	}
}

// TestDriftsThatContradictEachOther plants a past that no sample leads to: were
// the check missing, the bound would be too small and nobody would know.
func TestDriftsThatContradictEachOther(t *testing.T) {
	clocks, c, rng, now := started(t, 41, 156.25e6, 0)
	c.past[3].lo += units.Millisecond
	c.past[3].hi += units.Millisecond
	sample, _ := typical.read(clocks, rng, now)
	if v := c.Add(sample); v != Stepped {
		t.Errorf("verdict %v", v)
	}
}

func TestSamplingSlowsDown(t *testing.T) {
	rng := des.NewStream(9, "sampling")
	clocks := newSynthetic(rng, 48, 1e9, 0, 20, 0.5, 210, 20*units.Second)
	c, err := New(DefaultConfig(48, 1e9))
	if err != nil {
		t.Fatal(err)
	}
	if c.NextSample() > clocks.hostTime(0) {
		t.Error("the first sample is not due at once")
	}
	quiet := bus{share: 0.5}
	samples := 0
	var last units.Time
	for now := units.Time(0); now < 10*units.Second; samples++ {
		sample, done := quiet.read(clocks, rng, now)
		c.Add(sample)
		last, now = done, c.NextSample()
		wait := now - last
		if samples < c.cfg.MinSamples-1 && wait > c.cfg.MinInterval+2*units.Nanosecond {
			t.Errorf("after sample %d the next is due %v later", samples, wait)
		}
	}
	if samples > 1000 {
		t.Errorf("%d samples in 10 s", samples)
	}
	// A bracket too wide to show a step is not waited on.
	now := c.NextSample()
	host := clocks.readHost(now)
	c.Add(Sample{host, clocks.counter(now + 30*units.Microsecond), host + 50*units.Microsecond})
	if wait := c.NextSample() - host - 50*units.Microsecond; wait > c.cfg.MinInterval+2*units.Nanosecond {
		t.Errorf("after a wide bracket the next sample is due %v later", wait)
	}
}

func TestBadConfigs(t *testing.T) {
	good := DefaultConfig(41, 156.25e6)
	for field, spoil := range map[string]func(*Config){
		"CounterBits":    func(c *Config) { c.CounterBits = 65 },
		"NominalHz":      func(c *Config) { c.NominalHz = 156.25 },
		"MaxDriftPPM":    func(c *Config) { c.MaxDriftPPM = math.NaN() },
		"MaxWanderPPM":   func(c *Config) { c.MaxWanderPPM = -1 },
		"HostResolution": func(c *Config) { c.HostResolution = -1 },
		"MinSamples":     func(c *Config) { c.MinSamples = 1 },
		"Window":         func(c *Config) { c.Window = 0 },
		"MaxBound":       func(c *Config) { c.MaxBound = 0 },
		"MaxAge":         func(c *Config) { c.MaxAge = units.Never },
		"MinInterval":    func(c *Config) { c.MinInterval = 0 },
		"MaxInterval":    func(c *Config) { c.MaxInterval = 1000 * units.Second },
		"is above":       func(c *Config) { c.MinInterval = c.MaxInterval + 1 },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v does not name %s", err, field)
		}
	}
}

func TestNamesOfVerdictsAndReasons(t *testing.T) {
	for v := Accepted; v <= Gap; v++ {
		if v.String() == "" {
			t.Errorf("verdict %d has no name", v)
		}
	}
	for r := Trusted; r <= Stale; r++ {
		if r.String() == "" {
			t.Errorf("reason %d has no name", r)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	clocks, c, rng, now := started(t, 41, 156.25e6, 0)
	ticks := clocks.counter(now)
	sample, _ := typical.read(clocks, rng, now)
	if n := testing.AllocsPerRun(1000, func() {
		c.ToHost(ticks)
		c.ToNIC(sample.HostBefore)
		c.Add(sample)
		c.Status(sample.HostAfter)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
