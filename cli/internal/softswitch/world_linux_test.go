package softswitch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a switch in a network namespace, and hosts in others, each behind a port
// p0, p1, ... by its interface eth0, with the addresses 10.11.0.1, fd11::1 and
// 02:00:00:00:00:01, and so on.
type world struct {
	home  netns.NsHandle
	hosts []netns.NsHandle
	sw    *Switch
}

// inside runs f on a thread in a namespace, and brings the thread back.
func inside(t testing.TB, ns netns.NsHandle, f func()) {
	t.Helper()
	home(t, func() {
		must(t, netns.Set(ns))
		f()
	})
}

// home runs f on a thread of its own, and brings it back to its namespace.
func home(t testing.TB, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := netns.Get()
	must(t, err)
	defer func() {
		// Who may not enter namespaces has not left.
		if here, err := netns.Get(); err != nil || !here.Equal(was) {
			must(t, errors.Join(err, netns.Set(was)))
		} else {
			_ = here.Close()
		}
		_ = was.Close()
	}()
	f()
}

// newNamespace makes one, or skips the test where that is not allowed.
func newNamespace(t testing.TB) (h netns.NsHandle) {
	t.Helper()
	var err error
	home(t, func() { h, err = netns.New() })
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("no network namespaces here: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// newWorld makes namespaces and interfaces; ports are the switch's, of which the names
// are filled in.
func newWorld(t testing.TB, ports []Port) *world {
	t.Helper()
	w := &world{home: newNamespace(t)}
	for i := range ports {
		ns := newNamespace(t)
		w.hosts = append(w.hosts, ns)
		ports[i].Interface = fmt.Sprintf("p%d", i)
		inside(t, w.home, func() {
			pair := netlink.NewVeth(netlink.NewLinkAttrs())
			pair.Name, pair.PeerName = ports[i].Interface, "eth0"
			pair.PeerNamespace = netlink.NsFd(ns)
			err := netlink.LinkAdd(pair)
			if errors.Is(err, unix.EOPNOTSUPP) {
				t.Skipf("no virtual interfaces here: %v", err)
			}
			must(t, err)
			v, err := netlink.LinkByName(ports[i].Interface)
			must(t, err)
			must(t, netlink.LinkSetIP6AddrGenMode(v, nl.IN6_ADDR_GEN_MODE_NONE))
			must(t, netlink.LinkSetUp(v))
		})
		inside(t, ns, func() {
			v, err := netlink.LinkByName("eth0")
			must(t, err)
			must(t, netlink.LinkSetIP6AddrGenMode(v, nl.IN6_ADDR_GEN_MODE_NONE))
			must(t, netlink.LinkSetHardwareAddr(v, []byte{2, 0, 0, 0, 0, byte(i + 1)}))
			for _, text := range []string{fmt.Sprintf("10.11.0.%d/24", i+1), fmt.Sprintf("fd11::%d/64", i+1)} {
				a, err := netlink.ParseAddr(text)
				must(t, err)
				if a.IP.To4() == nil {
					a.Flags = unix.IFA_F_NODAD
				}
				must(t, netlink.AddrAdd(v, a))
			}
			must(t, netlink.LinkSetUp(v))
		})
	}
	return w
}

// start opens the switch and runs it until the test ends.
func (w *world) start(t testing.TB, cfg Config) *Switch {
	t.Helper()
	inside(t, w.home, func() {
		var err error
		w.sw, err = Open(cfg)
		must(t, err)
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.sw.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, w.sw.Close()); err != nil {
			t.Error(err)
		}
	})
	return w.sw
}

// in runs f in host i's namespace.
func (w *world) in(t testing.TB, i int, f func()) {
	t.Helper()
	inside(t, w.hosts[i], f)
}
