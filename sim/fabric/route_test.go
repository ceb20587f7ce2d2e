package fabric

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// even fails unless counts look like equal shares: chi squared below its 1 in
// 10000 quantile, roughly.
func even(t *testing.T, what string, counts map[LinkID]int, ways int) {
	t.Helper()
	total := 0
	for _, c := range counts {
		total += c
	}
	expect, chi := float64(total)/float64(ways), 0.0
	for _, c := range counts {
		chi += (float64(c) - expect) * (float64(c) - expect) / expect
	}
	if len(counts) != ways || chi > float64(ways-1)+5*float64(ways) {
		t.Errorf("%s: %d of %d ways, chi squared %.1f: %v", what, len(counts), ways, chi, counts)
	}
}

func TestECMPSpreadsFlows(t *testing.T) {
	l := gig(100, 0)
	n, err := New(des.New(), FatTree(8, 1, l, l, l), Default(), 1)
	if err != nil {
		t.Fatal(err)
	}
	first, all := map[LinkID]int{}, map[LinkID]int{}
	second := map[LinkID]map[LinkID]int{} // by the first choice
	var path []LinkID
	const flows = 40000
	for hash := range uint32(flows) { // consecutive numbers, as ports are
		path = n.Path(path[:0], 0, 127, hash)
		first[path[1]]++
		all[path[2]]++
		if second[path[1]] == nil {
			second[path[1]] = map[LinkID]int{}
		}
		second[path[1]][path[2]]++
	}
	even(t, "tor0's uplinks", first, 4)
	even(t, "paths", all, 16)
	// Switches must not all decide alike: what one has chosen says nothing about
	// what the next will.
	for l, counts := range second {
		even(t, "after "+n.topo.LinkName(l), counts, 4)
	}
}

func TestSeedsAndSwitchesHashDifferently(t *testing.T) {
	l := gig(100, 0)
	topo := FatTree(8, 1, l, l, l)
	a, _ := New(des.New(), topo, Default(), 1)
	b, _ := New(des.New(), topo, Default(), 2)
	seeds, tors := 0, 0
	for hash := range uint32(1000) {
		if a.Path(nil, 0, 127, hash)[1] == b.Path(nil, 0, 127, hash)[1] {
			seeds++
		}
		// The choice among four uplinks, by their place at the switch.
		from0, from64 := a.Path(nil, 0, 127, hash)[1], a.Path(nil, 64, 127, hash)[1]
		if slices.Index(topo.nodes[topo.tail(from0)].ports, from0) == slices.Index(topo.nodes[topo.tail(from64)].ports, from64) {
			tors++
		}
	}
	for what, same := range map[string]int{"seeds": seeds, "switches": tors} {
		if same < 180 || same > 320 { // 250 expected
			t.Errorf("two %s choose alike for %d of 1000 flows", what, same)
		}
	}
}

func TestParallelLinksAreUsed(t *testing.T) {
	l := gig(100, 0)
	n, err := New(des.New(), LeafSpine(LeafSpineSpec{Leaves: 2, Spines: 3, HostsPerLeaf: 1, Parallel: 2, Host: l, Trunk: l}), Default(), 1)
	if err != nil {
		t.Fatal(err)
	}
	up, down := map[LinkID]int{}, map[LinkID]int{}
	for hash := range uint32(30000) {
		path := n.Path(nil, 0, 1, hash)
		up[path[1]]++
		down[path[2]]++
	}
	even(t, "up", up, 6)
	even(t, "down", down, 6)
}

func TestRoutesAreShared(t *testing.T) {
	l := gig(100, 0)
	n, err := New(des.New(), FatTree(8, 1, l, l, l), Default(), 1)
	if err != nil {
		t.Fatal(err)
	}
	// Tors and aggregation switches have one group, their uplinks, which are those four
	// ports of each that follow the links down; a core switch has none.
	if len(n.groups) != 1 {
		t.Errorf("%d groups, want 1", len(n.groups))
	}
	// Of rows tors have one, the aggregation switches of each of eight pods, and core switches.
	if got, want := len(n.routes), (1+8+1)*32; got != want {
		t.Errorf("%d routes, want %d", got, want)
	}
}

// trace is a hash of all arrivals of a congested run.
func trace(t *testing.T, seed uint64) (uint64, Totals) {
	cfg := losslessConfig(PFC{XOFF: 20 * units.KB})
	cfg.Switch.Classes[0].ECN = ECN{Kmin: 5 * units.KB, Kmax: 50 * units.KB, Pmax: 0.2}
	cfg.Switch.Classes[1].Alpha = 1.0 / 1024
	cfg.Faults = []Fault{{"tor1->agg0", 0.01}}
	l := gig(100, units.Microsecond)
	r := newRig(t, FatTree(4, 1, l, l, l), cfg, seed)
	for src := range int32(16) {
		for i := range int32(200) {
			r.send(0, whole{Size: 1000 + i, Src: src, Dst: (src + 1 + i%15) % 16, FlowHash: uint32(src*15 + i%15), Priority: uint8(i % 2), Flags: ECT})
		}
	}
	r.run()
	h := fnv.New64a()
	for _, c := range r.nics {
		for _, a := range c.got {
			var b [25]byte
			binary.LittleEndian.PutUint64(b[0:], uint64(a.At))
			binary.LittleEndian.PutUint64(b[8:], uint64(a.Src)<<32|uint64(a.Dst))
			binary.LittleEndian.PutUint64(b[16:], a.User)
			b[24] = byte(a.Flags)
			h.Write(b[:])
		}
	}
	return h.Sum64(), r.n.Totals()
}

func TestSameSeedSameTrace(t *testing.T) {
	a, totals := trace(t, 1)
	if b, _ := trace(t, 1); a != b {
		t.Errorf("two runs with one seed differ: %x and %x", a, b)
	}
	if c, _ := trace(t, 2); a == c {
		t.Error("another seed changes nothing")
	}
	if totals.Dropped == 0 || totals.Lost == 0 {
		t.Errorf("%+v: the run must meet drops and losses to tell something", totals)
	}
}

// Simultaneous events of different components have an order that does not
// depend on which component scheduled first: the same packets, sent in another
// order of calls at the same instants, give the same arrivals.
func TestOrderOfCallsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := func(order []int) [][]arrival {
			r := newRig(t, Star(6, gig(100, 0)), Default(), 1)
			for _, src := range order {
				for i := range 5 {
					r.send(0, whole{Size: 500, Src: int32(src), Dst: int32((src + 1 + i) % 6)})
				}
			}
			r.run()
			var got [][]arrival
			for _, c := range r.nics {
				got = append(got, c.got)
			}
			return got
		}
		a := run([]int{0, 1, 2, 3, 4, 5})
		b := run(rapid.Permutation([]int{0, 1, 2, 3, 4, 5}).Draw(t, "order"))
		for h := range a {
			if !slices.EqualFunc(a[h], b[h], func(x, y arrival) bool { return x.At == y.At && x.Src == y.Src }) {
				t.Fatalf("host %d: %v and %v", h, a[h], b[h])
			}
		}
	})
}
