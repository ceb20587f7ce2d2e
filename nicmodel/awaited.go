package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// The receive side has a memory of its own for elements: those of receives, and of Reads and atomics whose answers
// are to come, which say where these go. The devices count hits and misses of it apart (mlx5's diagnostic counters of
// the unit RXW, "receive WQE cache"), and Husky (NSDI 2023) thrashes it by Sends and by Reads alike. Receives are
// fetched ahead here and do not pass it.

// awaitedElements is the elements of requests that await answers, StateConfig.Elements of them.
//
// As long as all fit, none is looked up. From when they do not on, each packet of an answer
// waits for its element, as it does for the queue pair's context, and so does what comes behind it for that queue pair.
type awaitedElements struct {
	*chip
	ports []*queuePairs
	held  int        // lines of them
	lines *lineCache // nil as long as all fit
	// The receive side reads elements itself, and so as many at a time as there can be reads of other entries.
	fetches inflight
}

// has reports whether a request's element is here, of which a packet was made, and not with those to send.
func (a *awaitedElements) has(w *sendWQE) bool {
	return a.cfg.State.Elements > 0 && w.started && awaitsAnswer(w.req.Op)
}

// awaitsAnswer reports whether a request's answer brings data, whose place the element says.
func awaitsAnswer(op ib.WROpcode) bool { return op == ib.WRRDMARead || op.IsAtomic() }

// put takes an element in of which a packet was made.
func (a *awaitedElements) put(at uint64, bytes int) {
	if a.lines != nil {
		a.enter(at, bytes)
		return
	}
	most := int(a.cfg.State.Elements / cacheLine)
	if a.held += linesOf(bytes); a.held <= most {
		return
	}
	a.lines = newLineCache(most, a.cfg.State.Ways)
	for _, pairs := range a.ports {
		for _, q := range pairs.all {
			if q == nil {
				continue
			}
			for i := q.reaped; i != q.handed; i++ {
				if a.has(q.wqe(i)) {
					a.enter(q.elementAt(i), q.wqeBytes(q.wqe(i)))
				}
			}
		}
	}
}

// take drops an element that is over.
func (a *awaitedElements) take(at uint64, bytes int) {
	if a.lines == nil {
		a.held -= linesOf(bytes)
		return
	}
	for end := at + uint64(bytes); at < end; at += cacheLine {
		a.lines.remove(at)
	}
}

// enter needs no write back, as elements do not change.
func (a *awaitedElements) enter(at uint64, bytes int) {
	for end := at + uint64(bytes); at < end; at += cacheLine {
		a.lines.touch(at, false)
	}
}

// bringsData reports whether a packet is one of an answer that brings data.
func bringsData(op ib.Opcode) bool {
	return op.Operation() >= ib.ReadResponseFirst.Operation() && op.Operation() <= ib.ReadResponseOnly.Operation() || op == ib.AtomicAcknowledge
}

// lookUpAwaited returns when the element of the request that a received packet answers is available, which
// is needed at t, and until when the stage in front of it is stalled. No packet passes an earlier one of its queue pair.
func (s *state) lookUpAwaited(t units.Time, q *qp, psn units.PSN) (ready, free units.Time) {
	ready, free = t, t
	if slot, ok := q.rc.AnswerTo(psn); ok && s.awaited.has(&q.sq[slot]) {
		ready, free = s.needIn(s.awaited.lines, &s.awaited.fetches, t, entryAwaited, q.elementAt(slot), q.wqeAddr(slot), q.wqeBytes(&q.sq[slot]))
	}
	q.awaitedAt = max(q.awaitedAt, ready)
	return q.awaitedAt, free
}
