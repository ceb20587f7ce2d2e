package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/internal/racedetector"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/peer"
)

// hosts are two network namespaces without names, joined by a cable whose ends are called
// eth in both.
type hosts [2]netns.NsHandle

// side is what one of them has.
type side struct {
	addrs, lo []string
	routes    []netlink.Route // by eth
	up        func(t *testing.T, eth netlink.Link)
}

// within runs f on a thread that is in a namespace, and so are the processes that it starts.
func within(ns netns.NsHandle, f func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := netns.Get()
	if err != nil {
		return err
	}
	if err = netns.Set(ns); err == nil {
		f()
		err = netns.Set(was)
	}
	return errors.Join(err, was.Close())
}

// in is within for a test.
func in(t *testing.T, ns netns.NsHandle, f func()) {
	t.Helper()
	if err := within(ns, f); err != nil {
		t.Fatal(err)
	}
}

func newHosts(t *testing.T, sides [2]side) *hosts {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	h := new(hosts)
	was, err := netns.Get()
	must(err)
	t.Cleanup(func() { _ = was.Close() })
	for i := range h {
		in(t, was, func() {
			ns, err := netns.New()
			if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
				t.Skipf("no network namespaces here: %v", err)
			}
			must(err)
			h[i] = ns
		})
		t.Cleanup(func() { _ = h[i].Close() })
	}
	in(t, h[0], func() {
		pair := netlink.NewVeth(netlink.NewLinkAttrs())
		pair.Name, pair.PeerName, pair.PeerNamespace = "eth", "eth", netlink.NsFd(h[1])
		err := netlink.LinkAdd(pair)
		if errors.Is(err, unix.EOPNOTSUPP) {
			t.Skipf("no virtual interfaces here: %v", err)
		}
		must(err)
	})
	for i, s := range sides {
		in(t, h[i], func() {
			for name, addrs := range map[string][]string{"lo": s.lo, "eth": s.addrs} {
				l, err := netlink.LinkByName(name)
				must(err)
				if name == "eth" {
					must(netlink.LinkSetIP6AddrGenMode(l, nl.IN6_ADDR_GEN_MODE_NONE))
				}
				for _, a := range addrs {
					addr, err := netlink.ParseAddr(a)
					must(err)
					if strings.Contains(a, ":") {
						addr.Flags = unix.IFA_F_NODAD
					}
					must(netlink.AddrAdd(l, addr))
				}
				must(netlink.LinkSetUp(l))
			}
		})
	}
	for i, s := range sides {
		in(t, h[i], func() {
			eth, err := netlink.LinkByName("eth")
			must(err)
			for _, r := range s.routes {
				if r.Type == 0 {
					r.LinkIndex = eth.Attrs().Index
				}
				must(netlink.RouteReplace(&r))
			}
			if s.up != nil {
				s.up(t, eth)
			}
		})
	}
	return h
}

// output is a process's, of both streams.
type output struct {
	sync.Mutex
	buf   bytes.Buffer // not embedded: its ReadFrom would pass Write by
	ready func(string) bool
	is    chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.Lock()
	defer o.Unlock()
	n, err := o.buf.Write(b)
	if o.ready != nil && o.ready(o.buf.String()) {
		close(o.is)
		o.ready = nil
	}
	return n, err
}

func (o *output) text() string {
	o.Lock()
	defer o.Unlock()
	return o.buf.String()
}

// start starts sluice in a namespace.
func (h *hosts) start(ctx context.Context, t *testing.T, host int, o *output, args []string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = append([]string{"sluice"}, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = o, o, 5*time.Second
	in(t, h[host], func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// serve runs sluice as a server on one host, which says "waiting", and as its client on
// the other, and returns what both printed.
func (h *hosts) serve(t *testing.T, server int, serverArgs, clientArgs []string) (served, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out := &output{ready: func(s string) bool { return strings.Contains(s, "waiting for a client") }, is: make(chan struct{})}
	s := h.start(ctx, t, server, out, serverArgs)
	done := make(chan error, 1)
	go func() { done <- s.Wait() }()
	select {
	case <-out.is:
	case err := <-done:
		t.Fatalf("the server of %q ended: %v\n%s", serverArgs, err, out.text())
	}
	in := &output{}
	if err := h.start(ctx, t, 1-server, in, clientArgs).Wait(); err != nil {
		cancel()
		<-done
		t.Fatalf("%q: %v\n%s\nserver: %s", clientArgs, err, in.text(), out.text())
	}
	if err := <-done; err != nil {
		t.Fatalf("the server of %q: %v\n%s\nclient: %s", serverArgs, err, out.text(), in.text())
	}
	return out.text(), in.text()
}

func prefix(t *testing.T, s string) *net.IPNet {
	t.Helper()
	_, p, err := net.ParseCIDR(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRoute runs perf and rping between hosts where the first address of the device's list
// is not the one by which the peer is reached, and where its MTU is not the path's.
func TestRoute(t *testing.T) {
	two := [2]side{{addrs: []string{"10.9.1.1/24", "10.9.2.1/24"}}, {addrs: []string{"10.9.2.2/24"}}}
	loopbacks := [2]side{
		{lo: []string{"10.0.0.1/32"}, addrs: []string{"10.9.0.1/24"}, routes: []netlink.Route{{Dst: prefix(t, "10.0.0.2/32"), Gw: net.IPv4(10, 9, 0, 2), Src: net.IPv4(10, 0, 0, 1)}}},
		{lo: []string{"10.0.0.2/32"}, addrs: []string{"10.9.0.2/24"}, routes: []netlink.Route{{Dst: prefix(t, "10.0.0.1/32"), Gw: net.IPv4(10, 9, 0, 1), Src: net.IPv4(10, 0, 0, 2)}}},
	}
	six := [2]side{{addrs: []string{"fd01::1/64", "fd02::1/64"}}, {addrs: []string{"fd02::2/64"}}}
	mixed := [2]side{{addrs: []string{"10.9.1.1/24", "fd02::1/64"}}, {addrs: []string{"10.9.7.1/24", "fd02::2/64"}}}
	policy := [2]side{
		{addrs: []string{"10.9.2.1/24", "10.9.3.1/32"}, routes: []netlink.Route{{Dst: prefix(t, "10.9.2.2/32"), Src: net.IPv4(10, 9, 3, 1), Scope: unix.RT_SCOPE_LINK}}},
		{addrs: []string{"10.9.2.2/24"}, routes: []netlink.Route{{Dst: prefix(t, "10.9.3.1/32"), Scope: unix.RT_SCOPE_LINK}}},
	}
	narrow := [2]side{
		{addrs: []string{"10.9.2.1/24"}, routes: []netlink.Route{{Dst: prefix(t, "10.9.2.2/32"), MTU: 700, Scope: unix.RT_SCOPE_LINK}}},
		{addrs: []string{"10.9.2.2/24"}, routes: []netlink.Route{{Dst: prefix(t, "10.9.2.1/32"), MTU: 700, Scope: unix.RT_SCOPE_LINK}}},
	}
	for _, c := range []struct {
		name   string
		sides  [2]side
		dev    [2]string
		addr   [2]string // by which each is reached
		source string    // of host 0, which perf says
		mtu    string
	}{
		{"two addresses", two, [2]string{"soft:eth", "soft:eth"}, [2]string{"10.9.2.1", "10.9.2.2"}, "10.9.2.1", "1024"},
		{"lo", loopbacks, [2]string{"soft:10.0.0.1", "soft:10.0.0.2"}, [2]string{"10.0.0.1", "10.0.0.2"}, "10.0.0.1", "1024"},
		{"all of lo", loopbacks, [2]string{"soft:lo", "soft:lo"}, [2]string{"10.0.0.1", "10.0.0.2"}, "10.0.0.1", "1024"},
		{"IPv6 only", six, [2]string{"soft:eth", "soft:eth"}, [2]string{"fd02::1", "fd02::2"}, "fd02::1", "1024"},
		{"IPv6 beside IPv4", mixed, [2]string{"soft:eth", "soft:eth"}, [2]string{"fd02::1", "fd02::2"}, "fd02::1", "1024"},
		{"another source", policy, [2]string{"soft:eth", "soft:eth"}, [2]string{"10.9.3.1", "10.9.2.2"}, "10.9.3.1", "1024"},
		{"the route's MTU", narrow, [2]string{"soft:eth", "soft:eth"}, [2]string{"10.9.2.1", "10.9.2.2"}, "10.9.2.1", "512"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if racedetector.On && c.name != "two addresses" {
				t.Skip("the same goroutines as in the first case: nothing new for the race detector")
			}
			h := newHosts(t, c.sides)
			for server := range 2 {
				perf := []string{"perf", "write_bw", "-n", "50", "--json", "-d"}
				for _, how := range [][]string{nil, {"-R"}} {
					_, said := h.serve(t, server, append(append(perf, c.dev[server]), how...), append(append(perf, c.dev[1-server], c.addr[server]), how...))
					if server == 1 && !strings.Contains(said, `"gid": "`+c.source+`"`) {
						t.Errorf("%v: the source is not %s: %s", how, c.source, said)
					}
					if !strings.Contains(said, `"mtu": `+c.mtu) {
						t.Errorf("%v: the path MTU is not %s: %s", how, c.mtu, said)
					}
				}
				h.serve(t, server, []string{"rping", "-s", "-d", c.dev[server]}, []string{"rping", "-c", "-a", c.addr[server], "-C", "3", "-S", "3000", "-V", "-d", c.dev[1-server]})
			}
		})
	}
}

// TestNoRoute holds that a client whose peer can't be reached says so at once, and why.
func TestNoRoute(t *testing.T) {
	h := newHosts(t, [2]side{{addrs: []string{"10.9.1.1/24", "fd01::1/64"}, routes: []netlink.Route{{Dst: prefix(t, "10.8.0.0/16"), Type: unix.RTN_PROHIBIT}}}, {addrs: []string{"10.9.1.2/24"}}})
	for _, c := range []struct{ addr, says string }{
		{"10.7.0.1", "the route to 10.7.0.1: network is unreachable"},
		{"10.8.0.1", "the route to 10.8.0.1: permission denied"},
		{"10.9.1.255", "the route to 10.9.1.255: network is unreachable: it is a broadcast's"},
		{"fd02::1", "the route to fd02::1: network is unreachable"},
		{"224.0.0.1", "224.0.0.1: invalid argument: no host's address"},
	} {
		for _, args := range [][]string{{"rping", "-c", "-a", c.addr, "-d", "soft:eth"}, {"perf", "write_bw", "-R", "-d", "soft:eth", c.addr}} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			out := &output{}
			err := h.start(ctx, t, 0, out, args).Wait()
			if ctx.Err() != nil || err == nil || !strings.Contains(out.text(), c.says) {
				t.Errorf("%q: %v, want it to say %q:\n%s", args, err, c.says, out.text())
			}
			cancel()
		}
	}
}

// TestRouteVirtual is TestRoute for a program that finds its address by rdma_resolve_addr.
func TestRouteVirtual(t *testing.T) {
	rping, err := exec.LookPath("rping")
	if err != nil {
		t.Skipf("needs rping of rdmacm-utils: %v", err)
	}
	lib := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", "..", "libsluice-virtual", "LIB="+lib).CombinedOutput(); err != nil {
		t.Skipf("needs a C compiler and make: %v\n%s", err, out)
	}
	t.Setenv("SLUICE_VIRTUAL_LIB", lib+"/libsluice-virtual.so")
	h := newHosts(t, [2]side{{addrs: []string{"10.9.1.1/24", "10.9.2.1/24"}}, {addrs: []string{"10.9.2.2/24"}}})
	h.serve(t, 1, []string{"rping", "-s", "-d", "soft:eth"}, []string{"virtual", "-d", "soft:eth", "--", rping, "-c", "-a", "10.9.2.2", "-C", "3", "-V"})
}

// TestRouteLinked is TestRoute for a program that links the shim, as README's does.
func TestRouteLinked(t *testing.T) {
	h := newHosts(t, [2]side{{addrs: []string{"10.9.1.1/24", "10.9.2.1/24"}}, {addrs: []string{"10.9.2.2/24"}}})
	for server, addr := range [2]string{"10.9.2.1", "10.9.2.2"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		want := bytes.Repeat([]byte("route"), 20_000)
		buf := make([]byte, len(want))
		addrs, done := make(chan string, 1), make(chan error, 1)
		serve := func() error {
			dev, err := paced.Open("soft:eth", "timely")
			if err != nil {
				return err
			}
			l, err := peer.Listen(ctx, addr+":0")
			if err != nil {
				return errors.Join(err, dev.Close())
			}
			addrs <- l.Addr().String()
			c, err := l.Accept(ctx, dev, buf)
			if err == nil {
				err = errors.Join(c.Wait(ctx), c.Close())
			}
			return errors.Join(err, l.Close(), dev.Close())
		}
		go func() {
			defer close(addrs)
			var err error
			entered := within(h[server], func() { err = serve() })
			done <- errors.Join(entered, err)
		}()
		if at, ok := <-addrs; ok {
			in(t, h[1-server], func() {
				dev, err := paced.Open("soft:eth", "timely")
				if err != nil {
					t.Error(err)
					return
				}
				c, err := peer.Dial(ctx, dev, at, bytes.Clone(want))
				if err == nil {
					err = errors.Join(c.Write(ctx, 0, 0, len(want)), c.Close())
				}
				if err = errors.Join(err, dev.Close()); err != nil {
					t.Errorf("to %s: %v", addr, err)
					cancel()
				}
			})
		}
		if err := <-done; err != nil || !bytes.Equal(buf, want) {
			t.Errorf("at %s: %v, the bytes came: %v", addr, err, bytes.Equal(buf, want))
		}
		cancel()
	}
}
