package completions

import "github.com/sluice-rdma/sluice/verbs"

type slot struct {
	wc    verbs.WC
	table *Table
	last  uint32 // Table.Last
}

// Queue holds finished requests until the application polls them, in the order
// in which they finished. The zero value is an empty queue.
type Queue struct {
	ring       []slot
	head, tail uint32 // free-running
}

// warm is the number of entries of a long ring in use, if it is empty now and then: few
// enough to stay in the cache.
const warm = 64

// Reserve makes room for n completions altogether, so that Push does not
// allocate while there are no more. The sum of the requests that the queue
// pairs hold is enough.
func (q *Queue) Reserve(n int) {
	if n <= len(q.ring) {
		return
	}
	ring := make([]slot, ceilPow2(n))
	for i, k := q.head, 0; i != q.tail; i, k = i+1, k+1 {
		ring[k] = q.ring[i&uint32(len(q.ring)-1)]
	}
	q.ring, q.head, q.tail = ring, 0, q.tail-q.head
}

// Push appends the completion of the next request of t that finished, as t.Next
// returns it. It returns the completion, which belongs to the queue and is valid
// until the next call, or nil if no request has finished.
func (q *Queue) Push(t *Table) *verbs.WC {
	if int(q.tail-q.head) == len(q.ring) {
		// It grows for a completion, not for a look.
		var wc verbs.WC
		if !t.Next(&wc) {
			return nil
		}
		q.Reserve(max(16, 2*len(q.ring)))
		e := q.put(t)
		e.wc = wc
		return &e.wc
	}
	return q.push(t)
}

// push is Push where there is room for one more.
func (q *Queue) push(t *Table) *verbs.WC {
	if !t.Next(&q.ring[q.tail&uint32(len(q.ring)-1)].wc) {
		return nil
	}
	return &q.put(t).wc
}

// put appends a slot of t, for which there is room.
func (q *Queue) put(t *Table) *slot {
	e := &q.ring[q.tail&uint32(len(q.ring)-1)]
	e.table, e.last = t, t.Last()
	q.tail++
	return e
}

// Pop moves the oldest completions to wc and releases them in their tables. It
// returns how many.
func (q *Queue) Pop(wc []verbs.WC) int {
	n := 0
	for n < len(wc) && q.head != q.tail {
		e := &q.ring[q.head&uint32(len(q.ring)-1)]
		wc[n] = e.wc
		e.table.Release(e.last)
		e.table = nil
		q.head++
		n++
	}
	if q.head == q.tail && q.head >= warm {
		q.head, q.tail = 0, 0
	}
	return n
}

// Drop removes the completions of t, whose queue pair is destroyed or reset, and
// releases them. The others keep their order.
func (q *Queue) Drop(t *Table) {
	mask := uint32(len(q.ring) - 1)
	to := q.head
	for i := q.head; i != q.tail; i++ {
		e := &q.ring[i&mask]
		if e.table == t {
			t.Release(e.last)
		} else {
			q.ring[to&mask] = *e
			to++
		}
	}
	for i := to; i != q.tail; i++ {
		q.ring[i&mask].table = nil
	}
	q.tail = to
}

// Len returns the number of waiting completions.
func (q *Queue) Len() int { return int(q.tail - q.head) }
