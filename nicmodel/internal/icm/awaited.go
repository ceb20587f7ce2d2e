package icm

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// The receive side has a memory of its own for elements: those of receives, and of Reads and atomics whose answers
// are to come, which say where these go. The devices count hits and misses of it apart (mlx5's diagnostic counters of
// the unit RXW, "receive WQE cache"), and Husky (NSDI 2023) thrashes it by Sends and by Reads alike. Receives are
// fetched ahead here and do not pass it.

// awaitedElements is the elements of requests that await answers, State.Elements of them: from when they are decoded, if
// their queue pair may have as many outstanding, until what the answer brought has left for the host. What waits there for PCIe (the counters of unit
// RXS, "no PXT credits") still needs them.
//
// As long as all fit, none is looked up. From when they do not on, each packet of an answer
// waits for its element, as it does for the queue pair's context, and so does what comes behind it for that queue pair.
type awaitedElements struct {
	*chip.Chip
	elements func(visit func(at uint64, bytes int, started, awaited bool)) // see state
	held     int                                                           // lines of them
	lines    *lineCache                                                    // nil as long as all fit
	used     usedElements
	// The receive side reads elements itself, and so as many at a time as there can be reads of other entries.
	fetches stage.Inflight
}

// Put takes an element in.
func (a *awaitedElements) Put(now units.Time, at uint64, bytes int) {
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
	a.elements(func(at uint64, bytes int, _, awaited bool) {
		if awaited {
			a.enter(at, bytes)
		}
	})
}

// Take drops an element that is over, once what its answer brought has left the chip.
func (a *awaitedElements) Take(until units.Time, at uint64, bytes int) { a.used.add(until, at, bytes) }

// Full reports whether elements have to be looked up.
func (a *awaitedElements) Full() bool { return a.lines != nil }

// clear drops the elements that are no longer in use.
func (a *awaitedElements) clear(now units.Time) {
	for e := a.used.next(now); e != nil; e = a.used.next(now) {
		if a.lines == nil {
			a.held -= LinesOf(e.bytes)
			continue
		}
		for at, end := e.at, e.at+uint64(e.bytes); at < end; at += pcie.CacheLine {
			a.lines.remove(at)
		}
	}
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
func (a *awaitedElements) enter(at uint64, bytes int) {
	for end := at + uint64(bytes); at < end; at += pcie.CacheLine {
		a.lines.touch(at, false)
	}
}
