package ratelimiter

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/units"
)

// FlowID names a flow of one Scheduler. IDs are small integers, counted from 0
// and used again after RemoveFlow, so a caller can keep its own state of the
// flows in a slice.
type FlowID uint32

// Unpaced is the rate of a flow that is never held back.
const Unpaced units.Rate = math.MaxInt64

// Config configures all flows of a Scheduler.
type Config struct {
	// LineRate is the rate at and above which a flow is not paced: its segments go to
	// the ring at once, never to the wheel. With 0 only Unpaced flows are not paced.
	LineRate units.Rate
	// Burst bounds the bytes that an idle flow may send ahead of its rate; an hour at
	// its rate is another bound.
	Burst units.Bytes
	// CatchUp bounds how far a segment that left late counts as sent on time.
	CatchUp units.Time
	// PullIn is the least time by which an increase of the rate must advance a waiting segment
	// for the segment to be filed again at once. A smaller value is more exact and
	// costs a division and a move in the wheel each time.
	PullIn units.Time
}

// DefaultConfig paces every flow, gives idle flows no credit, and makes up for up
// to 10 us of a polling loop's delay. It does not move a segment when an increase
// of the rate would gain less than 10 us. TIMELY does not specify these values; its
// gaps with 64 KB segments are from 52 us (10 Gbps) up.
func DefaultConfig() Config {
	return Config{CatchUp: 10 * units.Microsecond, PullIn: 10 * units.Microsecond}
}

// longest bounds the spans of a Config so that sums of times stay far from
// overflow.
const longest = 3600 * units.Second

func (c Config) validate() error {
	switch {
	case c.LineRate < 0:
		return fmt.Errorf("ratelimiter: LineRate is %v, expected the port's rate, or 0 to pace all flows", c.LineRate)
	case c.Burst < 0 || c.Burst > units.GiB:
		return fmt.Errorf("ratelimiter: Burst is %v, expected from 0 to 1GiB", c.Burst)
	case c.CatchUp < 0 || c.CatchUp > longest:
		return fmt.Errorf("ratelimiter: CatchUp is %v, expected from 0 to %v", c.CatchUp, longest)
	case c.PullIn < 0 || c.PullIn > longest:
		return fmt.Errorf("ratelimiter: PullIn is %v, expected from 0 to %v", c.PullIn, longest)
	}
	return nil
}

// flow is the state of one flow. It fills a cache line.
type flow struct {
	rate units.Rate // 0: the ID is free

	// The enqueued segment, of head bytes, is due at due by the rate filed (0:
	// none is enqueued). It is in the ring if that time has come, else in the
	// wheel. credit is how far it counts as sent before.
	due    units.Time
	filed  units.Rate
	credit units.Time

	// The last transmission: the next segment is due at anchor plus the time of last
	// bytes, with the remainder rem carried over and nextRem left over. It is computed
	// only when there is a segment, so that the rate of that time applies.
	anchor       units.Time
	rem, nextRem uint64
	last, head   uint32
}

// Scheduler paces flows. Make one with New. A now that lies before an earlier
// one is taken as the earlier: time does not run backwards here.
type Scheduler struct {
	cfg   Config
	now   units.Time
	wheel wheel
	ring  list
	links []links
	flows []flow
	used  uint32 // IDs that have been given away
	free  uint32 // removed IDs, through links.next
	queue int
	turns *turns // nil while all flows have one segment a turn
}

// New returns a scheduler without flows, or says what is wrong with c.
func New(c Config) (*Scheduler, error) {
	s := new(Scheduler)
	if err := s.start(c, nil, nil); err != nil {
		return nil, err
	}
	return s, nil
}

// start makes s a scheduler without flows, with room for as many as there are of
// either. It says what is wrong with c.
func (s *Scheduler) start(c Config, flows []flow, neighbours []links) error {
	if err := c.validate(); err != nil {
		return err
	}
	s.cfg, s.now, s.ring, s.free = c, math.MinInt64, list{none, none}, none
	s.flows, s.links = flows, neighbours
	s.wheel.base = s.now
	s.wheel.init()
	return nil
}

// AddFlow returns a new flow that may send its first segment at once. It fails if
// the rate is not positive.
func (s *Scheduler) AddFlow(r units.Rate) (FlowID, error) {
	if s.links == nil {
		s.links = make([]links, 0, cacheline.Size/unsafe.Sizeof(links{})) // no line that another scheduler has
	}
	if s.free == none && int(s.used) == len(s.flows) {
		s.flows = append(s.flows, flow{})
		s.links = append(s.links, links{})
	}
	return s.add(r)
}

// add is AddFlow where there is room for one more.
func (s *Scheduler) add(r units.Rate) (FlowID, error) {
	if r <= 0 {
		return 0, rateError(r)
	}
	id := s.free
	switch {
	case id != none:
		s.free = s.links[id].next
	case int(s.used) < min(len(s.flows), len(s.links)):
		id = s.used
		s.used++
	default:
		return 0, errors.New("ratelimiter: no room for one more flow")
	}
	s.flows[id] = flow{rate: r, anchor: math.MinInt64}
	return FlowID(id), nil
}

func rateError(r units.Rate) error {
	return fmt.Errorf("ratelimiter: rate %v of a flow, expected at least 1bps, or ratelimiter.Unpaced", r)
}

// RemoveFlow forgets the flow, and its segment if one is enqueued. Its ID may
// come back from the next AddFlow. It panics if there is no such flow, as every
// method does.
func (s *Scheduler) RemoveFlow(id FlowID) {
	s.Withdraw(id)
	s.flows[id].rate = 0
	s.turns.forget(uint32(id))
	s.links[id].next = s.free
	s.free = uint32(id)
}

// flow returns the flow of that ID.
func (s *Scheduler) flow(id FlowID) *flow {
	if int(id) >= len(s.flows) || s.flows[id].rate == 0 {
		misuse(id, "does not exist")
	}
	return &s.flows[id]
}

func misuse(id FlowID, what string) {
	panic(fmt.Sprintf("ratelimiter: flow %d %s", id, what))
}

// Rate returns the flow's rate.
func (s *Scheduler) Rate(id FlowID) units.Rate { return s.flow(id).rate }

// Queued reports whether a segment of the flow is enqueued.
func (s *Scheduler) Queued(id FlowID) bool { return s.flow(id).filed != 0 }

// Due returns when the flow's segment is due, or was if it has left; of one that is
// enqueued it may prove later if the rate has decreased since.
func (s *Scheduler) Due(id FlowID) units.Time { return s.flow(id).due }

// Next returns from when on the flow's rate lets its next segment leave, by what has
// left so far; that time may have passed. math.MinInt64 if nothing holds it.
func (s *Scheduler) Next(id FlowID) units.Time {
	f := s.flow(id)
	if s.unpaced(f.rate) || f.anchor == math.MinInt64 {
		return math.MinInt64
	}
	at, _ := f.next()
	return at
}

// Len returns the number of flows that have a segment enqueued.
func (s *Scheduler) Len() int { return s.queue }

// Enqueue adds the flow's next segment, of n bytes. For an RDMA Read the bytes are
// those it asks for (TIMELY section 5). It panics if the flow has a segment
// enqueued already or n is not from 0 to 4 GiB - 1.
func (s *Scheduler) Enqueue(now units.Time, id FlowID, n units.Bytes) {
	f, due := s.admit(now, id, n)
	s.queue++
	if due <= s.now && s.turns.goesOn(uint32(id)) {
		f.due, f.filed = due, f.rate
		s.ring.prepend(s.links, uint32(id))
		return
	}
	s.put(uint32(id), f, due)
}

// Offer is Enqueue, and the Dequeue that follows if that would return this very
// flow: it reports whether the segment leaves at once, and counts as sent. If not,
// it is enqueued.
func (s *Scheduler) Offer(now units.Time, id FlowID, n units.Bytes) bool {
	_, leaves := s.OfferBy(now, now, id, n)
	return leaves
}

// OfferBy is Offer at a past time, for a caller that is late, at now, and would go on
// with DequeueAt: the segment leaves also if it is due by now, and before all others. It
// returns the time that DequeueAt would have had: at, or when the segment was due, but
// no more than CatchUp before now.
func (s *Scheduler) OfferBy(at, now units.Time, id FlowID, n units.Bytes) (units.Time, bool) {
	f, due := s.admit(at, id, n)
	sent := due
	switch {
	case due <= s.now && (s.ring.head == none || s.turns.goesOn(uint32(id))):
	case due > s.now && due <= now && s.ring.head == none && due < s.wheel.earliest(s.links, s.flows):
		sent = max(due, now-s.cfg.CatchUp)
		at = s.advance(sent)
		f.due = due
	default:
		s.queue++
		s.put(uint32(id), f, due)
		return at, false
	}
	s.turns.served(uint32(id))
	f.anchor = sent - f.credit
	f.last, f.rem = f.head, f.nextRem
	return at, true
}

// admit takes a segment in and returns when it is due, not before now.
func (s *Scheduler) admit(now units.Time, id FlowID, n units.Bytes) (f *flow, due units.Time) {
	f = s.flow(id)
	if f.filed != 0 {
		misuse(id, "has a segment enqueued already; enqueue the next one after Dequeue returned the flow")
	}
	if n < 0 || n > math.MaxUint32 {
		misuse(id, "was given a segment of a size that none has")
	}
	// First the wheel, so that segments due before now are ahead in the ring.
	now = s.advance(now)
	f.head, f.credit = uint32(n), 0
	if s.unpaced(f.rate) {
		return f, now
	}
	due, f.nextRem = f.next()
	if due < now {
		if s.cfg.Burst > 0 {
			earliest := max(due, now-min(f.rate.Serialize(s.cfg.Burst), longest))
			f.credit = now - earliest
		}
		due = now
	}
	return f, due
}

// Dequeue returns a flow whose segment is due and takes it out of the scheduler,
// or false if no segment is due. The segment counts as sent.
func (s *Scheduler) Dequeue(now units.Time) (FlowID, bool) { return s.DequeueAt(now, now) }

// DequeueAt is Dequeue at a past time, for a caller that is late, at now, and
// dequeues in the order of time the segments that became due meanwhile. CatchUp
// counts from now.
func (s *Scheduler) DequeueAt(at, now units.Time) (FlowID, bool) {
	at = s.advance(at)
	now = max(now, at)
	for s.ring.head != none {
		id := s.ring.head
		s.ring.remove(s.links, id)
		f := &s.flows[id]
		due := f.due
		if f.rate < f.filed && !s.unpaced(f.rate) {
			if d, rem := f.next(); d > due {
				due, f.nextRem, f.credit = d, rem, 0
			}
			if due > at {
				s.put(id, f, due)
				continue
			}
		}
		f.filed, f.due = 0, due
		f.anchor = max(due, now-s.cfg.CatchUp) - f.credit
		f.last, f.rem = f.head, f.nextRem
		s.queue--
		s.turns.served(id)
		return FlowID(id), true
	}
	return 0, false
}

// Resize says that the segment of the flow that left last was of n bytes, and not of as many as
// it was enqueued with: the flow's next is due by that. It panics if n is not from 0 to 4 GiB - 1.
func (s *Scheduler) Resize(id FlowID, n units.Bytes) {
	if n < 0 || n > math.MaxUint32 {
		misuse(id, "was given a segment of a size that none has")
	}
	s.flow(id).last = uint32(n)
}

// NextDue returns the exact time at which the next segment is due, or Never if none
// is enqueued. If one is due already, NextDue returns the last now passed to the
// scheduler. If rates have decreased since their segments were filed, Dequeue may
// find nothing to release at that time, and NextDue is later afterwards; no segment
// is ever due before NextDue.
func (s *Scheduler) NextDue() units.Time {
	if s.ring.head != none {
		return s.now
	}
	return s.wheel.earliest(s.links, s.flows)
}

// SetRate changes the flow's rate. It fails, and changes nothing, if the rate is
// not positive.
func (s *Scheduler) SetRate(id FlowID, r units.Rate) error {
	if r <= 0 {
		return rateError(r)
	}
	f := s.flow(id)
	f.rate = r
	if f.filed == 0 || r <= f.filed || f.due <= s.now {
		return nil
	}
	// No more than the whole gap can be gained: this spares most calls the
	// division.
	if f.due <= f.anchor+s.cfg.PullIn {
		return nil
	}
	due, rem := s.now, uint64(0)
	if !s.unpaced(r) {
		due, rem = f.next()
		due = max(due, s.now)
	}
	if due < f.due-s.cfg.PullIn {
		s.wheel.remove(s.links, uint32(id), f.due)
		f.nextRem = rem
		s.put(uint32(id), f, due)
	}
	return nil
}

// Withdraw removes the flow's segment, uncounted, and reports whether there was
// one. It is for a window that closed, or a queue pair that went into error.
func (s *Scheduler) Withdraw(id FlowID) bool {
	f := s.flow(id)
	if f.filed == 0 {
		return false
	}
	if f.due > s.now {
		s.wheel.remove(s.links, uint32(id), f.due)
	} else {
		s.ring.remove(s.links, uint32(id))
	}
	f.filed = 0
	s.queue--
	s.turns.withdrawn(uint32(id))
	return true
}

func (s *Scheduler) unpaced(r units.Rate) bool {
	return r == Unpaced || s.cfg.LineRate > 0 && r >= s.cfg.LineRate
}

// next computes when the flow may send next by its present rate, and the
// remainder after that.
func (f *flow) next() (units.Time, uint64) {
	rem := f.rem
	if rem >= uint64(f.rate) {
		rem = 0 // from a higher rate; worth less than a picosecond
	}
	gap, rem := f.rate.SerializeRem(units.Bytes(f.last), rem)
	at := f.anchor + gap
	if gap == units.Never || at < f.anchor {
		return units.Never, 0
	}
	return at, rem
}

// put files the head segment for its due time.
func (s *Scheduler) put(id uint32, f *flow, due units.Time) {
	f.due, f.filed = due, f.rate
	if due <= s.now {
		s.ring.append(s.links, id)
	} else {
		s.wheel.file(s.links, id, due)
	}
}

// advance turns the wheel to now and returns the time that counts as now.
func (s *Scheduler) advance(now units.Time) units.Time {
	if now <= s.now {
		return s.now
	}
	s.now = now
	s.wheel.expire(s.links, s.flows, now, &s.ring)
	return now
}

// SetBack sets back all instants, as units.Time.SetBack does. The times passed
// afterwards are those of the clock that was set back. Segments leave when they
// would have, in the same order, unless a bound of SetBack applied to them.
func (s *Scheduler) SetBack(by units.Time) {
	queued := s.wheel.drain(s.links)
	s.now = s.now.SetBack(by)
	s.wheel.base = s.now
	for i := range s.flows {
		f := &s.flows[i]
		f.due, f.anchor = f.due.SetBack(by), f.anchor.SetBack(by)
	}
	for id := queued.head; id != none; {
		next := s.links[id].next
		if due := s.flows[id].due; due <= s.now {
			s.ring.append(s.links, id)
		} else {
			s.wheel.file(s.links, id, due)
		}
		id = next
	}
}
