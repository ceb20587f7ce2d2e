package nicmodel

import "github.com/sluice-rdma/sluice/nicmodel/internal/stage"

// What a NIC's parts state of themselves. Their packages have it.
type (
	// Clock is the clock of a stage, by its frequency in hertz.
	Clock = stage.Clock
	// Counter is the free-running counter from which a NIC stamps completions.
	Counter = stage.Counter
	// Account is where the cycles of a stage went up to some instant.
	Account = stage.Account
	// Stall says why a stage did not begin work that waited in front of it.
	Stall = stage.Stall
	// Wait is the time that pieces of work have waited without stalling a stage.
	Wait = stage.Wait
	// QueueUse is what a queue of a NIC held up to some instant.
	QueueUse = stage.QueueUse
	// CacheUse counts the lookups of a cache of the NIC.
	CacheUse = stage.CacheUse
)

// StallNone is of work that is not stalled.
const StallNone = stage.StallNone

// Stalls lists the reasons, StallNone first.
func Stalls() []Stall { return stage.Stalls() }
