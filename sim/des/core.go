package des

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// FieldError is what is wrong with one field: Key is its name in scenarios.
type FieldError = field.Error

// CoreConfig is a host's core and the thread on it. The zero CoreConfig is a thread that has
// a core to itself and takes no time for anything.
type CoreConfig struct {
	// Load is the share of the core's time that other work takes, at most 0.95.
	Load float64 `yaml:"load" range:"[0,0.95]" as:"a share"`
	// Burst is the mean length of a piece of that work, at least 100 ns if there
	// is any.
	Burst units.Time `yaml:"burst"`
	// Wakeup is from the interrupt that a sleeping thread waits for to its being
	// ready to run. 0 is a thread that does not sleep but polls.
	Wakeup units.Time `yaml:"wakeup" range:"[0,1s]"`
	// Post is what the thread takes from its reading the clock for what it sends to
	// handing that to the NIC.
	Post units.Time `yaml:"post" range:"[0,1ms]"`
}

// leastBurst limits the pieces of other work; a spell of it lasts 1/(1-load) of them on average.
const leastBurst = 100 * units.Nanosecond

var settings = field.Of[CoreConfig]("host")

// Validate reports the first field that is out of range, as a *FieldError.
func (c *CoreConfig) Validate() error {
	if err := settings.Check(c); err != nil {
		return err
	}
	if c.Load > 0 && (c.Burst < leastBurst || c.Burst > units.Second) {
		return field.Bad("host", "burst", c.Burst, "choose %v to 1s", leastBurst)
	}
	return nil
}

// Instant reports whether whatever the thread does is done at once.
func (c *CoreConfig) Instant() bool { return c.Load == 0 && c.Wakeup == 0 && c.Post == 0 }

// Core is a host's core, which a thread that posts and polls shares with other work. It
// decides when that thread runs.
//
// Other work comes in pieces at random (a Poisson process), each of which takes an
// exponential time of the core. It always preempts the thread: it represents
// interrupts, the kernel's threads and processes of a higher priority. Pieces that
// arrive while others run wait for them, so the other work is the queue M/M/1. With
// a load of r and a mean of b a piece, the core is busy with it for a share r of
// the time, in busy periods of b/(1-r) on average. A thread that becomes ready at a
// random time waits for r b/(1-r)^2 on average, the rest of the busy period that it
// meets. The thread's work takes no time from the other work.
//
// The arrival of other work depends on the stream of random numbers alone, not on
// what the thread does or asks: two runs with the same stream have the same other
// work.
//
// The core knows of no NIC and no verbs: callers ask it when the thread runs.
// There is one, its frequency is constant, and no cache is cold after an
// interruption.
//
// It belongs to the goroutine that asks. Its answers never go
// back in time, so a question about a time before an answer may get that answer.
type Core struct {
	cfg  CoreConfig
	rng  Stream
	gap  units.Time // mean time from one piece of other work to the next
	next units.Time // when the next one comes, or Never
	busy units.Time // when all jobs so far are done
}

// NewCore returns a core whose other work follows from rng. The configuration has
// to be valid.
func NewCore(c CoreConfig, rng Stream) (*Core, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	k := &Core{cfg: c, rng: rng, next: units.Never}
	if c.Load > 0 {
		k.gap = units.Time(float64(c.Burst) / c.Load)
		k.next = rng.Exp(k.gap)
	}
	return k, nil
}

// Config returns what the core was made with.
func (k *Core) Config() CoreConfig { return k.cfg }

// Free returns when a thread that is ready at t runs: at t, or when the other work
// pending at t, and all that arrives meanwhile, is done.
func (k *Core) Free(t units.Time) units.Time {
	for {
		for k.next <= t {
			k.busy = max(k.busy, k.next) + k.rng.Exp(k.cfg.Burst)
			k.next += k.rng.Exp(k.gap)
		}
		if k.busy <= t {
			return t
		}
		t = k.busy
	}
}

// Run returns when a thread is done that starts at t and has so much work: other work
// that arrives interrupts it.
func (k *Core) Run(t, work units.Time) units.Time {
	t = k.Free(t)
	for work > k.next-t {
		work -= k.next - t
		t = k.Free(k.next)
	}
	return t + work
}
