package fabric

import "github.com/sluice-rdma/sluice/units"

// InFlight counts the packets that are inside the network now, and their bytes:
// those that wait at ports and those on wires. It visits each of them.
func (n *Network) InFlight() (packets int, bytes units.Bytes) {
	x := &n.lanes[0]
	count := func(e *entry) {
		packets++
		bytes += units.Bytes(e.size())
	}
	for i := range n.ports {
		to := &n.inlets[n.ports[i].peer]
		x.each(to.head, to.n, n.ports[i].onWire-to.taken, count)
	}
	for i := range n.queues {
		q := &n.queues[i]
		x.each(q.head, q.out, q.count, count)
	}
	return packets, bytes
}
