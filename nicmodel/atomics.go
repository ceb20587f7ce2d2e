package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// atomicWaits sums the waits of atomic operations, by reason.
type atomicWaits struct {
	Unit units.Time // for one of those at a time to end
	Lock units.Time // for one under the same lock, in addition
}

type atomics struct {
	*chip.Chip
	config.Atomics
	pairs       *pairs
	regions     *memory.Regions
	translation *memory.Translation
	landings    *memory.Landings
	transport   *transport
	packetiser  *packetiser
	buffer      *receiveBuffer

	clock   stage.Clock
	slots   stage.Inflight
	locked  []units.Time
	pending []pendingAtomic
	idle    []uint32
	waits   atomicWaits
	busy    units.Time // of all places together
	served  uint64
	watch   func(begin, end units.Time, why stage.Stall)
}

func (u *atomics) SetWatch(f func(begin, end units.Time, why stage.Stall)) { u.watch = f }

// Account reports where the picoseconds of all places of the unit went.
func (u *atomics) Account(now units.Time) stage.Account {
	return u.slots.Account(now, "atomics", stage.Picoseconds, u.served, int64(u.busy))
}

// pendingAtomic is an operation between its request and its answer.
type pendingAtomic struct {
	rc.Atomic
	qpn    uint32
	resets uint8
}

func newAtomics(on *chip.Chip) atomics {
	c := on.Config.Atomics
	u := atomics{Chip: on, Atomics: c, clock: on.Config.CoreClock}
	if c.InFlight > 0 { // else no rule holds for the rest
		u.slots, u.locked = stage.NewInflight(c.InFlight), make([]units.Time, c.Locks)
	}
	return u
}

// start begins an operation. It returns whether the answer is there already, and
// false for ok after telling the transport if that memory may not be touched.
func (u *atomics) start(now units.Time, q *qp, eff *rc.Effects) (answered, ok bool) {
	a := &eff.Atomic
	r := u.regions.Remote(q.owner(), a.RKey, a.VA, 8, ib.AccessRemoteAtomic)
	if r == nil {
		q.rc.FailRecv(now, ib.WCRemAccessErr, eff)
		return false, false
	}
	known := now
	if u.translation.Active() {
		known = u.translation.Reach(now, r, a.VA, 8)
		u.translation.HoldBack(now, known)
		q.translated(now, known)
	}
	read := u.Link.Read(now, a.VA, 8, pcie.ForAtomic) + known - 2*now
	sent, _ := u.Link.Write(now, a.VA, 8, pcie.ForAtomic)
	if u.InFlight == 0 {
		if !u.execute(q, a, u.Link.Left(sent+known-now)) {
			q.rc.FailRecv(now, ib.WCRemAccessErr, eff)
			return false, false
		}
		return true, true
	}
	slot := u.slots.Free(now)
	lock := &u.locked[a.VA&uint64(u.Locks-1)]
	took := u.clock.Begin(u.clock.CycleAfter(read)+u.Cycles) + sent - now
	// An operation that waits for its lock does not keep others out of the unit.
	u.slots.Hold(slot + took)
	u.busy += took
	u.served++
	if u.watch != nil {
		u.watch(slot, slot+took, stage.StallNone)
	}
	end := max(slot, *lock) + took
	u.buffer.hold(end - took) // it waits there
	u.waits.Unit += slot - now
	u.waits.Lock += end - took - slot
	*lock = end
	var i uint32
	if k := len(u.idle); k > 0 {
		i, u.idle = u.idle[k-1], u.idle[:k-1]
	} else {
		i = uint32(len(u.pending))
		u.pending = append(u.pending, pendingAtomic{})
	}
	u.pending[i] = pendingAtomic{Atomic: *a, qpn: q.num, resets: q.resets}
	u.Schedule(end, chip.EvAtomic, uint64(i))
	return false, true
}

// execute changes the word, as the host sees it at visible, and gives the transport
// what it was.
func (u *atomics) execute(q *qp, a *rc.Atomic, visible units.Time) bool {
	r := u.regions.Remote(q.owner(), a.RKey, a.VA, 8, ib.AccessRemoteAtomic)
	if r == nil {
		return false
	}
	orig, ok := u.landings.Change(visible, r, a)
	if ok {
		q.rc.AtomicDone(a.Slot, orig)
	}
	return ok
}

// finish answers an operation.
func (u *atomics) finish(now units.Time, i uint32) {
	p := u.pending[i]
	u.idle = append(u.idle, i)
	q := u.pairs.find(p.qpn)
	if q == nil || q.rc == nil || q.resets != p.resets {
		return // destroyed or reset meanwhile
	}
	if !u.execute(q, &p.Atomic, u.Link.Left(now)) { // the key was deregistered meanwhile, or the memory is gone
		var eff rc.Effects
		q.rc.FailRecv(now, ib.WCRemAccessErr, &eff)
		u.transport.carryOut(now, q, &eff, arrival{})
		return
	}
	u.packetiser.respond(now, q)
}

// waitsUntil reports how long operations have waited.
func (u *atomics) waitsUntil(units.Time) []stage.Wait {
	return []stage.Wait{{Where: "atomics", For: "room in the unit", Total: u.waits.Unit, Taken: true}, {Where: "atomics", For: "the lock of the address", Total: u.waits.Lock, Taken: true}}
}
