package fabric

import (
	"github.com/sluice-rdma/sluice/units"
)

// Path appends to path the links that a packet of that hash takes from one host
// to another, and returns it.
func (n *Network) Path(path []LinkID, src, dst int, flowHash uint32) []LinkID {
	e := newEntry(0, &Frame{Dst: int32(dst), FlowHash: flowHash})
	at := n.hosts[src].port
	for {
		in := &n.inlets[n.ports[at].peer]
		path = append(path, in.link)
		v := &n.nodes[in.node]
		if !v.isSwitch {
			return path
		}
		at = n.next(&n.switches[v.index], &e)
	}
}

// crossing returns how long a packet takes from the first bit out of a port to the
// last bit out of its link, and through the switch that leads to.
func (n *Network) crossing(at uint32, size units.Bytes) units.Time {
	t := n.kinds[n.ports[at].kind].crossing(size)
	if n.ports[at].flags&voqPort != 0 {
		t = max(t, n.aroundCircuit(at, size))
	}
	return t
}

// crossing is the same for ports of a kind that have no circuit.
func (k *kind) crossing(size units.Bytes) units.Time {
	return k.rate.Serialize(size+units.Bytes(k.framing)) + k.delay
}

// slowPath caches the slowest way from a switch to the leaf of a query, for the query's
// size.
type slowPath struct {
	query uint64
	t     units.Time
}

// inside returns the slowest crossing from a switch to a leaf, visiting each
// switch once in a query; a new query starts with n.query++.
func (n *Network) inside(sw int32, leaf int32, size units.Bytes) units.Time {
	s, known := &n.switches[sw], &n.slow[sw]
	if s.leaf == leaf {
		return 0
	}
	if known.query == n.query {
		return known.t
	}
	var slowest units.Time
	r := n.routes[s.routes+uint32(leaf)]
	for _, l := range n.starts(r) {
		l += s.ports
		slowest = max(slowest, n.crossing(l, size)+n.inside(n.nodes[n.inlets[n.ports[l].peer].node].index, leaf, size))
	}
	*known = slowPath{n.query, slowest}
	return slowest
}

// BaseDelay returns how long a packet of that Size takes from the first bit out
// of one host to the last bit into another with empty queues: serialisation with
// framing and propagation of each link, and the latency of each switch. Of
// several paths it takes the slowest. Records that switches add on the way are
// not counted; each step is rounded up to a picosecond.
func (n *Network) BaseDelay(src, dst int, size units.Bytes) units.Time {
	a, b := &n.hosts[src], &n.hosts[dst]
	t := n.crossing(a.port, size)
	if a.leaf < 0 {
		return t
	}
	t += n.crossing(b.down, size)
	if way := n.ways.between(a.leaf, b.leaf); way != differ {
		return t + n.along(way, size)
	}
	n.query++
	return t + n.inside(n.leaves[a.leaf], b.leaf, size)
}

// BaseRTT returns BaseDelay of a data packet one way and of its acknowledgement
// the other.
func (n *Network) BaseRTT(src, dst int, data, ack units.Bytes) units.Time {
	return n.BaseDelay(src, dst, data) + n.BaseDelay(dst, src, ack)
}

// MaxBaseRTT returns the largest BaseRTT of any pair of hosts.
func (n *Network) MaxBaseRTT(data, ack units.Bytes) units.Time {
	if n.hosts[0].leaf < 0 {
		return max(n.BaseRTT(0, 1, data, ack), n.BaseRTT(1, 0, data, ack))
	}
	// Hosts of a leaf differ only in their own links. For each leaf keep, as source
	// and as destination, the two slowest: one may be the other end.
	ends := make([]struct{ src, dst slowTwo }, len(n.leaves))
	for i := range n.hosts {
		h, e := &n.hosts[i], &ends[n.hosts[i].leaf]
		e.src.add(int32(i), n.crossing(h.port, data)+n.crossing(h.down, ack))
		e.dst.add(int32(i), n.crossing(h.down, data)+n.crossing(h.port, ack))
	}
	between := n.roundTrips(data, ack)
	var longest units.Time
	for a := range ends {
		for b := a / n.perPlane * n.perPlane; b < (a/n.perPlane+1)*n.perPlane; b++ {
			t := between(a, b)
			for _, s := range ends[a].src.two {
				for _, d := range ends[b].dst.two {
					if s.t > 0 && d.t > 0 && s.host != d.host {
						longest = max(longest, s.t+t+d.t)
					}
				}
			}
		}
	}
	return longest
}

// roundTrips returns how long data from one leaf to another and the acknowledgement back
// take, by the two.
func (n *Network) roundTrips(data, ack units.Bytes) func(from, to int) units.Time {
	leaves := n.perPlane
	if !n.ways.differ {
		there, back := make([]units.Time, len(n.ways.list)), make([]units.Time, len(n.ways.list))
		for i := range there {
			there[i], back[i] = n.along(uint16(i), data), n.along(uint16(i), ack)
		}
		of := n.ways.of
		return func(from, to int) units.Time {
			from, to = from%leaves, to%leaves
			return there[of[from*leaves+to]] + back[of[to*leaves+from]]
		}
	}
	there := make([]units.Time, len(n.leaves)*leaves)
	back := make([]units.Time, len(there))
	for to := range n.leaves {
		plane := to / leaves * leaves
		n.query++
		for i, sw := range n.leaves[plane : plane+leaves] {
			there[(plane+i)*leaves+to%leaves] = n.inside(sw, int32(to), data)
		}
		n.query++
		for i, sw := range n.leaves[plane : plane+leaves] {
			back[to*leaves+i] = n.inside(sw, int32(to), ack)
		}
	}
	return func(from, to int) units.Time { return there[from*leaves+to%leaves] + back[from*leaves+to%leaves] }
}

// slowTwo keeps the two hosts of the largest times.
type slowTwo struct {
	two [2]struct {
		host int32
		t    units.Time
	}
}

func (s *slowTwo) add(host int32, t units.Time) {
	e := struct {
		host int32
		t    units.Time
	}{host, t}
	switch {
	case t > s.two[0].t:
		s.two[1], s.two[0] = s.two[0], e
	case t > s.two[1].t:
		s.two[1] = e
	}
}
