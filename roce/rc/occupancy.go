package rc

// SendQueued counts the requests that PollSend has not gone past: those that
// take up room in the send queue.
func (q *QP) SendQueued() int { return int(q.tail - q.poll) }
