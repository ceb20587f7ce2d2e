package homa

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is HOMA's parameters. Senders and receivers of a network must have the
// same.
type Config struct {
	// RTTBytes is the bytes that a sender sends unasked, and that a receiver keeps granted
	// ahead of each flow that it grants to (section 3.2). Zero is the line rate
	// times the base RTT. It is rounded up to whole packets. Where hosts have
	// different line rates it has to be set.
	RTTBytes units.Bytes `yaml:"rtt_bytes" eg:"60KB" range:"(0,1GiB]" zero:"the line rate times the base RTT"`
	// Overcommit is the degree of overcommitment: how many flows a receiver grants
	// to at one time (section 3.5), up to 64, which bounds what a packet costs.
	Overcommit int `yaml:"overcommit" eg:"1" range:"[1,64]" of:"flows"`
	// UnscheduledClasses and ScheduledClasses are the numbers of the fabric's
	// priorities that carry unscheduled and granted packets; the former are the more
	// urgent (section 3.4).
	UnscheduledClasses int `yaml:"unscheduled_classes" eg:"4" range:"[1,7]"`
	ScheduledClasses   int `yaml:"scheduled_classes" eg:"4" range:"[1,7]"`
	// UnscheduledCutoff is the largest message whose unscheduled packets are not
	// in the least urgent of the unscheduled classes. Zero is RTTBytes.
	UnscheduledCutoff units.Bytes `yaml:"unscheduled_cutoff" eg:"10KB" range:"(0,)" zero:"rtt_bytes"`
	// CutoffStep is the ratio of the largest message of a class to that of the next
	// more urgent one, where there are more than two, above 1.
	CutoffStep float64 `yaml:"cutoff_step" eg:"10" range:"(1,1e9]"`
	// Resend is the time for which a flow may be silent before its grant is sent
	// again and no longer counts.
	Resend units.Time `yaml:"resend" eg:"500us" range:"(0,1000s]"`
}

// classes bounds the priorities in use: a fabric has eight.
const classes = 8

// DefaultConfig returns the parameters that docs/engines/homa.md gives the source
// of.
func DefaultConfig() Config {
	return Config{
		Overcommit:         6,
		UnscheduledClasses: 2,
		ScheduledClasses:   6,
		CutoffStep:         4,
		Resend:             units.Millisecond,
	}
}

var settings = field.Of[Config]("homa")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	if err := settings.Check(&c); err != nil {
		return err
	}
	if c.UnscheduledClasses+c.ScheduledClasses > classes {
		return field.Bad("homa", "scheduled_classes", c.ScheduledClasses, "choose 1 to %d, which with unscheduled_classes make %d", classes-c.UnscheduledClasses, classes)
	}
	return nil
}

// rttBytes is RTTBytes in whole packets.
func (c Config) rttBytes(env cc.Env) units.Bytes {
	n := c.RTTBytes
	if n == 0 {
		n = min(env.LineRate.BytesIn(env.BaseRTT), units.GiB)
	}
	return max(1, (n+env.MTU-1)/env.MTU) * env.MTU
}

// unscheduledClass is the class of the unscheduled packets of a message, 0 bytes
// for one of unknown length.
func (c Config) unscheduledClass(size, rttBytes units.Bytes) uint8 {
	class, top := c.ScheduledClasses+1, c.ScheduledClasses+c.UnscheduledClasses
	cutoff := float64(c.UnscheduledCutoff)
	if c.UnscheduledCutoff == 0 {
		cutoff = float64(rttBytes)
	}
	for size > 0 && class < top && float64(size) <= cutoff {
		class++
		cutoff /= c.CutoffStep
	}
	return uint8(class)
}

func (c Config) check(env cc.Env) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if err := env.Validate(); err != nil {
		return fmt.Errorf("homa: %w", err)
	}
	return nil
}
