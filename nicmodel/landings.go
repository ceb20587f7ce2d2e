package nicmodel

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// landings is the data on its way to real memory: what has been handed to PCIe and the
// host does not see yet. They come down in the order of the calls, as posted writes
// do (PCIe 2.4.1). A phantom has none.
type landings struct {
	*chip

	ring   []landing // of a power of two
	from   uint32    // running counts
	to     uint32
	wakeAt units.Time // of the pending evLand, or Never
}

// landing is one piece of memory that a write fills.
type landing struct {
	at  units.Time // when the host sees it
	dst []byte
	key uint32 // of its region
	// The data: in a payload buffer, or zeros where that is 0, from offset on. The last
	// piece gives the buffer back.
	buffer uint32
	offset int
	last   bool
}

// put sends data to b, a piece of a region, so that the host sees them at a time that
// is not before that of any put before.
func (l *landings) put(at units.Time, key uint32, b []byte, buffer uint32, offset int) {
	if int(l.to-l.from) == len(l.ring) {
		l.grow()
	}
	l.ring[l.to&uint32(len(l.ring)-1)] = landing{at: at, dst: b, key: key, buffer: buffer, offset: offset}
	l.to++
	if l.wakeAt == units.Never {
		l.wakeAt = at
		l.schedule(l.wakeAt, evLand, 0)
	}
}

func (l *landings) grow() {
	ring := make([]landing, max(16, 2*len(l.ring)))
	for i := l.from; i != l.to; i++ {
		ring[i&uint32(len(ring)-1)] = l.ring[i&uint32(len(l.ring)-1)]
	}
	l.ring = ring
}

// wake handles the event that data are due.
func (l *landings) wake(now units.Time) {
	l.wakeAt = units.Never
	l.bringDown(now)
	if l.from != l.to {
		l.wakeAt = l.ring[l.from&uint32(len(l.ring)-1)].at
		l.schedule(l.wakeAt, evLand, 0)
	}
}

// bringDown places all data that the host can see by now.
func (l *landings) bringDown(now units.Time) {
	for l.from != l.to && l.ring[l.from&uint32(len(l.ring)-1)].at <= now {
		l.bringDownOldest()
	}
}

func (l *landings) bringDownOldest() {
	d := &l.ring[l.from&uint32(len(l.ring)-1)]
	l.frames.fill(d, d.dst, 0)
	if d.last && d.buffer != 0 {
		l.frames.idle = append(l.frames.idle, d.buffer)
	}
	d.dst = nil
	l.from++
}

// settle brings down everything under way up to the last data for a region: that is
// over before the command that takes the region away is.
func (l *landings) settle(key uint32) {
	for i := l.to; i != l.from; i-- {
		if l.ring[(i-1)&uint32(len(l.ring)-1)].key == key {
			for l.from != i {
				l.bringDownOldest()
			}
			return
		}
	}
}

// fill copies the data of a landing to b, which begins at so many bytes of it.
func (s *Frames) fill(d *landing, b []byte, from int) {
	if d.buffer == 0 {
		clear(b) // a phantom's content reads as zero
		return
	}
	copy(b, s.buffers[d.buffer-1][d.offset+from:])
}

// read reads a piece of memory as the NIC does: its reads push its writes before them
// (PCIe 2.4.1), so that it sees what the host does not yet.
func (l *landings) read(to, b []byte) {
	copy(to, b)
	for i := l.from; i != l.to; i++ {
		d := &l.ring[i&uint32(len(l.ring)-1)]
		if &d.dst[:cap(d.dst)][cap(d.dst)-1] != &b[:cap(b)][cap(b)-1] {
			continue // not of one buffer, though it may be of two regions
		}
		after := cap(b) - cap(d.dst) // of b's first byte comes d's
		begin, end := max(after, 0), min(after+len(d.dst), len(b))
		if begin < end {
			l.frames.fill(d, to[begin:end], begin-after)
		}
	}
}

// change performs an atomic operation on a word, whose new value the host sees at the
// time that put would be given, and returns what it was.
func (l *landings) change(at units.Time, key uint32, b []byte, a *rc.Atomic) (orig uint64) {
	var word [8]byte
	l.read(word[:], b)
	orig = binary.LittleEndian.Uint64(word[:])
	next := orig
	switch {
	case a.Op == ib.FetchAdd:
		next += a.Swap
	case orig == a.Compare:
		next = a.Swap
	}
	buffer, to := l.frames.payload(8)
	binary.LittleEndian.PutUint64(to, next)
	l.put(at, key, b, buffer, 0)
	l.own()
	return orig
}

// own makes the newest piece the last of its payload.
func (l *landings) own() { l.ring[(l.to-1)&uint32(len(l.ring)-1)].last = true }
