package fabric

import "github.com/sluice-rdma/sluice/units"

// In most networks every link joins nodes of two sides: hosts and spines, say, are on one,
// leaves on the other. What a node does depends on what the other side did, up to the least
// delay of a link before. So the two sides can take turns, in windows of twice that delay:
// while one rests at a time, the other goes from a delay before that time to a delay after
// it. A node's memory is fetched half as often as when all nodes go together.

// Turn names the nodes that a window runs.
type Turn uint8

// Turns.
const (
	allNodes Turn = iota
	firstSide
	secondSide

	turns = 3
)

func (t Turn) side() int { return int(t - firstSide) }

var noneDue = [2]units.Time{units.Never, units.Never}

// Alternate has the two sides of a network take turns, where its links join nodes of two
// sides and all hosts are on one. It is for whoever can do without windows that end within a
// link's delay of what hosts did in them: what follows for others from what a host does must
// come at least Longest after it. Where windows have to end earlier (SingleInstants,
// EndEvery, Within), or there are circuits, all nodes go together.
func (d *Division) Alternate() {
	side, ok := d.n.sides()
	if !ok || d.side != nil {
		return
	}
	d.side = side
	for v, s := range side {
		turn := firstSide + Turn(s)
		d.order[turn] = append(d.order[turn], int32(v))
	}
	for i := range d.n.lanes {
		d.n.lanes[i].spans(2 * d.window)
	}
}

// Longest returns the length of the longest window.
func (d *Division) Longest() units.Time {
	if d.side != nil {
		return min(2*d.window, d.span)
	}
	return min(d.window, d.span)
}

// Turns is the number of kinds of windows, numbered from allNodes on.
func (d *Division) Turns() Turn {
	if d.side != nil {
		return turns
	}
	return 1
}

// Turn is the kind of the window that has begun.
func (d *Division) Turn() Turn { return d.turn }

// BetweenHosts is a time before which nothing that a host does reaches another one: the
// least delay of a link for each of the links between the two, of which there are two
// where all hosts are on one side (see Division.Alternate), or one.
func (n *Network) BetweenHosts() units.Time {
	if _, ok := n.sides(); ok {
		return 2 * n.Lookahead()
	}
	return n.Lookahead()
}

// sides puts each node on a side, hosts on the first, so that each link joins nodes of both,
// if that is possible.
func (n *Network) sides() (side []uint8, ok bool) {
	const none = 2
	side = make([]uint8, len(n.nodes))
	var reached []int32
	for v := range n.nodes {
		side[v] = none
	}
	for i := range n.hosts {
		v := n.inlets[n.hosts[i].port].node
		side[v] = 0
		reached = append(reached, v)
	}
	for first := 0; ; first++ {
		for len(reached) > 0 {
			v := reached[len(reached)-1]
			reached = reached[:len(reached)-1]
			s := &n.nodes[v]
			for at := s.first; at < s.first+s.count; at++ {
				to := n.inlets[n.ports[at].peer].node
				switch side[to] {
				case none:
					side[to] = side[v] ^ 1
					reached = append(reached, to)
				case side[v]:
					return nil, false
				}
			}
		}
		for first < len(side) && side[first] != none {
			first++
		}
		if first == len(side) {
			return side, true
		}
		side[first] = 0 // of a part without hosts
		reached = append(reached, int32(first))
	}
}

// alternates reports whether sides take turns now.
func (d *Division) alternates() bool {
	return d.side != nil && d.span >= 2*d.window && d.rhythm == 0 && d.joined == nil && d.n.circuits == nil && !d.stirred
}

// beginSide begins the window of the side at which something may happen first, if one has
// anything left to do up to limit. next is what is due by side. Sides never write to the
// memory that they read in a window, so they need one half of it alone.
func (d *Division) beginSide(next [2]units.Time, limit, outside units.Time) bool {
	earliest := next // what one does may be something for the other a delay later
	for side, other := range next {
		if other != units.Never {
			earliest[side^1] = min(earliest[side^1], other+d.window)
		}
	}
	side := 0
	if earliest[1] < earliest[0] {
		side = 1
	}
	left := func(side int) bool {
		return earliest[side] <= limit && (outside != limit || d.done[side] <= limit)
	}
	if !left(side) {
		if side ^= 1; !left(side) {
			return false
		}
	}
	end := earliest[side^1] + d.window
	if limit != units.Never {
		end = min(end, limit+1)
	}
	d.from = d.parity
	d.done[side] = max(d.done[side], end)
	d.open(firstSide+Turn(side), earliest[side], end, min(end, outside))
	return true
}
