package netif

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespace puts the test on a thread in a network namespace of its own.
func namespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	was, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	own, err := netns.New()
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		_ = was.Close()
		runtime.UnlockOSThread()
		t.Skipf("no network namespaces here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(netns.Set(was), was.Close(), own.Close()); err != nil {
			t.Fatal(err) // the thread ends with the test
		}
		runtime.UnlockOSThread()
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// veth makes a pair of which both ends are up, without addresses.
func veth(t *testing.T) (a, b netlink.Link) {
	t.Helper()
	v := netlink.NewVeth(netlink.NewLinkAttrs())
	v.Name, v.PeerName, v.MTU = "v0", "v1", 9000
	if err := netlink.LinkAdd(v); err != nil {
		t.Skipf("no virtual interfaces here: %v", err)
	}
	a, err := netlink.LinkByName("v0")
	must(t, err)
	b, err = netlink.LinkByName("v1")
	must(t, err)
	for _, l := range []netlink.Link{a, b} {
		_ = netlink.LinkSetIP6AddrGenMode(l, nl.IN6_ADDR_GEN_MODE_NONE) // there may be no IPv6
	}
	must(t, netlink.LinkSetUp(b))
	must(t, netlink.LinkSetUp(a))
	return a, b
}

// until reads states until one fits, and returns those before it.
func until(t *testing.T, w *Watch, what string, fits func(*Facts) bool) (before []Facts) {
	t.Helper()
	for {
		f, err := w.Next()
		if err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		if fits(&f) {
			return before
		}
		before = append(before, f)
	}
}

func settled(t *testing.T, name string) Facts {
	t.Helper()
	for {
		f, err := ByName(name)
		must(t, err)
		if f.OperState == OperUp && f.Active() {
			return f
		}
		runtime.Gosched()
	}
}

// has reports whether an address is among an interface's.
func has(f *Facts, a string) bool {
	return slices.ContainsFunc(f.Addrs, func(x Address) bool { return x.Prefix == netip.MustParsePrefix(a) })
}

func TestFacts(t *testing.T) {
	namespace(t)
	lo, err := ByName("lo")
	if must(t, err); !lo.Loopback || lo.Up || lo.Active() || lo.Index != 1 || lo.Rate != 0 || len(lo.MAC) != 0 {
		t.Errorf("the loopback of a fresh namespace: %+v", lo)
	}
	a, b := veth(t)
	addr, _ := netlink.ParseAddr("10.50.0.1/24")
	must(t, netlink.AddrAdd(a, addr))
	f := settled(t, "v0")
	if !has(&f, "10.50.0.1/24") || f.Index != a.Attrs().Index || f.MTU != 9000 || f.MAC.String() != a.Attrs().HardwareAddr.String() || f.Loopback || f.Rate != 10_000_000_000 { // veth's driver says 10 Gbps
		t.Errorf("facts %+v", f)
	}
	if again, err := ByIndex(f.Index); err != nil || !again.Equal(&f) {
		t.Errorf("by index %+v, %v; by name %+v", again, err, f)
	}
	must(t, netlink.LinkSetDown(b))
	if f, err = ByName("v0"); err != nil || !f.Up || f.Carrier || f.Active() || f.OperState == OperUp {
		t.Errorf("without carrier: %+v, %v", f, err)
	}
	must(t, netlink.LinkDel(a))
	for _, err := range []error{func() error { _, err := ByName("v0"); return err }(), func() error { _, err := ByIndex(f.Index); return err }()} {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("an interface that is gone: %v", err)
		}
	}
}

// A Watch tells of each state in its order, of whichever thread's namespace calls Next.
func TestWatch(t *testing.T) {
	namespace(t)
	a, b := veth(t)
	settled(t, "v0")
	w, err := NewWatch(a.Attrs().Index)
	must(t, err)
	defer w.Close()
	ten, _ := netlink.ParseAddr("10.50.0.1/24")
	peer, _ := netlink.ParseAddr("10.50.1.1/32")
	peer.Peer = &net.IPNet{IP: net.IPv4(10, 50, 2, 1), Mask: net.CIDRMask(24, 32)}
	six, _ := netlink.ParseAddr("fd50::1/64")
	six.Flags = unix.IFA_F_NODAD
	for _, step := range []struct {
		what string
		do   func() error
		fits func(*Facts) bool
	}{
		{"an address", func() error { return netlink.AddrAdd(a, ten) }, func(f *Facts) bool { return has(f, "10.50.0.1/24") }},
		{"a peer's address", func() error { return netlink.AddrAdd(a, peer) }, func(f *Facts) bool { return has(f, "10.50.1.1/32") }},
		{"an IPv6 address", func() error { return netlink.AddrAdd(a, six) }, func(f *Facts) bool { return has(f, "fd50::1/64") && len(f.Addrs) == 3 }},
		{"no address", func() error { return netlink.AddrDel(a, ten) }, func(f *Facts) bool { return !has(f, "10.50.0.1/24") && len(f.Addrs) == 2 }},
		{"another MTU", func() error { return netlink.LinkSetMTU(a, 1500) }, func(f *Facts) bool { return f.MTU == 1500 }},
		{"no carrier", func() error { return netlink.LinkSetDown(b) }, func(f *Facts) bool { return f.Up && !f.Carrier }},
		{"carrier", func() error { return netlink.LinkSetUp(b) }, func(f *Facts) bool { return f.Active() }},
		{"down", func() error { return netlink.LinkSetDown(a) }, func(f *Facts) bool { return !f.Up && !f.Carrier }},
		{"another name", func() error { return netlink.LinkSetName(a, "w0") }, func(f *Facts) bool { return f.Name == "w0" }},
		{"up", func() error { return netlink.LinkSetUp(a) }, func(f *Facts) bool { return f.Active() && f.OperState == OperUp }},
	} {
		if err := step.do(); errors.Is(err, unix.EACCES) || errors.Is(err, unix.EOPNOTSUPP) {
			t.Skipf("no IPv6 here: %v", err)
		} else if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		until(t, w, step.what, step.fits)
	}
	if f, err := ByIndex(a.Attrs().Index); err != nil || !f.Equal(ptr(w.Facts())) {
		t.Errorf("followed to %+v, read %+v, %v", w.Facts(), f, err)
	}
	// Down and up again before anybody looks are two states.
	must(t, errors.Join(netlink.LinkSetDown(a), netlink.LinkSetUp(a)))
	until(t, w, "down", func(f *Facts) bool { return !f.Active() })
	until(t, w, "up", func(f *Facts) bool { return f.Active() })
	// One that comes under the same name is not this one.
	must(t, netlink.LinkDel(a))
	again := netlink.NewVeth(netlink.NewLinkAttrs())
	again.Name, again.PeerName = "w0", "v1"
	must(t, netlink.LinkAdd(again))
	until(t, w, "gone", func(f *Facts) bool { return f.Gone && !f.Active() && f.Name == "w0" })
	w.Stop()
	if f, err := w.Next(); !errors.Is(err, ErrStopped) || !f.Gone {
		t.Errorf("after Stop: %+v, %v", f, err)
	}
}

// Messages that the kernel had no room for are made up for by reading.
func TestWatchLosesMessages(t *testing.T) {
	namespace(t)
	a, b := veth(t)
	settled(t, "v0")
	w, err := NewWatch(a.Attrs().Index)
	must(t, err)
	defer w.Close()
	if err := unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1); err != nil { // the kernel's least
		t.Fatal(err)
	}
	for range 50 {
		must(t, errors.Join(netlink.LinkSetDown(a), netlink.LinkSetUp(a)))
	}
	must(t, errors.Join(netlink.LinkSetMTU(a, 1400), netlink.LinkSetDown(b)))
	if before := until(t, w, "the last state", func(f *Facts) bool { return f.MTU == 1400 && f.Up && !f.Carrier }); len(before) >= 100 {
		t.Errorf("%d states came by a buffer of one message", len(before))
	}
	for range 50 {
		must(t, errors.Join(netlink.LinkSetMTU(a, 1500), netlink.LinkSetMTU(a, 1400)))
	}
	must(t, netlink.LinkDel(a))
	until(t, w, "gone", func(f *Facts) bool { return f.Gone })
}

// Another interface's messages, and a bridge's about its port, change nothing.
func TestWatchOfOne(t *testing.T) {
	namespace(t)
	a, b := veth(t)
	settled(t, "v0")
	w, err := NewWatch(a.Attrs().Index)
	must(t, err)
	defer w.Close()
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	bridge.Name = "br0"
	if err := netlink.LinkAdd(bridge); err != nil {
		t.Skipf("no bridges here: %v", err)
	}
	must(t, errors.Join(netlink.LinkSetMaster(a, bridge), netlink.LinkSetNoMaster(a), netlink.LinkSetMTU(b, 1300), netlink.LinkSetMTU(a, 1400)))
	for _, f := range until(t, w, "the MTU", func(f *Facts) bool { return f.MTU == 1400 }) {
		if f.Gone || f.MTU != 9000 {
			t.Errorf("%+v", f)
		}
	}
}

func ptr(f Facts) *Facts { return &f }
