package xsk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
)

var (
	addr4 = [2]netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.2")}
	addr6 = [2]netip.Addr{netip.MustParseAddr("fd09::1"), netip.MustParseAddr("fd09::2")}
)

// rxChunks bounds how many frames may wait at an end.
const rxChunks = 256

// pair is sockets for the queues of the two ends of a virtual wire, in a namespace of its
// own; the second end has the program.
type pair struct {
	ns    netns.NsHandle
	links [2]netlink.Link
	ends  [2][]*Socket
	hook  *Hook
}

func newPair(t testing.TB, mtu, queues int) *pair {
	t.Helper()
	watchertest.NeedBPF(t)
	p := &pair{ns: watchertest.Namespace(t)}
	watchertest.In(t, p.ns, func() {
		v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "xsk0", MTU: mtu, NumTxQueues: queues, NumRxQueues: queues}, PeerName: "xsk1"}
		if err := netlink.LinkAdd(v); err != nil {
			t.Skipf("no virtual interfaces here: %v", err)
		}
		for i, name := range []string{"xsk0", "xsk1"} {
			l, err := netlink.LinkByName(name)
			must(t, err)
			watchertest.Quiet(t, l)
			must(t, netlink.LinkSetUp(l))
			p.links[i] = l
			n, err := Queues(l.Attrs().Index)
			must(t, err)
			if n != queues {
				t.Fatalf("%d queues, expected %d", n, queues)
			}
			for q := range queues {
				s, err := Open(Config{Interface: l.Attrs().Index, Queue: q, MaxFrame: mtu + roce.EthernetBytes, Rx: rxChunks, Tx: 64})
				if errors.Is(err, unix.EAFNOSUPPORT) {
					t.Skipf("no AF_XDP here: %v", err)
				}
				must(t, err)
				t.Cleanup(s.Close)
				p.ends[i] = append(p.ends[i], s)
			}
		}
		var err error
		p.hook, err = Attach(p.links[1].Attrs().Index, []netip.Addr{addr4[1], addr6[1]}, p.ends[1])
		must(t, err)
		t.Cleanup(p.hook.Close)
	})
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// frame returns a frame with payload bytes behind UDP's header.
func frame(payload int, src, dst netip.Addr) []byte {
	b := make([]byte, 100+payload)
	e := roce.EthernetFields{Dst: roce.MAC{2, 0, 0, 0, 0, 1}, Src: roce.MAC{2, 0, 0, 0, 0, 2}, EtherType: roce.EtherTypeIPv4}
	if src.Is6() {
		e.EtherType = roce.EtherTypeIPv6
	}
	n := e.Put(b)
	udp := roce.UDPFields{SrcPort: 0xc000, DstPort: roce.Port, Len: roce.UDPBytes + payload}
	if src.Is4() {
		n += (&roce.IPv4Fields{TotalLen: roce.IPv4Bytes + udp.Len, ID: 7, DontFragment: true, TTL: 64, Src: src, Dst: dst}).Put(b[n:])
	} else {
		n += (&roce.IPv6Fields{PayloadLen: udp.Len, HopLimit: 64, Src: src, Dst: dst}).Put(b[n:])
	}
	n += udp.Put(b[n:])
	return b[:n+payload]
}

// send puts a frame on the wire.
func send(s *Socket, f []byte) {
	s.Queue(copy(s.Chunk(), f))
	s.Flush()
}

// steered sends a frame and reports whether it came by the socket of that queue. Another
// one that surely does goes behind it, so that there is something to wait for.
func (p *pair) steered(t *testing.T, queue int, f []byte) bool {
	t.Helper()
	behind := frame(20, addr4[0], addr4[1])
	send(p.ends[0][queue], f)
	send(p.ends[0][queue], behind)
	s := p.ends[1][queue]
	poll := []unix.PollFd{{Fd: int32(s.FD), Events: unix.POLLIN}}
	var came [][]byte
	for len(came) == 0 || !bytes.Equal(came[len(came)-1], behind) {
		if n, err := unix.Poll(poll, 10_000); n != 1 || err != nil {
			t.Fatalf("nothing comes: %d, %v", n, err)
		}
		n := s.Received()
		for i := range n {
			b, stamp := s.Frame(i)
			if stamp == 0 {
				t.Error("a frame without a stamp")
			}
			came = append(came, bytes.Clone(b))
		}
		s.Recycle(n)
	}
	if len(came) == 2 && !bytes.Equal(came[0], f) {
		t.Errorf("%x came, expected %x", came[0], f)
	}
	return len(came) == 2
}

// with returns a frame in which the bytes at at are others.
func with(f []byte, at int, others ...byte) []byte {
	f = bytes.Clone(f)
	copy(f[at:], others)
	return f
}

// What the program steers to the sockets, and what it leaves to the kernel.
func TestSteering(t *testing.T) {
	p := newPair(t, 1500, 2)
	const ip = roce.EthernetBytes
	four, six := frame(100, addr4[0], addr4[1]), frame(100, addr6[0], addr6[1])
	tag := func(f []byte) []byte { return slices.Insert(bytes.Clone(f), 12, 0x81, 0, 0, 5) }
	for name, c := range map[string]struct {
		frame []byte
		want  bool
	}{
		"IPv4":                     {four, true},
		"IPv6":                     {six, true},
		"the longest":              {frame(1500-28, addr4[0], addr4[1]), true},
		"no Base Transport Header": {frame(0, addr4[0], addr4[1]), true},
		"for another IPv4 address": {frame(100, addr4[1], addr4[0]), false},
		"for another IPv6 address": {frame(100, addr6[1], addr6[0]), false},
		"last word differs":        {with(six, ip+39, 9), false},
		"first word differs":       {with(six, ip+24, 9), false},
		"VLAN tag":                 {tag(four), false},
		"VLAN tag, IPv6":           {tag(six), false},
		"first fragment":           {with(four, ip+6, 0x20), false},
		"later fragment":           {with(four, ip+7, 1), false},
		"IPv4 options":             {with(four, ip, 0x46), false},
		"IPv6 extension header":    {with(six, ip+6, 44), false},
		"TCP":                      {with(four, ip+9, 6), false},
		"another IPv4 port":        {with(four, ip+22, 0, 53), false},
		"another IPv6 port":        {with(six, ip+42, 0, 53), false},
		"IPv4 in name only":        {with(six, 12, 8, 0), false},
		"IPv6 in name only":        {with(four, 12, 0x86, 0xdd), false},
		"cut IPv6":                 {six[:ip+40], false},
		"ARP":                      {with(four, 12, 8, 6), false},
	} {
		t.Run(name, func(t *testing.T) {
			for queue := range 2 {
				if got := p.steered(t, queue, c.frame); got != c.want {
					t.Errorf("queue %d: steered: %v, expected %v", queue, got, c.want)
				}
			}
		})
	}
	t.Run("muted", func(t *testing.T) {
		for name, c := range map[string]struct {
			frame []byte
			want  bool
		}{
			"management datagram, IPv4": {with(four, ip+28+5, 0, 0, 1), false},
			"management datagram, IPv6": {with(six, ip+48+5, 0, 0, 1), false},
			"queue pair 257":            {with(four, ip+28+5, 0, 1, 1), true},
		} {
			must(t, p.hook.Mute(true))
			if got := p.steered(t, 0, c.frame); got != c.want {
				t.Errorf("%s: steered: %v, expected %v", name, got, c.want)
			}
			must(t, p.hook.Mute(false))
			if !p.steered(t, 0, c.frame) {
				t.Errorf("%s: not steered after all", name)
			}
		}
	})
}

// More frames than there are chunks come and go, in order, and none is lost that there is
// room for; the others are counted.
func TestRings(t *testing.T) {
	p := newPair(t, 1500, 1)
	from, to := p.ends[0][0], p.ends[1][0]
	next := uint32(0)
	f := frame(100, addr4[0], addr4[1])
	mark := func(f []byte) []byte { return f[roce.EthernetBytes+28:] }
	sent := uint32(0)
	batch := func(n int) {
		for range n {
			b := from.Chunk()
			if b == nil {
				from.Flush()
				b = from.Chunk()
			}
			binary.BigEndian.PutUint32(mark(f), sent)
			from.Queue(copy(b, f))
			sent++
		}
		from.Flush()
	}
	take := func() {
		n := to.Received()
		for i := range n {
			b, _ := to.Frame(i)
			if got := binary.BigEndian.Uint32(mark(b)); got != next {
				t.Fatalf("frame %d came, expected %d", got, next)
			}
			next++
		}
		to.Recycle(n)
	}
	for range 5 * rxChunks / 50 {
		batch(50)
		for next < sent {
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(to.FD), Events: unix.POLLIN}}, 10_000); n != 1 || err != nil {
				t.Fatalf("%d of %d frames came: %d, %v", next, sent, n, err)
			}
			take()
		}
	}
	if n := to.Dropped(); n != 0 {
		t.Errorf("%d dropped, expected none", n)
	}
	const more = 40
	batch(rxChunks + more)
	for until := time.Now().Add(10 * time.Second); to.Received() < rxChunks || to.Dropped() < more; runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatalf("%d are there and %d were dropped, expected %d and %d", to.Received(), to.Dropped(), rxChunks, more)
		}
	}
	take()
}

// What the kernel never says.
func TestFrameOutOfBounds(t *testing.T) {
	for name, d := range map[string]unix.XDPDesc{
		"behind the end": {Addr: 8192, Len: 1},
		"over the end":   {Addr: 8000, Len: 193},
		"far away":       {Addr: 1 << 63, Len: 1500},
		"wraps":          {Addr: 1<<64 - 1, Len: 1500},
	} {
		s := &Socket{umem: make([]byte, 8192), chunk: 2048, rx: ring[unix.XDPDesc]{entries: []unix.XDPDesc{d}}}
		if b, _ := s.Frame(0); b != nil {
			t.Errorf("%s: %d bytes", name, len(b))
		}
	}
}

// An interface has one program. It goes with Close.
func TestOneProgram(t *testing.T) {
	p := newPair(t, 1500, 1)
	watchertest.In(t, p.ns, func() {
		index := p.links[1].Attrs().Index
		if _, err := Attach(index, []netip.Addr{addr4[1]}, p.ends[1]); !errors.Is(err, ErrOccupied) || !strings.Contains(err.Error(), "ID ") {
			t.Errorf("a second program: %v, expected %v and its ID", err, ErrOccupied)
		}
		p.hook.Close()
		again, err := Attach(index, []netip.Addr{addr4[1]}, p.ends[1])
		must(t, err)
		again.Close()
		l, err := netlink.LinkByIndex(index)
		must(t, err)
		if x := l.Attrs().Xdp; x != nil && x.Attached {
			t.Errorf("program %d stays", x.ProgId)
		}
	})
}

// A frame costs no allocation.
func TestFramesDoNotAllocate(t *testing.T) {
	p := newPair(t, 1500, 1)
	f := frame(1040, addr4[0], addr4[1])
	if n := testing.AllocsPerRun(1000, func() { p.round(f) }); n > 0 {
		t.Errorf("%v allocations, expected none", n)
	}
}

const roundFrames = 32

func (p *pair) round(f []byte) {
	from, to := p.ends[0][0], p.ends[1][0]
	for range roundFrames {
		from.Queue(copy(from.Chunk(), f))
	}
	from.Flush()
	n := to.Received()
	for i := range n {
		to.Frame(i)
	}
	to.Recycle(n)
}

func BenchmarkPair(b *testing.B) {
	p := newPair(b, 1500, 1)
	f := frame(1040, addr4[0], addr4[1])
	b.ReportAllocs()
	for b.Loop() {
		p.round(f)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*roundFrames), "ns/frame")
}
