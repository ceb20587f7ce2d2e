package fabric

import "github.com/sluice-rdma/sluice/units"

// notice decides whether to set EIN: on the packets that leave a queue in an incast.
func (n *Network) notice(now units.Time, at uint32, c *class, prio uint32, queue int32) bool {
	cold := &n.cold[at]
	if cold.incasts == nil {
		cold.incasts = make([]incast, n.prios)
	}
	s := &cold.incasts[prio]
	if s.gradients == nil {
		s.gradients = make([]int64, c.ein.window)
	}
	if !s.dequeue(&c.ein, now, queue) {
		return false
	}
	cold.notices++
	return true
}
