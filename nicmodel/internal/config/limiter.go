package config

import (
	"fmt"

	"github.com/sluice-rdma/sluice/units"
)

// Limiter describes the rate limiter of queue pairs (packet pacing): a table of
// rates, of which each limited queue pair has one, as mlx5 devices have it. Queue pairs
// with the same limit share an entry. Congestion control inside the NIC does not go
// through the table.
//
// A queue pair sends packets of a burst back to back. The next burst is due when the
// bytes of this one have taken their time at the rate, and begins with the first tick
// from then on, on which the table is looked at. Ticks are no loss: due times do not
// depend on them.
type Limiter struct {
	// Rates is how many different limits there can be at a time. 0 for no limit.
	Rates int `yaml:"rates" range:"[1,2^16]" zero:"no limit"`
	// MinRate and MaxRate bound the rates. 0 for no bound.
	MinRate units.Rate `yaml:"min_rate" range:"[1bps,100Tbps]" zero:"no bound"`
	MaxRate units.Rate `yaml:"max_rate" range:"[1bps,100Tbps]" zero:"no bound" least:"min_rate"`
	// Step is what rates are multiples of: others are taken to the nearest. 0 for 1
	// bit/s.
	Step units.Rate `yaml:"step" range:"[0,1Gbps]"`
	// Tick is the time between two looks at the table. 0 looks all the
	// time.
	Tick units.Time `yaml:"tick" range:"[0,1ms]"`
	// Burst is the most bytes of a burst where a limit says none. A burst has a
	// packet at least, and 0 is that.
	Burst units.Bytes `yaml:"burst" range:"[0,4294967295B]"`
}

// RateLimit is the limit of a queue pair (ibv_qp_rate_limit_attr).
type RateLimit struct {
	Rate     units.Rate // of the messages' bytes; 0 for no limit
	MaxBurst units.Bytes
	// TypicalPacket is the packet size that a device counts with. The model counts the
	// bytes of each packet; limits that differ in TypicalPacket are still different
	// limits.
	TypicalPacket units.Bytes
}

// Round returns a limit as the limiter stores it: at a multiple of Step, with a
// burst.
func (c *Limiter) Round(l RateLimit) RateLimit {
	if c.Step > 0 && l.Rate > 0 {
		l.Rate = (l.Rate + c.Step/2) / c.Step * c.Step
	}
	if l.MaxBurst == 0 {
		l.MaxBurst = c.Burst
	}
	return l
}

// Holds says what is wrong with a limit.
func (c *Limiter) Holds(l RateLimit) error {
	switch {
	case l.Rate < max(c.MinRate, 1) || c.MaxRate > 0 && l.Rate > c.MaxRate:
		if c.MaxRate == 0 {
			return fmt.Errorf("a rate limit of %v: the NIC's limiter goes from %v up", l.Rate, max(c.MinRate, 1))
		}
		return fmt.Errorf("a rate limit of %v: the NIC's limiter goes from %v to %v; 0 is none", l.Rate, max(c.MinRate, 1), c.MaxRate)
	case l.MaxBurst < 0 || l.MaxBurst > 1<<32-1 || l.TypicalPacket < 0 || l.TypicalPacket > 1<<16-1:
		return fmt.Errorf("a rate limit with bursts of %v and packets of %v: the most are 4 GiB and 64 KiB", l.MaxBurst, l.TypicalPacket)
	}
	return nil
}
