package cli

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/route"
)

// TestReached chooses among the addresses of a host's name.
func TestReached(t *testing.T) {
	const four, other, six = "10.9.2.2", "10.9.7.2", "fd02::2"
	for _, c := range []struct {
		name   string
		addrs  []string
		six    bool
		routes []string // nil: the system can't be asked
		want   string
	}{
		{"IPv4 before IPv6", []string{six, four}, false, []string{four, six}, four},
		{"IPv6 as asked for", []string{four, six}, true, []string{four, six}, six},
		{"no route to IPv4", []string{four, six}, false, []string{six}, six},
		{"no route to IPv6, which is asked for", []string{six, four}, true, []string{four}, four},
		{"no route to the first", []string{other, four}, false, []string{four}, four},
		{"no route at all", []string{six, four}, false, []string{"192.0.2.1"}, four},
		{"nobody to ask", []string{six, four}, false, nil, four},
		{"mapped", []string{"::ffff:" + four}, true, []string{four}, four},
	} {
		var addrs []netip.Addr
		for _, a := range c.addrs {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		got := reached(addrs, c.six, func(peer, _ netip.Addr) (route.Way, error) {
			switch {
			case c.routes == nil:
				return route.Way{}, verbs.ErrNotSupported
			case !slices.Contains(c.routes, peer.String()):
				return route.Way{}, errors.New("unreachable")
			}
			return route.Way{}, nil
		})
		if got.String() != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}
