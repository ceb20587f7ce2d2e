package rc

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
)

// Recv is a receive work request.
type Recv struct {
	ID     uint64 // the application's wr_id
	Length uint32 // bytes that its buffers hold
}

// ErrFull is the error of a post to a queue that is full.
var ErrFull = errors.New("rc: the work queue is full")

// RecvQueue is a queue of receive work requests: of one queue pair, or shared
// by several (SRQ), which then belong to one goroutine.
//
// Post takes a slot. The slot belongs to the receive until the driver has reported
// the completion and returns the slot by Free; the two orders may differ where the
// queue is shared. So a driver can keep its scatter lists by slot.
type RecvQueue struct {
	entries []Recv
	order   []uint32 // posted slots, oldest at head
	free    []uint32 // a stack
	head    uint32
	posted  uint32 // how many in order
	limit   uint32 // see SetLimit
}

// NewRecvQueue returns a queue for up to depth receives, 1 to 65536.
func NewRecvQueue(depth int) (*RecvQueue, error) {
	if depth < 1 || depth > maxDepth {
		return nil, fmt.Errorf("rc: receive queue depth %d, expected 1 to %d", depth, maxDepth)
	}
	q := &RecvQueue{entries: make([]Recv, depth), order: make([]uint32, depth), free: make([]uint32, depth)}
	for i := range q.free {
		q.free[i] = uint32(depth - 1 - i)
	}
	return q, nil
}

// Post adds a receive and returns its slot, or ErrFull.
func (q *RecvQueue) Post(r Recv) (slot uint32, err error) {
	if len(q.free) == 0 {
		return 0, ErrFull
	}
	slot = q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	q.entries[slot] = r
	at := q.head + q.posted
	if n := uint32(len(q.order)); at >= n {
		at -= n
	}
	q.order[at] = slot
	q.posted++
	return slot, nil
}

// Len returns how many receives are posted and not yet taken by a message.
func (q *RecvQueue) Len() int {
	if q == nil {
		return 0
	}
	return int(q.posted)
}

// Room returns how many more receives may be posted.
func (q *RecvQueue) Room() int { return len(q.free) }

// Free gives the slot of a completed receive back.
func (q *RecvQueue) Free(slot uint32) { q.free = append(q.free, slot) }

// SetLimit arms the limit: when a message takes a receive and fewer than n are
// left, EventSRQLimit is raised, once (ibv_modify_srq with IBV_SRQ_LIMIT). 0
// disarms it.
func (q *RecvQueue) SetLimit(n int) { q.limit = uint32(max(n, 0)) }

// peek returns the oldest receive and leaves it where it is.
func (q *RecvQueue) peek() (r Recv, ok bool) {
	if q.Len() == 0 {
		return Recv{}, false
	}
	return q.entries[q.order[q.head]], true
}

// take removes the oldest receive: for a message, with EventSRQLimit in events when
// SetLimit says so, or for a flush if events is nil.
func (q *RecvQueue) take(events *EventSet) (slot uint32, r Recv, ok bool) {
	if q == nil || q.posted == 0 {
		return 0, Recv{}, false
	}
	slot = q.order[q.head]
	if q.head++; q.head == uint32(len(q.order)) {
		q.head = 0
	}
	q.posted--
	if events != nil && q.posted < q.limit {
		q.limit = 0
		events.add(ib.EventSRQLimit)
	}
	return slot, q.entries[slot], true
}
