package rc

import "github.com/sluice-rdma/sluice/units"

// SendQueued returns the number of requests that take up room in the send queue: PollSend
// has not gone past them.
func (q *QP) SendQueued() int { return int(q.tail - q.poll) }

// AnswerTo returns the slot of the outstanding READ or atomic whose answer has a packet of
// that PSN, and false if there is none.
func (q *QP) AnswerTo(psn units.PSN) (slot uint32, ok bool) {
	p := near(psn, q.una)
	if p < q.una || p >= q.sent {
		return 0, false
	}
	from, to := q.head, q.tail // the first whose end is beyond p
	for from != to {
		if mid := from + (to-from)/2; q.wqes[mid&q.wqeMask].end > p {
			to = mid
		} else {
			from = mid + 1
		}
	}
	if from == q.tail || !q.wqes[from&q.wqeMask].kind.returnsData() {
		return 0, false
	}
	return from & q.wqeMask, true
}
