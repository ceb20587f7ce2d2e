package config

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/bounds"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// Transport is how reliable connections recover from losses. Both ends of a
// connection need the same.
type Transport struct {
	// Loss is go-back-n or selective-repeat. With the latter Writes and Reads' responses
	// beyond a gap are placed, and only what is missing is sent again (IRN, SIGCOMM 2018);
	// requests complete in order.
	Loss LossRecovery `yaml:"loss" eg:"selective-repeat"`
	// Reorder is how many packets beyond a gap selective repeat keeps, a power of two from 64
	// to 65536; 0 is 4096. A connection has no more under way. They take three bits each
	// on the chip, in addition to a queue pair's context.
	Reorder int `yaml:"reorder"`
	// RTOHigh is the time without progress after which a connection sends again; 0 leaves
	// it to the connection's `timeout`.
	RTOHigh units.Time `yaml:"rto_high"`
	// RTOLow is what selective repeat uses instead with at most three packets under way;
	// 0 is none.
	RTOLow units.Time `yaml:"rto_low"`
}

// usualReorder is twice what a path of 200 Gbps and 80 us holds in packets of 1 KiB:
// an estimate.
const usualReorder = 4096

// LossRecovery is a way to recover from losses.
type LossRecovery uint8

// Ways to recover from losses.
const (
	GoBackN LossRecovery = iota
	SelectiveRepeat
)

func (r LossRecovery) String() string {
	switch r {
	case GoBackN:
		return "go-back-n"
	case SelectiveRepeat:
		return "selective-repeat"
	}
	return fmt.Sprintf("LossRecovery(%d)", uint8(r))
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *LossRecovery) UnmarshalText(b []byte) error {
	for v := GoBackN; v <= SelectiveRepeat; v++ {
		if v.String() == string(b) {
			*r = v
			return nil
		}
	}
	return fmt.Errorf("unknown value %q, expected %v or %v", b, GoBackN, SelectiveRepeat)
}

// MarshalText implements encoding.TextMarshaler.
func (r LossRecovery) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Set sets what a receiver has to know of it.
func (c *Transport) Set(cfg *rc.Config) {
	if c.Loss == SelectiveRepeat && (cfg.Type == 0 || cfg.Type == ib.RC) {
		cfg.Reorder = c.Reorder
		if cfg.Reorder == 0 {
			cfg.Reorder = usualReorder
		}
	}
}

// SetSend sets what a sender has to know of it, of a reliable connection.
func (c *Transport) SetSend(cfg *rc.SendConfig) { cfg.RTOHigh, cfg.RTOLow = c.RTOHigh, c.RTOLow }

func (c *Transport) ranges() []error {
	return []error{
		bounds.In("transport.loss", int(c.Loss), int(GoBackN), int(SelectiveRepeat), ""),
		bounds.In("transport.reorder", c.Reorder, 64, 1<<16, "the usual one"),
		bounds.In("transport.rto_high", c.RTOHigh, units.Microsecond, 10*units.Second, "the connection's timeout"),
		bounds.In("transport.rto_low", c.RTOLow, units.Microsecond, 10*units.Second, "none"),
	}
}

func (c *Transport) rules() error {
	switch {
	case c.Reorder&(c.Reorder-1) != 0:
		return bounds.Bad("transport.reorder", c.Reorder, "choose a power of two from 64 to 65536, or 0 for the usual one")
	case c.Loss == GoBackN && c.Reorder > 0:
		return bounds.Bad("transport.reorder", c.Reorder, "choose transport.loss: selective-repeat, or 0")
	case c.Loss == GoBackN && c.RTOLow > 0:
		return bounds.Bad("transport.rto_low", c.RTOLow, "choose transport.loss: selective-repeat, or 0")
	}
	return nil
}
