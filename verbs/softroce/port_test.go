package softroce

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/netif"
)

// addrOf is the n-th address of these tests.
func addrOf(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}) }

func addrsOf(numbers ...int) (all []netip.Addr) {
	for _, n := range numbers {
		all = append(all, addrOf(n))
	}
	return all
}

func TestPortFollows(t *testing.T) {
	up := netif.Facts{Name: "v0", MTU: 1500, Up: true, Carrier: true, Rate: 1e9}
	change := func(f func(*netif.Facts)) netif.Facts { x := up; f(&x); return x }
	for _, c := range []struct {
		what   string
		facts  netif.Facts
		addrs  []netip.Addr
		used   []int
		table  []netip.Addr // invalid where there is none
		active bool
		mtu    ib.MTU
		events []ib.EventType
	}{
		{"nothing", up, addrsOf(1, 2), nil, addrsOf(1, 2), true, 1024, nil},
		{"another order", up, addrsOf(2, 1), nil, addrsOf(1, 2), true, 1024, nil},
		{"down", change(func(f *netif.Facts) { f.Up, f.Carrier = false, false }), addrsOf(1, 2), nil, addrsOf(1, 2), false, 1024, []ib.EventType{ib.EventPortErr}},
		{"no carrier", change(func(f *netif.Facts) { f.Carrier = false }), addrsOf(1, 2), nil, addrsOf(1, 2), false, 1024, []ib.EventType{ib.EventPortErr}},
		{"one added", up, addrsOf(1, 2, 3), nil, addrsOf(1, 2, 3), true, 1024, []ib.EventType{ib.EventGIDChange}},
		{"one removed", up, addrsOf(2), nil, []netip.Addr{{}, addrOf(2)}, true, 1024, []ib.EventType{ib.EventGIDChange}},
		{"one replaced", up, addrsOf(2, 3), nil, addrsOf(3, 2), true, 1024, []ib.EventType{ib.EventGIDChange}},
		{"one in use replaced", up, addrsOf(2, 3), []int{0}, []netip.Addr{{}, addrOf(2), addrOf(3)}, true, 1024, []ib.EventType{ib.EventGIDChange}},
		{"down without addresses", change(func(f *netif.Facts) { f.Up, f.Carrier = false, false }), nil, nil, make([]netip.Addr, 2), false, 1024, []ib.EventType{ib.EventPortErr, ib.EventGIDChange}},
		{"larger MTU", change(func(f *netif.Facts) { f.MTU = 9000 }), addrsOf(1, 2), nil, addrsOf(1, 2), true, 4096, nil},
		{"MTU that fits nothing", change(func(f *netif.Facts) { f.MTU = 300 }), addrsOf(1, 2), nil, addrsOf(1, 2), true, 1024, nil},
		{"gone", change(func(f *netif.Facts) { f.Gone = true }), addrsOf(1, 2), nil, make([]netip.Addr, 2), false, 1024, []ib.EventType{ib.EventPortErr, ib.EventDeviceFatal}},
	} {
		p := port{active: true, name: "v0", mtu: 1024, rate: 1e9, gids: newGIDs(addrsOf(1, 2))}
		next := p.follow(&c.facts, c.addrs, func(i int) bool { return slices.Contains(c.used, i) }, 0)
		var table []netip.Addr
		for i := range next.gids {
			a, _ := next.at(i)
			table = append(table, a)
		}
		if events := p.events(&next); !slices.Equal(table, c.table) || next.active != c.active || next.mtu != c.mtu || !slices.Equal(events, c.events) {
			t.Errorf("%s: table %v, active %v, MTU %d, events %v", c.what, table, next.active, next.mtu, events)
		}
		if next.gone {
			again := next.follow(&up, addrsOf(1, 2), func(int) bool { return false }, 0)
			if again.active || !again.gone || len(next.events(&again)) > 0 || slices.ContainsFunc(again.gids, func(e gidEntry) bool { return e.present }) {
				t.Errorf("%s: then an interface of the same name: %+v", c.what, again)
			}
		}
	}
}

// Whatever the interface does: the table has its addresses, once each; remaining ones
// keep their places, and nobody gets the place of an address that is in use; events tell
// of every change and of nothing else.
func TestPortProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := port{active: true, name: "v0", mtu: 1024, gids: newGIDs(addrsOf(1))}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			used := rapid.SliceOfDistinct(rapid.IntRange(0, 12), rapid.ID[int]).Draw(t, "used")
			f := netif.Facts{
				Name: "v0", MTU: rapid.SampledFrom([]int{200, 1500, 9000}).Draw(t, "mtu"), Up: rapid.Bool().Draw(t, "up"),
				Gone: rapid.IntRange(0, 30).Draw(t, "gone") == 0,
			}
			f.Carrier = f.Up && rapid.Bool().Draw(t, "carrier")
			addrs := addrsOf(rapid.SliceOfDistinct(rapid.IntRange(1, 6), rapid.ID[int]).Draw(t, "addresses")...)
			next := p.follow(&f, addrs, func(i int) bool { return slices.Contains(used, i) }, 0)
			events := p.events(&next)
			has := func(e ib.EventType) bool { return slices.Contains(events, e) }

			gone := p.gone || f.Gone
			if gone {
				addrs = nil
			}
			found := 0
			changed := len(next.gids) != len(p.gids)
			for i, e := range next.gids {
				if e.present {
					found++
					if !slices.Contains(addrs, e.addr) {
						t.Fatalf("GID %d, %v, is no address", i, e.addr)
					}
				}
				if i >= len(p.gids) {
					continue
				}
				was := p.gids[i]
				changed = changed || was.present != e.present || e.present && was.addr != e.addr
				if was.addr != e.addr && (slices.Contains(used, i) || was.present && slices.Contains(addrs, was.addr)) {
					t.Fatalf("GID %d was %v and is %v", i, was.addr, e.addr)
				}
			}
			switch {
			case found != len(addrs):
				t.Fatalf("%d of %d addresses in %v", found, len(addrs), next.gids)
			case next.active != (f.Up && f.Carrier && !gone), next.gone != gone:
				t.Fatalf("%+v became %+v", f, next)
			case has(ib.EventPortErr) != (p.active && !next.active), has(ib.EventPortActive) != (!p.active && next.active),
				has(ib.EventDeviceFatal) != (gone && !p.gone), has(ib.EventGIDChange) != (changed && !gone):
				t.Fatalf("%+v became %+v with %v", p, next, events)
			}
			p = next
		}
	})
}
