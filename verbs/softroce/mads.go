package softroce

import (
	"net/netip"
	"time"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Anybody can send management datagrams, from any address, so they have a budget. The
// excess is dropped before it costs the connections anything, by the kernel where it
// can: a mute. Until a mute begins, datagrams fill the sockets' buffers, which on a busy machine
// takes as long as this process waits for a processor. So mutes double while datagrams keep coming:
// connections have most of the time. Connection managers repeat what is lost. Without a handler
// the kernel drops all.
const (
	madsPerSecond = 10_000
	madBurst      = 2048 // within the budget
	madDepth      = 256  // wait for the handler
	firstMute     = 10 * time.Millisecond
	longestMute   = 1280 * time.Millisecond
)

// MADHandler handles a management datagram: its destination address, the sender's
// address and queue pair, and its 256 bytes, which are valid until the handler
// returns.
type MADHandler = func(local netip.Addr, src netip.AddrPort, srcQPN uint32, mad []byte)

// muter is a wire whose kernel drops management datagrams while it is muted.
type muter interface{ muteMADs(bool) }

// madQueue holds the management datagrams that wait for their handler. The device's
// lock guards it.
type madQueue struct {
	handler  MADHandler
	ring     [madDepth]mad
	first, n int
	handling bool
	inHand   mad // of whoever is handling, without the lock

	left   units.Time // of the budget, as the time in which it comes back
	filled units.Time // when left was reckoned
	muted  bool
	mute   time.Duration // the last one's length
	ended  units.Time
	unmute *time.Timer
}

type mad struct {
	local  netip.Addr
	src    netip.AddrPort
	srcQPN uint32
	data   [roce.MADBytes]byte
}

// HandleMAD sets the handler of management datagrams for queue pair 1, the general
// services interface; nil for none. f runs on the goroutine that receives, so it
// must be quick; it may call the device.
func (d *device) HandleMAD(f MADHandler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mads.handler = f
	if f == nil {
		d.core.OnMAD(nil)
	} else {
		d.core.OnMAD(d.takeMAD)
	}
	d.muteWire()
}

// muteWire has the kernel drop management datagrams, or not, as is now due.
func (d *device) muteWire() {
	if w, ok := d.wire.(muter); ok && !d.closed && !d.wireClosed {
		w.muteMADs(d.mads.handler == nil || d.mads.muted)
	}
}

// takeMAD queues a datagram, with the lock held, and reports whether it did.
func (d *device) takeMAD(local netip.Addr, src netip.AddrPort, srcQPN uint32, data []byte) bool {
	q := &d.mads
	now := d.clock.read().Sub(d.origin) // no instant is void: one is in hand
	if !q.spend(now) {
		d.mute(now)
		return false
	}
	if q.n == madDepth {
		return false
	}
	m := &q.ring[(q.first+q.n)%madDepth]
	m.local, m.src, m.srcQPN = local, src, srcQPN
	copy(m.data[:], data)
	q.n++
	return true
}

// spend takes one datagram off the budget, and reports whether there was one left.
func (q *madQueue) spend(now units.Time) bool {
	const one = units.Second / madsPerSecond
	q.left = min(q.left+now-q.filled, madBurst*one)
	q.filled = now
	if q.left < one {
		return false
	}
	q.left -= one
	return true
}

// mute has the kernel drop management datagrams for a while, with the lock held, so
// that they leave the room in the sockets' buffers to the connections.
func (d *device) mute(now units.Time) {
	q := &d.mads
	if _, ok := d.wire.(muter); !ok || q.muted {
		return
	}
	q.muted, q.mute = true, nextMute(q.mute, now-q.ended)
	d.muteWire()
	if q.unmute == nil {
		q.unmute = time.AfterFunc(q.mute, d.unmute)
		return
	}
	q.unmute.Reset(q.mute)
}

// nextMute returns how long a mute is that begins so long after the end of the last one.
func nextMute(last time.Duration, since units.Time) time.Duration {
	if last == 0 || since > units.FromDuration(longestMute) {
		return firstMute
	}
	return min(2*last, longestMute)
}

func (d *device) unmute() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mads.muted, d.mads.ended = false, d.clock.read().Sub(d.origin)
	d.muteWire()
}

// deliverMADs hands the datagrams that wait to their handler, without the lock, which
// the caller holds. One goroutine at a time does.
func (d *device) deliverMADs() {
	q := &d.mads
	if q.handling {
		return
	}
	q.handling = true
	for q.n > 0 {
		q.inHand = q.ring[q.first]
		q.first = (q.first + 1) % madDepth
		q.n--
		if f := q.handler; f != nil {
			d.mu.Unlock()
			m := &q.inHand
			f(m.local, m.src, m.srcQPN, m.data[:])
			d.mu.Lock()
		}
	}
	q.handling = false
}

// SendMAD sends a management datagram of 256 bytes from queue pair 1 to queue pair qpn,
// usually 1, at to.
func (d *device) SendMAD(to verbs.AddressVector, qpn uint32, mad []byte) error {
	d.mu.Lock()
	err := d.unusable("send_mad")
	if err == nil {
		err = d.core.SendMAD(to, qpn, mad)
	}
	d.flush()
	return err
}
