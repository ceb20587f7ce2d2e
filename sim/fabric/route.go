package fabric

import (
	"encoding/binary"
	"slices"
)

// route is a switch's next hop for a leaf: a port if direct is set in
// it, else a group of equally good ones. Ports are numbered within the switch, so that
// switches in like places have like rows of routes, and share one: those of a fat tree
// of 65,536 hosts are then half a megabyte instead of 42.
type route uint32

const direct route = 1 << 31

// group is a run of Network.members.
type group struct{ first, count uint32 }

// next returns the port by which a packet leaves a switch.
func (n *Network) next(sw *switchState, e *entry) uint32 {
	h := &n.hosts[e.dst()]
	if h.leaf == sw.leaf {
		return h.down
	}
	r := n.routes[sw.routes+uint32(h.leaf)]
	if r&direct != 0 {
		return sw.ports + uint32(r&^direct)
	}
	return sw.ports + n.choose(r, e.hash()^sw.salt)
}

// choose returns one of a group of ports, by a hash.
func (n *Network) choose(r route, hash uint32) uint32 {
	g := n.groups[r]
	return n.members[g.first+uint32(uint64(mix(hash))*uint64(g.count)>>32)]
}

// starts returns the ports of a route, numbered within the switch.
func (n *Network) starts(r route) []uint32 {
	if r&direct != 0 {
		return []uint32{uint32(r &^ direct)}
	}
	g := n.groups[r]
	return n.members[g.first : g.first+g.count]
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

// neighbours is the graph of switches for a search: each switch's ports that lead to
// another switch, in order.
type neighbours struct {
	first []uint32 // by switch, and behind the last the end
	links []neighbour
}

type neighbour struct {
	to   int32
	port uint32 // numbered within the switch
	kind uint16
	back uint16 // the kind of the port at the link's other end
}

// neighbours returns the switches that each switch, or each of the first plane, reaches
// by ports that are up.
func (n *Network) neighbours(up func(port uint32) bool, onePlane bool) neighbours {
	var g neighbours
	nodes := n.topo.nodeOfSwitch()
	if onePlane {
		nodes = nodes[:len(nodes)/n.topo.Planes()]
	}
	for _, v := range nodes {
		g.first = append(g.first, uint32(len(g.links)))
		for out := n.nodes[v].first; out < n.nodes[v].first+n.nodes[v].count; out++ {
			l := &n.ports[out]
			if to := &n.nodes[n.inlets[l.peer].node]; to.isSwitch && up(out) {
				g.links = append(g.links, neighbour{to.index, out - n.nodes[v].first, l.kind, n.ports[l.peer].kind})
			}
		}
	}
	g.first = append(g.first, uint32(len(g.links)))
	return g
}

// buildRoutes finds for every switch and leaf the ports that start a shortest path, among
// the ports that are up. Where no path is, the route stays what it was. Leaves
// and ports are visited in order, so that the tables are the same every time.
func (n *Network) buildRoutes(up func(port uint32) bool) {
	// Planes are alike, so that the routes of the first are all, but where links fail.
	switches, leaves := len(n.switches)/n.topo.Planes(), n.leaves[:n.perPlane]
	if n.failing {
		leaves = n.leaves
	}
	if n.routes == nil {
		rows := switches
		if n.failing {
			rows = len(n.switches)
		}
		n.routes = make([]route, rows*n.perPlane)
		for i := range n.switches {
			n.switches[i].routes = uint32(i%rows*n.perPlane) - uint32(i/switches*n.perPlane)
		}
	}
	g := n.neighbours(up, len(leaves) == n.perPlane)
	n.buildWays()
	index := groupIndex{}
	dist := make([]int32, len(g.first)-1)
	ways := make([]uint16, len(dist)) // to the leaf
	all := make([]int32, 0, len(dist))
	var links []uint32
	first := map[string]int{} // leaves by what surrounds them: the first of each kind
	var around []byte
	for leaf, root := range leaves {
		if around = g.around(around[:0], root); !n.failing {
			if like, ok := first[string(around)]; ok {
				n.routesLike(g, leaf, like, index)
				continue
			}
			first[string(around)] = leaf
		}
		for i := range dist {
			dist[i] = -1
		}
		dist[root], ways[root] = 0, arrived
		queue := append(all, root)
		for i := 0; i < len(queue); i++ {
			s := queue[i]
			links = links[:0]
			nearer, way := dist[s]-1, way{}
			for j := g.first[s]; j < g.first[s+1]; j++ {
				l := &g.links[j]
				switch d := dist[l.to]; {
				case d < 0:
					dist[l.to] = nearer + 2
					queue = append(queue, l.to)
				case d == nearer:
					if len(links) == 0 {
						way.kind, way.rest = l.kind, ways[l.to]
					} else if way.kind != l.kind || way.rest != ways[l.to] {
						way.rest = differ
					}
					links = append(links, l.port)
				}
			}
			if s != root {
				n.routes[n.switches[s].routes+uint32(leaf)] = n.routeTo(links, index)
				ways[s] = n.ways.number(way)
			}
			n.ways.set(n.switches[s].leaf, int32(leaf), ways[s])
		}
	}
	if !n.failing {
		n.shareRoutes()
	}
}

// around appends what surrounds a switch: its neighbours in order, and by what kinds of
// port each leads to the other.
func (g *neighbours) around(b []byte, s int32) []byte {
	for _, l := range g.links[g.first[s]:g.first[s+1]] {
		b = binary.LittleEndian.AppendUint32(b, uint32(l.to))
		b = binary.LittleEndian.AppendUint16(b, l.kind)
		b = binary.LittleEndian.AppendUint16(b, l.back)
	}
	return b
}

// routesLike sets the routes to a leaf from those to one that has the same around it. No
// shortest path leads through either but to itself, so all other switches but their
// neighbours send to both alike; a neighbour sends by its links to the leaf.
func (n *Network) routesLike(g neighbours, leaf, like int, index groupIndex) {
	root, other := n.leaves[leaf], n.leaves[like]
	for i := range len(g.first) - 1 {
		s := int32(i)
		sw := &n.switches[s]
		if s != root && s != other {
			n.routes[sw.routes+uint32(leaf)] = n.routes[sw.routes+uint32(like)]
			if sw.leaf >= 0 {
				n.ways.set(sw.leaf, int32(leaf), n.ways.between(sw.leaf, int32(like)))
			}
		}
	}
	n.ways.set(int32(leaf), int32(leaf), arrived)
	near := g.links[g.first[root]:g.first[root+1]]
	var links []uint32
	for _, l := range near {
		links = links[:0]
		var w way
		for _, back := range g.links[g.first[l.to]:g.first[l.to+1]] {
			if back.to != root {
				continue
			}
			if len(links) > 0 && back.kind != w.kind {
				w.rest = differ
			}
			w.kind, links = back.kind, append(links, back.port)
		}
		sw := &n.switches[l.to]
		n.routes[sw.routes+uint32(leaf)] = n.routeTo(links, index)
		n.ways.set(sw.leaf, int32(leaf), n.ways.number(w))
	}
	// From the other one it is by all its links, and as far as from this one to that.
	links = links[:0]
	for _, l := range g.links[g.first[other]:g.first[other+1]] {
		links = append(links, l.port)
	}
	n.routes[n.switches[other].routes+uint32(leaf)] = n.routeTo(links, index)
	n.ways.set(int32(like), int32(leaf), n.ways.between(int32(leaf), int32(like)))
}

// groupIndex finds groups by a hash of their ports; it is asked, never walked.
type groupIndex map[uint64][]uint32

// routeTo returns the route for a set of links, given the groups that there are.
func (n *Network) routeTo(links []uint32, have groupIndex) route {
	if len(links) == 1 {
		return direct | route(links[0])
	}
	hash := uint64(len(links))
	for _, l := range links {
		hash = (hash ^ uint64(l)) * 0x100000001b3
	}
	for _, i := range have[hash] {
		if g := n.groups[i]; slices.Equal(n.members[g.first:g.first+g.count], links) {
			return route(i)
		}
	}
	i := uint32(len(n.groups))
	n.groups = append(n.groups, group{uint32(len(n.members)), uint32(len(links))})
	n.members = append(n.members, links...)
	have[hash] = append(have[hash], i)
	return route(i)
}

// shareRoutes gives switches of equal rows one. What a leaf has for itself is never
// looked at, so it takes what its other leaves have.
func (n *Network) shareRoutes() {
	leaves := uint32(n.perPlane)
	if leaves < 2 {
		return
	}
	switches := len(n.switches) / n.topo.Planes()
	rows := map[uint64][]uint32{} // by a hash, where those of that hash start in kept
	var kept []route
	for i := range switches {
		sw := &n.switches[i]
		row := n.routes[sw.routes : sw.routes+leaves]
		if sw.leaf >= 0 {
			row[sw.leaf] = row[(uint32(sw.leaf)+1)%leaves]
		}
		hash := uint64(0)
		for _, r := range row {
			hash = (hash ^ uint64(r)) * 0x100000001b3
		}
		at := slices.IndexFunc(rows[hash], func(at uint32) bool { return slices.Equal(kept[at:at+leaves], row) })
		if at < 0 {
			at = len(rows[hash])
			rows[hash] = append(rows[hash], uint32(len(kept)))
			kept = append(kept, row...)
		}
		sw.routes = rows[hash][at]
	}
	for i := switches; i < len(n.switches); i++ {
		n.switches[i].routes = n.switches[i%switches].routes - uint32(i/switches*n.perPlane)
	}
	n.routes = slices.Clip(kept)
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
