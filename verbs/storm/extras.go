package storm

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// What ends ask beside their plans: binds of memory windows, by which the other end may then reach
// the memory, and local invalidates.

// extraID marks the WRIDs of such requests.
const extraID = 1 << 41

// mostExtras is how many of them one end asks: each completion has it look for more to do, so that without a bound they
// would go on, one after another, for as long as a plan takes.
const mostExtras = 1000

// extra is such a request under way.
type extra struct {
	mw    verbs.MW // that it binds, nil for a local invalidate
	key   uint32   // that the window has by it
	share bool     // the window is for the other end
}

// register registers memory of an end: in some runs as another program's.
func (w *peer) register(buf []byte, access ib.AccessFlags) (verbs.MR, error) {
	if !w.weather.foreign {
		return w.pd.RegMR(buf, access)
	}
	m := &hostMemory{b: buf, base: 1<<20 + uint64(w.p.Rand.IntN(4096))}
	iova := (1<<32+w.p.Rand.Uint64N(1<<61))&^4095 | m.base&4095&^7
	m.base &^= 7
	var mem verbs.Memory = m
	if w.p.Rand.IntN(2) == 0 {
		mem = &vectorMemory{m}
	}
	return w.pd.(verbs.MemoryPD).RegMemory(mem, m.base, uint64(len(buf)), iova, access)
}

// hostMemory is memory as of another program.
type hostMemory struct {
	b    []byte
	base uint64
}

func (m *hostMemory) bytes() []byte { return m.b }

func (m *hostMemory) at(addr uint64, n int) ([]byte, error) {
	if addr < m.base || addr-m.base+uint64(n) > uint64(len(m.b)) {
		return nil, fmt.Errorf("%d bytes at %#x are not the program's", n, addr)
	}
	return m.b[addr-m.base:][:n], nil
}

// ReadMemory implements verbs.Memory.
func (m *hostMemory) ReadMemory(p []byte, addr uint64) error {
	b, err := m.at(addr, len(p))
	copy(p, b)
	return err
}

// WriteMemory implements verbs.Memory.
func (m *hostMemory) WriteMemory(p []byte, addr uint64) error {
	b, err := m.at(addr, len(p))
	copy(b, p)
	return err
}

// vectorMemory is a hostMemory that moves several pieces with one call.
type vectorMemory struct{ *hostMemory }

// ReadPieces implements verbs.VectorMemory.
func (m *vectorMemory) ReadPieces(pieces []verbs.MemoryPiece) error {
	for _, p := range pieces {
		if err := m.ReadMemory(p.Data, p.Addr); err != nil {
			return err
		}
	}
	return nil
}

// WritePieces implements verbs.VectorMemory.
func (m *vectorMemory) WritePieces(pieces []verbs.MemoryPiece) error {
	for _, p := range pieces {
		if err := m.WriteMemory(p.Data, p.Addr); err != nil {
			return err
		}
	}
	return nil
}

// ask posts an extra request, if there is room.
func (w *peer) ask(e *end) {
	r := w.p.Rand
	if e.trespassed || e.posted-e.completed+len(e.extras) >= w.weather.depth {
		return
	}
	var x extra
	var wr verbs.SendWR
	switch {
	case e.window == nil && r.IntN(2) == 0:
		mw, err := verbs.AllocMW(w.pd, []ib.MWType{ib.MWType1, ib.MWType2}[r.IntN(2)])
		if err != nil {
			w.p.Failf("connection %v: %v", e.link.id, err)
			return
		}
		e.window = mw
		wr = verbs.BindMW(mw, verbs.BindInfo{MR: e.offerMR, Addr: e.offerMR.Addr(), Length: uint64(e.offerMR.Length()), Access: verbs.MWRights})
		x = extra{mw: mw, share: true}
	case e.fidget == nil || r.IntN(2) == 0:
		if e.fidget == nil {
			mw, err := verbs.AllocMW(w.pd, ib.MWType1)
			if err != nil {
				w.p.Failf("connection %v: %v", e.link.id, err)
				return
			}
			e.fidget = mw
		}
		for i := range e.extras {
			if e.extras[i].mw == e.fidget {
				return // its key is about to change
			}
		}
		at := r.IntN(64)
		wr = verbs.BindMW(e.fidget, verbs.BindInfo{MR: w.spareMR, Addr: w.spareMR.Addr() + uint64(at), Length: uint64(r.IntN(64 - at + 1)), Access: verbs.MWRights})
		x = extra{mw: e.fidget}
	default:
		mr, err := w.pd.RegMR(make([]byte, 8), ib.AccessLocalWrite)
		if err != nil {
			w.p.Failf("connection %v: %v", e.link.id, err)
			return
		}
		e.invalid = append(e.invalid, mr)
		wr = verbs.SendWR{Opcode: ib.WRLocalInv, Imm: mr.LKey()}
	}
	x.key = wr.RKey
	wr.WRID, wr.Flags = extraID, verbs.SendSignaled
	if r.IntN(4) == 0 {
		wr.Flags |= verbs.SendFence
	}
	if _, err := e.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		w.inError(e, err)
		return
	}
	e.extras = append(e.extras, x)
	e.asked++
}

// asked takes the completion of an extra request.
func (w *peer) asked(e *end) {
	if len(e.extras) == 0 {
		w.p.Failf("connection %v: a bind or an invalidate completes that was not asked for", e.link.id)
		return
	}
	x := e.extras[0]
	e.extras = e.extras[1:]
	if x.mw == nil {
		return
	}
	if x.mw.RKey() != x.key {
		w.p.Failf("connection %v: a window has the key %#x, and was bound with %#x", e.link.id, x.mw.RKey(), x.key)
	}
	if x.share {
		e.windowKey = x.key
	}
}

// freeExtras frees what extra requests have made. The queue pair is gone, or reset.
func (e *end) freeExtras() error {
	for _, mw := range []verbs.MW{e.window, e.fidget} {
		if mw != nil {
			if err := mw.Close(); err != nil {
				return err
			}
		}
	}
	for _, mr := range e.invalid {
		if err := mr.Close(); err != nil {
			return err
		}
	}
	return nil
}

// busy reports whether an error says that memory can't go because a window is bound to it.
func (e *end) busy(mr verbs.MR, err error) bool {
	return mr == e.offerMR && e.window != nil && errors.Is(err, verbs.ErrBusy)
}
