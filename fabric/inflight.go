package fabric

import "github.com/sluice-rdma/sluice/units"

// InFlight counts the packets that are inside the network now, and their bytes:
// those that wait at ports and those on wires. It visits each of them.
func (n *Network) InFlight() (packets int, bytes units.Bytes) {
	count := func(h Handle) {
		for ; h != 0; h = n.packets[h].next {
			packets++
			bytes += units.Bytes(n.packets[h].Size)
		}
	}
	for i := range n.links {
		count(n.links[i].head)
	}
	for i := range n.queues {
		count(n.queues[i].head)
	}
	return packets, bytes
}
