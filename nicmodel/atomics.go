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

// atomicWaits sums the waits of atomic operations, by reason, and those of READs.
type atomicWaits struct {
	Lock  units.Time // for one under the same lock to end
	Unit  units.Time // for one of those at a time, in addition
	Reads units.Time // for both
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
	until   units.Time // when the last of them ends
	watch   func(begin, end units.Time, why stage.Stall)
}

func (u *atomics) SetWatch(f func(begin, end units.Time, why stage.Stall)) { u.watch = f }

// Account reports where the picoseconds of all places of the unit went.
func (u *atomics) Account(now units.Time) stage.Account {
	return u.slots.Account(now, "atomics", stage.Picoseconds, u.served, int64(u.busy))
}

// pendingAtomic is an operation, or a READ that waits for some, between its request and its answer.
type pendingAtomic struct {
	rc.Atomic
	read   bool
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
	arrived := u.Link.Read(now, a.VA, 8, pcie.ForAtomic)
	sent, _ := u.Link.Write(now, a.VA, 8, pcie.ForAtomic)
	if u.InFlight == 0 {
		if !u.execute(q, a, u.Link.Left(sent+known-now)) {
			q.rc.FailRecv(now, ib.WCRemAccessErr, eff)
			return false, false
		}
		return true, true
	}
	slot := u.slots.Free(now)
	lock := u.lock(a.VA)
	// What waits for its place or its lock waits for the link meanwhile, and is read alone then.
	begin := max(slot, *lock, known)
	read := max(arrived, begin+u.Link.Alone(8))
	end := u.clock.Begin(u.clock.CycleAfter(read)+u.Cycles) + sent - now
	u.slots.Hold(end) // from slot on, as what waits for its lock keeps its place
	u.busy += end - begin
	u.served++
	if u.watch != nil {
		u.watch(begin, end, stage.StallNone)
	}
	u.buffer.hold(begin) // it waits there
	u.waits.Lock += max(0, *lock-now)
	u.waits.Unit += max(0, slot-max(now, *lock))
	*lock = end
	u.until = max(u.until, end)
	u.pend(end, pendingAtomic{Atomic: *a, qpn: q.num, resets: q.resets})
	return false, true
}

// lock returns until when the lock of an address is taken.
func (u *atomics) lock(va uint64) *units.Time { return &u.locked[va&uint64(u.Locks-1)] }

// pend has an operation end at a time.
func (u *atomics) pend(end units.Time, p pendingAtomic) {
	var i uint32
	if k := len(u.idle); k > 0 {
		i, u.idle = u.idle[k-1], u.idle[:k-1]
	} else {
		i = uint32(len(u.pending))
		u.pending = append(u.pending, pendingAtomic{})
	}
	u.pending[i] = p
	u.Schedule(end, chip.EvAtomic, uint64(i))
}

// pass has a READ of memory from an address on pass the unit: behind the operations that wait for a place in it, and through the lock of its
// address, for its share of the processing units' time. Its queue pair answers nothing until then.
func (u *atomics) pass(now units.Time, q *qp, va uint64) {
	if u.until <= now || u.InFlight == 0 { // nothing is in the unit
		return
	}
	lock := u.lock(va)
	from := max(now, u.slots.Free(now), *lock)
	*lock = from
	if c := u.Config.Units; c.Units > 0 {
		*lock += u.clock.Begin(c.Request+c.Read) / units.Time(c.Units)
	}
	if from > now {
		u.waits.Reads += from - now
		u.buffer.hold(from)
		q.locked++
		u.pend(from, pendingAtomic{read: true, qpn: q.num, resets: q.resets})
	}
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
	if p.read {
		q.locked--
		u.packetiser.respond(now, q)
		return
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
	return []stage.Wait{{Where: "atomics", For: "room in the unit", Total: u.waits.Unit, Taken: true}, {Where: "atomics", For: "the lock of the address", Total: u.waits.Lock, Taken: true}, {Where: "atomics", For: "READs behind them", Total: u.waits.Reads, Taken: true}}
}
