package softroce

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/xsk"
)

// xdpWire sends and receives whole frames by AF_XDP sockets, in memory that is shared
// with the kernel, past the kernel's network stack. Routes and neighbours are the
// kernel's: a packet for a station that it does not know goes by a raw IP socket, which
// has the kernel ask for it.
type xdpWire struct {
	waiter
	counters *wireCounters
	clock    *clock
	gids     []gidEntry
	link     int
	ports    ports
	sockets  []*xsk.Socket // one for each of the interface's queues; the first one sends
	hook     *xsk.Hook
	hops     neighbours
	raw      [2]int // ipv4 and ipv6; -1 for none
	burst    bool   // the goroutine that receives has taken a burst
	paths    pathCache
	kernel   [roce.IPv6Bytes + roce.UDPBytes + endpoint.MaxPacket]byte // a packet that the kernel sends
	name     unix.RawSockaddrInet6

	mu    sync.Mutex // guards receiving
	out   collector
	start int64 // CLOCK_MONOTONIC when the device's counter was 0, in nanoseconds
}

// Chunks of a socket's memory. All queues together receive into as many as one socket of
// the other modes asks for; a connection has at most 256 KiB under way by default.
const (
	xdpChunks    = 2048
	xdpMinChunks = 256
	xdpTx        = 512
	maxQueues    = 64
)

func (d *device) openXDPWire() (wire, error) {
	bad := func(format string, args ...any) (wire, error) {
		return nil, verbs.Errorf("open", d.name, verbs.ErrInvalid, format, args...)
	}
	longest := d.link.mtu + roce.EthernetBytes
	switch {
	case d.opt.Port != roce.Port:
		return bad("mode=xdp requires the standard port, %d", roce.Port)
	case d.link.loop || len(d.link.mac) != len(roce.MAC{}):
		return bad("mode=xdp requires an Ethernet interface, which %s is not: leave the mode out", d.link.name)
	case longest > xsk.MaxFrame:
		most := xsk.MaxFrame - roce.EthernetBytes
		return bad("the MTU of %s is %d, and mode=xdp has room for frames up to %d: ip link set %s mtu %d", d.link.name, d.link.mtu, most, d.link.name, most)
	}
	queues, err := xsk.Queues(d.link.index)
	if err != nil {
		return nil, fmt.Errorf("queues of %s: %w", d.link.name, err)
	}
	if queues > maxQueues {
		return bad("%s receives by %d queues, and mode=xdp by up to %d: ethtool -L %s combined %d", d.link.name, queues, maxQueues, d.link.name, maxQueues)
	}
	w := &xdpWire{
		counters: &d.counters, clock: &d.clock, gids: newGIDs(d.link.addrs), link: d.link.index, raw: [2]int{-1, -1}, out: newCollector(d.deliver),
		start: began(func() int64 { return int64(time.Since(d.clock.start)) }, monotonic),
	}
	fail := func(err error) (wire, error) {
		w.free()
		return nil, err
	}
	for i, a := range d.link.addrs {
		if at, err := w.reserve(i, a); err != nil {
			return fail(d.openError(at, err))
		}
	}
	if err := w.hops.init(&d.link); err != nil {
		return fail(err)
	}
	chunks := xdpChunks
	for chunks*queues > xdpChunks && chunks > xdpMinChunks {
		chunks /= 2
	}
	for q := range queues {
		tx := xdpTx
		if q > 0 {
			tx = 1
		}
		s, err := xsk.Open(xsk.Config{Interface: d.link.index, Queue: q, MaxFrame: longest, Rx: chunks, Tx: tx})
		if err != nil {
			return fail(d.xdpError(err))
		}
		growBuffers(s.FD)
		w.sockets = append(w.sockets, s)
	}
	if w.hook, err = xsk.Attach(d.link.index, d.link.addrs, w.sockets); err != nil {
		return fail(d.xdpError(err))
	}
	var polled []int
	for _, s := range w.sockets {
		polled = append(polled, s.FD)
	}
	if err := w.waiter.init(polled...); err != nil {
		return fail(err)
	}
	return w, nil
}

// reserve takes the port of an address for a place of the GID table.
func (w *xdpWire) reserve(i int, a netip.Addr) (netip.AddrPort, error) {
	return w.ports.reserve(i, a, w.link, []uint16{roce.Port}, w.raw[:])
}

// readdress implements wire. Frames for an address that the program at the interface
// does not know are the kernel's.
func (w *xdpWire) readdress(table []gidEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.gids
	w.gids = w.ports.readdress(was, table, w.reserve)
	w.hops.forget()
	var addrs []netip.Addr
	for _, e := range w.gids {
		if e.present {
			addrs = append(addrs, e.addr)
		}
	}
	if w.hook.Steer(addrs) == nil {
		return
	}
	for i, e := range w.gids { // nothing would come for new ones
		if e.present && !slices.Contains(was, e) {
			w.gids[i].present, table[i].present = false, false
		}
	}
}

// xdpError says what would mend an error of package xsk.
func (d *device) xdpError(err error) error {
	name := d.link.name
	switch {
	case errors.Is(err, xsk.ErrOccupied):
		return verbs.Errorf("open", d.name, verbs.ErrBusy, "%v: mode=xdp is for one device of %s at a time; ip link set %s xdp off takes a program off that no process holds", err, name, name)
	case errors.Is(err, unix.EBUSY):
		return verbs.Errorf("open", d.name, verbs.ErrBusy, "a queue of %s has another AF_XDP socket", name)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return verbs.Errorf("open", d.name, verbs.ErrNotSupported, "the kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS): leave the mode out")
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
		return verbs.Errorf("open", d.name, err, "memory that AF_XDP shares with the kernel counts as locked: raise ulimit -l, or run as root")
	}
	return d.openError(netip.AddrPortFrom(d.link.addrs[0], roce.Port), err)
}

// monotonic reads the clock that the XDP program stamps by, in nanoseconds.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

// began returns what monotonic showed when counter was 0: by the closest of several readings,
// for between two clocks the thread may stand still, and never too early, so that no stamp
// lies in the counter's future.
func began(counter, monotonic func() int64) (start int64) {
	closest := int64(math.MaxInt64)
	for range 8 {
		before := counter()
		at := monotonic()
		if gap := counter() - before; gap < closest {
			closest, start = gap, at-before
		}
	}
	return start
}

func (w *xdpWire) segments() int { return maxSegments }

// path implements sender: all packets have their ICRCs, with the identifications 0, 1,
// 2... of a message.
func (w *xdpWire) path(r *endpoint.Route) *roce.Path {
	return w.paths.get(netip.AddrPortFrom(w.gids[r.GID].addr, r.SrcPort), r.Dst)
}

// send implements sender.
func (w *xdpWire) send(b *batch) {
	tx := w.sockets[0]
	for i := range b.messages {
		m := &b.messages[i]
		hop, known := w.hops.find(m.route.Dst.Addr())
		for k, data := 0, b.buf[m.at:m.at+m.n]; len(data) > 0; k++ {
			packet := data[:min(m.size, len(data))]
			data = data[len(packet):]
			if !known || hop.stale {
				if known {
					hop.stale = false
				}
				w.flush() // in order
				w.sendByKernel(m, packet)
				continue
			}
			f := tx.Chunk()
			if f == nil {
				w.flush()
				if f = tx.Chunk(); f == nil {
					w.counters.sendErrors.Add(1)
					continue
				}
			}
			tx.Queue(w.put(f, m, hop, uint16(k), packet))
		}
	}
	w.flush()
}

func (w *xdpWire) flush() { w.counters.sendCalls.Add(uint64(w.sockets[0].Flush())) }

// put builds the frame of a packet that has its ICRC, and returns its length.
func (w *xdpWire) put(f []byte, m *message, hop *neighbour, id uint16, packet []byte) int {
	src := w.gids[m.route.GID].addr
	e := roce.EthernetFields{Dst: hop.mac, Src: hop.own, EtherType: roce.EtherTypeIPv4}
	if src.Is6() {
		e.EtherType = roce.EtherTypeIPv6
	}
	ip := e.Put(f)
	n := ip + putIP(f[ip:], src, &m.route, id, len(packet))
	n += copy(f[n:], packet)
	if src.Is6() {
		putChecksum(f[ip:n])
	}
	return n
}

// sendByKernel sends a packet to a station that the kernel does not know, or wants to
// ask for again.
func (w *xdpWire) sendByKernel(m *message, packet []byte) {
	f := w.kernel[:]
	src := w.gids[m.route.GID].addr
	const id = 1 // the kernel may take 0 for "choose one"
	n := putIP(f, src, &m.route, id, len(packet))
	n += copy(f[n:], packet)
	roce.PutICRC(f[:n])
	if src.Is6() {
		putChecksum(f[:n])
	}
	size := putAddr(&w.name, netip.AddrPortFrom(m.route.Dst.Addr(), 0), w.link)
	w.counters.sendCalls.Add(1)
	if _, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(w.raw[rawSocketFor(src)]), uintptr(unsafe.Pointer(&f[0])), uintptr(n), unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&w.name)), uintptr(size)); errno != 0 {
		w.counters.sendErrors.Add(1)
	}
}

// muteMADs implements muter.
func (w *xdpWire) muteMADs(mute bool) { _ = w.hook.Mute(mute) } // they are dropped later, too

// ringDrops implements ringer.
func (w *xdpWire) ringDrops() (n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped.Load() { // the sockets' numbers may be others' by now
		return 0
	}
	for _, s := range w.sockets {
		n += s.Dropped()
	}
	return n
}

// receive implements wire.
func (w *xdpWire) receive() bool {
	for !w.stopped.Load() {
		w.mu.Lock()
		n := w.take()
		w.mu.Unlock()
		switch {
		case n > 0:
			w.burst = n >= burstPackets
			return true
		case w.burst:
			w.burst = false
			xsk.Nap(burstNap)
		default:
			w.wait()
		}
	}
	return false
}

// In the middle of a burst the kernel would wake the goroutine that receives for each
// packet, which costs whoever sends on this machine more than the packet does. So it
// sleeps a little first, and finds several.
const (
	burstPackets = 8
	burstNap     = 20 * time.Microsecond
)

// poll implements wire.
func (w *xdpWire) poll() bool {
	if !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	return !w.stopped.Load() && w.take() > 0
}

// take delivers what has come, and returns how many frames that was.
func (w *xdpWire) take() (frames int) {
	for _, s := range w.sockets {
		n := min(s.Received(), rxPackets)
		if n == 0 {
			continue
		}
		frames += n
		for i := range n {
			if !w.parse(s.Frame(i)) {
				w.counters.malformed.Add(1)
			}
		}
		w.out.flush()
		s.Recycle(n)
	}
	return frames
}

// parse takes a frame, and returns false if it is none that the program lets by.
func (w *xdpWire) parse(b []byte, stamp uint64) bool {
	var f roce.Frame
	if f.ParseEthernet(b) != nil {
		return false
	}
	p, ok := packetOf(&f, w.gids, w.counter(stamp))
	if !ok {
		return false
	}
	if !roce.CheckICRC(f.IP) {
		w.counters.badICRC.Add(1)
		return true
	}
	w.out.add(&p)
	return true
}

// counter converts a stamp of the XDP program to the device's counter; without one it is
// the present.
func (w *xdpWire) counter(stamp uint64) uint64 {
	if stamp == 0 {
		return uint64(time.Since(w.clock.start))
	}
	return uint64(max(0, int64(stamp)-w.start))
}

// free frees all but what the waiter has.
func (w *xdpWire) free() {
	if w.hook != nil {
		w.hook.Close()
	}
	for _, s := range w.sockets {
		s.Close()
	}
	w.ports.close()
	for _, fd := range w.raw {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	w.hops.close()
}

// close implements wire. Somebody may still poll.
func (w *xdpWire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sockets { // they close their own
		w.forget(s.FD)
	}
	w.free()
	w.waiter.close()
}
