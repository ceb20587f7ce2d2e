package softroce

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	ebpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/xsk"
	"github.com/sluice-rdma/sluice/verbs/verbstest"
)

// openBoth opens a device here and one in the namespace of inNamespace.
func openBoth(t *testing.T, enter func(func()), here, there string) (a, b *end) {
	t.Helper()
	a = openEnd(t, "soft:sluice0"+here)
	enter(func() { b = openEnd(t, "soft:sluice1"+there) })
	if b == nil {
		t.FailNow()
	}
	return a, b
}

// All that a provider promises, over virtual Ethernet.
func TestXDP(t *testing.T) {
	inNamespace(t, func(enter func(func())) {
		a, b := openBoth(t, enter, "?mode=xdp", "?mode=xdp")
		verbstest.Run(t, verbstest.Ends{A: a.dev, B: b.dev, GIDA: -1, GIDB: -1})
	})
}

// connect connects the first queue pairs of both by one of their addresses.
func connect(t *testing.T, a, b *end, gid int) {
	t.Helper()
	from, err1 := a.dev.GID(1, gid)
	to, err2 := b.dev.GID(1, gid)
	a.me.GID, b.me.GID = from, to
	if err := errors.Join(err1, err2, verbs.ConnectRC(a.qp, a.me, b.me, verbs.DefaultRC()), verbs.ConnectRC(b.qp, b.me, a.me, verbs.DefaultRC())); err != nil {
		t.Fatal(err)
	}
}

// Every mode talks to every other, over each of the addresses.
func TestXDPMeetsTheOthers(t *testing.T) {
	inNamespace(t, func(enter func(func())) {
		for _, modes := range [][2]string{{"xdp", "xdp"}, {"xdp", "udp"}, {"udp", "xdp"}, {"xdp", "packet"}, {"packet", "xdp"}} {
			for gid, family := range []string{"IPv4", "IPv6", "link-local"} {
				t.Run(fmt.Sprintf("%s to %s, %s", modes[0], modes[1], family), func(t *testing.T) {
					a, b := openBoth(t, enter, "?mode="+modes[0], "?mode="+modes[1])
					connect(t, a, b, gid)
					writeAndRead(t, a, b)
				})
			}
		}
	})
}

// writeAndRead moves bytes there and back, all of which pass the checks on the way.
func writeAndRead(t *testing.T, a, b *end) {
	t.Helper()
	const n = 300_000
	want := make([]byte, n)
	for i := range want {
		want[i] = byte(i) ^ byte(i>>8)
	}
	src, dst := bytes.Clone(want), make([]byte, n)
	ms, md := a.reg(src), b.reg(dst)
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
		if _, err := a.do(verbs.SendWR{Opcode: op, SGL: []verbs.SGE{verbs.SGEOf(ms, 0, n)}, RemoteAddr: md.Addr(), RKey: md.RKey()}); err != nil {
			t.Fatal(err)
		}
		b.look()
		if !bytes.Equal(dst, want) || !bytes.Equal(src, want) {
			t.Errorf("%v: other bytes came", op)
		}
		clear(src)
	}
	for _, h := range []*end{a, b} {
		c := h.look().Counters()
		for _, name := range []string{"rx_icrc_encapsulated", "rx_malformed", "tx_refused"} {
			if c[name] > 0 {
				t.Errorf("%s: %s is %d", h.dev.Name(), name, c[name])
			}
		}
	}
}

// set changes both ends of inNamespace's wire.
func set(t *testing.T, change string) {
	t.Helper()
	if err := errors.Join(ip("link set sluice0 "+change), ip("-n "+otherSpace+" link set sluice1 "+change)); err != nil {
		t.Fatal(err)
	}
}

// Where the driver does not run the program, as virtual Ethernet does not at a large MTU,
// the kernel does.
func TestXDPGeneric(t *testing.T) {
	inNamespace(t, func(enter func(func())) {
		set(t, "mtu 3800")
		a, b := openBoth(t, enter, "?mode=xdp", "?mode=xdp")
		for _, h := range []*end{a, b} {
			if h.dev.(*device).wire.(*xdpWire).hook.Native() {
				t.Skip("this kernel's virtual Ethernet runs programs at an MTU of 3800")
			}
		}
		if p, err := a.dev.Port(1); err != nil || p.ActiveMTU != 2048 {
			t.Errorf("path MTU %d, %v; expected 2048", p.ActiveMTU, err)
		}
		connect(t, a, b, 0)
		writeAndRead(t, a, b)
	})
}

// A socket for each of several queues, by which packets come as the sender's kernel
// spreads them.
func TestXDPQueues(t *testing.T) {
	inNamespace(t, func(enter func(func())) {
		addWire(t, 4)
		var b *end
		a := openEnd(t, "soft:sluice2?mode=xdp")
		enter(func() { b = openEnd(t, "soft:sluice3?mode=udp") })
		if b == nil {
			t.FailNow()
		}
		if n := len(a.dev.(*device).wire.(*xdpWire).sockets); n != 4 {
			t.Errorf("%d sockets, expected 4", n)
		}
		connect(t, a, b, 0)
		writeAndRead(t, a, b)
	})
}

// addWire adds a pair of interfaces, sluice2 and sluice3, with a number of queues.
func addWire(t *testing.T, queues int) {
	t.Helper()
	q := fmt.Sprintf("numrxqueues %d numtxqueues %d", queues, queues)
	for _, args := range []string{
		"link add sluice2 " + q + " type veth peer name sluice3 " + q + " netns " + otherSpace,
		"addr add 10.47.92.1/24 dev sluice2", "link set sluice2 up",
		"-n " + otherSpace + " addr add 10.47.92.2/24 dev sluice3", "-n " + otherSpace + " link set sluice3 up",
	} {
		if err := ip(args); err != nil {
			t.Skipf("no virtual interfaces with %d queues here: %v", queues, err)
		}
	}
	t.Cleanup(func() { _ = ip("link del sluice2") })
}

const xdpUser = "SLUICE_TEST_XDP_USER"

// Where the mode can't be had, the error says what is missing, and what would mend it.
func TestXDPErrors(t *testing.T) {
	if os.Getenv(xdpUser) != "" {
		if os.Getenv(xdpUser) == "little" {
			if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 1 << 16, Max: 1 << 16}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := verbs.Open("soft:10.47.91.1?mode=xdp")
		fmt.Println(err)
		return
	}
	fails := func(t *testing.T, name string, cause error, words ...string) {
		t.Helper()
		dev, err := verbs.Open(name)
		if err == nil {
			t.Fatal(errors.Join(fmt.Errorf("%s opened", name), dev.Close()))
		}
		if !errors.Is(err, cause) {
			t.Errorf("%s: %v, expected %v", name, err, cause)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v: expected %q", name, err, w)
			}
		}
	}
	fails(t, "soft:lo?mode=xdp", verbs.ErrInvalid, "Ethernet interface", "leave the mode out")
	fails(t, "soft:127.47.91.1?mode=xdp", verbs.ErrInvalid, "leave the mode out")
	fails(t, "soft:lo?mode=xdp&port=5000", verbs.ErrInvalid, "standard port, 4791")
	fails(t, "soft:lo?mode=xdp&telemetry=int", verbs.ErrInvalid, "require mode=packet")
	inNamespace(t, func(enter func(func())) {
		t.Run("capabilities", func(t *testing.T) {
			const capNetRaw, capIPCLock = 13, 14
			const needs = "mode=xdp requires root, or the capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF"
			for _, c := range []struct {
				caps   []uintptr
				memory string
				want   string
			}{
				{nil, "much", needs},
				{[]uintptr{capNetRaw, capIPCLock}, "much", needs},
				{[]uintptr{capNetRaw, capIPCLock, watchertest.CapBPF}, "much", needs},
				{[]uintptr{capNetRaw}, "little", "raise ulimit -l"},
			} {
				out, err := watchertest.AsUser(t, xdpUser+"="+c.memory, c.caps, "-test.run=^TestXDPErrors$")
				if err != nil || !strings.Contains(out, c.want) {
					t.Errorf("with capabilities %v: %s, %v; expected %q", c.caps, out, err, c.want)
				}
			}
		})
		t.Run("another program", func(t *testing.T) {
			const xdpPass = 2
			p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			l, err := ebpflink.AttachXDP(ebpflink.XDPOptions{Program: p, Interface: indexOf(t, "sluice0")})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			info, err := p.Info()
			if err != nil {
				t.Fatal(err)
			}
			id, _ := info.ID()
			fails(t, "soft:sluice0?mode=xdp", verbs.ErrBusy, fmt.Sprintf("another XDP program, with ID %d", id), "ip link set sluice0 xdp off")
		})
		t.Run("a socket's owner", func(t *testing.T) {
			index := indexOf(t, "sluice0")
			s, err := xsk.Open(xsk.Config{Interface: index, Rx: 64, Tx: 64})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			fails(t, "soft:sluice0?mode=xdp", verbs.ErrBusy, "a queue of sluice0 has another AF_XDP socket")
		})
		t.Run("MTU", func(t *testing.T) {
			set(t, "mtu 9000")
			fails(t, "soft:sluice0?mode=xdp", verbs.ErrInvalid, "the MTU of sluice0 is 9000", "ip link set sluice0 mtu 3826")
		})
		t.Run("queues", func(t *testing.T) {
			addWire(t, 65)
			fails(t, "soft:sluice2?mode=xdp", verbs.ErrInvalid, "65 queues", "ethtool -L sluice2 combined 64")
		})
	})
}

func indexOf(t *testing.T, name string) int {
	t.Helper()
	i, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return i.Index
}

const xdpVictim = "SLUICE_TEST_XDP_VICTIM"

// The program goes with its process, also where that is killed, and another may come.
func TestXDPOfTheKilledGoes(t *testing.T) {
	if os.Getenv(xdpVictim) != "" {
		if _, err := verbs.Open("soft:sluice0?mode=xdp"); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("open\n")
		select {}
	}
	inNamespace(t, func(enter func(func())) {
		attached := func() bool {
			l, err := netlink.LinkByIndex(indexOf(t, "sluice0"))
			if err != nil {
				t.Fatal(err)
			}
			return l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, "-test.run", "^TestXDPOfTheKilledGoes$")
		cmd.Env = append(os.Environ(), xdpVictim+"=1")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var said [256]byte
		if n, _ := out.Read(said[:]); !strings.HasPrefix(string(said[:n]), "open") {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if os.Geteuid() != 0 {
				t.Skipf("not allowed here: %s", said[:n])
			}
			t.Fatalf("the victim said %q", said[:n])
		}
		if !attached() {
			t.Error("no program while its process lives")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		for end := time.Now().Add(30 * time.Second); attached(); runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatal("the program stays after its process was killed")
			}
		}
		a, b := openBoth(t, enter, "?mode=xdp", "?mode=xdp")
		connect(t, a, b, 0)
		writeAndRead(t, a, b)
	})
}

// An XDP program shows a frame as it came: whatever that is.
func FuzzXDPFrame(f *testing.F) {
	local, peer := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	p := roce.GSI(1, roce.DefaultPKey)
	packet := make([]byte, roce.HeaderBytes(p.Opcode)+roce.MADBytes+roce.ICRCBytes)
	p.Put(packet)
	var got int
	w := &xdpWire{gids: newGIDs([]netip.Addr{local, netip.MustParseAddr("fd00::1")}), counters: new(wireCounters), clock: &clock{start: time.Now()}}
	out := &xdpWire{gids: newGIDs([]netip.Addr{peer, netip.MustParseAddr("fd00::2")})}
	for gid, e := range w.gids {
		to := e.addr
		m := &message{route: endpoint.Route{Dst: netip.AddrPortFrom(to, roce.Port), GID: gid, SrcPort: 49152, HopLimit: 64}}
		b := make([]byte, 4096)
		out.path(&m.route).PutICRC(packet, 3)
		b = b[:out.put(b, m, &neighbour{}, 3, packet)]
		w.out = newCollector(func(p []endpoint.Packet) { got = len(p) })
		w.parse(b, 1)
		if w.out.flush(); got != 1 {
			f.Fatalf("the frame for %v was not taken", to)
		}
		got = 0
		f.Add(b)
		f.Add(b[:len(b)-1])
		f.Add(append(bytes.Clone(b), 0, 0, 0, 0)) // padding
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := 0
		w.out = sink(t, &got)
		w.parse(bytes.Clone(b), 0)
		w.out.flush()
		if got > len(b) {
			t.Errorf("%d bytes of %d went on", got, len(b))
		}
	})
}

// Building a frame and taking one apart costs no allocation.
func TestXDPFramesDoNotAllocate(t *testing.T) {
	local, peer := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	from, to := &xdpWire{gids: newGIDs([]netip.Addr{peer})}, &xdpWire{gids: newGIDs([]netip.Addr{local}), counters: new(wireCounters), clock: &clock{start: time.Now()}}
	taken := 0
	to.out = newCollector(func(p []endpoint.Packet) { taken += len(p) })
	m := &message{route: endpoint.Route{Dst: netip.AddrPortFrom(local, roce.Port), SrcPort: 49152, HopLimit: 64}}
	packet, f := make([]byte, 1044), make([]byte, 2048)
	hop := &neighbour{}
	const runs = 1000
	n := testing.AllocsPerRun(runs, func() {
		from.path(&m.route).PutICRC(packet, 5)
		to.parse(f[:from.put(f, m, hop, 5, packet)], 1)
		to.out.flush()
	})
	if n > 0 || taken <= runs {
		t.Errorf("%v allocations, expected none; %d packets, expected more than %d", n, taken, runs)
	}
}

// The two clocks differ by what they show at one time, wherever the thread stands still
// between readings, as long as it does not always.
func TestClocksThatAreReadApart(t *testing.T) {
	const apart = 1_000_000
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Int64Range(0, 1<<40).Draw(t, "now")
		readings, quick := 0, rapid.IntRange(0, 7).Draw(t, "the quick reading")
		read := func(offset int64) func() int64 {
			return func() int64 {
				at := now + offset
				readings++
				if now++; readings/3 != quick {
					now += rapid.Int64Range(0, 80_000).Draw(t, "stands still")
				}
				return at
			}
		}
		if got := began(read(0), read(apart)); got < apart || got > apart+2 {
			t.Errorf("the clocks are %d apart, and %d was read", apart, got)
		}
	})
}
