package nicmodel

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// receiveBuffer is that memory. Packets leave it in the order in which the transport has
// handled them.
type receiveBuffer struct {
	*chip.Chip
	lossless  uint8 // priorities
	xoff, xon int

	// used is bytes, of which some may have left: up to brief they are not looked for.
	used, brief, most int
	// begun are the packets that the transport has handled, and that leave at a time that
	// is known: a ring of a power of two, oldest first.
	ring    []leaving
	head, n int
	begun   int        // bytes in ring
	last    units.Time // when the newest leaves
	paused  bool
	wakeAt  units.Time // of the pending EvBuffer, or Never
	out     units.Time // when what the packet in hand has caused is out

	drops, marks, pauses uint64
}

// leaving is a packet that leaves at a time.
type leaving struct {
	at    units.Time
	bytes int
}

func newReceiveBuffer(on *chip.Chip) receiveBuffer {
	b := receiveBuffer{Chip: on, wakeAt: units.Never}
	c := &on.Config.ReceiveBuffer
	if c.Bytes == 0 {
		return b
	}
	b.lossless = on.Net.Lossless(on.Host)
	longest := int(on.Net.MaxFrame())
	if b.xoff = c.XOff; b.xoff == 0 {
		b.xoff = c.Bytes
		if b.lossless != 0 {
			b.xoff -= min(int(on.Net.Headroom(on.Host)), c.Bytes/2)
		}
	}
	if b.xon = c.XOn; b.xon == 0 {
		b.xon = max(0, b.xoff-longest)
	}
	b.brief = min(c.Bytes/16, b.xoff, b.xon)
	if c.Mark > 0 {
		b.brief = min(b.brief, c.Mark)
	}
	b.ring = make([]leaving, 1<<bits.Len(uint(b.brief/frames.MinFrame)))
	return b
}

// admit takes in a packet, or reports false if there is no room.
func (b *receiveBuffer) admit(now units.Time, p *fabric.Frame) bool {
	if b.used += int(p.Size); b.used <= b.brief {
		return true
	}
	return b.admitSlowly(now, p)
}

func (b *receiveBuffer) admitSlowly(now units.Time, p *fabric.Frame) bool {
	c := &b.Config.ReceiveBuffer
	if c.Bytes == 0 {
		b.used = 0
		return true
	}
	b.clear(now)
	room := b.xoff
	keep := b.lossless&(1<<p.Priority) != 0
	if keep {
		room = c.Bytes
	}
	if b.used > room {
		b.used -= int(p.Size)
		b.drops++
		return false
	}
	b.most = max(b.most, b.used)
	if c.Mark > 0 && b.used > c.Mark && p.Flags&fabric.ECT != 0 {
		p.Flags |= fabric.CE
		b.marks++
	}
	if keep && b.used > b.xoff && !b.paused {
		b.paused = true
		b.pauses++
		b.Lane.PausePeer(now, b.Host, b.lossless)
		b.plan(now)
	}
	return true
}

// clear gives back the room of the packets that have left.
func (b *receiveBuffer) clear(now units.Time) {
	for b.n > 0 && b.ring[b.head].at <= now {
		e := &b.ring[b.head]
		b.used -= e.bytes
		b.begun -= e.bytes
		b.head = (b.head + 1) & (len(b.ring) - 1)
		b.n--
	}
}

// take says that the transport takes a packet in hand.
func (b *receiveBuffer) take(now units.Time) { b.out = now }

// hold keeps the packet in hand until something that it caused is out.
func (b *receiveBuffer) hold(until units.Time) { b.out = max(b.out, until) }

// busy returns when the packet in hand leaves, by what is known of it so far.
func (b *receiveBuffer) busy() units.Time { return max(b.last, b.out) }

// leave has the packet in hand, of bytes bytes, leave once all that it caused is out, and
// not before its predecessors.
func (b *receiveBuffer) leave(now units.Time, bytes int) {
	if len(b.ring) == 0 {
		return
	}
	if b.n == len(b.ring) {
		b.grow()
	}
	b.last = max(b.last, b.out)
	b.ring[(b.head+b.n)&(len(b.ring)-1)] = leaving{b.last, bytes}
	b.n++
	b.begun += bytes
	if b.paused {
		b.clear(now)
		b.plan(now)
	}
}

func (b *receiveBuffer) grow() {
	ring := make([]leaving, 2*len(b.ring))
	for i := range b.n {
		ring[i] = b.ring[(b.head+i)&(len(b.ring)-1)]
	}
	b.ring, b.head = ring, 0
}

// plan, of a buffer that has been cleared, resumes the priorities that are paused, now or when the buffer has emptied so far.
func (b *receiveBuffer) plan(now units.Time) {
	switch {
	case b.used <= b.xon:
		b.paused = false
		b.Lane.PausePeer(now, b.Host, 0)
		return
	case b.wakeAt != units.Never || b.used-b.begun > b.xon:
		return // it is known, or not known yet
	}
	left := b.used
	for i := 0; left > b.xon; i++ {
		e := &b.ring[(b.head+i)&(len(b.ring)-1)]
		left -= e.bytes
		b.wakeAt = e.at
	}
	b.Schedule(b.wakeAt, chip.EvBuffer, 0)
}

// wake is the time at which the buffer may have emptied far enough.
func (b *receiveBuffer) wake(now units.Time) {
	b.wakeAt = units.Never
	b.clear(now)
	if b.paused {
		b.plan(now)
	}
}

// count counts for NIC.Stats.
func (b *receiveBuffer) count(s *Stats) {
	s.BufferDrops, s.BufferMarks, s.BufferMost, s.PausesSent = b.drops, b.marks, units.Bytes(b.most), b.pauses
}
