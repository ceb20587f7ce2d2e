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
	Alpha float64 `yaml:"alpha" eg:"0.95" range:"(0,1]"`
	// Beta is the weight of the past in a flow's measured throughput, in [0, 1)
	// (section 4.3).
	Beta float64 `yaml:"beta" eg:"0.5" range:"[0,1)"`
	// Gamma1 and Gamma2 are the shares of a flow's expected throughput that it may
	// miss before its window grows no more, and before it shrinks, from 0 to 1
	// (section 4.3).
	Gamma1 float64 `yaml:"gamma1" eg:"0.05" range:"[0,1]"`
	Gamma2 float64 `yaml:"gamma2" eg:"0.4" range:"[0,1]" least:"gamma1"`
	// Rounds is the number of round trips in a row for which a flow misses more than
	// Gamma2 before its window shrinks (section 4.3).
	Rounds int `yaml:"rounds" eg:"2" range:"[1,100]" of:"round trips"`
	// FairShare is the share of the port's rate below which what is available
	// makes windows above the average shrink, in [0, 1); 0 turns that off
	// (section 4.4; public implementations have no such part).
	FairShare float64 `yaml:"fair_share" eg:"0.1" range:"[0,1)"`
	// MinWindow is the least receive window and the first, in packets, from 1
	// (section 4.3).
	MinWindow float64 `yaml:"min_window" eg:"1" range:"[1,1e6]" of:"packets"`
	// InitialCwnd is a sender's first congestion window, in packets; 0 is RFC
	// 3390's: 4380 bytes, but two to four packets.
	InitialCwnd float64 `yaml:"initial_cwnd" eg:"10" range:"[1,1e9]" of:"packets" zero:"two to four"`
}

// DefaultConfig returns the parameters that docs/engines/ictcp.md gives the source
// of.
func DefaultConfig() Config {
	return Config{Alpha: 0.9, Beta: 0.75, Gamma1: 0.1, Gamma2: 0.5, Rounds: 3, FairShare: 0.2, MinWindow: 2}
}

var settings = field.Of[Config]("ictcp")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error { return settings.Check(&c) }

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
