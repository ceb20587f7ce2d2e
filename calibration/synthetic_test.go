package calibration

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/internal/quantile"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// synthetic is a host clock and a NIC counter whose truth is known. Its time is
// that of a perfect clock.
type synthetic struct {
	bits   int
	hz     float64
	start  uint64       // the counter's value at time 0
	drift  []float64    // of the counter's rate, at the ends of pieces; linear in between
	ticked []float64    // since time 0, at the ends of pieces
	offset units.Time   // of the host's clock from the perfect one
	reset  []resetEvent // in order
}

type resetEvent struct {
	at    units.Time
	value uint64
}

const piece = 100 * units.Millisecond

// newSynthetic makes clocks whose drift starts at that many ppm and wanders by
// at most that many ppm a second: mostly slow waves, now and then a turn at full
// speed. It never goes past limit.
func newSynthetic(rng des.Stream, bits int, hz float64, start uint64, driftPPM, wanderPPM, limitPPM float64, length units.Time) *synthetic {
	s := &synthetic{bits: bits, hz: hz, start: start, drift: []float64{driftPPM * 1e-6}, ticked: []float64{0}}
	step := wanderPPM * 1e-6 * piece.Seconds()
	speed := 0.0
	for i := units.Time(0); i <= length/piece; i++ {
		speed = min(1, max(-1, speed+rng.Float64()-0.5))
		if rng.IntN(50) == 0 {
			speed = float64(2*rng.IntN(2) - 1)
		}
		from := s.drift[len(s.drift)-1]
		to := from + speed*step
		if math.Abs(to) > limitPPM*1e-6 {
			speed = -speed
			to = from + speed*step
		}
		s.drift = append(s.drift, to)
		s.ticked = append(s.ticked, s.ticked[len(s.ticked)-1]+hz*piece.Seconds()*(1+(from+to)/2))
	}
	return s
}

// phase is the number of ticks the counter has made since time 0, with the fraction.
func (s *synthetic) phase(t units.Time) float64 {
	i := int(t / piece)
	x := float64(t%piece) / float64(piece)
	turn := s.drift[i] + (s.drift[i+1]-s.drift[i])*x/2
	return s.ticked[i] + s.hz*piece.Seconds()*x*(1+turn)
}

// counter returns a reading of the counter.
func (s *synthetic) counter(t units.Time) uint64 {
	v := s.start + uint64(s.phase(t))
	for _, r := range s.reset {
		if t >= r.at {
			v = r.value + uint64(s.phase(t)-s.phase(r.at))
		}
	}
	return v & s.mask()
}

func (s *synthetic) mask() uint64 { return math.MaxUint64 >> (64 - s.bits) }

// hostTime returns the host's clock, exactly.
func (s *synthetic) hostTime(t units.Time) units.Time { return t + s.offset }

// readHost returns a reading of the host's clock: whole nanoseconds.
func (s *synthetic) readHost(t units.Time) units.Time {
	h := s.hostTime(t)
	return h - ((h%units.Nanosecond)+units.Nanosecond)%units.Nanosecond
}

// bus is the way to the counter and back.
type bus struct {
	share  float64 // of the base latency that comes before the read
	spikes float64 // share of reads with up to 50 us more, before or after
}

// read brackets the counter from time t on, and returns when it is done. The
// base latency is that of a PCIe read, 0.8 to 1.5 us, mostly near the low end.
func (b bus) read(s *synthetic, rng des.Stream, t units.Time) (Sample, units.Time) {
	u := rng.Float64()
	base := 800 + 700*u*u*u
	before, after := base*b.share, base*(1-b.share)
	if rng.Float64() < b.spikes {
		spike := 50_000 * rng.Float64() * rng.Float64()
		if rng.IntN(2) == 0 {
			before += spike
		} else {
			after += spike
		}
	}
	read := t + units.Time(before*1000)
	done := read + units.Time(after*1000)
	return Sample{s.readHost(t), s.counter(read), s.readHost(done)}, done
}

// figures are errors and bounds of mappings, in ps.
type figures struct {
	errors, bounds []units.Time
	refused        int
}

func (f *figures) error(q float64) units.Time { return sortedQuantile(f.errors, q) }
func (f *figures) bound(q float64) units.Time { return sortedQuantile(f.bounds, q) }

func sortedQuantile(v []units.Time, q float64) units.Time {
	slices.Sort(v)
	return quantile.Of(v, q)
}

// check maps the instant t both ways and wants the truth within the bound.
func (f *figures) check(t testing.TB, c *Calibrator, s *synthetic, at units.Time) {
	t.Helper()
	m, ok := c.ToHost(s.counter(at))
	if !ok {
		f.refused++
		return
	}
	truth := s.hostTime(at)
	err := max(m.Host-truth, truth-m.Host)
	f.errors, f.bounds = append(f.errors, err), append(f.bounds, m.Bound)
	if err > m.Bound {
		t.Fatalf("at %v: mapped to %v, wrong by %v, with a bound of %v; %+v", truth, m.Host, err, m.Bound, c.Status(truth))
	}
	ticks, bound, ok := c.ToNIC(truth)
	if !ok {
		return // at the edge of the reach
	}
	// The counter must show ticks within bound of that time.
	low, high := s.counter(at-bound), s.counter(at+bound)
	if (ticks-low)&s.mask() > (high-low)&s.mask() {
		t.Fatalf("at %v: ToNIC gives %d, bound %v; the counter goes from %d to %d", truth, ticks, bound, low, high)
	}
}

// follow takes the samples that NextSample advises until the given time and
// checks mappings all along. It returns when it stopped.
func (f *figures) follow(t testing.TB, c *Calibrator, s *synthetic, b bus, rng des.Stream, from, until units.Time) units.Time {
	t.Helper()
	// Not farther back than the counter can tell.
	back := min(float64(100*units.Millisecond), math.Ldexp(0.45, s.bits)/s.hz*float64(units.Second))
	for from < until {
		sample, done := b.read(s, rng, from)
		if v := c.Add(sample); v != Accepted {
			t.Fatalf("at %v: sample %+v: %v", from, sample, v)
		}
		next := max(done, c.NextSample()-s.offset)
		for range 8 {
			f.check(t, c, s, from+units.Time(rng.Float64()*float64(next-from)))
		}
		f.check(t, c, s, next)
		f.check(t, c, s, max(0, from-units.Time(rng.Float64()*back)))
		from = next
	}
	return from
}

// setting is one of the combinations that the figures are for.
type setting struct {
	hz        float64
	bits      int
	drift     float64 // ppm at the start
	wander    float64 // ppm a second
	maxWander float64 // as configured
	bus       bus
}

func (s setting) String() string {
	return fmt.Sprintf("%gMHz/%dbit/drift=%gppm/wander=%gppm_s/max=%g/share=%g/spikes=%g",
		s.hz/1e6, s.bits, s.drift, s.wander, s.maxWander, s.bus.share, s.bus.spikes)
}

// run follows one setting for a simulated minute; the counter wraps around
// on the way.
func (s setting) run(t testing.TB, seed uint64) *figures {
	t.Helper()
	const length = 60 * units.Second
	rng := des.NewStream(seed, s.String())
	clocks := newSynthetic(rng, s.bits, s.hz, -uint64(s.hz*20), s.drift, s.wander, 210, length+2*units.Second)
	clocks.offset = units.Time(rng.Uint64() % uint64(50*24*3600*units.Second))
	cfg := DefaultConfig(s.bits, s.hz)
	cfg.MaxWanderPPM = s.maxWander
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var f figures
	f.follow(t, c, clocks, s.bus, rng, 0, length)
	if st := c.Status(clocks.hostTime(length)); st.Generation != 1 || st.Reason != Trusted {
		t.Errorf("ended with %+v", st)
	}
	if len(f.errors) < 20*f.refused {
		t.Errorf("%d mappings refused, %d given", f.refused, len(f.errors))
	}
	return &f
}

var settings = []setting{
	{156.25e6, 41, 0, 0, 1, bus{0.5, 0}},
	{156.25e6, 41, 10, 0.1, 1, bus{0.5, 0.05}},
	{156.25e6, 41, 200, 0.9, 1, bus{0.3, 0.05}},
	{156.25e6, 48, -200, 0.9, 1, bus{0.9, 0.3}},
	{427e6, 48, 30, 0.1, 1, bus{0.5, 0.05}},
	{427e6, 48, -120, 0.9, 1, bus{0.1, 0.05}},
	{1e9, 41, 200, 0.9, 1, bus{0.5, 0.05}},
	{1e9, 48, -50, 0.1, 1, bus{0.7, 0.05}},
	{1e9, 48, 10, 0.1, 0.2, bus{0.5, 0.05}},
	{1e9, 64, 10, 5, 10, bus{0.5, 0.05}},
	{156.25e6, 41, 10, 0.1, 1, bus{0, 0.05}},
	{156.25e6, 41, 10, 0.1, 1, bus{1, 0.05}},
}
