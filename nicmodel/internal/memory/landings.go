package memory

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// Landings is the data on its way to real memory: what has been handed to PCIe and the
// host does not see yet. They come down in the order of the calls, as posted writes
// do (PCIe 2.4.1). A phantom has none.
type Landings struct {
	*chip.Chip
	regions *Regions

	ring   []landing // of a power of two
	from   uint32    // running counts
	to     uint32
	wakeAt units.Time // of the pending EvLand, or Never
}

// NewLandings has nothing under way.
func NewLandings(on *chip.Chip, regions *Regions) Landings {
	return Landings{Chip: on, regions: regions, wakeAt: units.Never}
}

// landing is one piece of memory that a write fills.
type landing struct {
	at  units.Time // when the host sees it
	dst []byte     // nil where the memory lies elsewhere
	// addr is the address then that its region's key has it at, and length how much it is.
	addr   uint64
	length uint32
	// The data: in a payload buffer, or zeros where that is 0, from offset on. The last
	// piece gives the buffer back.
	offset uint32
	buffer uint32
	key    uint32 // of its region, which is there until the data are: see settle
	last   bool
}

// Put sends data to b, a piece of a region, so that the host sees them at a time that
// is not before that of any put before.
func (l *Landings) Put(at units.Time, key uint32, b []byte, buffer uint32, offset int) {
	if int(l.to-l.from) == len(l.ring) {
		l.grow()
	}
	l.ring[l.to&uint32(len(l.ring)-1)] = landing{at: at, dst: b, key: key, buffer: buffer, offset: uint32(offset)}
	l.added(at)
}

// PutOther is put for a piece of a region of a Memory.
func (l *Landings) PutOther(at units.Time, r *Extent, addr, length uint64, buffer uint32, offset int) {
	if int(l.to-l.from) == len(l.ring) {
		l.grow()
	}
	l.ring[l.to&uint32(len(l.ring)-1)] = landing{at: at, addr: addr, length: uint32(length), key: r.Key, buffer: buffer, offset: uint32(offset)}
	l.added(at)
}

func (l *Landings) added(at units.Time) {
	l.to++
	if l.wakeAt == units.Never {
		l.wakeAt = at
		l.Schedule(l.wakeAt, chip.EvLand, 0)
	}
}

func (l *Landings) grow() {
	ring := make([]landing, max(16, 2*len(l.ring)))
	for i := l.from; i != l.to; i++ {
		ring[i&uint32(len(ring)-1)] = l.ring[i&uint32(len(l.ring)-1)]
	}
	l.ring = ring
}

// Wake handles the event that data are due.
func (l *Landings) Wake(now units.Time) {
	l.wakeAt = units.Never
	l.BringDown(now)
	if l.from != l.to {
		l.wakeAt = l.ring[l.from&uint32(len(l.ring)-1)].at
		l.Schedule(l.wakeAt, chip.EvLand, 0)
	}
}

// BringDown places all data that the host can see by now.
func (l *Landings) BringDown(now units.Time) {
	for l.from != l.to && l.ring[l.from&uint32(len(l.ring)-1)].at <= now {
		l.bringDownOldest()
	}
}

func (l *Landings) bringDownOldest() {
	d := &l.ring[l.from&uint32(len(l.ring)-1)]
	if d.dst != nil {
		l.fill(d, d.dst, 0)
	} else {
		l.writeOther(d)
	}
	if d.last && d.buffer != 0 {
		l.Frames.GiveBack(d.buffer)
	}
	d.dst = nil
	l.from++
}

// settle brings down everything under way up to the last data for a region: that is
// over before the command that takes the region away is.
func (l *Landings) settle(key uint32) {
	for i := l.to; i != l.from; i-- {
		if l.ring[(i-1)&uint32(len(l.ring)-1)].key == key {
			for l.from != i {
				l.bringDownOldest()
			}
			return
		}
	}
}

// fill copies a landing's data to b, from offset from on.
func (l *Landings) fill(d *landing, b []byte, from int) {
	if d.buffer == 0 {
		clear(b) // a phantom's content reads as zero
		return
	}
	copy(b, l.Frames.Bytes(d.buffer)[int(d.offset)+from:])
}

// Read reads a piece of memory as the NIC does: its reads push its writes before them
// (PCIe 2.4.1), so that it sees what the host does not yet.
func (l *Landings) Read(to, b []byte) {
	copy(to, b)
	for i := l.from; i != l.to; i++ {
		d := &l.ring[i&uint32(len(l.ring)-1)]
		if d.dst == nil {
			continue
		}
		if &d.dst[:cap(d.dst)][cap(d.dst)-1] != &b[:cap(b)][cap(b)-1] {
			continue // not of one buffer, though it may be of two regions
		}
		after := cap(b) - cap(d.dst) // of b's first byte comes d's
		begin, end := max(after, 0), min(after+len(d.dst), len(b))
		if begin < end {
			l.fill(d, to[begin:end], begin-after)
		}
	}
}

// zeros is the content of a phantom.
var zeros [4096]byte

// writeOther writes a landing to its Memory.
func (l *Landings) writeOther(d *landing) {
	r := l.regions.Find(d.key)
	to := r.elsewhere(d.addr)
	if d.buffer != 0 {
		_ = r.Other.WriteMemory(l.Frames.Bytes(d.buffer)[d.offset:][:d.length], to) // refused is lost: see RegMemory
		return
	}
	for done := uint32(0); done < d.length; {
		n := min(d.length-done, uint32(len(zeros)))
		_ = r.Other.WriteMemory(zeros[:n], to+uint64(done)) // as above
		done += n
	}
}

// ReadOther is read for len(to) bytes of a region of a Memory, and reports whether they
// can be read.
func (l *Landings) ReadOther(to []byte, r *Extent, addr uint64) bool {
	from := r.elsewhere(addr)
	if r.Other.ReadMemory(to, from) != nil {
		return false
	}
	for i := l.from; i != l.to; i++ {
		d := &l.ring[i&uint32(len(l.ring)-1)]
		if d.dst != nil {
			continue
		}
		other := l.regions.Find(d.key)
		if other.Other != r.Other {
			continue
		}
		at := other.elsewhere(d.addr)
		begin, end := max(at, from), min(at+uint64(d.length), from+uint64(len(to)))
		if begin < end {
			l.fill(d, to[begin-from:end-from], int(begin-at))
		}
	}
	return true
}

// Change performs an atomic operation on a word of a region, whose new value the host sees
// at the time that put would be given. It returns what it was, and whether the word could
// be read.
func (l *Landings) Change(at units.Time, r *Extent, a *rc.Atomic) (orig uint64, ok bool) {
	b := r.At(a.VA, 8)
	if b == nil && r.Other == nil {
		return 0, true // a phantom
	}
	// The new word's room is that of what it was, first.
	buffer, word := l.Frames.Payload(8)
	if b != nil {
		l.Read(word, b)
	} else if !l.ReadOther(word, r, a.VA) {
		l.Frames.GiveBack(buffer)
		return 0, false
	}
	orig = binary.LittleEndian.Uint64(word)
	next := orig
	switch {
	case a.Op == ib.FetchAdd:
		next += a.Swap
	case orig == a.Compare:
		next = a.Swap
	}
	binary.LittleEndian.PutUint64(word, next)
	if b != nil {
		l.Put(at, r.Key, b, buffer, 0)
	} else {
		l.PutOther(at, r, a.VA, 8, buffer, 0)
	}
	l.Own(l.Newest())
	return orig, true
}

// Newest is the running count of the newest piece.
func (l *Landings) Newest() uint32 { return l.to - 1 }

// Own has the piece with that running count, which is under way, give its payload's buffer back.
func (l *Landings) Own(count uint32) { l.ring[count&uint32(len(l.ring)-1)].last = true }

// UnderWay returns the number of pieces that the host does not see yet.
func (l *Landings) UnderWay() int { return int(l.to - l.from) }
