package fabric

// route is where a switch sends packets for a leaf: a port if direct is set in
// it, else a group of equally good ones.
type route uint32

const direct route = 1 << 31

// group is a run of Network.members.
type group struct{ first, count uint32 }

// next returns the port by which a packet leaves a switch.
func (n *Network) next(sw *switchState, e *entry) uint32 {
	leaf := e.leaf()
	if int32(leaf) == sw.leaf {
		return n.hosts[e.dst()].down
	}
	r := n.routes[sw.routes+leaf]
	if r&direct != 0 {
		return uint32(r &^ direct)
	}
	return n.choose(r, e.hash()^sw.salt)
}

// choose returns one of a group of ports, by a hash.
func (n *Network) choose(r route, hash uint32) uint32 {
	g := n.groups[r]
	return n.members[g.first+uint32(uint64(mix(hash))*uint64(g.count)>>32)]
}

// mix is a permutation of 32 bits in which every output bit depends on every input
// bit about evenly (the finaliser of MurmurHash3).
func mix(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x85ebca6b
	x ^= x >> 13
	x *= 0xc2b2ae35
	return x ^ x>>16
}

// buildRoutes finds for every switch and leaf the ports that start a shortest
// path, of those that are up. Where no path is, the route stays what it was. Leaves
// and ports are visited in order, so that the tables are the same every time.
func (n *Network) buildRoutes(up func(port uint32) bool) {
	nodes := n.topo.nodeOfSwitch()
	if n.routes == nil {
		n.routes = make([]route, len(n.switches)*len(n.leaves))
	}
	for i := range n.switches {
		n.switches[i].routes = uint32(i * len(n.leaves))
	}
	groups := make([][]uint32, len(n.switches)) // of each switch, so that leaves share them
	dist := make([]int32, len(n.switches))
	var queue []int32
	var links []uint32
	for leaf, root := range n.leaves {
		for i := range dist {
			dist[i] = -1
		}
		dist[root] = 0
		queue = append(queue[:0], root)
		for len(queue) > 0 {
			s := queue[0]
			queue = queue[1:]
			links = links[:0]
			v := &n.nodes[nodes[s]]
			for out := v.first; out < v.first+v.count; out++ {
				to := &n.nodes[n.inlets[n.ports[out].peer].node]
				switch {
				case !to.isSwitch || !up(out):
				case dist[to.index] < 0:
					dist[to.index] = dist[s] + 1
					queue = append(queue, to.index)
				case dist[to.index] == dist[s]-1:
					links = append(links, out)
				}
			}
			if s != root {
				n.routes[int(s)*len(n.leaves)+leaf] = n.routeTo(links, &groups[s])
			}
		}
	}
}

// routeTo returns the route for a set of links, given the groups that the switch
// already has.
func (n *Network) routeTo(links []uint32, have *[]uint32) route {
	if len(links) == 1 {
		return direct | route(links[0])
	}
next:
	for _, i := range *have {
		g := n.groups[i]
		if int(g.count) != len(links) {
			continue
		}
		for j, l := range links {
			if n.members[g.first+uint32(j)] != l {
				continue next
			}
		}
		return route(i)
	}
	i := uint32(len(n.groups))
	n.groups = append(n.groups, group{uint32(len(n.members)), uint32(len(links))})
	n.members = append(n.members, links...)
	*have = append(*have, i)
	return route(i)
}

// nodeOfSwitch returns the nodes of the switches, by their index.
func (t *Topology) nodeOfSwitch() []Node {
	var nodes []Node
	for i := range t.nodes {
		if t.nodes[i].isSwitch {
			nodes = append(nodes, Node(i))
		}
	}
	return nodes
}
