package cc

import "github.com/sluice-rdma/sluice/units"

// Timed is an Engine that remembers instants from one event to the next. A driver
// that runs for months sets its clock back now and then, so that units.Time holds
// its instants, and then each engine's with it.
type Timed interface {
	// SetBack sets back each instant that the engine remembers, as
	// units.Time.SetBack does. The events that follow have instants of the clock
	// that was set back. No decision depends on it.
	SetBack(by units.Time)
}
