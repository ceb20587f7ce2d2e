package nicmodel

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
)

// window is a memory window (IBA 10.6.7): a key by which peers reach a part of a region,
// with rights of its own. A window of type 2 is of type 2B: a queue pair's. Its keys have
// an index above all regions', and in the lowest eight bits what the application chose.
type window struct {
	kind         ib.MWType
	pd           uint32
	key          uint32 // of the newest bind
	bound        uint32 // the key of the region, 0 for none
	qpn          uint32 // of type 2: that bound it
	base, length uint64
	access       ib.AccessFlags
	live         bool
}

// windowIndex is the first index of windows' keys.
const windowIndex = 1 << 23

// AllocMW makes a window that is bound to nothing, and returns its key.
func (n *NIC) AllocMW(pd uint32, t ib.MWType) (key uint32, err error) {
	if t != ib.MWType1 && t != ib.MWType2 {
		return 0, fmt.Errorf("a window of %v: there are types 1 and 2", t)
	}
	m := &n.regions
	var i uint32
	if k := len(m.freeWindows); k > 0 {
		i, m.freeWindows = m.freeWindows[k-1], m.freeWindows[:k-1]
	} else {
		i = uint32(len(m.windows))
		m.windows = append(m.windows, window{key: (windowIndex | i) << 8})
	}
	m.windows[i] = window{kind: t, pd: pd, key: m.windows[i].key, live: true}
	return m.windows[i].key, nil
}

// DeallocMW ends a window, of which key is any key.
func (n *NIC) DeallocMW(key uint32) {
	m := &n.regions
	if w := m.windowAt(key); w != nil {
		*w = window{key: ib.IncRKey(w.key)}
		m.freeWindows = append(m.freeWindows, key>>8&^windowIndex)
	}
}

// WindowKey returns the key that a window has now, of which key is any.
func (n *NIC) WindowKey(key uint32) uint32 {
	if w := n.regions.windowAt(key); w != nil {
		return w.key
	}
	return key
}

// Windows counts the windows that are bound to a region.
func (n *NIC) Windows(region uint32) int {
	count := 0
	for i := range n.regions.windows {
		if w := &n.regions.windows[i]; w.live && w.bound == region {
			count++
		}
	}
	return count
}

// windowAt finds a window by any of its keys.
func (m *memory) windowAt(key uint32) *window {
	i := key >> 8
	if i < windowIndex || int(i-windowIndex) >= len(m.windows) || !m.windows[i-windowIndex].live {
		return nil
	}
	return &m.windows[i-windowIndex]
}

// bound finds a bound window by its key.
func (m *memory) boundWindow(key uint32) *window {
	if w := m.windowAt(key); w != nil && w.bound != 0 && w.key == key {
		return w
	}
	return nil
}

// remote is check for what a queue pair's peer names, by a region's key or a window's.
func (m *memory) remote(q *qp, key uint32, addr, n uint64, want ib.AccessFlags) *region {
	if r := m.check(key, q.cfg.PD, addr, n, want); r != nil || len(m.windows) == 0 {
		return r
	}
	w := m.boundWindow(key)
	switch {
	case w == nil, w.pd != q.cfg.PD, w.kind == ib.MWType2 && w.qpn != q.num, w.access&want != want:
		return nil
	case addr < w.base || n > w.length || addr-w.base > w.length-n:
		return nil
	}
	return m.region(w.bound)
}

// bind carries out a request that binds a window, and reports whether it may.
func (m *memory) bind(q *qp, r *rc.Request) bool {
	w := m.windowAt(r.RKey)
	if w == nil || w.pd != q.cfg.PD || r.RKey == w.key {
		return false // with the key that it had, nobody could tell the two binds apart
	}
	length, bound := r.Compare, uint32(0)
	if w.kind == ib.MWType2 && (w.bound != 0 || length == 0) {
		return false
	}
	if length > 0 {
		region, access := m.check(uint32(r.Swap), q.cfg.PD, r.RemoteAddr, length, ib.AccessMWBind), ib.AccessFlags(r.Imm)
		if region == nil || access&^ib.AccessRemoteRead != 0 && region.access&ib.AccessLocalWrite == 0 {
			return false
		}
		bound = region.key
	}
	w.key, w.bound, w.qpn = r.RKey, bound, q.num
	w.base, w.length, w.access = r.RemoteAddr, length, ib.AccessFlags(r.Imm)
	return true
}

// unbind ends the key of a queue pair's own window, of type 2, and reports whether it is one.
func (m *memory) unbind(q *qp, key uint32) bool {
	w := m.boundWindow(key)
	if w == nil || w.kind != ib.MWType2 || w.qpn != q.num {
		return false
	}
	w.bound = 0
	return true
}

// unbindAll ends the keys of all windows of type 2 of a queue pair.
func (m *memory) unbindAll(q *qp) {
	for i := range m.windows {
		if w := &m.windows[i]; w.kind == ib.MWType2 && w.qpn == q.num {
			w.bound = 0
		}
	}
}
