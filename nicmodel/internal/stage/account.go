package stage

import "github.com/sluice-rdma/sluice/units"

// Accounted is a part of the NIC whose time is accounted for: a stage, processing
// units of a kind, a direction of PCIe.
type Accounted interface {
	Account(now units.Time) Account
	// SetWatch makes the part call f with its work, as for OnWork; nil ends that.
	SetWatch(f func(begin, end units.Time, why Stall))
}

// Awaited is a stage that knows since when work has waited in front of it.
type Awaited struct {
	*Stage
	Waits func() (since units.Time, why Stall) // since is Never for none
}

// Account is Stage.Account with the wait that is not over.
func (s Awaited) Account(now units.Time) Account {
	since, why := s.Waits()
	return s.waiting(now, since, why)
}

// Since returns where the cycles went after an earlier account of the stage.
func (a Account) Since(before Account) Account {
	a.Served -= before.Served
	a.Elapsed -= before.Elapsed
	a.Busy -= before.Busy
	a.Idle -= before.Idle
	for why := range a.Stalled {
		a.Stalled[why] -= before.Stalled[why]
	}
	return a
}

// waiting is the account of a stage in front of which work has waited since an
// instant, because of why.
func (s *Stage) waiting(now, since units.Time, why Stall) Account {
	a := s.Account(min(since, now))
	if until := s.Clock.CycleAfter(now); until > a.Elapsed {
		a.Stalled[why] += until - a.Elapsed
		a.Elapsed = until
	}
	return a
}

// Wait is the time that pieces of work have waited without stalling a stage: other
// work went on. Total over a span is how many waited on average.
type Wait struct {
	Where, For string
	Total      units.Time // summed over all that waited
	// Taken says that the work waited for a resource that others used, and that no
	// more can use at once. Work that always waits for it is limited by it.
	Taken bool
}

// CacheUse counts the lookups of a cache of the NIC.
type CacheUse struct {
	Cache        string
	Hits, Misses uint64
}
