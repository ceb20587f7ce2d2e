package wirestamp

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
)

// world is two network namespaces joined by a veth pair, v0 and v1, with the
// addresses 10.9.0.1 and fd09::1 in the first and 10.9.0.2 and fd09::2 in the second.
type world struct{ ns [2]netns.NsHandle }

func newWorld(t testing.TB) *world {
	t.Helper()
	needBPF(t)
	w := &world{ns: [2]netns.NsHandle{-1, -1}}
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
	w.in(t, 0, func() {
		pair := netlink.NewVeth(netlink.NewLinkAttrs())
		pair.Name, pair.PeerName, pair.MTU = "v0", "v1", 9000
		pair.PeerNamespace = netlink.NsFd(w.ns[1])
		must(t, netlink.LinkAdd(pair))
	})
	for i := range w.ns {
		w.in(t, i, func() {
			v, err := netlink.LinkByName([]string{"v0", "v1"}[i])
			must(t, err)
			must(t, netlink.LinkSetMTU(v, 9000))
			// Link-local addresses would take a second to be usable.
			must(t, netlink.LinkSetIP6AddrGenMode(v, nl.IN6_ADDR_GEN_MODE_NONE))
			for _, a := range [][]string{{"10.9.0.1/24", "10.9.0.2/24"}, {"fd09::1/64", "fd09::2/64"}} {
				addr, err := netlink.ParseAddr(a[i])
				must(t, err)
				if addr.IP.To4() == nil {
					addr.Flags = unix.IFA_F_NODAD
				}
				must(t, netlink.AddrAdd(v, addr))
			}
			must(t, netlink.LinkSetUp(v))
		})
	}
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
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

// open opens one end's device.
func (w *world) open(t testing.TB, i int, options string) (dev verbs.Device) {
	t.Helper()
	w.in(t, i, func() {
		var err error
		dev, err = verbs.Open("soft:v" + string(rune('0'+i)) + options)
		must(t, err)
	})
	return dev
}

// wrap stamps a device of the first end.
func (w *world) wrap(t testing.TB, dev verbs.Device, set settings) (d *Device) {
	t.Helper()
	w.in(t, 0, func() {
		var err error
		d, err = wrap(dev, "", set)
		must(t, err)
	})
	return d
}

// drop loses that share, of 1<<16, of the packets that arrive at an interface,
// behind the program under test.
func (w *world) drop(t testing.TB, i, share int) {
	t.Helper()
	const shot = 2 // TC_ACT_SHOT
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Apache-2.0", Instructions: asm.Instructions{
		asm.FnGetPrandomU32.Call(),
		asm.And.Imm(asm.R0, 1<<16-1),
		asm.JLT.Imm(asm.R0, int32(share), "lose"),
		asm.Mov.Imm(asm.R0, -1),
		asm.Return(),
		asm.Mov.Imm(asm.R0, shot).WithSymbol("lose"),
		asm.Return(),
	}})
	must(t, err)
	w.in(t, i, func() {
		v, err := netlink.LinkByName([]string{"v0", "v1"}[i])
		must(t, err)
		l, err := link.AttachTCX(link.TCXOptions{Interface: v.Attrs().Index, Program: p, Attach: ebpf.AttachTCXIngress, Anchor: link.Tail()})
		if errors.Is(err, ebpf.ErrNotSupported) {
			t.Skipf("losing packets needs TCX: %v", err)
		}
		must(t, err)
		t.Cleanup(func() { _ = l.Close(); _ = p.Close() })
	})
}

// end is a connected queue pair with a region of memory.
type end struct {
	dev verbs.Device
	pd  verbs.PD
	cq  verbs.CQ
	qp  verbs.QP
	mr  verbs.MR
}

const (
	region = 1 << 20

	// Acknowledgement timeouts: 0.3 s where packets are lost, else 4 s, which no
	// machine is late by.
	lossy   = 16
	lasting = 20
)

// connect makes a connection of two devices; gid picks their addresses.
func connect(t testing.TB, devs [2]verbs.Device, gid int, psn uint32, timeout uint8) (e [2]end) {
	t.Helper()
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
	}
	join(t, &e, gid, psn, timeout)
	t.Cleanup(func() {
		for i := range e {
			x := &e[i]
			must(t, errors.Join(x.qp.Destroy(), x.mr.Dereg(), x.cq.Destroy(), x.pd.Dealloc(), x.dev.Close()))
		}
	})
	return e
}

// join connects fresh queue pairs; the first sends from psn on.
func join(t testing.TB, e *[2]end, gid int, psn uint32, timeout uint8) {
	t.Helper()
	at := [2]verbs.Endpoint{e[0].endpoint(t, gid, psn), e[1].endpoint(t, gid, 0)}
	p := verbs.DefaultRC()
	p.Timeout = timeout
	for i := range e {
		must(t, verbs.ConnectRC(e[i].qp, at[i], at[1-i], p))
	}
}

func (e *end) endpoint(t testing.TB, gid int, psn uint32) verbs.Endpoint {
	t.Helper()
	a, err := e.dev.GID(1, gid)
	must(t, err)
	return verbs.Endpoint{GID: a, QPN: e.qp.Num(), PSN: psn}
}
