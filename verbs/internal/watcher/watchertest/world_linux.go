package watchertest

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
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

// NeedBPF skips where the kernel does not let any user, or this one, load programs.
func NeedBPF(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading an eBPF program needs root")
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: uint32(os.Getpagesize())})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, os.ErrPermission) {
		t.Skipf("no eBPF ring buffers here: %v", err)
	}
	must(t, err)
	_ = m.Close()
}

// Namespace makes a network namespace, until the test ends, or skips the test.
func Namespace(t testing.TB) (ns netns.NsHandle) {
	t.Helper()
	home(t, func() {
		var err error
		ns, err = netns.New() // and this thread is in it
		if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
			t.Skipf("no network namespaces here: %v", err)
		}
		must(t, err)
	})
	t.Cleanup(func() { _ = ns.Close() })
	return ns
}

// home runs f on a thread of its own, and returns the thread to its network
// namespace.
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

// In runs f in a network namespace.
func In(t testing.TB, ns netns.NsHandle, f func()) {
	t.Helper()
	home(t, func() {
		must(t, netns.Set(ns))
		f()
	})
}

// Host makes an interface of this namespace that of a host with these addresses.
func Host(t testing.TB, name string, addrs ...netip.Prefix) {
	t.Helper()
	v, err := netlink.LinkByName(name)
	must(t, err)
	must(t, netlink.LinkSetMTU(v, 9000))
	Quiet(t, v)
	for _, a := range addrs {
		addr, err := netlink.ParseAddr(a.String())
		must(t, err)
		if a.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		must(t, netlink.AddrAdd(v, addr))
	}
	must(t, netlink.LinkSetUp(v))
}

// Quiet keeps an interface from link-local addresses, which would take a second to be
// usable.
func Quiet(t testing.TB, v netlink.Link) {
	t.Helper()
	must(t, netlink.LinkSetIP6AddrGenMode(v, nl.IN6_ADDR_GEN_MODE_NONE))
}

// Addresses are those of two hosts, of both families.
var Addresses = [2][2]netip.Prefix{
	{netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fd09::1/64")},
	{netip.MustParsePrefix("10.9.0.2/24"), netip.MustParsePrefix("fd09::2/64")},
}

// The capabilities that watching needs.
const (
	CapBPF      = 39
	CapNetAdmin = 12
)

// AsUser runs this test program as a user who has these capabilities and no others, and
// returns its output.
func AsUser(t testing.TB, env string, caps []uintptr, args ...string) (out string, err error) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	// Where another user may run it.
	dir, err := os.MkdirTemp("", "watchertest")
	must(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	must(t, os.Chmod(dir, 0o755))
	must(t, os.WriteFile(dir+"/test", self, 0o755))
	cmd := exec.CommandContext(t.Context(), dir+"/test", args...)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: caps}
	b, err := cmd.CombinedOutput()
	return string(b), err
}
