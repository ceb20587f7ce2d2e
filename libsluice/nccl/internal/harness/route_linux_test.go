package harness_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// inside runs f on a thread in a network namespace, as are the processes that it starts.
func inside(t *testing.T, ns netns.NsHandle, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := netns.Get()
	if err == nil {
		defer func() {
			if err := errors.Join(netns.Set(was), was.Close()); err != nil {
				t.Error(err)
			}
		}()
		err = netns.Set(ns)
	}
	if err != nil {
		t.Error(err)
		return
	}
	f()
}

// namespaces makes two, joined by interfaces eth with these addresses.
func namespaces(t *testing.T, addrs [2][]string) (pair [2]netns.NsHandle) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer was.Close()
	for i := range pair {
		pair[i], err = netns.New()
		if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
			t.Skipf("no network namespaces here: %v", err)
		}
		if err := errors.Join(err, netns.Set(was)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pair[i].Close() })
	}
	for i, ns := range pair {
		inside(t, ns, func() {
			if i == 0 {
				v := netlink.NewVeth(netlink.NewLinkAttrs())
				v.Name, v.PeerName, v.PeerNamespace = "eth", "eth", netlink.NsFd(pair[1])
				if err = netlink.LinkAdd(v); err != nil {
					return
				}
			}
			var eth netlink.Link
			if eth, err = netlink.LinkByName("eth"); err != nil {
				return
			}
			err = netlink.LinkSetIP6AddrGenMode(eth, nl.IN6_ADDR_GEN_MODE_NONE)
			for _, a := range addrs[i] {
				addr, bad := netlink.ParseAddr(a)
				err = errors.Join(err, bad, netlink.AddrAdd(eth, addr))
			}
			err = errors.Join(err, netlink.LinkSetUp(eth))
		})
		if errors.Is(err, unix.EOPNOTSUPP) {
			t.Skipf("no virtual interfaces here: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return pair
}

// TestRoute: a host with two addresses listens at both and is reached at the one that its peer has a route to, though
// the other comes first in its table; and it connects from that one.
func TestRoute(t *testing.T) {
	built(t)
	mlx5(t)
	pair := namespaces(t, [2][]string{{"10.9.1.1/24", "10.9.2.1/24"}, {"10.9.2.2/24"}})
	env := []string{"SLUICE_VIRTUAL_LIB=" + filepath.Join(dir, "libsluice-virtual.so"), "RATE_MESSAGES=10"}
	command := func(args ...string) []string {
		return append([]string{"virtual", "-d", "soft:eth", "--", "./harness", "./" + plugin, "12"}, args...)
	}
	for receiver, at := range []string{"10.9.2.1", "10.9.2.2"} {
		type ended struct {
			out string
			err error
		}
		done := make(chan ended, 1)
		go func() {
			var e ended
			inside(t, pair[receiver], func() { e.out, e.err = run(t, env, "sluice", command("receive", "rate")...) })
			done <- e
		}()
		var out string
		var err error
		inside(t, pair[1-receiver], func() { out, err = run(t, env, "sluice", command("send", at, "rate")...) })
		if got := <-done; err != nil || got.err != nil {
			t.Errorf("to %s: %v, %v\nsender: %s\nreceiver: %s", at, err, got.err, out, got.out)
		}
	}
}
