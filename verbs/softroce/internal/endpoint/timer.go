package endpoint

import "github.com/sluice-rdma/sluice/units"

// timerHeap orders queue pairs by when their timer is due: a binary heap, in
// which each knows its place. A deadline that moves later stays where it is and
// costs one look when it comes; see rc.QP.Deadline.
type timerHeap struct{ qps []*QP }

func (h *timerHeap) first() units.Time {
	if len(h.qps) == 0 {
		return units.Never
	}
	return h.qps[0].timerAt
}

// set puts q in at an instant, or moves it there.
func (h *timerHeap) set(q *QP, at units.Time) {
	q.timerAt = at
	if q.timerIndex < 0 {
		q.timerIndex = len(h.qps)
		h.qps = append(h.qps, q)
	}
	h.fix(q.timerIndex)
}

func (h *timerHeap) pop() *QP {
	q := h.qps[0]
	h.remove(q)
	return q
}

func (h *timerHeap) remove(q *QP) {
	i := q.timerIndex
	if i < 0 {
		return
	}
	last := len(h.qps) - 1
	h.qps[i] = h.qps[last]
	h.qps[i].timerIndex = i
	h.qps[last] = nil
	h.qps = h.qps[:last]
	q.timerIndex, q.timerAt = -1, units.Never
	if i < last {
		h.fix(i)
	}
}

// fix moves the entry at i to where it belongs.
func (h *timerHeap) fix(i int) {
	q := h.qps[i]
	for i > 0 {
		p := (i - 1) / 2
		if h.qps[p].timerAt <= q.timerAt {
			break
		}
		h.qps[i] = h.qps[p]
		h.qps[i].timerIndex = i
		i = p
	}
	for {
		c := 2*i + 1
		if c >= len(h.qps) {
			break
		}
		if c+1 < len(h.qps) && h.qps[c+1].timerAt < h.qps[c].timerAt {
			c++
		}
		if q.timerAt <= h.qps[c].timerAt {
			break
		}
		h.qps[i] = h.qps[c]
		h.qps[i].timerIndex = i
		i = c
	}
	h.qps[i] = q
	q.timerIndex = i
}

// arm sees to it that q's timer is looked at in time.
func (e *Endpoint) arm(q *QP) {
	if q.rc == nil {
		return
	}
	if at := q.rc.Deadline(); at < q.timerAt {
		e.timers.set(q, at)
	}
}
