package fabric

import (
	"testing"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Windows end with the least delay of a link, and before that with a multiple of
// EndEvery's span, and no later than Within says.
func TestLengthsOfWindows(t *testing.T) {
	const ns = units.Nanosecond
	for name, c := range map[string]struct {
		set    func(*Division)
		most   units.Time // of a window
		ending units.Time // that all windows end with or before: a multiple of it
	}{
		"plain":         {func(*Division) {}, us, 0},
		"EndEvery":      {func(d *Division) { d.EndEvery(700 * ns) }, us, 700 * ns},
		"Within":        {func(d *Division) { d.Within(300 * ns) }, 300 * ns, 0},
		"Within, long":  {func(d *Division) { d.Within(5 * us) }, us, 0},
		"Within a zero": {func(d *Division) { d.Within(0) }, 1, 0},
	} {
		n, err := New(des.New(), Star(2, gig(100, us)), Default(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Divide(1); err != nil {
			t.Fatal(err)
		}
		d := n.Division()
		c.set(d)
		for range 100 {
			h := n.Alloc()
			n.Transmit(0, 0, h, &Frame{Size: 1000, Dst: 1})
		}
		longest := units.Time(0)
		for d.Begin(units.Second) {
			if d.end-d.start > c.most {
				t.Fatalf("%s: a window from %v to %v", name, d.start, d.end)
			}
			longest = max(longest, d.end-d.start)
			if c.ending > 0 {
				// The multiple's own instant is in it, but no alarms of then.
				if next := (d.start/c.ending + 1) * c.ending; d.end > next+1 || d.wakes > next {
					t.Fatalf("%s: a window from %v to %v, with alarms before %v", name, d.start, d.end, d.wakes)
				}
			}
			d.Run(0, 0, d.Nodes())
			d.End()
		}
		if tot := n.Totals(); tot.Delivered != 100 {
			t.Errorf("%s: %+v", name, tot)
		}
		if c.ending == 0 && longest != c.most {
			t.Errorf("%s: the longest window took %v, want %v", name, longest, c.most)
		}
	}
}

// The sides of a network take turns in windows of twice the least delay, unless windows have
// to end earlier. No window runs a node of the other side.
func TestSidesTakeTurns(t *testing.T) {
	const ns = units.Nanosecond
	direct := func() *Topology {
		t := new(Topology)
		t.Connect(t.AddHost("a"), t.AddHost("b"), gig(100, us))
		return t
	}
	for name, c := range map[string]struct {
		graph   *Topology
		set     func(*Division)
		most    units.Time // of a window
		between units.Time // two hosts
	}{
		"star":            {Star(2, gig(100, us)), func(*Division) {}, 2 * us, 2 * us},
		"fat tree":        {FatTree(4, 1, gig(100, us), gig(100, us), gig(100, us)), func(*Division) {}, 2 * us, 2 * us},
		"different links": {LeafSpine(LeafSpineSpec{Leaves: 2, Spines: 2, HostsPerLeaf: 1, Host: gig(100, 700*ns), Trunk: gig(40, us)}), func(*Division) {}, 1400 * ns, 1400 * ns},
		"two racks":       {Dumbbell(1, 1, gig(100, us), gig(100, us)), func(*Division) {}, us, us},
		"no switch":       {direct(), func(*Division) {}, us, us},
		"EndEvery":        {Star(2, gig(100, us)), func(d *Division) { d.EndEvery(5 * us) }, us, 2 * us},
		"Within":          {Star(2, gig(100, us)), func(d *Division) { d.Within(1900 * ns) }, us, 2 * us},
		"Within, long":    {Star(2, gig(100, us)), func(d *Division) { d.Within(2 * us) }, 2 * us, 2 * us},
		"SingleInstants":  {Star(2, gig(100, us)), func(d *Division) { d.SingleInstants(func(units.Time) bool { return true }) }, 1, 2 * us},
	} {
		n, err := New(des.New(), c.graph, Default(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Divide(1); err != nil {
			t.Fatal(err)
		}
		if got := n.BetweenHosts(); got != c.between {
			t.Errorf("%s: %v between two hosts, want %v", name, got, c.between)
		}
		d := n.Division()
		c.set(d)
		d.Alternate()
		for range 100 {
			h := n.Alloc()
			n.Transmit(0, 0, h, &Frame{Size: 1000, Dst: 1})
		}
		longest := units.Time(0)
		for d.Begin(units.Second) {
			longest = max(longest, d.end-d.start)
			for _, v := range d.order[d.Turn()] {
				if d.Turn() != allNodes && int(d.side[v]) != d.Turn().side() {
					t.Fatalf("%s: node %d runs in turn %d", name, v, d.Turn())
				}
			}
			d.Run(0, 0, d.Nodes())
			d.End()
		}
		if tot := n.Totals(); tot.Delivered != 100 {
			t.Errorf("%s: %+v", name, tot)
		}
		if longest != c.most {
			t.Errorf("%s: the longest window took %v, want %v", name, longest, c.most)
		}
	}
}

// A look at a pause comes after what its port may send at that time, and before all of the
// next port; one that was meant for an earlier pause is put off, and there is one at a
// time for a priority.
func TestWatchesOfASwitch(t *testing.T) {
	cfg := Default()
	cfg.Switch.Classes[0].PFC = PFC{Lossless: true, Watchdog: 2 * us}
	n, err := New(des.New(), Star(3, gig(100, us)), cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Divide(1); err != nil {
		t.Fatal(err)
	}
	d := n.Division()
	sw := n.inlets[n.ports[n.hosts[0].port].peer].node
	x, v := n.Lane(0), &n.nodes[sw]
	first, second := v.first, v.first+1
	x.setPaused(3*us, second, 1)
	x.setPaused(3*us, first, 1)
	x.setPaused(4*us, second, 0)
	x.setPaused(4*us+us/2, second, 1)
	if got := d.watches[v.index]; len(got) != 2 || got[0] != (pauseWatch{5 * us, first, 0}) || got[1] != (pauseWatch{5 * us, second, 0}) {
		t.Fatalf("watches %+v", got)
	}
	x.end, x.due = 6*us, make([]units.Time, 3*v.count)
	for i := range x.due {
		x.due[i] = 5 * us
	}
	own := n.alarm(first, 0)
	for alarm := range uint32(len(x.due)) {
		if got, want := x.watchesBefore(v, alarm+1), alarm > own; got != want {
			t.Errorf("the look comes before alarm %d: %v", alarm, got)
		}
	}
	if !x.watchesBefore(v, 0) {
		t.Error("it comes though nothing else does")
	}
	x.takeWatch(sw)
	x.takeWatch(sw)
	if n.cold[first].trips != 1 || n.cold[second].trips != 0 {
		t.Errorf("%d and %d trips, want 1 and none", n.cold[first].trips, n.cold[second].trips)
	}
	if got := d.watches[v.index]; len(got) != 1 || got[0] != (pauseWatch{6*us + us/2, second, 0}) {
		t.Errorf("watches %+v", got)
	}
	if x.watchesBefore(v, 0) {
		t.Error("a look comes that is due after the window")
	}
}
