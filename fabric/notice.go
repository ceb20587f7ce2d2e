package fabric

import "github.com/sluice-rdma/sluice/units"

// notice sets EIN on the packets that leave a queue in an incast.
func (n *Network) notice(now units.Time, id uint32, c *class, p *Packet, queue int32) {
	cold := &n.cold[id]
	if cold.incasts == nil {
		cold.incasts = make([]incast, n.prios)
	}
	s := &cold.incasts[p.Priority]
	if s.gradients == nil {
		s.gradients = make([]int64, c.ein.window)
	}
	if s.dequeue(&c.ein, now, queue) {
		p.Flags |= EIN
		cold.notices++
	}
}
