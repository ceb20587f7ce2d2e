package rdmacm_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
)

// Whoever has a connection, a listener or a call under way on a device that goes learns
// of it.
func TestDeviceGone(t *testing.T) {
	ns := watchertest.Namespace(t)
	var dev verbs.Device
	watchertest.In(t, ns, func() {
		v := netlink.NewVeth(netlink.NewLinkAttrs())
		v.Name, v.PeerName = "v0", "v1"
		if err := netlink.LinkAdd(v); err != nil {
			t.Skipf("no virtual interfaces here: %v", err)
		}
		watchertest.Host(t, "v1")
		watchertest.Host(t, "v0", netip.MustParsePrefix("10.52.0.1/24"))
		lo, err := netlink.LinkByName("lo") // the device's own packets take it
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err == nil {
			dev, err = verbs.Open("soft:v0")
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pd, err := dev.AllocPD()
	must(err)
	cq, err := dev.CreateCQ(verbs.CQInitAttr{CQE: 16})
	must(err)
	var qps [3]verbs.QP
	for i := range qps {
		qps[i], err = pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
		must(err)
	}
	ctx := t.Context()
	addr := netip.MustParseAddrPort("10.52.0.1:4000")
	l, err := rdmacm.Listen(dev, addr)
	must(err)
	accepted := make(chan *rdmacm.Conn, 1)
	go func() {
		r, err := l.Accept(ctx)
		if err == nil {
			c, err := r.Accept(ctx, qps[1], rdmacm.DefaultParams())
			if err == nil {
				accepted <- c
				return
			}
		}
		t.Error(err)
		close(accepted)
	}()
	c, err := rdmacm.Dial(ctx, dev, addr, qps[0], rdmacm.DefaultParams())
	must(err)
	s := <-accepted
	if s == nil {
		t.FailNow()
	}
	waits := make(chan error, 2)
	go func() {
		_, err := l.Accept(ctx)
		waits <- err
	}()
	sent := func() uint64 { return dev.(interface{ Counters() map[string]uint64 }).Counters()["sent_pkts"] }
	before := sent()
	go func() { // to nobody
		_, err := rdmacm.Dial(ctx, dev, netip.MustParseAddrPort("10.52.0.9:4000"), qps[2], rdmacm.DefaultParams())
		waits <- err
	}()
	for sent() == before {
		time.Sleep(time.Millisecond) //nolint:forbidigo // nobody says that the request has left
	}
	watchertest.In(t, ns, func() {
		v, err := netlink.LinkByName("v0")
		if err == nil {
			err = netlink.LinkDel(v)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	for _, x := range []*rdmacm.Conn{c, s} {
		<-x.Done()
		if !errors.Is(x.Err(), verbs.ErrNoDevice) {
			t.Errorf("a connection: %v", x.Err())
		}
	}
	for range 2 {
		if err := <-waits; !errors.Is(err, verbs.ErrNoDevice) {
			t.Errorf("a call under way: %v", err)
		}
	}
	if _, err := rdmacm.Dial(ctx, dev, addr, qps[2], rdmacm.DefaultParams()); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("by a device that is gone: %v", err)
	}
	must(l.Close())
	c.Disconnect()
	s.Disconnect()
	for _, q := range qps {
		must(q.Close())
	}
	must(errors.Join(cq.Close(), pd.Close(), dev.Close()))
}
