package wirestamp

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
)

// world is two network namespaces joined by a veth pair, v0 and v1, with the
// addresses 10.9.0.1 and fd09::1 in the first and 10.9.0.2 and fd09::2 in the second.
type world struct{ ns [2]netns.NsHandle }

func newWorld(t testing.TB) *world {
	t.Helper()
	watchertest.NeedBPF(t)
	w := &world{ns: [2]netns.NsHandle{watchertest.Namespace(t), watchertest.Namespace(t)}}
	w.in(t, 0, func() {
		pair := netlink.NewVeth(netlink.NewLinkAttrs())
		pair.Name, pair.PeerName, pair.MTU = "v0", "v1", 9000
		pair.PeerNamespace = netlink.NsFd(w.ns[1])
		must(t, netlink.LinkAdd(pair))
	})
	for i, name := range []string{"v0", "v1"} {
		w.in(t, i, func() { watchertest.Host(t, name, watchertest.Addresses[i][:]...) })
	}
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// in runs f in one of the namespaces.
func (w *world) in(t testing.TB, i int, f func()) {
	t.Helper()
	watchertest.In(t, w.ns[i], f)
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
type end = watchertest.End

// Acknowledgement timeouts: 0.3 s where packets are lost.
const (
	lossy   = 16
	lasting = watchertest.Lasting
)
