package fabric

import "github.com/sluice-rdma/sluice/units"

// InFlight counts the packets that are inside the network now, and their bytes:
// those that wait at ports and those on wires. It visits each of them.
func (n *Network) InFlight() (packets int, bytes units.Bytes) {
	x := &n.lanes[0]
	count := func(c *chunk, from uint8, entries uint32) {
		packets += int(entries)
		for ; entries > 0; entries-- {
			if from == chunkEntries {
				c, from = x.chunk(c.next), 0
			}
			bytes += units.Bytes(c.e[from].size())
			from++
		}
	}
	for i := range n.ports {
		to := &n.inlets[n.ports[i].peer]
		count(to.head, to.n, n.ports[i].onWire-to.taken)
	}
	for i := range n.queues {
		q := &n.queues[i]
		count(q.head, q.out, q.count)
	}
	return packets, bytes
}
