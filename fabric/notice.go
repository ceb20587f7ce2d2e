package fabric

import "github.com/sluice-rdma/sluice/units"

// notice sets EIN on the packets that leave a queue in an incast.
func (n *Network) notice(now units.Time, at uint32, c *class, e *entry, queue int32) {
	cold := &n.cold[at]
	if cold.incasts == nil {
		cold.incasts = make([]incast, n.prios)
	}
	s := &cold.incasts[e.prio]
	if s.gradients == nil {
		s.gradients = make([]int64, c.ein.window)
	}
	if s.dequeue(&c.ein, now, queue) {
		e.flags |= EIN
		cold.notices++
	}
}
