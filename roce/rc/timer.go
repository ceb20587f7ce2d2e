package rc

import "github.com/sluice-rdma/sluice/units"

// Deadline returns when to call Expire, or units.Never. NextRequest, Receive and
// Expire may make it earlier. It may turn out too early: progress moves the timer
// without moving the deadline, and Expire then only sets it again.
func (q *QP) Deadline() units.Time { return q.deadline }

// startTimer starts the timer: that of the oldest packet that asks for an answer
// or, while none under way does, of the last one sent. So a driver may set AckReq
// itself, and a sender slower than the timeout is not taken for a loss.
func (q *QP) startTimer(now units.Time) {
	q.progress = now
	if t := q.rto(); t != units.Never {
		q.deadline = min(q.deadline, now+t)
	}
}

// rto is the time without progress that is too long.
func (q *QP) rto() units.Time {
	if q.timeoutLow != 0 && q.sent-q.una <= lowPackets {
		return q.timeoutLow
	}
	return q.timeout
}

// Expire handles the deadline: it goes back after a timeout (IBA 9.7.6.1.3), ends
// an RNR wait, or does nothing. Calling it early does no harm.
func (q *QP) Expire(now units.Time, eff *Effects) {
	eff.reset()
	if now < q.deadline {
		return
	}
	q.deadline = units.Never
	if q.rnrUntil != 0 {
		if now < q.rnrUntil {
			q.deadline = q.rnrUntil
			eff.Do |= DoTimer
		} else {
			q.rnrUntil = 0
			eff.Do |= DoSend
		}
	}
	if q.next == q.una || q.rto() == units.Never {
		return // nothing is under way
	}
	if due := q.progress + q.rto(); now < due {
		q.deadline = min(q.deadline, due)
		eff.Do |= DoTimer
		return
	}
	if q.adp != nil {
		q.timedOut(now, eff)
		return
	}
	q.ctr.LocalAckTimeoutErr++
	q.retry(RewindTimeout, eff)
}

// SetBack sets back the driver's clock: all instants of the queue pair as
// units.Time.SetBack does. The calls that follow have instants of the clock that was
// set back.
func (q *QP) SetBack(by units.Time) {
	q.progress, q.deadline, q.stalled = q.progress.SetBack(by), q.deadline.SetBack(by), q.stalled.SetBack(by)
	if q.rnrUntil != 0 {
		if q.rnrUntil = q.rnrUntil.SetBack(by); q.rnrUntil == 0 {
			q.rnrUntil = -1 // over as well, and not none
		}
	}
}
