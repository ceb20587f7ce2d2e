package cc

import "github.com/sluice-rdma/sluice/units"

// Bounded is an Engine with a least and a most rate of its own, by its settings. An
// engine that bounds a window instead is not Bounded: its rate depends on the round
// trip.
type Bounded interface {
	// Bounds returns the least and the greatest Control.Rate.
	Bounds() (floor, ceiling units.Rate)
}
