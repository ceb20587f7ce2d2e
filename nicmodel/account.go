package nicmodel

import "github.com/sluice-rdma/sluice/units"

// accounted is a part of the NIC whose time is accounted for: a stage, processing
// units of a kind, a direction of PCIe.
type accounted interface {
	account(now units.Time) Account
	// setWatch makes the part call f with its work, as for OnWork; nil ends that.
	setWatch(f func(begin, end units.Time, why Stall))
}

// accounted are all such parts of the NIC.
func (n *NIC) accounted() []accounted {
	all := []accounted{
		&n.doorbell.stage, &n.elements.stage, awaited{&n.scheduler.stage, n.scheduler.waits}, &n.packetiser.stage,
		&n.mac.stage, &n.receiver.parse, &n.receiver.transport, &n.completions.stage,
	}
	if u := n.receiver.units; u != nil {
		all = append(all, u)
	}
	if n.atomics.InFlight > 0 {
		all = append(all, &n.atomics)
	}
	if p := n.offload.processors; p != nil {
		all = append(all, p)
	}
	return append(all, &n.pcie.sides[Upstream], &n.pcie.sides[Downstream])
}

// Accounts reports where each stage's cycles went until now. Processing units have
// one account for all units. The atomics unit, for all operations that it can have
// under way, the processors of the engines, and the two directions of PCIe count picoseconds.
func (n *NIC) Accounts(now units.Time) []Account {
	var all []Account
	for _, a := range n.accounted() {
		all = append(all, a.account(now))
	}
	return all
}

// OnWork calls f with every span of time in which a part of the NIC is at work, or
// stalled for the reason why, which is StallNone for work. stage is its index in the
// result of Accounts. f is called as soon as the span is known: work may lie in the
// future, and a stall is reported when it is over. Spans of one stage do not overlap;
// units have one span at a time each. Each account that Accounts returns is the sum of
// its spans. What a second port shares with the first one calls the first one's f only. nil ends the calls.
func (n *NIC) OnWork(f func(stage int, begin, end units.Time, why Stall)) {
	for i, a := range n.accounted() {
		if n.first != nil && n.first.has(a) {
			continue
		}
		if f == nil {
			a.setWatch(nil)
			continue
		}
		a.setWatch(func(begin, end units.Time, why Stall) { f(i, begin, end, why) })
	}
}

// has reports whether a part is one of those that ports share, and the NIC's.
func (n *NIC) has(a accounted) bool {
	return a == accounted(&n.pcie.sides[Upstream]) || a == accounted(&n.pcie.sides[Downstream]) || a == accounted(n.receiver.units)
}

// OpenStalls calls f as OnWork does with the stalls that are not over now.
func (n *NIC) OpenStalls(now units.Time, f func(stage int, begin, end units.Time, why Stall)) {
	for i, a := range n.accounted() {
		w, ok := a.(awaited)
		if !ok {
			continue
		}
		if since, why := w.waits(); since < now {
			begin, end := max(w.freeAt(), w.clock.Begin(w.clock.CycleAfter(since))), w.clock.Begin(w.clock.CycleAfter(now))
			if begin < end {
				f(i, begin, end, why)
			}
		}
	}
}

// awaited is a stage that knows since when work has waited in front of it.
type awaited struct {
	*stage
	waits func() (since units.Time, why Stall) // since is Never for none
}

func (s awaited) account(now units.Time) Account {
	since, why := s.waits()
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
func (s *stage) waiting(now, since units.Time, why Stall) Account {
	a := s.account(min(since, now))
	if until := s.clock.CycleAfter(now); until > a.Elapsed {
		a.Stalled[why] += until - a.Elapsed
		a.Elapsed = until
	}
	return a
}
