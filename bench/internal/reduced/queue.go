package reduced

import "github.com/sluice-rdma/sluice/units"

// queue is the senders of a NIC that have something to send, a binary heap by
// when they may, and among those of an instant by their order in line. A sender
// knows its place.
type queue []waiting

type waiting struct {
	at     units.Time
	order  uint32
	sender uint32 // slot
}

func (a *waiting) before(b *waiting) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return int32(a.order-b.order) < 0
}

// line is those in line for the wire at one priority. Requests and responses take turns, as
// in staged NICs.
type line struct{ requests, responses queue }

// first returns the queue whose first sender is next: of two that may send now that whose
// turn it is, else the one that may earlier.
func (of *line) first(now units.Time, answers bool) *queue {
	if len(of.responses) == 0 {
		return &of.requests
	}
	if len(of.requests) == 0 {
		return &of.responses
	}
	ask, answer := of.requests[0].at, of.responses[0].at
	if max(ask, now) == max(answer, now) && answers || max(answer, now) < max(ask, now) {
		return &of.responses
	}
	return &of.requests
}

// queueOf is the queue that a sender belongs to.
func (n *nic) queueOf(s *sender) *queue {
	of := &n.due
	if n.classes != nil {
		of = &n.classes[s.priority&7]
	}
	if s.answers {
		return &of.responses
	}
	return &of.requests
}

// place puts a waiting sender at i, and records i at its sender.
func (n *nic) place(q queue, i int, e waiting) {
	q[i] = e
	n.senders[e.sender].place = int32(i + 1)
}

// push adds a sender, or gives one that is there another time.
func (n *nic) push(slot uint32, at units.Time) {
	n.order++
	e := waiting{at, n.order, slot}
	s := &n.senders[slot]
	q := n.queueOf(s)
	i := int(s.place) - 1
	if i < 0 {
		*q = append(*q, e)
		i = len(*q) - 1
	}
	n.sift(*q, i, e)
}

// sift finds the place of a waiting sender for which there is room at i.
func (n *nic) sift(q queue, i int, e waiting) {
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&q[up]) {
			break
		}
		n.place(q, i, q[up])
		i = up
	}
	for {
		down := 2*i + 1
		if down >= len(q) {
			break
		}
		if r := down + 1; r < len(q) && q[r].before(&q[down]) {
			down = r
		}
		if !q[down].before(&e) {
			break
		}
		n.place(q, i, q[down])
		i = down
	}
	n.place(q, i, e)
}

// remove takes a sender out.
func (n *nic) remove(slot uint32) {
	s := &n.senders[slot]
	i := int(s.place) - 1
	if i < 0 {
		return
	}
	s.place = 0
	q := n.queueOf(s)
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	if i < len(*q) {
		n.sift(*q, i, last)
	}
}
