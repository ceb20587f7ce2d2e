package p4

import "github.com/sluice-rdma/sluice/p4/internal/stf"

// The parts of a packet test.
type (
	// Script is the commands of a packet test, in order.
	Script = stf.Script
	// Result is how the run of a script ended.
	Result = stf.Result
	// Failure is a difference from what a script expects.
	Failure = stf.Failure
)

// ParseScript reads a test file (.stf) as P4's reference compiler keeps them beside its programs.
// `go doc ./p4/internal/stf` has the commands; name is what errors call the file.
func ParseScript(name string, text []byte) (*Script, error) { return stf.Parse(name, text) }

// RunScript runs a script on a new switch. An error is of a command that cannot be carried out, as
// an entry for a table that does not exist.
func RunScript(p *Program, s *Script) (Result, error) { return stf.Run(p, s) }

// Configure applies the commands of a text that set a switch's state (add, setdefault, register_write,
// mirroring_add, mc_mgrp_create and the like) to a switch. Any other command is an error.
func Configure(pl *Pipeline, name string, text []byte) error { return stf.Configure(pl, name, text) }
