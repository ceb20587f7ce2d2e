package memory

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/icm"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/units"
)

const (
	keyBytes  = 64
	pageBytes = 8
	perLine   = pcie.CacheLine / pageBytes
)

// Translation looks up those entries.
type Translation struct {
	*chip.Chip
	regions   *Regions
	state     *icm.Memory
	HeldUntil units.Time // until when packets can't be taken, since too many entries are being read
}

// NewTranslation has nothing to look up.
func NewTranslation(on *chip.Chip, regions *Regions, state *icm.Memory) Translation {
	return Translation{Chip: on, regions: regions, state: state}
}

func (x *Translation) keyAddr(key uint32) uint64 {
	return icm.KeyTable + x.Tables + uint64(key>>8)*keyBytes
}

// lines returns how many lines a region's pages take.
func (r *Extent) lines() int {
	pages := (r.length + r.page - 1) / r.page
	return int((pages + perLine - 1) / perLine)
}

// enter says that a region has been registered, of that page size.
func (x *Translation) enter(key uint32, page uint64) {
	r := x.regions.Find(key)
	r.page, r.table = page, icm.PageTable+x.regions.tables
	lines := r.lines()
	x.regions.tables += uint64(lines) * pcie.CacheLine
	x.state.Write(x.keyAddr(key), keyBytes)
	x.state.Write(r.table, lines*pcie.CacheLine)
}

// Forget takes a region away and reports whether its key was valid.
func (x *Translation) Forget(key uint32) bool {
	x.erase(key)
	return x.regions.deregister(key)
}

// Invalidate ends a region's key and reports whether it was valid.
func (x *Translation) Invalidate(key uint32) bool {
	valid := x.erase(key)
	if valid {
		x.regions.invalidate(key)
	}
	return valid
}

// erase erases the translations of a region whose key is valid, and reports whether it is.
func (x *Translation) erase(key uint32) bool {
	r := x.regions.Find(key)
	if r == nil {
		return false
	}
	x.state.Erase(x.keyAddr(key), keyBytes)
	x.state.Erase(r.table, r.lines()*pcie.CacheLine)
	return true
}

// Active reports whether translations may have to be waited for.
func (x *Translation) Active() bool { return x.state.Full() }

// Reach returns when length bytes of a region, within its bounds, can be accessed
// that are needed at t. Translation is active. The first page begins at the region's address.
func (x *Translation) Reach(t units.Time, r *Extent, addr, length uint64) units.Time {
	known, _ := x.state.Need(t, icm.EntryKey, x.keyAddr(r.Key), x.keyAddr(r.Key), keyBytes)
	const line = perLine
	first, last := (addr-r.base)/r.page/line, (addr-r.base+max(length, 1)-1)/r.page/line
	done := known
	for i := first; i <= last; i++ {
		at := r.table + i*pcie.CacheLine
		ready, _ := x.state.Need(t, icm.EntryPages, at, at, pcie.CacheLine)
		if known > t && ready > t { // read after the key
			ready = max(ready, known+x.Link.Alone(pcie.CacheLine))
		}
		done = max(done, ready)
	}
	return done
}

// List is region for the pieces of a list that hold length bytes from offset
// on. What may not be accessed takes no time.
func (x *Translation) List(t units.Time, pd uint32, sgl []SGE, offset uint32, length int) units.Time {
	done := t
	x.regions.Walk(pd, sgl, offset, length, 0, func(r *Extent, addr, size uint64, _ int) {
		done = max(done, x.Reach(t, r, addr, size))
	})
	return done
}

// Fetchable returns from when on, t or later, an entry can be read.
func (x *Translation) Fetchable(t units.Time) units.Time { return x.state.Fetchable(t) }

// HoldBack has receiving wait while the translation of what was received is known later than now, and no other
// could be read.
func (x *Translation) HoldBack(now, known units.Time) {
	if known > now {
		x.HeldUntil = x.state.Fetchable(now)
	}
}
