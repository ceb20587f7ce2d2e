//go:build !linux

package softswitch

import (
	"context"
	"errors"
)

// Switch is a switch between interfaces.
type Switch struct{}

var errSystem = errors.New("a switch needs packet sockets, which are known on Linux only")

// Open opens the sockets of the switch's ports.
func Open(Config) (*Switch, error) { return nil, errSystem }

// Run forwards frames until ctx ends.
func (*Switch) Run(context.Context) error { return errSystem }

// Stats returns the counts so far.
func (*Switch) Stats() Stats { return Stats{} }

// ResetDelays forgets the queueing delays and the largest queues so far.
func (*Switch) ResetDelays() {}

// Close closes the switch's sockets.
func (*Switch) Close() error { return errSystem }
