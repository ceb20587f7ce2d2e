package icm

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// elementCache is the memory of elements of send queues, State.Elements of them: of READs and atomics under way, or of all that is posted
// (State.Posted). The devices count hits and misses of it apart (mlx5's diagnostic counters of the unit RXW, "receive WQE
// cache"), Kalia et al. (ATC 2016, figure 13) see its misses as reads over PCIe, and Husky (NSDI 2023) thrashes it by Sends and by Reads
// alike. Receives are fetched ahead here and do not pass it.
//
// The element of a READ or an atomic is in it until what the answer brought has left for the host: it says where that goes, and what
// waits for PCIe (the counters of unit RXS, "no PXT credits") still needs it.
//
// As long as all fit, none is looked up. From when they do not on, each packet of an answer
// waits for its element, as it does for the queue pair's context, and so does what comes behind it for that queue pair; and where all that is
// posted is in it, each packet to be made does.
type elementCache struct {
	*chip.Chip
	elements func(visit func(at uint64, bytes int, own bool)) // see Memory
	held     int                                              // lines of them
	lines    *lineCache                                       // nil as long as all fit
	used     usedElements
	// The receive side reads elements itself, and so as many at a time as there can be reads of other entries.
	fetches stage.Inflight
}

// Put takes an element in.
func (a *elementCache) Put(now units.Time, at uint64, bytes int) {
	a.clear(now)
	if a.lines != nil {
		a.enter(at, bytes)
		return
	}
	most := int(a.Config.State.Elements / pcie.CacheLine)
	if a.held += LinesOf(bytes); a.held <= most {
		return
	}
	a.lines = newLineCache(most, a.Config.State.Ways)
	a.elements(func(at uint64, bytes int, own bool) {
		if own {
			a.enter(at, bytes)
		}
	})
	a.enter(at, bytes)
}

// Take drops an element that is over, once what its answer brought has left the chip.
func (a *elementCache) Take(until units.Time, at uint64, bytes int) { a.used.add(until, at, bytes) }

// Full reports whether elements have to be looked up.
func (a *elementCache) Full() bool { return a.lines != nil }

// clear drops the elements that are no longer in use.
func (a *elementCache) clear(now units.Time) {
	for e := a.used.next(now); e != nil; e = a.used.next(now) {
		a.Drop(e.at, e.bytes)
	}
}

// Drop drops an element.
func (a *elementCache) Drop(at uint64, bytes int) {
	if a.lines == nil {
		a.held -= LinesOf(bytes)
		return
	}
	a.lines.forget(at, bytes)
}

// usedElements are those whose requests are over, in the order in which what they brought leaves: a ring of a power of two.
type usedElements struct {
	ring    []usedElement
	head, n int
	last    units.Time
}

type usedElement struct {
	until units.Time
	at    uint64
	bytes int
}

func (u *usedElements) add(until units.Time, at uint64, bytes int) {
	if u.n == len(u.ring) {
		ring := make([]usedElement, max(16, 2*len(u.ring)))
		for i := range u.n {
			ring[i] = u.ring[(u.head+i)&(len(u.ring)-1)]
		}
		u.ring, u.head = ring, 0
	}
	u.last = max(u.last, until)
	u.ring[(u.head+u.n)&(len(u.ring)-1)] = usedElement{u.last, at, bytes}
	u.n++
}

// next takes out the oldest that is not in use at now; nil for none.
func (u *usedElements) next(now units.Time) *usedElement {
	if u.n == 0 || u.ring[u.head].until > now {
		return nil
	}
	e := &u.ring[u.head]
	u.head = (u.head + 1) & (len(u.ring) - 1)
	u.n--
	return e
}

// enter needs no write back, as elements do not change.
func (a *elementCache) enter(at uint64, bytes int) {
	for end := at + uint64(bytes); at < end; at += pcie.CacheLine {
		a.lines.touch(at, false)
	}
}
