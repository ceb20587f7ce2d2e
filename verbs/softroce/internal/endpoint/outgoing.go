package endpoint

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
)

// Outgoing is a packet to send whose payload may still lie in the application's
// memory, so that the driver reads it once: to copy it and to compute the ICRC.
type Outgoing struct {
	To      *Route // as Next has it
	Len     int    // from the Base Transport Header to the end of the ICRC
	Header  int    // bytes of the buffer that are written, from its start on
	Carried        // valid until the next call
	// Pieces are what follows them, some of them in their places in the buffer; then come
	// pad bytes, which are written, and the ICRC.
	Pieces [][]byte
}

// NextOutgoing is Next without the copying. The pieces are the driver's to read
// until it lets go of the lock that keeps others from the endpoint: later their
// request may complete. It returns nil when there is nothing to send; what it
// returns holds until the next call.
func (e *Endpoint) NextOutgoing(now units.Time, buf []byte) *Outgoing {
	e.deferring = true
	n, to := e.Next(now, buf)
	e.deferring = false
	if n == 0 {
		return nil
	}
	o := &e.outgoing
	o.Carried = e.carried
	o.To, o.Len, o.Header, o.Pieces = to, n, n-roce.ICRCBytes, e.pieces
	if len(e.pieces) > 0 {
		o.Header -= int(e.out.Pad)
		for _, p := range e.pieces {
			o.Header -= len(p)
		}
	}
	return o
}

// load adds the region's bytes from addr on to the current packet, where to is their
// place: a copy, or a reference to them. It reports whether the memory could be read.
// An unreliable request completes as it leaves, and then its memory belongs to the
// application. What another program owns is read now, with up to more bytes behind it that
// the next packets will ask for; alone it is a piece that lies in its place already.
func (e *Endpoint) load(to []byte, m *MR, addr uint64, more int) bool {
	deferring := e.deferring && e.out.Opcode.Service() == ib.ServiceRC
	var from []byte
	if m.other.memory == nil {
		from = m.at(addr, len(to))
	} else if from = e.read(m, addr, len(to), more); from == nil {
		if m.other.memory.ReadMemory(to, m.elsewhere(addr)) != nil {
			return false
		}
		if deferring {
			e.pieces = append(e.pieces, to)
		}
		return true
	}
	if deferring {
		e.pieces = append(e.pieces, from)
		return true
	}
	copy(to, from)
	return true
}
