package ictcp

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/internal/dctcplaw"
	"github.com/sluice-rdma/sluice/internal/field"
)

// Config is ICTCP's parameters. Sections are the paper's. Senders and receivers of
// a network must have the same.
type Config struct {
	// Alpha is the share of the port's rate that is given out, in (0, 1]: the rest
	// is for what a slot's measurement misses (section 4.1).
	Alpha float64 `yaml:"alpha" eg:"0.95"`
	// Beta is the weight of the past in a flow's measured throughput, in [0, 1)
	// (section 4.3).
	Beta float64 `yaml:"beta" eg:"0.5"`
	// Gamma1 and Gamma2 are the shares of a flow's expected throughput that it may
	// miss before its window grows no more, and before it shrinks, from 0 to 1
	// (section 4.3).
	Gamma1 float64 `yaml:"gamma1" eg:"0.05"`
	Gamma2 float64 `yaml:"gamma2" eg:"0.4"`
	// Rounds is for how many round trips in a row a flow misses more than Gamma2
	// before its window shrinks (section 4.3).
	Rounds int `yaml:"rounds" eg:"2"`
	// FairShare is the share of the port's rate below which what is available
	// makes windows above the average shrink, in [0, 1); 0 turns that off
	// (section 4.4; public implementations have no such part).
	FairShare float64 `yaml:"fair_share" eg:"0.1"`
	// MinWindow is the least receive window and the first, in packets, from 1
	// (section 4.3).
	MinWindow float64 `yaml:"min_window" eg:"1"`
	// InitialCwnd is a sender's first congestion window, in packets; 0 is RFC
	// 3390's: 4380 bytes, but two to four packets.
	InitialCwnd float64 `yaml:"initial_cwnd" eg:"10"`
}

// DefaultConfig returns the parameters that docs/engines/ictcp.md gives the source
// of.
func DefaultConfig() Config {
	return Config{Alpha: 0.9, Beta: 0.75, Gamma1: 0.1, Gamma2: 0.5, Rounds: 3, FairShare: 0.2, MinWindow: 2}
}

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	switch {
	case !(c.Alpha > 0 && c.Alpha <= 1):
		return field.Bad("ictcp", "alpha", c.Alpha, "choose a share above 0 and up to 1, such as 0.9")
	case !(c.Beta >= 0 && c.Beta < 1):
		return field.Bad("ictcp", "beta", c.Beta, "choose a weight from 0 to below 1, such as 0.75")
	case !(c.Gamma1 >= 0 && c.Gamma1 <= 1):
		return field.Bad("ictcp", "gamma1", c.Gamma1, "choose a share from 0 to 1, such as 0.1")
	case !(c.Gamma2 >= c.Gamma1 && c.Gamma2 <= 1):
		return field.Bad("ictcp", "gamma2", c.Gamma2, "choose gamma1, %v, to 1, such as 0.5", c.Gamma1)
	case c.Rounds < 1 || c.Rounds > 100:
		return field.Bad("ictcp", "rounds", c.Rounds, "choose 1 to 100 round trips, such as 3")
	case !(c.FairShare >= 0 && c.FairShare < 1):
		return field.Bad("ictcp", "fair_share", c.FairShare, "choose a share from 0 to below 1, such as 0.2")
	case !(c.MinWindow >= 1 && c.MinWindow <= maxPackets):
		return field.Bad("ictcp", "min_window", c.MinWindow, "choose 1 or more packets, such as 2")
	}
	return c.law().Validate("ictcp")
}

// maxPackets bounds windows, to keep them in bytes far from the end of their range.
const maxPackets = 1e6

// law is that of the senders: TCP's. Marks, which would cut in proportion, do not
// reach it.
func (c Config) law() dctcplaw.Params {
	return dctcplaw.Params{G: 1, InitialCwnd: c.InitialCwnd, MinCwnd: 2}
}

func (c Config) check(env cc.Env) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if err := env.Validate(); err != nil {
		return fmt.Errorf("ictcp: %w", err)
	}
	return nil
}

// least is the least receive window, in bytes.
func (c Config) least(env cc.Env) float64 { return float64(c.MinWindow * float64(env.MTU)) }
