package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// processingUnits are the units of a NIC. Their work is accounted for as
// that of one stage with as many times the cycles as there are units.
//
// A request to send begins when a unit is free. Where received packets leave none free, requests take turns
// with them: from one request's beginning to the next one's, as much time passes as two requests take
// of all units. Then the packets that were received before it keep their time, and later ones
// make room for it.
type processingUnits struct {
	cfg    config.Units
	clock  stage.Clock
	taken  stage.Inflight // until when each is
	turn   units.Time     // from when on a request may begin though none is free
	busy   int64
	served uint64
	waits  unitWaits
	watch  func(begin, end units.Time, why stage.Stall)
}

func (u *processingUnits) SetWatch(f func(begin, end units.Time, why stage.Stall)) { u.watch = f }

// unitWaits sums the waits of packets before the units.
type unitWaits struct {
	Units units.Time // received ones, for a unit
	Queue units.Time // for the previous packet of their queue pair, in addition
}

// newUnits returns nil for none.
func newUnits(c config.Units, clock stage.Clock) *processingUnits {
	if c.Units == 0 {
		return nil
	}
	return &processingUnits{cfg: c, clock: clock, taken: stage.NewInflight(c.Units)}
}

// passes is how often a packet passes a unit: again if it is to find its element on the chip and does not.
func (u *processingUnits) passes(missed bool) int64 {
	if missed && u.cfg.Replay {
		return 2
	}
	return 1
}

// free returns when a unit can take a request to send.
func (u *processingUnits) free(t units.Time) units.Time {
	return min(u.taken.Free(t), max(t, u.turn))
}

// send works on a packet of a request of a queue pair that is ready at t, and returns when it
// is done, after passes passes. queue is when the queue pair's previous request is done. A packet waits
// for that outside the units, so packets of other queue pairs do not wait with it.
func (u *processingUnits) send(t units.Time, passes int64, queue *units.Time) units.Time {
	begin := u.free(t)
	u.turn = begin + u.clock.Begin(2*u.cfg.Request)/units.Time(u.cfg.Units)
	return u.work(t, begin, passes*u.cfg.Request, queue)
}

// receive is send for a received packet; queue is of the queue pair's received packets.
func (u *processingUnits) receive(t units.Time, op ib.Opcode, passes int64, queue *units.Time) units.Time {
	begin := u.taken.Free(t)
	u.waits.Units += begin - t
	return u.work(t, begin, passes*u.cfg.Cycles(op), queue)
}

// work has a unit work from begin on.
func (u *processingUnits) work(t, begin units.Time, cycles int64, queue *units.Time) units.Time {
	end := u.clock.Begin(u.clock.CycleAfter(begin) + cycles)
	from := u.clock.CycleAfter(max(begin, u.taken.Free(t)))
	u.taken.Hold(u.clock.Begin(from + cycles))
	u.busy += cycles
	u.served++
	if u.watch != nil {
		u.watch(u.clock.Begin(from), u.clock.Begin(from+cycles), stage.StallNone)
	}
	if q := u.clock.Begin(u.clock.CycleAfter(max(*queue, t)) + cycles); q > end {
		u.waits.Queue += q - end
		end = q
	}
	*queue = end
	return end
}

// Account reports where the cycles of all units until now went.
func (u *processingUnits) Account(now units.Time) stage.Account {
	return u.taken.Account(now, "units", u.clock, u.served, u.busy)
}

// waitsUntil reports how long packets have waited for units.
func (u *processingUnits) waitsUntil(units.Time) []stage.Wait {
	return []stage.Wait{{Where: "units", For: "a unit", Total: u.waits.Units, Taken: true}, {Where: "units", For: "the packet before of the queue pair", Total: u.waits.Queue}}
}
