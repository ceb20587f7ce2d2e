package report

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	// pageLines is how many directions of links all drawings of a page have at
	// most. A network of more than its part is not drawn; its table is there.
	pageLines = 6000
	// systemLines is that of one drawing: beyond it lines can't be distinguished.
	systemLines = 1200
	// busiestShown is how many links a network's table has at most.
	busiestShown = 8
	// marked is how many links of a drawing have their figure written next to them.
	marked = 3
)

// busySteps are the lower edges of the colours for busy links, and queueSteps,
// as shares of the longest queue of a run, of those for queues. The first
// colour is for what is below them all.
var (
	busySteps  = []float64{0.01, 0.25, 0.5, 0.75, 0.95}
	queueSteps = []float64{0.001, 0.1, 0.25, 0.5, 0.8}
)

func step(steps []float64, v float64) int {
	n := 0
	for n < len(steps) && v >= steps[n] {
		n++
	}
	return n
}

// longestQueue of all networks of a run is what their colours are relative to.
func longestQueue(run *Run) float64 {
	most := 0.0
	for _, s := range run.Systems {
		if s.Network != nil {
			for _, l := range s.Network.Links {
				if l.Queue > most && finite(l.Queue) {
					most = l.Queue
				}
			}
		}
	}
	return most
}

// svg draws the network. Lines have the classes b0 to b5 by how busy they are
// and q0 to q5 by their queue, relative to longest; the page's style says which
// counts.
func (d *drawing) svg(label string, longest float64) template.HTML {
	var b strings.Builder
	num := func(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }
	fmt.Fprintf(&b, `<svg class="net" role="img" viewBox="0 0 %s %s" width="%s" height="%s" aria-label="%s">`,
		num(d.wide), num(d.high), num(d.wide), num(d.high), html.EscapeString(label))
	for _, l := range d.lines {
		fmt.Fprintf(&b, `<path class="b%d q%d" d="%s"><title>%s</title></path>`,
			step(busySteps, l.busiest.Busy), queueStep(l.longest.Queue, longest), d.path(l, num), html.EscapeString(l.title()))
	}
	for _, v := range d.boxes {
		kind := "host"
		if v.isSwitch {
			kind = "switch"
		}
		fmt.Fprintf(&b, `<g class="%s">`, kind)
		if v.title != "" {
			fmt.Fprintf(&b, `<title>%s</title>`, html.EscapeString(v.title))
		}
		fmt.Fprintf(&b, `<rect x="%s" y="%s" width="%s" height="%s" rx="4"/><text x="%s" y="%s">%s</text></g>`,
			num(v.x-v.wide/2), num(v.y-v.high/2), num(v.wide), num(v.high), num(v.x), num(v.y+4.5), html.EscapeString(v.text))
	}
	d.marks(&b, num, "mark-b", func(l line) float64 { return l.busiest.Busy }, percent)
	d.marks(&b, num, "mark-q", func(l line) float64 { return l.longest.Queue }, func(v float64) string { return si(v, "B") })
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// queueStep is the colour of a queue relative to the longest.
func queueStep(queue, longest float64) int {
	if !(longest > 0) {
		return 0
	}
	return step(queueSteps, queue/longest)
}

// marks writes the figures of the first few lines next to them.
func (d *drawing) marks(b *strings.Builder, num func(float64) string, class string, of func(line) float64, text func(float64) string) {
	var some []line
	for _, l := range d.lines {
		if v := of(l); v > 0 && finite(v) {
			some = append(some, l)
		}
	}
	slices.SortStableFunc(some, func(x, y line) int { return cmp.Compare(of(y), of(x)) })
	type place struct{ x, y, wide float64 }
	var taken []place
	for _, l := range some[:min(marked, len(some))] {
		if of(l) < of(some[0])/2 {
			break // no bottleneck beside the first
		}
		t := text(of(l))
		at := place{wide: float64(6.6*float64(len([]rune(t)))) + 8}
		// In the middle, or where no other mark is; lines that meet at a switch
		// are apart far from it.
		for _, share := range []float64{0.5, 0.68, 0.32, 0.6, 0.4} {
			at.x, at.y = d.at(l, share)
			if !slices.ContainsFunc(taken, func(o place) bool {
				return math.Abs(at.x-o.x) < (at.wide+o.wide)/2 && math.Abs(at.y-o.y) < 17
			}) {
				break
			}
		}
		taken = append(taken, at)
		fmt.Fprintf(b, `<g class="mark %s" aria-hidden="true"><rect x="%s" y="%s" width="%s" height="17" rx="3"/><text x="%s" y="%s">%s</text></g>`,
			class, num(at.x-at.wide/2), num(at.y-8.5), num(at.wide), num(at.x), num(at.y+4), html.EscapeString(t))
	}
}

// ends are the end points of a line: the middles of its boxes, shifted to the right
// of its direction, so that the two lines of a link lie side by side.
func (d *drawing) ends(l line) (x1, y1, x2, y2 float64) {
	a, b := &d.boxes[l.from], &d.boxes[l.to]
	dx, dy := b.x-a.x, b.y-a.y
	long := math.Hypot(dx, dy)
	if long == 0 {
		return a.x, a.y, b.x, b.y
	}
	aside := lane + float64(float64(l.nth)*4*lane)
	ox, oy := float64(-dy/long*aside), float64(dx/long*aside)
	return a.x + ox, a.y + oy, b.x + ox, b.y + oy
}

// at is the point at a share of the way along a line.
func (d *drawing) at(l line, share float64) (x, y float64) {
	x1, y1, x2, y2 := d.ends(l)
	rest := 1 - share
	x, y = float64(x1*rest)+float64(x2*share), float64(y1*rest)+float64(y2*share)
	return x, y - float64(4*rest*share*d.bow(l))
}

func (d *drawing) path(l line, num func(float64) string) string {
	x1, y1, x2, y2 := d.ends(l)
	bow := d.bow(l)
	if bow == 0 {
		return "M" + num(x1) + " " + num(y1) + "L" + num(x2) + " " + num(y2)
	}
	return "M" + num(x1) + " " + num(y1) + "Q" + num((x1+x2)/2) + " " + num((y1+y2)/2-float64(2*bow)) + " " + num(x2) + " " + num(y2)
}

func (l *line) title() string {
	if l.links > 1 {
		return fmt.Sprintf("%d links: busiest %s, %s; longest queue %s at %s", l.links, l.busiest.Name, percent(l.busiest.Busy), si(l.longest.Queue, "B"), l.longest.Name)
	}
	return fmt.Sprintf("%s: %s busy, queue up to %s", l.busiest.Name, percent(l.busiest.Busy), si(l.longest.Queue, "B"))
}

// percent writes a share.
func percent(share float64) string {
	switch p := share * 100; {
	case !finite(share):
		return "unmeasured"
	case p == 0 || p >= 9.95:
		return strconv.FormatFloat(p, 'f', 0, 64) + " %"
	default:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
}

// busiest are the links of a network that a table shows: first by busy share,
// then by queue.
func (n *Network) busiest() []Link {
	links := slices.Clone(n.Links)
	slices.SortStableFunc(links, func(a, b Link) int {
		return cmp.Or(order(b.Busy, a.Busy), order(b.Queue, a.Queue))
	})
	return links[:min(busiestShown, len(links))]
}

// order compares with what was not measured least.
func order(a, b float64) int {
	switch {
	case more(a, b):
		return 1
	case more(b, a):
		return -1
	}
	return 0
}

// describe says in words what a drawing shows.
func (n *Network) describe(system string) string {
	hosts := 0
	for _, v := range n.Nodes {
		if !v.Switch {
			hosts++
		}
	}
	s := fmt.Sprintf("Network under %s: %d hosts, %d switches, %d directions of links.", system, hosts, len(n.Nodes)-hosts, len(n.Links))
	if b := n.busiest(); len(b) > 0 && finite(b[0].Busy) {
		s += fmt.Sprintf(" Busiest: %s, %s.", b[0].Name, percent(b[0].Busy))
	}
	return s
}

// networkView is what the page shows of one system's network.
type networkView struct {
	System  string
	Drawing template.HTML // empty where there is too much to draw
	Links   int
	Busiest []Link
}

// networkViews are those of each run; empty for a run without networks.
func networkViews(r *Report) [][]networkView {
	systems := 0
	for _, run := range r.Runs {
		for _, s := range run.Systems {
			if s.Network != nil {
				systems++
			}
		}
	}
	limit := min(systemLines, pageLines/max(systems, 1))
	all := make([][]networkView, len(r.Runs))
	for i := range r.Runs {
		run := &r.Runs[i]
		longest := longestQueue(run)
		for _, s := range run.Systems {
			if s.Network == nil || len(s.Network.Nodes) == 0 {
				continue
			}
			v := networkView{System: s.Name, Links: len(s.Network.Links), Busiest: s.Network.busiest()}
			if d := s.Network.layout(); len(d.lines) <= limit {
				v.Drawing = d.svg(s.Network.describe(s.Name), longest)
			}
			all[i] = append(all[i], v)
		}
	}
	return all
}
