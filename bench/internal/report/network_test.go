package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// leafSpine returns a network with these numbers of leaves, spines, and hosts a leaf.
func leafSpine(leaves, spines, hosts int) *Network {
	n := &Network{}
	join := func(a, b int) {
		for _, d := range [][2]int{{a, b}, {b, a}} {
			n.Links = append(n.Links, Link{Name: n.Nodes[d[0]].Name + "->" + n.Nodes[d[1]].Name, From: d[0], To: d[1], Rate: 25e9, Busy: 0.1})
		}
	}
	for i := range leaves * hosts {
		n.Nodes = append(n.Nodes, Node{Name: fmt.Sprintf("h%d", i)})
	}
	for i := range leaves {
		n.Nodes = append(n.Nodes, Node{fmt.Sprintf("tor%d", i), true})
		for h := range hosts {
			join(i*hosts+h, len(n.Nodes)-1)
		}
	}
	for i := range spines {
		n.Nodes = append(n.Nodes, Node{fmt.Sprintf("spine%d", i), true})
		for l := range leaves {
			join(leaves*hosts+l, len(n.Nodes)-1)
		}
	}
	return n
}

func TestLayoutTiers(t *testing.T) {
	d := leafSpine(2, 2, 3).layout()
	rows := map[string]float64{}
	for _, b := range d.boxes {
		kind := strings.TrimRight(b.text, "0123456789")
		if y, ok := rows[kind]; ok && y != b.y {
			t.Errorf("%s is at %v, others at %v", b.text, b.y, y)
		}
		rows[kind] = b.y
	}
	if !(rows["spine"] < rows["tor"] && rows["tor"] < rows["h"]) {
		t.Errorf("rows are at %v", rows)
	}
	if len(d.lines) != 2*(6+4) {
		t.Errorf("%d lines, want %d", len(d.lines), 2*(6+4))
	}
}

// Where hosts are many, those of a switch are one box, and its lines have the
// busiest link and the longest queue of all.
func TestLayoutGroups(t *testing.T) {
	n := leafSpine(2, 1, 20)
	for i := range n.Links {
		switch n.Links[i].Name {
		case "h7->tor0":
			n.Links[i].Busy = 0.7
		case "h9->tor0":
			n.Links[i].Queue = 99
		}
	}
	d := n.layout()
	if len(d.boxes) != 2+3 || d.boxes[0].text != "20 hosts" || d.boxes[0].title != "h0 to h19: 20 hosts" {
		t.Fatalf("%d boxes, the first %+v", len(d.boxes), d.boxes[0])
	}
	if len(d.lines) != 2*(2+2) {
		t.Errorf("%d lines, want %d", len(d.lines), 2*(2+2))
	}
	var got string
	for _, l := range d.lines {
		if l.from == 0 {
			got = l.title()
		}
	}
	if want := "20 links: busiest h7->tor0, 70 %; longest queue 99 B at h9->tor0"; got != want {
		t.Errorf("title %q, want %q", got, want)
	}
}

// Whatever the graph, boxes of a row do not overlap, all is within the drawing,
// and the drawing is the same each time.
func TestLayoutAnyGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &Network{}
		for i := range rapid.IntRange(1, 60).Draw(t, "nodes") {
			n.Nodes = append(n.Nodes, Node{strings.Repeat("x", rapid.IntRange(1, 30).Draw(t, "name")) + fmt.Sprint(i), rapid.Bool().Draw(t, "switch")})
		}
		end := rapid.IntRange(0, len(n.Nodes)-1)
		share := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Just(math.NaN()))
		for i := range rapid.IntRange(0, 90).Draw(t, "links") {
			n.Links = append(n.Links, Link{Name: fmt.Sprint(i), From: end.Draw(t, "from"), To: end.Draw(t, "to"),
				Busy: share.Draw(t, "busy"), Queue: share.Draw(t, "queue") * 1e6})
		}
		d := n.layout()
		for i, a := range d.boxes {
			if a.x-a.wide/2 < 0 || a.x+a.wide/2 > d.wide || a.y-a.high/2 < 0 || a.y+a.high/2 > d.high {
				t.Fatalf("box %+v is outside of %v by %v", a, d.wide, d.high)
			}
			for _, b := range d.boxes[:i] {
				if a.tier == b.tier && math.Abs(a.x-b.x) < (a.wide+b.wide)/2-1e-9 {
					t.Fatalf("boxes %+v and %+v overlap", a, b)
				}
			}
		}
		links := 0
		for _, l := range d.lines {
			links += l.links
		}
		if links != len(n.Links) {
			t.Fatalf("lines stand for %d links of %d", links, len(n.Links))
		}
		if svg := d.svg("", 1e6); svg != n.layout().svg("", 1e6) || strings.Contains(string(svg), "NaN") || strings.Count(string(svg), "<path") != len(d.lines) {
			t.Fatalf("drawn as %s", svg)
		}
	})
}

// The drawing has the class of each line's colours, and marks the first lines.
func TestSVG(t *testing.T) {
	n := sampleNetwork()
	svg := string(n.layout().svg(n.describe("timely"), 4096))
	for _, want := range []string{
		`aria-label="Network under timely: 2 hosts, 1 switches, 4 directions of links. Busiest: h0-&gt;tor0, 99 %."`,
		`<path class="b5 q4" d="`, `<path class="b1 q0" d="`, `<path class="b3 q5" d="`, `<path class="b0 q0" d="`,
		`<title>tor0-&gt;&lt;h1&gt;: 60 % busy, queue up to 4 KiB</title>`,
		`<title>&lt;h1&gt;-&gt;tor0: unmeasured busy, queue up to none</title>`,
		`class="mark mark-b"`, `class="mark mark-q"`, ">&lt;h1&gt;</text>",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the drawing lacks %s:\n%s", want, svg)
		}
	}
}

// A network of many links has a table and no drawing.
func TestManyLinks(t *testing.T) {
	r := &Report{Runs: []Run{{Scenario: "wide", Systems: []System{{Name: "s", Network: leafSpine(40, 40, 2)}}}}}
	html := write(t, r)
	if strings.Contains(html, "<svg") || !strings.Contains(html, "too many to draw") || !strings.Contains(html, ">h0-&gt;tor0<") {
		t.Error("it is drawn, or its table is missing")
	}
}

func TestDifferences(t *testing.T) {
	got, ok := differences("a\nb\nc\nd\n", "a\nx\nc\ne\nd\n")
	if want := []difference{{true, "b"}, {false, "x"}, {false, "e"}}; !ok || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, ok := differences(strings.Repeat("a\n", diffLines+1), strings.Repeat("b\n", 2)); ok {
		t.Error("long texts are compared")
	}
}

// Differences name every line that has to go and to come, and no more.
func TestDifferencesAny(t *testing.T) {
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 12)
	rapid.Check(t, func(t *rapid.T) {
		x, y := lines.Draw(t, "x"), lines.Draw(t, "y")
		got, ok := differences(strings.Join(x, "\n")+"\n", strings.Join(y, "\n")+"\n")
		if !ok {
			t.Fatal("not compared")
		}
		removed, added := map[string]int{}, map[string]int{}
		for _, d := range got {
			if d.Removed {
				removed[d.Line]++
			} else {
				added[d.Line]++
			}
		}
		count := map[string]int{}
		for _, l := range x {
			count[l]++
		}
		for l, n := range removed {
			count[l] -= n
		}
		for l, n := range added {
			count[l] += n
		}
		for _, l := range y {
			count[l]--
		}
		for l, n := range count {
			if n != 0 {
				t.Fatalf("%q to %q by %v: %q is %d too many", x, y, got, l, n)
			}
		}
		if long := longest(x, y); len(got) != len(x)+len(y)-2*long {
			t.Fatalf("%q to %q: %d differences, want %d", x, y, len(got), len(x)+len(y)-2*long)
		}
	})
}

// longest is the length of the longest common subsequence, by its definition.
func longest(x, y []string) int {
	if len(x) == 0 || len(y) == 0 {
		return 0
	}
	if x[0] == y[0] {
		return 1 + longest(x[1:], y[1:])
	}
	return max(longest(x[1:], y), longest(x, y[1:]))
}
