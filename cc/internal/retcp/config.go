package retcp

import (
	"github.com/sluice-rdma/sluice/cc/internal/dctcplaw"
	"github.com/sluice-rdma/sluice/internal/field"
)

// Config is reTCP's parameters.
type Config struct {
	// JumpUp multiplies the window when acknowledgements begin to tell
	// of a circuit, from 1.
	JumpUp float64 `yaml:"jump_up" eg:"4" range:"[1,1000]"`
	// JumpDown divides it when they cease to, from 1.
	JumpDown float64 `yaml:"jump_down" eg:"4" range:"[1,1000]"`
	// InitialCwnd is the first window, in packets, from which slow start doubles it
	// each round trip; 0 is RFC 3390's, two to four packets.
	InitialCwnd float64 `yaml:"initial_cwnd" eg:"10" range:"[1,1e9]" of:"packets" zero:"two to four"`
	// MinCwnd is the least window that losses leave, in packets, from 1. A timeout
	// leaves one packet.
	MinCwnd float64 `yaml:"min_cwnd" eg:"1" range:"[1,1e9]" of:"packets"`
}

// DefaultConfig returns the parameters of the authors' kernel module, and of RFC 5681.
func DefaultConfig() Config { return Config{JumpUp: 2, JumpDown: 2, MinCwnd: 2} }

var settings = field.Of[Config]("retcp")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error { return settings.Check(&c) }

// reno is TCP's part: without marks, alpha plays no role.
func (c Config) reno() dctcplaw.Params {
	return dctcplaw.Params{G: 1, InitialCwnd: c.InitialCwnd, MinCwnd: c.MinCwnd}
}
