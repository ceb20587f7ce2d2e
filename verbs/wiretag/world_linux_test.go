package wiretag

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
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

func newWorld(t testing.TB, format *telemetry.DelayFormat) *world {
	t.Helper()
	watchertest.NeedBPF(t)
	w := &world{format: format}
	for i := range w.ns {
		w.ns[i] = watchertest.Namespace(t)
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
			noChecksumOffload(t, "h") // the switch has no way to finish a checksum
			watchertest.Host(t, "h", watchertest.Addresses[i][:]...)
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

// port returns a packet socket on an interface of the switch, which is then up.
func (w *world) port(t testing.TB, name string) int {
	t.Helper()
	v, err := netlink.LinkByName(name)
	must(t, err)
	must(t, netlink.LinkSetMTU(v, 9000+16))
	watchertest.Quiet(t, v)
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

// in runs f in one of the namespaces.
func (w *world) in(t testing.TB, i int, f func()) {
	t.Helper()
	watchertest.In(t, w.ns[i], f)
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
type end = watchertest.End

// connect makes a connection of two devices; gid picks their addresses.
func connect(t testing.TB, devs [2]verbs.Device, gid int) [2]end {
	t.Helper()
	return watchertest.Connect(t, devs, gid, 0xfffff0, watchertest.Lasting)
}

// do posts a request of the first end and returns its completion.
func do(t testing.TB, e *[2]end, op ib.WROpcode, size int) verbs.WC {
	t.Helper()
	_, err := e[0].QP.PostSend([]verbs.SendWR{{
		WRID: uint64(size), Opcode: op, Flags: verbs.SendSignaled, RemoteAddr: e[1].MR.Addr(), RKey: e[1].MR.RKey(),
		SGL: []verbs.SGE{verbs.SGEOf(e[0].MR, 0, size)},
	}})
	must(t, err)
	var wc [1]verbs.WC
	for start := time.Now(); ; {
		n, err := e[0].CQ.Poll(wc[:])
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
