package paced_test

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
)

// A device of the loopback sends by the interface that leads to the peer, and the engine
// has that one's line rate.
func TestLineRateByTheRoute(t *testing.T) {
	runtime.LockOSThread() // and never unlocked: the thread, which is in a network of its own, ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		t.Skipf("no network namespaces here: %v", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pair := netlink.NewVeth(netlink.NewLinkAttrs())
	pair.Name, pair.PeerName = "out", "in" // which say 10 Gbps
	if err := netlink.LinkAdd(pair); err != nil {
		t.Skipf("no virtual interfaces here: %v", err)
	}
	for name, a := range map[string]string{"lo": "10.0.0.1/32", "out": "10.9.0.1/24", "in": ""} {
		l, err := netlink.LinkByName(name)
		must(err)
		must(netlink.LinkSetUp(l))
		if a == "" {
			continue
		}
		addr, err := netlink.ParseAddr(a)
		must(err)
		must(netlink.AddrAdd(l, addr))
	}
	out, err := netlink.LinkByName("out")
	must(err)
	_, to, _ := net.ParseCIDR("10.0.0.2/32")
	must(netlink.RouteAdd(&netlink.Route{LinkIndex: out.Attrs().Index, Dst: to, Gw: []byte{10, 9, 0, 2}}))

	inner, err := verbs.Open("soft:lo")
	must(err)
	defer inner.Close()
	own, err := inner.Port(1)
	must(err)
	sgid := -1
	for i := range own.GIDs {
		if a, err := inner.GID(1, i); err == nil && a.Unmap().WithZone("") == netip.MustParseAddr("10.0.0.1") {
			sgid = i
		}
	}
	for peer, want := range map[string]units.Rate{"10.0.0.2": 10 * units.Gbps, "10.0.0.1": units.Rate(own.LinkRate)} {
		cfg := paced.DefaultConfig()
		var got units.Rate
		cfg.Scheme = ""
		cfg.Engine = func(e cc.Env) (cc.Engine, error) {
			got = e.LineRate
			return timely.New(timely.DefaultConfig(), e)
		}
		dev, err := paced.Wrap(inner, cfg)
		must(err)
		pd, err := dev.AllocPD()
		must(err)
		cq, err := dev.CreateCQ(verbs.CQInitAttr{CQE: 16})
		must(err)
		qp, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 8}})
		must(err)
		p := verbs.DefaultRC()
		p.SGIDIndex = sgid
		must(verbs.ConnectRC(qp, verbs.Endpoint{}, verbs.Endpoint{GID: netip.MustParseAddr(peer), QPN: 99}, p))
		if got != want {
			t.Errorf("towards %s: %v, want %v", peer, got, want)
		}
		must(errors.Join(qp.Close(), cq.Close(), pd.Close()))
	}
}
