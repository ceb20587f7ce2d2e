package endpoint

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// MW is a memory window (IBA 10.6.7). Its keys are those with its index in the upper 24
// bits, all of which are its own as long as it exists; its lowest eight bits are the
// application's. A window of type 2 is of type 2B: a queue pair's.
type MW struct {
	pd     *PD
	kind   ib.MWType
	key    uint32 // of the newest bind
	mr     *MR    // that it is bound to, or nil
	qp     *QP    // of type 2: that bound it
	base   uint64
	size   uint64
	access ib.AccessFlags
	gone   bool
}

// AllocMW makes a window that is bound to nothing.
func (p *PD) AllocMW(t ib.MWType) (*MW, error) {
	e := p.e
	switch {
	case p.gone:
		return nil, verbs.Errorf("alloc_mw", e.cfg.Name, verbs.ErrClosed, "the protection domain is deallocated")
	case t != ib.MWType1 && t != ib.MWType2:
		return nil, verbs.Errorf("alloc_mw", e.cfg.Name, verbs.ErrInvalid, "a window of %v: there are types 1 and 2", t)
	}
	key, err := e.newWindowKey()
	if err != nil {
		return nil, verbs.Errorf("alloc_mw", e.cfg.Name, err, "no random key")
	}
	w := &MW{pd: p, kind: t, key: key}
	e.windows.put(key>>8, w)
	p.users++
	return w, nil
}

// newWindowKey draws a key of which no other with its index is in use.
func (e *Endpoint) newWindowKey() (uint32, error) {
	for {
		r, err := e.random()
		if err != nil {
			return 0, err
		}
		if key := uint32(r); key>>8 != 0 && e.windows.get(key>>8) == nil && !e.regionOf(key>>8) {
			return key, nil
		}
	}
}

// regionOf reports whether a region has a key with that index.
func (e *Endpoint) regionOf(index uint32) bool {
	for low := range uint32(256) {
		if e.regions.get(index<<8|low) != nil {
			return true
		}
	}
	return false
}

// Type is the window's type.
func (w *MW) Type() ib.MWType { return w.kind }

// Key is the R_Key of the newest bind.
func (w *MW) Key() uint32 { return w.key }

// Close ends the window's key.
func (w *MW) Close() error {
	if w.gone {
		return verbs.Errorf("dealloc_mw", w.pd.e.cfg.Name, verbs.ErrClosed, "the window was deallocated before")
	}
	w.unbind()
	w.gone = true
	w.pd.e.windows.remove(w.key >> 8)
	w.pd.users--
	return nil
}

// unbind ends the window's key, if it is bound.
func (w *MW) unbind() {
	if w.mr == nil {
		return
	}
	w.mr.windows--
	if w.qp != nil {
		w.qp.windows--
	}
	w.mr, w.qp = nil, nil
}

// unbindWindows ends the keys that a queue pair bound.
func (q *QP) unbindWindows() {
	slots := q.e.windows.slots
	for i := 0; i < len(slots) && q.windows > 0; i++ {
		if w := slots[i].v; w != nil && w.qp == q {
			w.unbind()
		}
	}
}

// window finds a bound window by its key.
func (e *Endpoint) window(key uint32) *MW {
	if w := e.windows.get(key >> 8); w != nil && w.mr != nil && w.key == key {
		return w
	}
	return nil
}

// remote is region for what a queue pair's peer names, by a region's key or a window's.
func (e *Endpoint) remote(q *QP, key uint32, addr, n uint64, want ib.AccessFlags) *MR {
	if m := e.region(key, q.pd, addr, n, want); m != nil || e.windows.n == 0 {
		return m
	}
	w := e.window(key)
	switch {
	case w == nil, w.pd != q.pd, w.kind == ib.MWType2 && w.qp != q, w.access&want != want:
		return nil
	case addr < w.base || n > w.size || addr-w.base > w.size-n:
		return nil
	case !w.mr.live || want&^ib.AccessRemoteRead != 0 && w.mr.access&ib.AccessLocalWrite == 0:
		return nil // since the bind
	}
	return w.mr
}

// bind carries out a request that binds a window, and reports whether it may.
func (e *Endpoint) bind(q *QP, r *wqe) bool {
	w := e.windows.get(r.rkey >> 8)
	if w == nil || w.pd != q.pd || r.rkey == w.key {
		return false // with the key that it had, nobody could tell the two binds apart
	}
	addr, length := r.remoteAddr, r.compare
	switch {
	case w.kind == ib.MWType2 && (w.mr != nil || length == 0):
		return false
	case length == 0:
		w.unbind()
		w.key = r.rkey
		return true
	}
	m, access := e.region(uint32(r.swap), q.pd, addr, length, ib.AccessMWBind), ib.AccessFlags(r.imm)
	if m == nil || access&^ib.AccessRemoteRead != 0 && m.access&ib.AccessLocalWrite == 0 {
		return false
	}
	w.unbind()
	w.key, w.mr, w.base, w.size, w.access = r.rkey, m, addr, length, access
	m.windows++
	if w.kind == ib.MWType2 {
		w.qp = q
		q.windows++
	}
	return true
}

// invalidate takes a key away for a queue pair, or for its peer, and reports whether it may:
// its own windows of type 2, and regions, for a peer only if they allow it.
func (e *Endpoint) invalidate(q *QP, key uint32, peer bool) bool {
	if m := e.regions.get(key); m != nil {
		if m.pd != q.pd || peer && m.access&ib.AccessRemoteInvalidate == 0 {
			return false
		}
		m.invalidate()
		return true
	}
	w := e.window(key)
	if w == nil || w.qp != q {
		return false
	}
	w.unbind()
	return true
}
