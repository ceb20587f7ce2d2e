package cm

import (
	"net/netip"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// TestVictim: whoever has the share of the places that each source has makes room himself, for he pays for what
// he asks; whoever has less takes the place of one who has more; nobody else loses one.
func TestVictim(t *testing.T) {
	a, b, c := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	for _, test := range []struct {
		name   string
		holds  []netip.Addr // of four places, the oldest first
		source netip.Addr
		age    units.Time
		want   int // in holds, -1: none
	}{
		{"each has his share, and one asks for more", []netip.Addr{b, a, b, a}, a, 0, 1},
		{"one has more than his share, and asks for more", []netip.Addr{b, a, a, a}, a, 0, 1},
		{"one has all, and another comes", []netip.Addr{a, a, a, a}, b, 0, 0},
		{"a third comes: shares of one, and the oldest of who has more goes", []netip.Addr{b, a, b, a}, c, 0, 0},
		{"one below his share takes from who exceeds it", []netip.Addr{a, b, b, b}, a, 0, 1},
		{"all are too young", []netip.Addr{a, a, a, a}, b, 10, -1},
	} {
		w := &crowd{most: 4}
		var conns []*conn
		for _, from := range test.holds {
			n := &conn{path: Path{Remote: from}}
			w.add(0, n)
			conns = append(conns, n)
		}
		got := -1
		for i, n := range conns {
			if n == w.victim(5, test.source, test.age) {
				got = i
			}
		}
		if got != test.want {
			t.Errorf("%s: number %d goes, expected %d", test.name, got, test.want)
		}
	}
}
