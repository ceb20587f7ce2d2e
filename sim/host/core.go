package host

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// FieldError is what is wrong with one field: Key is its name in scenarios.
type FieldError = field.Error

// Config is a host's core and the thread on it. The zero Config is a thread that has
// a core to itself and takes no time for anything.
type Config struct {
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

var settings = field.Of[Config]("host")

// Validate reports the first field that is out of range, as a *FieldError.
func (c *Config) Validate() error {
	if err := settings.Check(c); err != nil {
		return err
	}
	if c.Load > 0 && (c.Burst < leastBurst || c.Burst > units.Second) {
		return field.Bad("host", "burst", c.Burst, "choose %v to 1s", leastBurst)
	}
	return nil
}

// Instant reports whether whatever the thread does is done at once.
func (c *Config) Instant() bool { return c.Load == 0 && c.Wakeup == 0 && c.Post == 0 }

// Core is a host's core. It belongs to the goroutine that asks. Its answers never go
// back in time, so a question about a time before an answer may get that answer.
type Core struct {
	cfg  Config
	rng  des.Stream
	gap  units.Time // mean time from one piece of other work to the next
	next units.Time // when the next one comes, or Never
	busy units.Time // when all jobs so far are done
}

// NewCore returns a core whose other work follows from rng. The configuration has
// to be valid.
func NewCore(c Config, rng des.Stream) (*Core, error) {
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
func (k *Core) Config() Config { return k.cfg }

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
