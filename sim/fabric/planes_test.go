package fabric

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Each plane is the network of one plane: the same paths, link by link, delays and round
// trips; and nothing leads from one to another.
func TestPlanes(t *testing.T) {
	l := gig(100, units.Microsecond)
	spec := LeafSpineSpec{Leaves: 3, Spines: 2, HostsPerLeaf: 2, Parallel: 2, Host: l, Trunk: gig(400, units.Microsecond)}
	one, err := New(des.New(), LeafSpine(spec), Default(), 1)
	if err != nil {
		t.Fatal(err)
	}
	spec.Planes = 3
	for name, change := range map[string]func(*Config){
		"alike":   func(*Config) {},
		"named":   func(c *Config) { c.Switches = map[string]SwitchConfig{"spine5": c.Switch} },
		"failing": func(c *Config) { c.Failures = []Failure{{Link: "tor0->h0", From: units.Second, Down: true}} },
	} {
		cfg := Default()
		change(&cfg)
		topo := LeafSpine(spec)
		n, err := New(des.New(), topo, cfg, 1)
		if err != nil {
			t.Fatal(name, err)
		}
		if topo.Planes() != 3 || topo.Hosts() != 18 || topo.Plane(5) != 0 || topo.Plane(6) != 1 {
			t.Errorf("%s: %d planes, %d hosts, h5 in %d and h6 in %d", name, topo.Planes(), topo.Hosts(), topo.Plane(5), topo.Plane(6))
		}
		links := topo.Links() / 3
		for src := range 6 {
			for dst := range 6 {
				if src == dst {
					continue
				}
				for plane := range 3 {
					a, b := 6*plane+src, 6*plane+dst
					for hash := range uint32(4) {
						// Switches hash by their names, so that paths of planes differ, but not their kind.
						path := n.Path(nil, a, b, hash)
						if want := one.Path(nil, src, dst, hash); len(path) != len(want) || plane == 0 && !slices.Equal(path, want) {
							t.Fatalf("%s: plane %d from %d to %d by %v, want %v", name, plane, src, dst, path, want)
						}
						for _, id := range path {
							if int(id)/links != plane {
								t.Fatalf("%s: a path of plane %d goes by link %s", name, plane, topo.LinkName(id))
							}
						}
					}
					if got, want := n.BaseDelay(a, b, 1000), one.BaseDelay(src, dst, 1000); got != want {
						t.Errorf("%s: plane %d from %d to %d in %v, want %v", name, plane, src, dst, got, want)
					}
				}
			}
		}
		if got, want := n.MaxBaseRTT(1000, 64), one.MaxBaseRTT(1000, 64); got != want {
			t.Errorf("%s: a round trip takes %v, want %v", name, got, want)
		}
		if n.Joined(5, 6) || !n.Joined(6, 11) {
			t.Errorf("%s: h5 and h6 are joined, or h6 and h11 are not", name)
		}
		h := n.Alloc()
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: a packet to another plane is sent", name)
				}
			}()
			n.Transmit(0, 5, h, &Frame{Size: 1000, Dst: 6})
		}()
	}
}

// Links of two nodes are numbered in the order in which they are connected, whatever was
// connected in between.
func TestLinksAreFound(t *testing.T) {
	topo := &Topology{}
	l := gig(100, 0)
	a, b, c := topo.AddSwitch("a"), topo.AddSwitch("b"), topo.AddSwitch("c")
	for _, x := range []struct {
		from, to Node
		name     string
	}{{c, a, "c->a"}, {b, a, "b->a"}, {a, c, "a->c#2"}, {a, b, "a->b#2"}, {c, b, "c->b"}, {b, a, "b->a#3"}, {c, a, "c->a#3"}} {
		id := topo.Connect(x.from, x.to, l)
		if got := topo.LinkName(id); got != x.name {
			t.Errorf("link %d is %s, want %s", id, got, x.name)
		}
		for _, id := range []LinkID{id, id.Reverse()} {
			if got, err := topo.FindLink(topo.LinkName(id)); got != id || err != nil {
				t.Errorf("%s is found at %d (%v), want %d", topo.LinkName(id), got, err, id)
			}
		}
	}
}
