package fabric

import "github.com/sluice-rdma/sluice/units"

// InFlight returns the number of packets inside the network, waiting at ports or on
// wires, and their bytes. It visits each of them.
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
