package nicmodel

import "github.com/sluice-rdma/sluice/units"

// accounted is a part of the NIC whose time is accounted for: a stage, processing
// units of a kind, a direction of PCIe.
type accounted interface {
	account(now units.Time) Account
	// setWatch has it report what it does, as OnWork says; nil ends that.
	setWatch(f func(begin, end units.Time, why Stall))
}

// accounted are all such parts of the NIC.
func (n *NIC) accounted() []accounted {
	all := []accounted{
		&n.doorbell.stage, &n.elements.stage, awaited{&n.scheduler.stage, n.scheduler.waits}, &n.packetiser.stage,
		&n.mac.stage, &n.receiver.parse, &n.receiver.transport, &n.completions.stage,
	}
	for _, u := range []*processingUnits{n.scheduler.units, n.receiver.units} {
		if u != nil {
			all = append(all, u)
		}
	}
	if n.atomics.InFlight > 0 {
		all = append(all, &n.atomics)
	}
	return append(all, &n.pcie.sides[Upstream], &n.pcie.sides[Downstream])
}

// Accounts reports where each stage's cycles went until now; those of processing
// units, of all of them; the picoseconds of the operations that the atomics unit can
// have under way, and of the two directions of PCIe.
func (n *NIC) Accounts(now units.Time) []Account {
	var all []Account
	for _, a := range n.accounted() {
		all = append(all, a.account(now))
	}
	return all
}

// OnWork calls f with every span of time in which a part of the NIC is at work, or
// stalled for what why says, which is StallNone for work. stage is its place in what
// Accounts returns. f is called as soon as the span is known: work may lie ahead, and
// a stall is told when it is over. Spans of one stage do not overlap; units have as
// many at a time as there are, and what Accounts says of each is the sum of its spans.
// nil ends that.
func (n *NIC) OnWork(f func(stage int, begin, end units.Time, why Stall)) {
	for i, a := range n.accounted() {
		if f == nil {
			a.setWatch(nil)
			continue
		}
		a.setWatch(func(begin, end units.Time, why Stall) { f(i, begin, end, why) })
	}
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

// awaited is a stage of which one knows since when it has had work in front of it that
// it has not begun.
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

// waiting is the account of a stage that has had work in front of it since an
// instant, which it has not begun because of why.
func (s *stage) waiting(now, since units.Time, why Stall) Account {
	a := s.account(min(since, now))
	if until := s.clock.CycleAfter(now); until > a.Elapsed {
		a.Stalled[why] += until - a.Elapsed
		a.Elapsed = until
	}
	return a
}
