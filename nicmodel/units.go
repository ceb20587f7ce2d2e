package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// UnitsConfig describes processing units that work side by side, each on one packet
// at a time. The packets of one queue pair are worked on one after the other, since
// each goes by the state that the one before has left: many queue pairs keep all
// units busy, one of them no more than one (Kalia et al., ATC 2016, figure 11b).
type UnitsConfig struct {
	// Units is how many there are; 0 is none, where packets take no time in them.
	Units int `yaml:"units"`
	// Send is how long a packet of a Send occupies a unit, in cycles of the core clock,
	// as are the following ones: each packet of a longer request.
	Send int64 `yaml:"send"`
	// Write is what a packet of a Write takes.
	Write int64 `yaml:"write"`
	// Read is what the request of a Read takes.
	Read int64 `yaml:"read"`
	// Atomic is what an atomic operation's request takes.
	Atomic int64 `yaml:"atomic"`
	// Response is what a packet of a Read's response takes.
	Response int64 `yaml:"response"`
	// Ack is what an acknowledgement takes, an atomic's too.
	Ack int64 `yaml:"ack"`
}

// cycles returns what a packet takes.
func (c *UnitsConfig) cycles(op ib.Opcode) int64 {
	switch o := op.Operation(); {
	case o <= ib.SendOnlyImm.Operation(), o >= ib.SendLastInv.Operation():
		return c.Send
	case o <= ib.WriteOnlyImm.Operation():
		return c.Write
	case o == ib.ReadRequest.Operation():
		return c.Read
	case o <= ib.ReadResponseOnly.Operation():
		return c.Response
	case o == ib.CompareSwap.Operation(), o == ib.FetchAdd.Operation():
		return c.Atomic
	}
	return c.Ack
}

// processingUnits are those of one kind. What they have done is accounted for as
// that of one stage with so many times the cycles.
type processingUnits struct {
	name   string
	cfg    UnitsConfig
	clock  Clock
	taken  inflight // until when each is
	busy   int64
	held   int64 // cycles in which one waited for an element
	served uint64
	waits  unitWaits
	watch  func(begin, end units.Time, why Stall)
}

func (u *processingUnits) setWatch(f func(begin, end units.Time, why Stall)) { u.watch = f }

// unitWaits is how long packets waited before the units, summed over them.
type unitWaits struct {
	Units units.Time // for a unit
	Queue units.Time // for the previous packet of their queue pair, in addition
}

// newUnits returns nil for none.
func newUnits(name string, c UnitsConfig, clock Clock) *processingUnits {
	if c.Units == 0 {
		return nil
	}
	return &processingUnits{name: name, cfg: c, clock: clock, taken: newInflight(c.Units)}
}

// serve processes a packet of a queue pair that is ready at t, and returns when it
// is done. queue is when the queue pair's previous packet is done. A packet waits
// for that outside the units, so packets of other queue pairs do not wait with it.
func (u *processingUnits) serve(t units.Time, op ib.Opcode, queue *units.Time) units.Time {
	cycles := u.cfg.cycles(op)
	begin := u.taken.free(t)
	end := u.clock.Begin(u.clock.CycleAfter(begin) + cycles)
	u.taken.hold(end)
	u.busy += cycles
	u.served++
	if u.watch != nil {
		u.watch(u.clock.Begin(u.clock.CycleAfter(begin)), end, StallNone)
	}
	u.waits.Units += begin - t
	if q := u.clock.Begin(u.clock.CycleAfter(max(*queue, t)) + cycles); q > end {
		u.waits.Queue += q - end
		end = q
	}
	*queue = end
	return end
}

// wait has a unit that has something at t do nothing for so long, and returns until when.
func (u *processingUnits) wait(t, long units.Time) units.Time {
	begin := u.clock.CycleAfter(u.taken.free(t))
	end := u.clock.CycleAfter(u.clock.Begin(begin) + long)
	u.taken.hold(u.clock.Begin(end))
	u.held += end - begin
	if u.watch != nil {
		u.watch(u.clock.Begin(begin), u.clock.Begin(end), StallPCIe)
	}
	return u.clock.Begin(end)
}

// free returns when a unit can take something.
func (u *processingUnits) free(t units.Time) units.Time { return u.taken.free(t) }

// account reports where the cycles of all units until now went.
func (u *processingUnits) account(now units.Time) Account {
	elapsed := int64(0)
	for _, until := range u.taken.until {
		elapsed += u.clock.CycleAfter(max(now, until))
	}
	a := Account{Stage: u.name, Clock: u.clock, Parallel: u.cfg.Units, Served: u.served, Elapsed: elapsed, Busy: u.busy, Idle: elapsed - u.busy - u.held}
	a.Stalled[StallPCIe] = u.held
	return a
}
