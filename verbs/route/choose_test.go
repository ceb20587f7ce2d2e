package route

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
)

// TestChoose holds which address is chosen against what the kernel and the connection say.
func TestChoose(t *testing.T) {
	two := []string{"10.9.1.1", "10.9.2.1"}
	dual := []string{"10.9.2.1", "fd09::1", "fe80::1"}
	for _, c := range []struct {
		name        string
		gids        []string
		peer, local string
		family      Family
		netdev      string
		routes      map[string]Way // by peer, peer<from, peer%interface
		want        int
		routed      bool
	}{
		{"the connection's own address", two, "10.9.2.2", "10.9.2.1", 0, "a", nil, 1, true},
		{"mapped", []string{"::ffff:10.9.1.1", "::ffff:10.9.2.1"}, "::ffff:10.9.2.2", "::ffff:10.9.2.1", 0, "a", nil, 1, true},
		{"the route's source", two, "10.9.2.2", "", 0, "a", map[string]Way{"10.9.2.2": {Source: addr("10.9.2.1"), Interface: "a"}}, 1, true},
		{"the route's source, for another UDP port", []string{"::ffff:10.9.1.1%port1", "::ffff:10.9.2.1%port1"}, "10.9.2.2", "", 0, "a", map[string]Way{"10.9.2.2": {Source: addr("10.9.2.1"), Interface: "a"}}, 1, true},
		{"by the port's own interface", two, "10.9.2.2", "192.0.2.1", 0, "a", map[string]Way{"10.9.2.2": {Source: addr("192.0.2.1"), Interface: "b"}, "10.9.2.2%a": {Source: addr("10.9.2.1"), Interface: "a"}}, 1, true},
		{"one with a route, of a network apart", two, "10.9.2.2", "", 0, "a", map[string]Way{"10.9.2.2<10.9.2.1": {Interface: "b"}}, 1, false},
		{"no route: the first of the family", two, "10.9.2.2", "", 0, "a", nil, 0, false},
		{"IPv6 peer", dual, "fd09::2", "fd09::1", 0, "a", nil, 1, true},
		{"IPv6 peer, no route", dual, "fd09::2", "", 0, "a", nil, 1, false},
		{"link-local peer", dual, "fe80::2%a", "fe80::1%a", 0, "a", nil, 2, true},
		{"link-local peer by route", dual, "fe80::2%a", "", 0, "a", map[string]Way{"fe80::2%a": {Source: addr("fe80::1"), Interface: "a"}}, 2, true},
		{"link-local peer without a zone", dual, "fe80::2", "", 0, "a", map[string]Way{"fe80::2%a": {Source: addr("fe80::1"), Interface: "a"}}, 2, true},
		{"the user's family", dual, "10.9.2.2", "10.9.2.1", IPv6, "a", nil, 1, false},
		{"the user's other family", dual, "fd09::2", "fd09::1", IPv4, "a", nil, 0, false},
		{"an address of lo", []string{"127.0.0.1", "10.0.0.1"}, "10.0.0.2", "", 0, "lo", map[string]Way{"10.0.0.2": {Source: addr("10.9.0.1"), Interface: "a"}, "10.0.0.2<10.0.0.1": {Interface: "a"}}, 1, false},
		{"an address of lo, no route", []string{"127.0.0.1", "10.0.0.1"}, "10.0.0.2", "", 0, "lo", nil, 1, false},
		{"none of the family", []string{"10.9.2.1"}, "fd09::2", "fd09::1", 0, "a", nil, -1, false},
		{"no peer", two, "", "", 0, "a", nil, -1, false},
		{"a hole in the table", []string{"", "10.9.2.1"}, "10.9.2.2", "", 0, "a", nil, 1, false},
	} {
		gids := make([]netip.Addr, len(c.gids))
		for i, g := range c.gids {
			gids[i] = addr(g)
		}
		to := To{Peer: addr(c.peer), Local: addr(c.local), Index: -1, Family: c.family}
		got, routed := choose(gids, &to, c.netdev, c.netdev == "lo", table(c.routes))
		if got != c.want || routed != c.routed {
			t.Errorf("%s: %d, %v, want %d, %v", c.name, got, routed, c.want, c.routed)
		}
	}
}

// TestFollow holds the path MTU against the way out.
func TestFollow(t *testing.T) {
	for _, c := range []struct {
		name      string
		gid, peer string
		netdev    string
		routed    bool
		port      ib.MTU
		routes    map[string]Way
		want      ib.MTU
	}{
		{"lo and a way out of 1500", "10.0.0.1", "10.0.0.2", "lo", false, 4096, map[string]Way{"10.0.0.2<10.0.0.1": {Interface: "a", MTU: 1500}}, 1024},
		{"lo and itself", "10.0.0.1", "10.0.0.3", "lo", true, 4096, map[string]Way{"10.0.0.3<10.0.0.1": {Interface: "lo", MTU: 65536, Itself: true}}, 4096},
		{"the route's own", "10.9.2.1", "10.9.2.2", "a", true, 4096, map[string]Way{"10.9.2.2<10.9.2.1": {Interface: "a", MTU: 1400}}, 1024},
		{"exactly 2048", "10.9.2.1", "10.9.2.2", "a", true, 4096, map[string]Way{"10.9.2.2<10.9.2.1": {Interface: "a", MTU: 2128}}, 2048},
		{"one less", "10.9.2.1", "10.9.2.2", "a", true, 4096, map[string]Way{"10.9.2.2<10.9.2.1": {Interface: "a", MTU: 2127}}, 1024},
		{"never below 256", "10.9.2.1", "10.9.2.2", "a", true, 4096, map[string]Way{"10.9.2.2<10.9.2.1": {Interface: "a", MTU: 68}}, 256},
		{"no more than the port's", "10.9.2.1", "10.9.2.2", "a", true, 1024, map[string]Way{"10.9.2.2<10.9.2.1": {Interface: "a", MTU: 9000}}, 1024},
		{"another network, by which the ends only talk", "10.9.2.1", "192.0.2.2", "a", false, 4096, map[string]Way{"192.0.2.2<10.9.2.1": {Interface: "m", MTU: 1500}}, 4096},
		{"no route", "10.9.2.1", "10.9.2.2", "a", true, 4096, nil, 4096},
	} {
		f := From{GID: addr(c.gid), MTU: c.port}
		f.follow(&verbs.PortAttr{Netdev: c.netdev}, &To{Peer: addr(c.peer)}, c.netdev == "lo", c.routed, table(c.routes))
		if f.MTU != c.want {
			t.Errorf("%s: %d, want %d", c.name, f.MTU, c.want)
		}
	}
}

func addr(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}

func table(routes map[string]Way) lookup {
	return func(peer, from netip.Addr, by string) (Way, error) {
		key := peer.String()
		if from.IsValid() {
			key += "<" + from.String()
		}
		if by != "" {
			key += "%" + by
		}
		if w, ok := routes[key]; ok {
			return w, nil
		}
		return Way{}, errors.New("unreachable")
	}
}

// TestSimulated: a model's network is not the kernel's.
func TestSimulated(t *testing.T) {
	dev, err := verbs.Open("sim:route/h0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Choose(dev, 1, To{Peer: addr("127.0.0.1"), Local: addr("127.0.0.1"), Index: -1})
	if err != nil || f.Index != 0 || f.GID.String() != "10.0.0.1" || f.MTU != 4096 {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := Choose(dev, 1, To{Index: -1, Family: IPv6}); err != nil || f.Index != 1 || f.GID.String() != "fd00::a00:1" {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := Choose(dev, 1, To{Index: 7}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("error %v", err)
	}
}

func TestOver(t *testing.T) {
	a, b := net.Pipe()
	if to := Over(a); to.Peer.IsValid() || to.Local.IsValid() || to.Index >= 0 {
		t.Errorf("a pipe: %+v", to)
	}
	_, _ = a.Close(), b.Close()
}
