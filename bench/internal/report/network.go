package report

import (
	"fmt"
	"math"
)

// Network is a graph of hosts and switches, and what happened at its links.
type Network struct {
	Nodes []Node
	Links []Link // one a direction
}

// Node is a host or a switch.
type Node struct {
	Name   string
	Switch bool
}

// Link is one direction of a link.
type Link struct {
	Name     string // leaf0->h3
	From, To int    // index into Nodes
	Rate     float64
	Busy     float64 // share of the time spent sending, 0 to 1; NaN where not measured
	Queue    float64 // the longest, bytes; NaN where not measured
	Drops    uint64
	Paused   float64 // seconds, summed over priorities; NaN where not measured
}

func (n *Network) check() error {
	for _, l := range n.Links {
		for _, end := range []int{l.From, l.To} {
			if end < 0 || end >= len(n.Nodes) {
				return fmt.Errorf("link %q joins node %d of %d", l.Name, end, len(n.Nodes))
			}
		}
	}
	return nil
}

// Sizes of the drawing, in its units, which are CSS pixels where there is room.
const (
	tierGap   = 96.0  // between rows of nodes
	margin    = 24.0  // around all
	glyph     = 7.2   // width of a character, about
	nodeHigh  = 26.0  // of a switch
	hostHigh  = 20.0  // of a host
	nodeGap   = 14.0  // between nodes of a row
	lane      = 2.6   // from the middle of a link to its directions
	leastWide = 300.0 // of a drawing
)

// manyHosts is from when on the hosts of a switch are drawn as one.
const manyHosts = 24

// drawing is a network laid out: boxes in rows, hosts lowest, and lines.
type drawing struct {
	wide, high float64
	boxes      []box
	lines      []line
}

type box struct {
	text        string
	title       string // a longer text, if there is one
	isSwitch    bool
	tier        int
	x, y        float64 // of its middle
	wide, high  float64
	members     int // hosts that it represents
	placed      bool
	first, last string // the members, in order
}

// line is one direction between two boxes. It may represent several links; it then
// has the figures of the busiest and the longest queue of them.
type line struct {
	from, to int
	nth      int // among the links between its boxes, from 0
	busiest  Link
	longest  Link
	links    int
}

// layout places the nodes of a network. Hosts are in the lowest row, a switch is
// as many rows up as it is links away from the nearest host.
func (n *Network) layout() *drawing {
	d := &drawing{}
	tiers := n.tiers()
	boxOf := n.boxes(d, tiers)
	n.join(d, boxOf)
	d.place()
	return d
}

// tiers is how many links each node is from the nearest host; what none reaches
// is in the first row above the hosts.
func (n *Network) tiers() []int {
	near := make([][]int, len(n.Nodes))
	for _, l := range n.Links {
		near[l.From] = append(near[l.From], l.To)
		near[l.To] = append(near[l.To], l.From)
	}
	tiers := make([]int, len(n.Nodes))
	var queue []int
	for i, v := range n.Nodes {
		tiers[i] = -1
		if !v.Switch {
			tiers[i] = 0
			queue = append(queue, i)
		}
	}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for _, w := range near[v] {
			if tiers[w] < 0 {
				tiers[w] = tiers[v] + 1
				queue = append(queue, w)
			}
		}
	}
	for i := range tiers {
		if tiers[i] < 0 {
			tiers[i] = 1
		}
	}
	return tiers
}

// boxes makes a box for every switch and host, or, where hosts are many, for all
// hosts of a switch, in the order of the nodes. It returns the box of each node.
func (n *Network) boxes(d *drawing, tiers []int) []int {
	hosts := 0
	for _, v := range n.Nodes {
		if !v.Switch {
			hosts++
		}
	}
	above := make([]int, len(n.Nodes)) // the switch of a host
	for i := range above {
		above[i] = -1
	}
	for _, l := range n.Links {
		if above[l.From] < 0 && !n.Nodes[l.From].Switch && n.Nodes[l.To].Switch {
			above[l.From] = l.To
		}
	}
	boxOf := make([]int, len(n.Nodes))
	groups := map[int]int{} // box of the hosts of a switch
	for i, v := range n.Nodes {
		if !v.Switch && hosts > manyHosts && above[i] >= 0 {
			if b, ok := groups[above[i]]; ok {
				boxOf[i] = b
				d.boxes[b].members++
				d.boxes[b].last = v.Name
				continue
			}
			groups[above[i]] = len(d.boxes)
		}
		boxOf[i] = len(d.boxes)
		d.boxes = append(d.boxes, box{isSwitch: v.Switch, tier: tiers[i], members: 1, first: v.Name, last: v.Name})
	}
	for i := range d.boxes {
		b := &d.boxes[i]
		b.text, b.high = b.first, hostHigh
		if b.isSwitch {
			b.high = nodeHigh
		}
		if b.members > 1 {
			b.text = fmt.Sprintf("%d hosts", b.members)
			b.title = fmt.Sprintf("%s to %s: %d hosts", b.first, b.last, b.members)
		}
		b.wide = float64(glyph*float64(len([]rune(b.text)))) + 10
	}
	return boxOf
}

// join makes the lines.
func (n *Network) join(d *drawing, boxOf []int) {
	type pair struct{ from, to int }
	known := map[pair][]int{} // lines
	for _, l := range n.Links {
		p := pair{boxOf[l.From], boxOf[l.To]}
		together := d.boxes[p.from].members > 1 || d.boxes[p.to].members > 1
		if together && len(known[p]) > 0 {
			one := &d.lines[known[p][0]]
			one.links++
			if more(l.Busy, one.busiest.Busy) {
				one.busiest = l
			}
			if more(l.Queue, one.longest.Queue) {
				one.longest = l
			}
			continue
		}
		d.lines = append(d.lines, line{from: p.from, to: p.to, nth: len(known[p]), busiest: l, longest: l, links: 1})
		known[p] = append(known[p], len(d.lines)-1)
	}
}

// more reports whether a is more than b; either may be NaN.
func more(a, b float64) bool { return a > b || math.IsNaN(b) && !math.IsNaN(a) }

// place gives the boxes their places: each switch of the first row over its
// hosts, the rows above spread evenly.
func (d *drawing) place() {
	rows := [][]int{nil, nil}
	for i, b := range d.boxes {
		for b.tier >= len(rows) {
			rows = append(rows, nil)
		}
		rows[b.tier] = append(rows[b.tier], i)
	}
	below := make([][]int, len(d.boxes)) // hosts of a switch
	for _, l := range d.lines {
		if f, t := &d.boxes[l.from], &d.boxes[l.to]; f.tier == 0 && t.isSwitch && !f.placed {
			f.placed = true
			below[l.to] = append(below[l.to], l.from)
		}
	}
	x := margin
	put := func(i int) { // at the end of the row
		b := &d.boxes[i]
		b.x = x + b.wide/2
		x += b.wide + nodeGap
	}
	for _, s := range rows[1] {
		from := x
		for _, h := range below[s] {
			put(h)
		}
		b := &d.boxes[s]
		if x-from < b.wide+nodeGap {
			// Wider than its hosts: centre them below it.
			shift := (b.wide + nodeGap - (x - from)) / 2
			for _, h := range below[s] {
				d.boxes[h].x += shift
			}
			x = from + b.wide + nodeGap
		}
		b.x = (from + x - nodeGap) / 2
		x += nodeGap
	}
	for _, h := range rows[0] {
		if !d.boxes[h].placed {
			put(h)
		}
	}
	d.wide = max(leastWide, x-nodeGap+margin)
	for _, row := range rows[2:] {
		widest := 0.0
		for _, i := range row {
			widest = max(widest, d.boxes[i].wide)
		}
		d.wide = max(d.wide, float64(float64(len(row))*(widest+nodeGap)))
	}
	// Centre the two lower rows in a wider drawing.
	shift := (d.wide - (x - nodeGap + margin)) / 2
	for i := range d.boxes {
		d.boxes[i].x += max(shift, 0)
	}
	for _, row := range rows[2:] {
		for k, i := range row {
			d.boxes[i].x = float64(d.wide * (float64(k) + 0.5) / float64(len(row)))
		}
	}
	head := margin
	if d.arched() {
		head += tierGap / 2
	}
	for tier, row := range rows {
		for _, i := range row {
			d.boxes[i].y = head + nodeHigh/2 + float64(float64(len(rows)-1-tier)*tierGap)
		}
	}
	d.high = head + float64(float64(len(rows)-1)*tierGap) + nodeHigh + margin
}

// arched reports whether a line joins two boxes of a row that are not
// neighbours, and so bows upwards over those between them.
func (d *drawing) arched() bool {
	for _, l := range d.lines {
		if d.bow(l) > 0 {
			return true
		}
	}
	return false
}

// bow is how far a line bows upwards at its middle.
func (d *drawing) bow(l line) float64 {
	a, b := &d.boxes[l.from], &d.boxes[l.to]
	if a.tier != b.tier {
		return 0
	}
	for i := range d.boxes {
		if c := &d.boxes[i]; c.tier == a.tier && c.x > min(a.x, b.x) && c.x < max(a.x, b.x) {
			return min(tierGap*0.8, 24+math.Abs(a.x-b.x)*0.12)
		}
	}
	return 0
}
