package homa

import (
	"math"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// receiver decides at one host which flows may send.
//
// A flow that is longer than RTTBytes needs grants until it is granted to its end.
// Of these flows the Overcommit shortest are active: they get grants, in the order
// of their remaining bytes. The others wait in a heap.
type receiver struct {
	rttBytes, mtu units.Bytes
	scheduled     uint8 // classes
	highest       uint8 // where the shortest begins: one is left for a shorter one that comes
	resend        units.Time

	flows   []flow   // by number
	active  []uint32 // the shortest first
	waiting []uint32 // a binary heap

	// tails counts by class the flows that are granted to their end and have bytes
	// under way.
	tails [classes + 1]int32

	incomplete int // flows whose bytes have not all arrived
	starts     uint64
	alarm      units.Time
	pending    []uint32 // flows with a grant to be sent, from the head
	head       int
}

type flow struct {
	size           units.Bytes // unknown counts as the largest
	arrived, limit units.Bytes
	told           units.Bytes // the limit that the sender was sent
	start          uint64      // order of beginning
	heard          units.Time  // when data arrived, or a grant was sent
	place          int32       // in the heap
	where          place
	class          uint8
	tail           uint8 // the class under which it is in tails, or 0
	silent         bool  // for longer than Resend
	queued         bool  // in pending
	again          bool  // send the grant though it was sent
}

// place names the list that keeps a flow.
type place uint8

const (
	nowhere place = iota // no such flow
	apart                // gets no grant: short, granted to its end, silent or over
	inActive
	inWaiting
)

const unknown units.Bytes = math.MaxInt64 / 4

// NewReceiver makes the receiver of one host.
func NewReceiver(c Config, env cc.Env) (cc.Receiver, error) {
	if err := c.check(env); err != nil {
		return nil, err
	}
	rttBytes := c.rttBytes(env)
	return &receiver{
		rttBytes: rttBytes, mtu: env.MTU,
		scheduled: uint8(c.ScheduledClasses),
		highest:   uint8(max(1, min(c.Overcommit, c.ScheduledClasses-1))),
		resend:    c.Resend,
		active:    make([]uint32, 0, c.Overcommit),
		alarm:     units.Never,
	}, nil
}

// outstandingOf returns the granted bytes of a flow, beyond its unscheduled ones, that
// have not arrived.
func (r *receiver) outstandingOf(f *flow) units.Bytes {
	return max(0, f.limit-max(f.arrived, r.rttBytes))
}

// OnStart implements cc.Receiver.
func (r *receiver) OnStart(now units.Time, number uint32, size units.Bytes) {
	for int(number) >= len(r.flows) {
		r.flows = append(r.flows, flow{})
	}
	f := &r.flows[number]
	if f.where != nowhere {
		return
	}
	if size <= 0 {
		size = unknown
	}
	r.starts++
	first := min(size, r.rttBytes)
	*f = flow{
		size: size, limit: first, told: first, start: r.starts, heard: now,
		where: apart, queued: f.queued,
	}
	r.incomplete++
	r.alarm = min(r.alarm, now+r.resend)
	// Nothing is granted before something has arrived: the sender has enough to
	// send until then.
}

// OnData implements cc.Receiver.
func (r *receiver) OnData(d *cc.Data) {
	if int(d.Flow) >= len(r.flows) || r.flows[d.Flow].where == nowhere {
		r.OnStart(d.Now, d.Flow, d.Size)
	}
	f := &r.flows[d.Flow]
	f.silent = false
	was := f.arrived
	f.arrived, f.heard = min(max(f.arrived, d.Arrived), f.size), d.Now
	f.limit = max(f.limit, f.arrived) // the sender may send a packet too much
	f.told = max(f.told, f.arrived)
	switch {
	case f.arrived == f.size:
		if was < f.size {
			r.incomplete--
		}
		r.setTail(f, 0)
		r.take(d.Flow, f)
	case f.where == apart && f.limit == f.size:
		r.setTail(f, f.class) // if it was silent
	case f.where == apart && f.limit < f.size:
		r.wait(d.Flow)
	case f.where == inActive:
		r.rise(d.Flow)
	case f.where == inWaiting:
		r.up(int(f.place), d.Flow)
	}
	r.grant(d.Now)
}

// OnEnd implements cc.Receiver.
func (r *receiver) OnEnd(now units.Time, number uint32) {
	if int(number) >= len(r.flows) || r.flows[number].where == nowhere {
		return
	}
	f := &r.flows[number]
	if f.arrived < f.size {
		r.incomplete--
	}
	r.setTail(f, 0)
	r.take(number, f)
	f.where = nowhere
	r.grant(now)
}

// Deadline implements cc.Receiver.
func (r *receiver) Deadline() units.Time { return r.alarm }

// OnTimer sends the grants of silent flows again, since no later grant makes up for
// a loss. It gives their place to other flows until their data arrive again.
func (r *receiver) OnTimer(now units.Time) {
	if now < r.alarm {
		return
	}
	for i := range r.flows {
		f := &r.flows[i]
		if f.where == nowhere || f.arrived == f.size || now-f.heard < r.resend {
			continue
		}
		if f.limit == f.size && f.limit <= r.rttBytes {
			// A short flow whose sender has a smaller RTTBytes would wait for ever.
			f.class = r.scheduled
		} else if r.outstandingOf(f) == 0 {
			continue
		}
		if !f.silent {
			r.setTail(f, 0)
			r.take(uint32(i), f)
			f.silent = true
		}
		f.heard, f.again = now, true
		r.tell(uint32(i), f)
	}
	r.alarm = units.Never
	if r.incomplete > 0 {
		r.alarm = now + r.resend
	}
	r.grant(now)
}

// Next implements cc.Receiver.
func (r *receiver) Next() (number uint32, g cc.Grant, ok bool) {
	for r.head < len(r.pending) {
		number = r.pending[r.head]
		r.head++
		f := &r.flows[number]
		f.queued = false
		if f.where != nowhere && (f.limit > f.told || f.again) {
			f.told, f.again = f.limit, false
			return number, cc.Grant{Limit: f.limit, Class: f.class}, true
		}
	}
	r.pending, r.head = r.pending[:0], 0
	return 0, cc.Grant{}, false
}

// grant keeps RTTBytes granted ahead of each active flow, the shortest first (section
// 3.3). One that is granted to its end makes room for the next at once.
func (r *receiver) grant(now units.Time) {
	r.promote()
	above := uint8(0) // the class of the next shorter flow
	for i := 0; i < len(r.active); {
		number := r.active[i]
		f := &r.flows[number]
		class, wait := r.class(i, f, above)
		if !wait {
			if limit := r.cut(f, f.arrived+r.rttBytes); limit > f.limit {
				f.limit, f.class, f.heard = limit, class, now
				r.tell(number, f)
			}
		}
		if f.limit == f.size { // it needs no more
			r.setTail(f, f.class)
			r.take(number, f)
			r.promote()
			continue
		}
		above = class
		i++
	}
}

// cut ends a limit with the flow, or else with a whole packet.
func (r *receiver) cut(f *flow, limit units.Bytes) units.Bytes {
	if limit < f.size {
		return limit - limit%r.mtu
	}
	return f.size
}

// setTail counts a flow in tails under a class, or not at all.
func (r *receiver) setTail(f *flow, class uint8) {
	if f.tail != class {
		r.tails[f.tail]--
		r.tails[class]++
		f.tail = class
	}
}

// below is the highest class of a flow that is longer than all flows granted to
// their end: it must not delay their bytes under way.
func (r *receiver) below() uint8 {
	for class := uint8(1); class <= r.scheduled; class++ {
		if r.tails[class] > 0 {
			return max(2, class) - 1
		}
	}
	return r.scheduled
}

// class returns the class of the next grant to the active flow of a rank, and
// whether that grant has to wait.
//
// Each flow has a class below that of the next shorter one, as long as there are
// any. A class may fall at any time, but rises only when all that was granted has
// arrived: a packet that overtakes others of its flow looks like a loss to a
// go-back-N transport. So the classes go down as flows end, until the shortest flow
// shares the lowest class with others. Then it waits for its packets, and its class
// rises.
func (r *receiver) class(rank int, f *flow, above uint8) (class uint8, wait bool) {
	most := r.scheduled
	if f.size-f.arrived > r.rttBytes {
		most = r.below()
	}
	if rank > 0 {
		class = min(most, max(2, above)-1)
		if f.class > 0 {
			class = min(class, f.class)
		}
		return class, false
	}
	others := uint8(0)
	for _, x := range r.active[1:] {
		others = max(others, r.flows[x].class)
	}
	lifted := min(most, max(r.highest, others+1))
	switch {
	case f.class == 0:
		return lifted, false
	case f.class > 1 || others == 0 || lifted == 1:
		return min(f.class, most), false // the others give way
	case f.arrived == f.limit:
		return lifted, false
	}
	return f.class, true
}

func (r *receiver) tell(number uint32, f *flow) {
	if !f.queued {
		f.queued = true
		r.pending = append(r.pending, number)
	}
}
