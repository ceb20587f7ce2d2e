package calibration

import (
	"math"

	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/units"
)

// Sample is one reading of the NIC's counter between two of the host's clock.
type Sample struct {
	HostBefore units.Time
	NIC        uint64
	HostAfter  units.Time
}

// Verdict is Add's judgement of a sample.
type Verdict uint8

// Verdicts.
const (
	Accepted Verdict = iota
	// Ignored samples are unusable: the bracket has a negative width (the host's clock
	// was set back in between), the reading does not fit the counter's width, or the
	// sample is older than the last one.
	Ignored
	// Stepped, Reset and Gap began a new generation with this sample. Stepped:
	// the host's clock was stepped, or the clocks drift by more than the
	// configuration allows. Reset: the counter started over. Gap: it was not
	// read for so long that it may have wrapped around any number of times.
	Stepped
	Reset
	Gap
)

var verdictNames = [...]string{"accepted", "ignored", "host clock stepped", "device reset", "gap between samples"}

func (v Verdict) String() string { return verdictNames[v] }

const (
	// history is the number of past intervals from which the drift is taken.
	history = 16
	// ulp bounds the relative error of the few floating-point operations that
	// a result is made of.
	ulp = 1.0 / (1 << 50)
)

// interval is the possible host times at which the counter turned to ticks.
type interval struct {
	ticks  int64 // unwrapped, from the generation's first sample on
	lo, hi units.Time
}

func (i interval) width() units.Time { return i.hi - i.lo }

// Calibrator maps ticks to host times and back. Make one with New.
type Calibrator struct {
	// What ToHost reads. A reading of raw plus dx ticks is from
	// host + dx*period, give or take base + e*(drift + e*wander/2), where e is
	// dx*nominal, the time that has passed.
	raw           uint64
	shift         uint  // 64 less the counter's width
	ahead, behind int64 // trusted reach in ticks; ahead is negative if there is none
	host          units.Time
	period        float64 // ps
	nominal       float64 // ps
	base          units.Time
	driftError    float64
	wander        float64 // change of the drift in a picosecond

	cfg        Config
	maxDrift   float64
	last       interval
	slow, fast float64 // the possible drift: period = nominal * (1 + drift)
	past       [history]interval
	pastN      int // kept so far; the newest is past[(pastN-1) % history]
	samples    int
	generation uint32
	cause      Verdict // of this generation
	next       units.Time
}

// New returns a calibrator without samples, or says what is wrong with c.
func New(c Config) (*Calibrator, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	cal := start(c)
	return &cal, nil
}

// start returns a calibrator without samples. The configuration is valid.
func start(c Config) Calibrator {
	return Calibrator{
		cfg:      c,
		shift:    uint(64 - c.CounterBits),
		nominal:  1e12 / c.NominalHz,
		maxDrift: c.MaxDriftPPM * 1e-6,
		wander:   c.MaxWanderPPM * 1e-6 / float64(units.Second),
		ahead:    -1,
		next:     -units.Never,
	}
}

// ps drops the fraction of a time in picoseconds.
func ps(n float64) units.Time { return units.Time(detmath.Int64(n)) }

// Add takes a sample. Samples must come in the order in which they were taken.
func (c *Calibrator) Add(s Sample) Verdict {
	if s.HostAfter < s.HostBefore || s.NIC > math.MaxUint64>>c.shift {
		c.next = s.HostAfter + c.cfg.MinInterval // something is wrong: look again soon
		return Ignored
	}
	// The counter turned to the value that was read at most one tick before it
	// was read.
	seen := interval{
		lo: s.HostBefore - ps(math.Ceil(c.nominal*(1+c.maxDrift))),
		hi: s.HostAfter + c.cfg.HostResolution,
	}
	if c.samples == 0 {
		c.restart(Accepted, s.NIC, seen)
		return Accepted
	}

	dx, ok := c.unwrap(s.NIC, seen)
	if !ok {
		return c.restart(Gap, s.NIC, seen)
	}
	seen.ticks = c.last.ticks + dx
	now := c.predict(dx)
	now.lo, now.hi = max(now.lo, seen.lo), min(now.hi, seen.hi)
	if now.lo > now.hi {
		return c.restart(c.blame(s.NIC, seen), s.NIC, seen)
	}
	if dx < 0 {
		return Ignored
	}
	slow, fast := c.drift(now)
	if slow > fast {
		return c.restart(Stepped, s.NIC, seen)
	}
	c.last, c.slow, c.fast = now, slow, fast
	c.samples++
	c.remember()
	c.publish(s.NIC, seen)
	return Accepted
}

// unwrap returns how many ticks passed since the last sample, with the number of
// wraps that fits the elapsed time best.
func (c *Calibrator) unwrap(raw uint64, seen interval) (dx int64, ok bool) {
	dx = int64((raw-c.raw)<<c.shift) >> c.shift
	if c.shift < 2 {
		return dx, true // a wrap takes longer than there is time
	}
	wrap := float64(uint64(1) << (64 - c.shift))
	elapsed := float64(seen.lo-c.last.lo) + float64(seen.hi-seen.lo)/2
	unsure := c.growth(math.Abs(elapsed)) + float64(seen.hi-seen.lo)
	if unsure/c.nominal > wrap/2 {
		return 0, false
	}
	wraps := math.Round((elapsed/c.period - float64(dx)) / wrap)
	return dx + detmath.Int64(wraps)<<(64-c.shift), true
}

// growth bounds how far the true host time and the middle of the possible ones
// can part in a span of that many picoseconds. However long that is, the drift
// stays within the configured limits.
func (c *Calibrator) growth(elapsed float64) float64 {
	return elapsed * (min(c.driftError+float64(elapsed*c.wander)/2, 2*c.maxDrift) + ulp)
}

// predict returns the possible host times dx ticks after the last sample.
func (c *Calibrator) predict(dx int64) interval {
	const far = 1 << 62 // a reading that is off by so much fits no sample
	x := float64(dx)
	spread := ps(math.Ceil(c.growth(math.Abs(x)*c.nominal))) + 1
	moved := ps(math.Round(min(max(x*c.period, -far), far)))
	return interval{c.last.ticks + dx, c.last.lo + moved - spread, c.last.hi + moved + spread}
}

// drift returns the drifts that are possible now.
func (c *Calibrator) drift(now interval) (slow, fast float64) {
	widen := float64(float64(now.ticks-c.last.ticks) * c.nominal * c.wander)
	slow, fast = max(c.slow-widen, -c.maxDrift), min(c.fast+widen, c.maxDrift)
	for i := range min(c.pastN, history) {
		then := &c.past[i]
		span := float64(float64(now.ticks-then.ticks) * c.nominal)
		if span <= 0 {
			continue
		}
		// The mean drift since then, and how far from it the drift is now if
		// it changed steadily.
		bend := float64(span*c.wander)/2 + ulp
		slow = max(slow, (float64(now.lo-then.hi)-span)/span-bend)
		fast = min(fast, (float64(now.hi-then.lo)-span)/span+bend)
	}
	return slow, fast
}

// remember keeps the narrowest interval of each of history parts of the window.
func (c *Calibrator) remember() {
	newest := &c.past[(c.pastN-1)%history]
	switch age := ps(float64(c.last.ticks-newest.ticks) * c.nominal); {
	case age >= c.cfg.Window/history:
		c.past[c.pastN%history] = c.last
		c.pastN++
	case c.last.width() < newest.width()/8*7:
		// By enough to be worth the shorter span that it leaves.
		*newest = c.last
	}
}

// blame distinguishes a reset from a step: after a reset the counter is behind
// where it was, and was not about to wrap.
func (c *Calibrator) blame(raw uint64, seen interval) Verdict {
	room := math.MaxUint64>>c.shift - c.raw
	elapsed := float64(seen.hi - c.last.lo)
	if raw < c.raw && elapsed/c.nominal*(1+c.maxDrift) < float64(room) {
		return Reset
	}
	return Stepped
}

// restart begins a generation with this sample.
func (c *Calibrator) restart(why Verdict, raw uint64, seen interval) Verdict {
	seen.ticks = 0
	c.last = seen
	c.slow, c.fast = -c.maxDrift, c.maxDrift
	c.past[0], c.pastN = seen, 1
	c.samples = 1
	c.generation++
	c.cause = why
	c.publish(raw, seen)
	return why
}

// publish prepares what the mappings need. seen is the last sample.
func (c *Calibrator) publish(raw uint64, seen interval) {
	drift := (c.slow + c.fast) / 2
	c.raw = raw
	c.period = c.nominal * (1 + drift)
	c.driftError = (c.fast - c.slow) / 2
	// A reading covers the whole tick that begins at the interval's time.
	c.host = c.last.lo + c.last.width()/2 + ps(c.period/2)
	half := (c.last.width() + 1) / 2
	c.base = half + ps(math.Ceil(c.nominal*(1+c.maxDrift)/2)) + 4 // 4 ps for rounding

	c.ahead, c.behind = -1, 0
	if c.samples >= c.cfg.MinSamples && c.base < c.cfg.MaxBound {
		reach := min(c.reach(float64(c.cfg.MaxBound-c.base)), float64(c.cfg.MaxAge)) / c.nominal
		c.ahead = detmath.Int64(reach)
		c.behind = min(c.ahead, c.last.ticks)
	}

	// The next sample is due when the mapping has lost a quarter of its precision, and
	// before the counter can be mistaken by half its range. It is due at once if this
	// one was too wide to show a step.
	limit := min(c.cfg.MaxInterval, ps(min(math.Ldexp(c.nominal, 62-int(c.shift)), float64(units.Second*3600))))
	wait := min(c.cfg.MinInterval, limit)
	if c.samples >= c.cfg.MinSamples && seen.width() <= 4*c.last.width() {
		wait = max(wait, min(limit, ps(c.reach(float64(half)/4))))
	}
	c.next = seen.hi + wait
}

// reach returns how many picoseconds it takes the mapping to lose that much
// precision.
func (c *Calibrator) reach(loss float64) float64 {
	// loss = driftError*e + wander*e*e/2, solved for e in the form that allows a
	// wander of 0; the drift's error is never 0.
	d := c.driftError + ulp
	return 2 * loss / (d + math.Sqrt(float64(d*d)+float64(2*float64(c.wander*loss))))
}

// SetBack sets back the host's clock, as units.Time.SetBack does with each instant.
// Samples and questions that follow have times of the clock that was set back; the
// generation goes on.
func (c *Calibrator) SetBack(by units.Time) {
	c.last.lo, c.last.hi = c.last.lo.SetBack(by), c.last.hi.SetBack(by)
	for i := range c.past {
		c.past[i].lo, c.past[i].hi = c.past[i].lo.SetBack(by), c.past[i].hi.SetBack(by)
	}
	c.host, c.next = c.host.SetBack(by), c.next.SetBack(by)
}
