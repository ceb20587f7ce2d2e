package nicmodel

import "github.com/sluice-rdma/sluice/units"

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

// waiting is the account of a stage that has had work in front of it since an
// instant, which it has not begun because of why.
func (s *Stage) waiting(now, since units.Time, why Stall) Account {
	a := s.Account(min(since, now))
	if until := s.clock.CycleAfter(now); until > a.Elapsed {
		a.Stalled[why] += until - a.Elapsed
		a.Elapsed = until
	}
	return a
}
