package memory

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

// Owner identifies the user of memory: a queue pair and its protection domain.
type Owner struct{ PD, QPN uint32 }

// windowIndex is the first index of windows' keys.
const windowIndex = 1 << 23

// allocWindow makes a window that is bound to nothing, and returns its key.
func (m *Regions) allocWindow(pd uint32, t ib.MWType) (key uint32, err error) {
	if t != ib.MWType1 && t != ib.MWType2 {
		return 0, fmt.Errorf("a window of %v: there are types 1 and 2", t)
	}
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

// deallocWindow ends a window, of which key is any key.
func (m *Regions) deallocWindow(key uint32) {
	if w := m.windowAt(key); w != nil {
		*w = window{key: ib.IncRKey(w.key)}
		m.freeWindows = append(m.freeWindows, key>>8&^windowIndex)
	}
}

// windowKey returns the key that a window has now, of which key is any.
func (m *Regions) windowKey(key uint32) uint32 {
	if w := m.windowAt(key); w != nil {
		return w.key
	}
	return key
}

// windowsOf counts the windows that are bound to a region.
func (m *Regions) windowsOf(region uint32) int {
	count := 0
	for i := range m.windows {
		if w := &m.windows[i]; w.live && w.bound == region {
			count++
		}
	}
	return count
}

// windowAt finds a window by any of its keys.
func (m *Regions) windowAt(key uint32) *window {
	i := key >> 8
	if i < windowIndex || int(i-windowIndex) >= len(m.windows) || !m.windows[i-windowIndex].live {
		return nil
	}
	return &m.windows[i-windowIndex]
}

// bound finds a bound window by its key.
func (m *Regions) boundWindow(key uint32) *window {
	if w := m.windowAt(key); w != nil && w.bound != 0 && w.key == key {
		return w
	}
	return nil
}

// Remote is check for what a queue pair's peer names, by a region's key or a window's.
func (m *Regions) Remote(by Owner, key uint32, addr, n uint64, want ib.AccessFlags) *Extent {
	if r := m.check(key, by.PD, addr, n, want); r != nil || len(m.windows) == 0 {
		return r
	}
	w := m.boundWindow(key)
	switch {
	case w == nil, w.pd != by.PD, w.kind == ib.MWType2 && w.qpn != by.QPN, w.access&want != want:
		return nil
	case addr < w.base || n > w.length || addr-w.base > w.length-n:
		return nil
	}
	return m.Find(w.bound)
}

// Bind carries out a request that binds a window, and reports whether it may.
func (m *Regions) Bind(by Owner, r *rc.Request) bool {
	w := m.windowAt(r.RKey)
	if w == nil || w.pd != by.PD || r.RKey == w.key {
		return false // with the key that it had, nobody could tell the two binds apart
	}
	length, bound := r.Compare, uint32(0)
	if w.kind == ib.MWType2 && (w.bound != 0 || length == 0) {
		return false
	}
	if length > 0 {
		region, access := m.check(uint32(r.Swap), by.PD, r.RemoteAddr, length, ib.AccessMWBind), ib.AccessFlags(r.Imm)
		if region == nil || access&^ib.AccessRemoteRead != 0 && region.Access&ib.AccessLocalWrite == 0 {
			return false
		}
		bound = region.Key
	}
	w.key, w.bound, w.qpn = r.RKey, bound, by.QPN
	w.base, w.length, w.access = r.RemoteAddr, length, ib.AccessFlags(r.Imm)
	return true
}

// Unbind ends the key of a queue pair's own window, of type 2, and reports whether it is one.
func (m *Regions) Unbind(by Owner, key uint32) bool {
	w := m.boundWindow(key)
	if w == nil || w.kind != ib.MWType2 || w.qpn != by.QPN {
		return false
	}
	w.bound = 0
	return true
}

// UnbindAll ends the keys of all windows of type 2 of a queue pair.
func (m *Regions) UnbindAll(qpn uint32) {
	for i := range m.windows {
		if w := &m.windows[i]; w.kind == ib.MWType2 && w.qpn == qpn {
			w.bound = 0
		}
	}
}
