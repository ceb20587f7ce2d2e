package endpoint

// readyList holds the queue pairs that may have something to send, each at most
// once, in the order of their turns.
type readyList struct{ first, last *QP }

type readyLink struct {
	prev, next *QP
	in         bool
	sent       int // packets of this turn
}

// turn is how many packets a queue pair sends before the next has its turn: as
// many as one segmentation offload takes.
const turn = 64

// wake gives q a turn.
func (q *QP) wake() {
	if !q.ready.in {
		q.e.ready.push(q)
	}
}

func (l *readyList) push(q *QP) {
	q.ready = readyLink{prev: l.last, in: true}
	if l.last == nil {
		l.first = q
	} else {
		l.last.ready.next = q
	}
	l.last = q
}

func (l *readyList) remove(q *QP) {
	if !q.ready.in {
		return
	}
	if p := q.ready.prev; p != nil {
		p.ready.next = q.ready.next
	} else {
		l.first = q.ready.next
	}
	if n := q.ready.next; n != nil {
		n.ready.prev = q.ready.prev
	} else {
		l.last = q.ready.prev
	}
	q.ready = readyLink{}
}
