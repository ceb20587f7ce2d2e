package endpoint

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Another program's memory costs a system call each time, so that several packets of a
// message share one where they come or leave together.

// maxLate is how many pieces wait at most.
const maxLate = 32

// late is what packets of one message brought for another program's memory, and that is
// not there yet: it waits for the message's next packet of the same batch. The pieces are
// the packets' payloads.
type late struct {
	batch  bool // packets stay where they are until the batch ends
	more   bool // the packet in hand is not its message's last
	q      *QP
	place  rc.Place // of the last packet
	memory verbs.VectorMemory
	pieces []verbs.MemoryPiece
}

// ReceiveAll takes packets, of which none changes until it returns.
func (e *Endpoint) ReceiveAll(now units.Time, packets []Packet) {
	e.late.batch = true
	for i := range packets {
		e.Receive(now, &packets[i])
	}
	e.settle(now)
	e.late.batch = false
}

// goesOn are the packets that are not their message's last.
const goesOn = 1<<ib.SendFirst | 1<<ib.SendMiddle | 1<<ib.WriteFirst | 1<<ib.WriteMiddle | 1<<ib.ReadResponseFirst | 1<<ib.ReadResponseMiddle

// continues reports whether a packet may be the next of the message that waits.
func (l *late) continues(q *QP, o ib.Opcode) bool {
	next := uint32(1<<ib.ReadResponseMiddle | 1<<ib.ReadResponseLast)
	switch l.place.Kind {
	case rc.PlaceMemory:
		next = 1<<ib.WriteMiddle | 1<<ib.WriteLast | 1<<ib.WriteLastImm
	case rc.PlaceRecv:
		next = 1<<ib.SendMiddle | 1<<ib.SendLast | 1<<ib.SendLastImm | 1<<ib.SendLastInv
	}
	return q == l.q && next>>o.Operation()&1 != 0
}

// store writes from to the memory at addr, at once or with the rest of its message, and
// reports whether the memory took what is written.
func (e *Endpoint) store(m *MR, addr uint64, from []byte) bool {
	to := &m.other
	if to.memory == nil {
		copy(m.at(addr, len(from)), from)
		return true
	}
	l := &e.late
	piece := verbs.MemoryPiece{Addr: m.elsewhere(addr), Data: from}
	switch {
	case to.vector != nil && len(l.pieces) < maxLate && (len(l.pieces) == 0 && l.more || len(l.pieces) > 0 && l.memory == to.vector):
		l.memory = to.vector
		l.pieces = append(l.pieces, piece)
		return l.more || e.write()
	case !e.write():
		return false
	}
	return to.memory.WriteMemory(from, piece.Addr) == nil
}

// write writes the pieces that wait, and reports whether the memory took them.
func (e *Endpoint) write() bool {
	l := &e.late
	if len(l.pieces) == 0 {
		return true
	}
	err := l.memory.WritePieces(l.pieces)
	clear(l.pieces)
	l.pieces, l.memory = l.pieces[:0], nil
	return err == nil
}

// settle writes what waits, before anything else happens. That the memory does not take it
// fails the message as if its last packet had brought it.
func (e *Endpoint) settle(now units.Time) {
	l := &e.late
	q, place := l.q, l.place
	if l.q = nil; q == nil || len(l.pieces) == 0 || e.write() {
		return
	}
	e.unplaced(now, q, &place)
	e.effects(now, q, nil)
}

// ahead is what was read of another program's memory beyond the packet in hand, for the
// next ones of its message. It holds until the driver gives up the lock.
type ahead struct {
	m    *MR
	addr uint64
	n    int
	buf  []byte
}

// aheadBytes is how much is read at a time.
const aheadBytes = 32 << 10

// Begin forgets what was read ahead: the driver is to call it when it has taken the lock,
// before it asks for packets.
func (e *Endpoint) Begin() { e.ahead.m, e.ahead.n = nil, 0 }

// read returns n bytes of another program's memory, of which more may be read ahead, or nil
// if they are not to be read ahead or can't be.
func (e *Endpoint) read(m *MR, addr uint64, n, more int) []byte {
	a := &e.ahead
	if a.m == m && addr >= a.addr && addr-a.addr <= uint64(a.n) && n <= a.n-int(addr-a.addr) {
		return a.buf[addr-a.addr:][:n]
	}
	if !e.deferring || more <= 0 || len(e.pieces) > 0 { // the packet has pieces of the buffer
		return nil
	}
	if a.buf == nil {
		a.buf = make([]byte, aheadBytes)
	}
	a.m, a.n = nil, 0
	some := a.buf[:min(uint64(n+more), aheadBytes, m.base+m.size-addr)]
	if m.other.memory.ReadMemory(some, m.elsewhere(addr)) != nil {
		return nil
	}
	a.m, a.addr, a.n = m, addr, len(some)
	return some[:n]
}
