package icm

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
)

// elementCache is the cache of work queue elements (State.Elements). The devices count hits and misses of it apart (mlx5's
// diagnostic counters, "receive WQE cache"); Kalia et al. (ATC 2016, figure 13) see its misses as reads over PCIe as
// soon as a few hundred requests are posted, and Husky (NSDI 2023) thrashes it by Sends and by Reads alike. Receives are
// fetched ahead here and do not pass it.
//
// An element is in it from when it has come, with its doorbell or by a read: of a Write or a Send until its last packet is made, of a Read
// or an atomic until the answer has come, since it says where that goes.
//
// As long as all fit, none is looked up. From when they do not on, a packet to be made waits for its element, and each packet of an answer
// does, as it does for the queue pair's context, and so does what comes behind it for that queue pair.
type elementCache struct {
	*chip.Chip
	elements func(visit func(at uint64, bytes int)) // see Memory
	held     int                                    // lines of them
	lines    *lineCache                             // nil as long as all fit
	// The receive side reads elements itself, and so as many at a time as there can be reads of other entries.
	fetches stage.Inflight
}

// put takes an element in.
func (a *elementCache) put(at uint64, bytes int) {
	if a.lines != nil {
		a.enter(at, bytes)
		return
	}
	most := int(a.Config.State.Elements / pcie.CacheLine)
	if a.held += LinesOf(bytes); a.held <= most {
		return
	}
	a.lines = newLineCache(most, a.Config.State.Ways)
	a.elements(a.enter)
	a.enter(at, bytes)
}

// take drops an element.
func (a *elementCache) take(at uint64, bytes int) {
	if a.lines == nil {
		a.held -= LinesOf(bytes)
		return
	}
	for end := at + uint64(bytes); at < end; at += pcie.CacheLine {
		a.lines.remove(at)
	}
}

// enter needs no write back, as elements do not change.
func (a *elementCache) enter(at uint64, bytes int) {
	for end := at + uint64(bytes); at < end; at += pcie.CacheLine {
		a.lines.touch(at, false)
	}
}
