package fabric

import "github.com/sluice-rdma/sluice/units"

// ways describes the shortest paths between leaves, where all those of a pair
// are alike: of ports of the same kinds in the same order. What a packet takes from leaf
// to leaf follows from that, without a search. In a Clos network whose tiers are each of
// one kind, all pairs are such, and there are few different ways.
type ways struct {
	leaves int
	of     []uint16 // by leaf of a plane, then by the leaf that it leads to: a number of list; empty without ways
	list   []way
	index  map[way]uint16
	differ bool // some pair's are not alike
}

// way is a path from a switch to a leaf: the kind of its first port, and the way from there.
type way struct{ kind, rest uint16 }

const (
	arrived uint16 = 0           // the way from a leaf to itself
	differ  uint16 = 1<<16 - 1   // the ways are not alike, or too many
	maxWays        = int(differ) // how many numbers there are
)

// buildWays starts anew. Failures change kinds as the network runs, and a circuit is not
// what it is for a kind of port, so that such networks have no ways.
func (n *Network) buildWays() {
	n.ways = ways{leaves: n.perPlane, differ: true}
	if !n.failing && n.circuits == nil && n.planesAlike() {
		n.ways.differ = false
		n.ways.of = make([]uint16, n.perPlane*n.perPlane)
		n.ways.list = make([]way, 1)
		n.ways.index = map[way]uint16{}
	}
}

// planesAlike reports whether all planes have ports of the same kinds: a switch may be
// configured by its name.
func (n *Network) planesAlike() bool {
	first := len(n.ports) / n.topo.Planes()
	for i := first; i < len(n.ports); i++ {
		if n.ports[i].kind != n.ports[i%first].kind {
			return false
		}
	}
	return true
}

// number returns the number of a way.
func (w *ways) number(x way) uint16 {
	if x.rest == differ || w.of == nil {
		return differ
	}
	i, ok := w.index[x]
	if !ok {
		if len(w.list) == maxWays {
			return differ
		}
		i = uint16(len(w.list))
		w.list = append(w.list, x)
		w.index[x] = i
	}
	return i
}

// set notes the way from a leaf, if it is one, to another.
func (w *ways) set(from, to int32, way uint16) {
	if from >= 0 && w.of != nil {
		w.of[int(from)*w.leaves+int(to)] = way
		w.differ = w.differ || way == differ
	}
}

// between returns the way from a leaf to another, or differ.
func (w *ways) between(from, to int32) uint16 {
	if w.of == nil {
		return differ
	}
	return w.of[int(from)%w.leaves*w.leaves+int(to)%w.leaves]
}

// along returns how long a packet takes on a way.
func (n *Network) along(number uint16, size units.Bytes) (t units.Time) {
	for number != arrived {
		x := n.ways.list[number]
		t += n.kinds[x.kind].crossing(size)
		number = x.rest
	}
	return t
}
