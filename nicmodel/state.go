package nicmodel

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// entryKind is a kind of what the memory on the chip holds.
type entryKind uint8

const (
	entryContext entryKind = iota // a queue pair's context, and its resources for answers
	entryKey
	entryPages
	entryElement
	entryAwaited
	numEntries
)

// entryKinds say what the kinds are called, what reading them is for, and whether use changes them.
var entryKinds = [numEntries]struct {
	name  string
	why   pcie.Purpose
	dirty bool
}{{"contexts", pcie.ForContext, true}, {"keys", pcie.ForTranslation, false}, {"pages", pcie.ForTranslation, false}, {"wqe", pcie.ForWQE, false}, {"awaited wqe", pcie.ForWQE, false}}

// Where the tables lie in host memory, above all regions and queues. Elements have an address here
// beside the one in their queue.
const (
	contextTable  = addressTop + 1<<60
	keyTable      = contextTable + 1<<59
	pageTable     = keyTable + 1<<58
	elementTable  = pageTable + 1<<57
	resourceTable = elementTable + 1<<56
)

// What a second port has lies so much further on.
const (
	portTables    = 1 << 54
	portAddresses = 1 << 60
)

// state is that memory.
//
// What a command of the driver writes, a new context or a region's translations, and the elements that
// the NIC reads are in it as long as there is room for all that there is. So a NIC on whose chip
// everything fits has nothing to look up. From when it does not on, what is used is looked up, and fetched.
type state struct {
	*chip.Chip
	ports []*queuePairs

	written []span     // by commands, while all fits
	held    int        // lines of it, and of elements
	lines   *lineCache // nil as long as all fits
	awaited awaitedElements
	fetches stage.Inflight
	uses    [numEntries]entryUse
	back    []uint64 // lines to write back
}

// span is lines that lie behind each other.
type span struct {
	first uint64
	n     int
}

type entryUse struct {
	hits, misses uint64
	waited       units.Time // summed over what did
}

func newState(on *chip.Chip) *state {
	return &state{Chip: on, awaited: awaitedElements{Chip: on, fetches: stage.NewInflight(on.Config.State.Fetches)}, fetches: stage.NewInflight(on.Config.State.Fetches)}
}

// full reports whether entries have to be looked up.
func (s *state) full() bool { return s.lines != nil }

func linesOf(bytes int) int { return (bytes + pcie.CacheLine - 1) / pcie.CacheLine }

// write says that a command has written entries.
func (s *state) write(first uint64, bytes int) {
	if s.Config.State.Bytes == 0 || s.lines != nil {
		return
	}
	if n := linesOf(bytes); s.hold(n) {
		s.written = append(s.written, span{first, n})
	}
}

// hold counts lines that are on the chip and reports whether all still fits. If not, what was
// there before is in the cache from now on, as far as its sets have room.
func (s *state) hold(n int) bool {
	most := int(s.Config.State.Bytes / pcie.CacheLine)
	if s.held+n <= most {
		s.held += n
		return true
	}
	s.lines = newLineCache(most, s.Config.State.Ways)
	for _, w := range s.written {
		for i := range w.n {
			s.lines.touch(w.first+uint64(i)*pcie.CacheLine, w.first >= contextTable && w.first < keyTable)
		}
	}
	for _, pairs := range s.ports {
		for _, q := range pairs.all {
			if q == nil {
				continue
			}
			for i := q.reaped; i != q.handed; i++ {
				if w := q.wqe(i); !w.started || !w.awaited {
					s.enter(q.elementAt(i), q.wqeBytes(w))
				}
			}
		}
	}
	s.written, s.held = nil, 0
	return false
}

// erase says that a command has taken entries away.
func (s *state) erase(first uint64, bytes int) {
	if s.lines != nil {
		s.forget(first, bytes)
		return
	}
	for i := range s.written {
		if s.written[i].first == first {
			s.held -= s.written[i].n
			s.written[i] = s.written[len(s.written)-1]
			s.written = s.written[:len(s.written)-1]
			return
		}
	}
}

// put takes an element in that has come with its doorbell or was read.
func (s *state) put(at uint64, bytes int) {
	switch {
	case s.lines != nil:
		s.enter(at, bytes)
	case s.Config.State.Bytes > 0:
		if !s.hold(linesOf(bytes)) {
			s.enter(at, bytes)
		}
	}
}

// take drops an element that is over.
func (s *state) take(at uint64, bytes int) {
	switch {
	case s.lines != nil:
		s.forget(at, bytes)
	case s.Config.State.Bytes > 0:
		s.held -= linesOf(bytes)
	}
}

// enter has what the NIC has read anyway in the cache.
func (s *state) enter(at uint64, bytes int) {
	for end := at + uint64(bytes); at < end; at += pcie.CacheLine {
		if _, _, displaced := s.lines.touch(at, false); displaced != 0 {
			s.Link.Write(s.Now(), displaced, pcie.CacheLine, pcie.ForContext)
		}
	}
}

func (s *state) forget(at uint64, bytes int) {
	for end := at + uint64(bytes); at < end; at += pcie.CacheLine {
		s.lines.remove(at)
	}
}

// fetching is the time of a line that is being read, until that is known.
const fetching = units.Never

// need returns when an entry that is needed at t is available, of so many bytes at an address of its table
// and at from in host memory. For a miss it also returns when its read could start: until then the
// maximum number of reads was under way. Not all fits on the chip.
func (s *state) need(t units.Time, kind entryKind, at, from uint64, bytes int) (ready, free units.Time) {
	return s.needIn(s.lines, &s.fetches, t, kind, at, from, bytes)
}

// needIn is need of one of the memories.
func (s *state) needIn(lines *lineCache, fetches *stage.Inflight, t units.Time, kind entryKind, at, from uint64, bytes int) (ready, free units.Time) {
	u, k := &s.uses[kind], &entryKinds[kind]
	missing, end := 0, at+uint64(bytes)
	ready = t
	for l := at; l < end; l += pcie.CacheLine {
		slot, hit, displaced := lines.touch(l, k.dirty)
		if hit {
			ready = max(ready, slot.ready) // it may be under way
		} else {
			slot.ready = fetching
			missing++
		}
		if displaced != 0 {
			s.back = append(s.back, displaced)
		}
	}
	if missing == 0 {
		u.hits++
		u.waited += ready - t
		return ready, t
	}
	u.misses++
	free = fetches.Free(t)
	// Its room on the link is taken now. If it has to wait to be read, it will not wait
	// for what is on the link now as well.
	done := max(s.Link.Read(t, from, missing*pcie.CacheLine, k.why), free+s.Link.Alone(missing*pcie.CacheLine))
	for _, l := range s.back {
		s.Link.Write(t, l, pcie.CacheLine, pcie.ForContext)
	}
	s.back = s.back[:0]
	fetches.Hold(done)
	for l := at; l < end; l += pcie.CacheLine {
		if slot := lines.find(l); slot != nil && slot.ready == fetching {
			slot.ready = done
		}
	}
	ready = max(ready, done)
	u.waited += ready - t
	return ready, free
}
