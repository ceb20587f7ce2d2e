package wiretag

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/verbs"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
)

// world is two hosts, each a network namespace with an interface h, and a third
// namespace between them whose interfaces s0 and s1 are their other ends: a switch of
// the test's own. The hosts have the addresses 10.9.0.1, fd09::1 and so on.
type world struct {
	ns     [3]netns.NsHandle // the last is the switch's
	format *telemetry.DelayFormat
	// write says which value the switch writes into the tag of a frame that comes
	// in at a port, 0 or 1. It runs on two goroutines.
	write    atomic.Pointer[func(port int, frame []byte) uint32]
	untagged atomic.Uint64 // RoCEv2 frames without a tag to write into
	stopped  atomic.Bool
}

var hostAddrs = [2][2]netip.Prefix{
	{netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fd09::1/64")},
	{netip.MustParsePrefix("10.9.0.2/24"), netip.MustParsePrefix("fd09::2/64")},
}

func newWorld(t testing.TB, format *telemetry.DelayFormat) *world {
	t.Helper()
	needBPF(t)
	w := &world{ns: [3]netns.NsHandle{-1, -1, -1}, format: format}
	t.Cleanup(func() {
		for i := range w.ns {
			_ = w.ns[i].Close()
		}
	})
	for i := range w.ns {
		home(t, func() {
			h, err := netns.New() // and this thread is in it
			if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
				t.Skipf("no network namespaces here: %v", err)
			}
			must(t, err)
			w.ns[i] = h
		})
	}
	var ports [2]int
	for i := range ports {
		w.in(t, 2, func() {
			pair := netlink.NewVeth(netlink.NewLinkAttrs())
			pair.Name, pair.PeerName, pair.MTU = []string{"s0", "s1"}[i], "h", 9000
			pair.PeerNamespace = netlink.NsFd(w.ns[i])
			must(t, netlink.LinkAdd(pair))
			ports[i] = w.port(t, pair.Name)
		})
		w.in(t, i, func() {
			v, err := netlink.LinkByName("h")
			must(t, err)
			must(t, netlink.LinkSetMTU(v, 9000))
			noChecksumOffload(t, "h") // the switch has no way to finish a checksum
			quiet(t, v)
			addresses(t, v, hostAddrs[i][:]...)
			must(t, netlink.LinkSetUp(v))
		})
	}
	pass := func(int, []byte) uint32 { return 0 }
	w.write.Store(&pass)
	var running sync.WaitGroup
	for i := range ports {
		running.Go(func() { w.forward(i, ports[i], ports[1-i]) })
	}
	t.Cleanup(func() {
		w.stopped.Store(true)
		running.Wait()
		for _, fd := range ports {
			_ = unix.Close(fd)
		}
	})
	return w
}

// quiet keeps an interface from link-local addresses, which would take a second to be
// usable.
func quiet(t testing.TB, v netlink.Link) {
	t.Helper()
	must(t, netlink.LinkSetIP6AddrGenMode(v, nl.IN6_ADDR_GEN_MODE_NONE))
}

func addresses(t testing.TB, v netlink.Link, addrs ...netip.Prefix) {
	t.Helper()
	for _, a := range addrs {
		addr, err := netlink.ParseAddr(a.String())
		must(t, err)
		if a.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		must(t, netlink.AddrAdd(v, addr))
	}
}

// port returns a packet socket on an interface of the switch, which is then up.
func (w *world) port(t testing.TB, name string) int {
	t.Helper()
	v, err := netlink.LinkByName(name)
	must(t, err)
	must(t, netlink.LinkSetMTU(v, 9000+16))
	quiet(t, v)
	must(t, netlink.LinkSetUp(v))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20))
	must(t, unix.SetsockoptInt(fd, unix.SOL_PACKET, packetIgnoreOutgoing, 1))
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}))
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0300, Ifindex: v.Attrs().Index})) // ETH_P_ALL
	return fd
}

const packetIgnoreOutgoing = 23 // PACKET_IGNORE_OUTGOING

// noChecksumOffload has the kernel write checksums before a frame leaves.
func noChecksumOffload(t testing.TB, name string) {
	t.Helper()
	const setTXChecksum = 0x17 // ETHTOOL_STXCSUM
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer func() { _ = unix.Close(fd) }()
	value := struct{ cmd, data uint32 }{setTXChecksum, 0}
	var request struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(request.name[:], name)
	request.data = unsafe.Pointer(&value)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		t.Fatal("ETHTOOL_STXCSUM: ", errno)
	}
}

// home runs f on a thread of its own, and brings it back to its network namespace.
func home(t testing.TB, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := netns.Get()
	must(t, err)
	defer func() {
		must(t, netns.Set(was))
		_ = was.Close()
	}()
	f()
}

// in runs f in one of the namespaces.
func (w *world) in(t testing.TB, i int, f func()) {
	t.Helper()
	home(t, func() {
		must(t, netns.Set(w.ns[i]))
		f()
	})
}

// open opens a host's device, wrapped as the tests of the package have it.
func (w *world) open(t testing.TB, i int, cfg Config, set settings) (d *Device) {
	t.Helper()
	w.in(t, i, func() {
		dev, err := verbs.Open("soft:h?gso=off")
		must(t, err)
		d, err = wrap(dev, "", cfg, set)
		must(t, err)
	})
	return d
}

// plain opens a host's device as it is.
func (w *world) plain(t testing.TB, i int) (dev verbs.Device) {
	t.Helper()
	w.in(t, i, func() {
		var err error
		dev, err = verbs.Open("soft:h?gso=off")
		must(t, err)
	})
	return dev
}

// end is a connected queue pair with a region of memory.
type end struct {
	dev verbs.Device
	pd  verbs.PD
	cq  verbs.CQ
	qp  verbs.QP
	mr  verbs.MR
}

const region = 1 << 20

// connect makes a connection of two devices; gid picks their addresses.
func connect(t testing.TB, devs [2]verbs.Device, gid int) (e [2]end) {
	t.Helper()
	var at [2]verbs.Endpoint
	for i, d := range devs {
		x := &e[i]
		x.dev = d
		var err error
		x.pd, err = d.AllocPD()
		must(t, err)
		x.cq, err = d.CreateCQ(verbs.CQInitAttr{CQE: 1024, Timestamps: d.Attr().CoreClockHz > 0})
		must(t, err)
		x.qp, err = x.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: x.cq, RecvCQ: x.cq, Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}})
		must(t, err)
		x.mr, err = x.pd.RegMR(make([]byte, region), ib.AccessLocalWrite|ib.AccessRemoteWrite|ib.AccessRemoteRead|ib.AccessRemoteAtomic)
		must(t, err)
		a, err := d.GID(1, gid)
		must(t, err)
		at[i] = verbs.Endpoint{GID: a, QPN: x.qp.Num(), PSN: 0xfffff0}
	}
	p := verbs.DefaultRC()
	p.Timeout = 20 // 4 s, which no machine is late by
	for i := range e {
		must(t, verbs.ConnectRC(e[i].qp, at[i], at[1-i], p))
	}
	t.Cleanup(func() {
		for i := range e {
			x := &e[i]
			must(t, errors.Join(x.qp.Destroy(), x.mr.Dereg(), x.cq.Destroy(), x.pd.Dealloc(), x.dev.Close()))
		}
	})
	return e
}

// do posts a request of the first end and returns its completion.
func do(t testing.TB, e *[2]end, op ib.WROpcode, size int) verbs.WC {
	t.Helper()
	_, err := e[0].qp.PostSend([]verbs.SendWR{{
		WRID: uint64(size), Opcode: op, Flags: verbs.SendSignaled, RemoteAddr: e[1].mr.Addr(), RKey: e[1].mr.RKey(),
		SGL: []verbs.SGE{verbs.SGEOf(e[0].mr, 0, size)},
	}})
	must(t, err)
	var wc [1]verbs.WC
	for start := time.Now(); ; {
		n, err := e[0].cq.Poll(wc[:])
		must(t, err)
		if n == 1 {
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatal("no completion in a minute")
		}
		runtime.Gosched()
	}
	if wc[0].Status != ib.WCSuccess {
		t.Fatalf("%v of %d bytes: %v", op, size, wc[0].Status)
	}
	return wc[0]
}

// transportOf returns the BTH of a frame as the switch sees it and whether it is RoCEv2.
func transportOf(f *telemetry.DelayFormat, frame []byte) (bth []byte, ok bool) {
	tags, _ := f.Find(frame)
	at := tags.Offset + tags.Bytes
	if len(frame) < at+2 {
		return nil, false
	}
	switch binary.BigEndian.Uint16(frame[at:]) {
	case unix.ETH_P_IP:
		at += 2 + 20
	case unix.ETH_P_IPV6:
		at += 2 + 40
	default:
		return nil, false
	}
	if len(frame) < at+8+12 {
		return nil, false
	}
	return frame[at+8:], binary.BigEndian.Uint16(frame[at+2:]) == 4791
}
