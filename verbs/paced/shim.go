package paced

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Shim is a verbs.Device over that of a provider, whose RC queue pairs are
// segmented, paced and steered. It passes everything else on: memory regions
// and their keys are the provider's own, so a peer needs no shim. It is also a
// verbs.Runner, a verbs.ClockReader and a verbs.PreciseClock, as far as the
// provider's device is.
type Shim struct {
	dev     verbs.Device
	attr    verbs.DeviceAttr
	precise verbs.PreciseClock // nil if the device's clock counts nanoseconds
	free    bool               // a reading of the device's clock costs nothing: time is simulated
	cfg     Config
	scheme  *cc.Scheme // nil with Config.Engine, or without an engine

	reader  verbs.ClockReader // nil without timestamps
	waiting atomic.Int32      // goroutines in Wait, of all channels
	drains  atomic.Int32      // queue pairs with a drain
	rest    rest

	// shards is replaced, never changed in place, with housing held.
	shards atomic.Pointer[[]*shard]

	_       [64]byte   // what each segment reads is above, and shares no cache line with the locks
	housing sync.Mutex // guards shards and how many CQs each has; no other lock is held before it

	mu      sync.Mutex // guards what follows; taken with a shard's lock held or not
	objects int        // PDs, CQs and channels that exist
	byInner map[any]any
}

// Wrap returns a Shim over dev. It fails if c is out of range or its engine can't
// be made. From then on use the provider's device only through the Shim, whose
// Close closes it.
func Wrap(dev verbs.Device, c Config) (*Shim, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Shim{dev: dev, attr: dev.Attr(), free: verbs.Simulated(dev), cfg: c, byInner: map[any]any{}}
	if c.Scheme != "" {
		scheme, err := cc.Lookup(c.Scheme)
		if err != nil {
			return nil, err
		}
		if scheme.NewReceiver != nil {
			return nil, fmt.Errorf("paced: the receivers of %s have a say, and no verbs provider carries it: choose an engine that decides at the sender, or run it on the reduced NIC of the model", scheme.Name)
		}
		if scheme.Oracle {
			return nil, fmt.Errorf("paced: the rates of %s come from a simulation that knows the network: choose another engine", scheme.Name)
		}
		s.scheme = &scheme
	}
	// An engine that can't be made is better known now than when the first
	// queue pair connects.
	e, err := s.newEngine(cc.Env{LineRate: 10 * units.Gbps, BaseRTT: c.BaseRTT, MTU: 1024})
	if err != nil {
		return nil, err
	}
	if _, ok := e.(cc.Pathed); ok {
		return nil, errors.New("paced: the engine chooses paths, by a port that is the NIC's alone: turn that off (swift: plb), or run the engine in the NIC")
	}
	var origin units.LongTime
	if s.precise, _ = dev.(verbs.PreciseClock); s.precise == nil {
		origin = s.Clock()
	}
	clock, err := s.calibrate(origin)
	if err != nil {
		return nil, err
	}
	first, err := s.newShard(origin, clock)
	if err != nil {
		return nil, err
	}
	s.shards.Store(&[]*shard{first})
	return s, nil
}

// newEngine returns an engine, or nil if none is configured.
func (s *Shim) newEngine(env cc.Env) (cc.Engine, error) {
	switch {
	case s.cfg.Engine != nil:
		return s.cfg.Engine(env)
	case s.scheme == nil:
		return nil, nil
	}
	config := s.cfg.SchemeConfig
	if config == nil {
		config = s.scheme.DefaultConfig()
	}
	return s.scheme.New(config, env)
}

// Unwrap returns the provider's device.
func (s *Shim) Unwrap() verbs.Device { return s.dev }

// Clock reads the host clock by which the shim works: the device's
// verbs.PreciseClock where it has one, else its Now. A units.LongTime that goes into
// or comes out of a Shim is on this clock, which goes on for years. A units.Time
// that Config.Observe or Watch gets is an instant of the shim's own, which is set back
// every few days.
func (s *Shim) Clock() units.LongTime {
	if s.precise != nil {
		return s.precise.NowPrecise().Long()
	}
	return units.Long(s.dev.Now())
}

// Progress takes what the provider has completed and sends all that is due at
// now, a reading of Clock. Completions of requests are then ready in their CQs.
// It returns the error of a provider's CQ that can't be polled; the queue pairs
// of other CQs go on.
func (s *Shim) Progress(now units.LongTime) error { return s.progress(at(now)) }

// progress makes the progress of all shards.
func (s *Shim) progress(t instant) error {
	var failed error
	for _, x := range *s.shards.Load() {
		if err := x.progress(t); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// Deadline returns when Progress has something to do even if nothing completes: a
// segment becomes due, or a calibration sample while there is work. It is
// units.LongNever if nothing is waiting, and is in the future right after Progress.
func (s *Shim) Deadline() units.LongTime {
	due := units.LongNever
	for _, x := range *s.shards.Load() {
		x.mu.Lock()
		if at := x.core.Long(x.deadline()); at.Before(due) {
			due = at
		}
		x.mu.Unlock()
	}
	return due
}

// Stats returns the counters so far.
func (s *Shim) Stats() Stats {
	var sum Stats
	for _, x := range *s.shards.Load() {
		x.addTo(&sum)
	}
	return sum
}
