package icm

import (
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// entryKind is a kind of entry in the memory on the chip.
type entryKind uint8

// Kinds of entries.
const (
	EntryContext entryKind = iota // a queue pair's context, and its resources for answers
	EntryKey
	EntryPages
	EntryElement
	entryAwaited
	numEntries
)

// entryKinds say what the kinds are called, what reading them is for, and whether use changes them.
var entryKinds = [numEntries]struct {
	name  string
	why   pcie.Purpose
	dirty bool
}{{"contexts", pcie.ForContext, true}, {"keys", pcie.ForTranslation, false}, {"pages", pcie.ForTranslation, false}, {"wqe", pcie.ForWQE, false}, {"awaited wqe", pcie.ForWQE, false}}

// AddressTop is above all regions: from there on lie queues, and the tables.
const AddressTop = 1 << 62

// Where the tables lie in host memory, above all regions and queues. Elements have an address here
// beside the one in their queue.
const (
	ContextTable  = AddressTop + 1<<60
	KeyTable      = ContextTable + 1<<59
	PageTable     = KeyTable + 1<<58
	ElementTable  = PageTable + 1<<57
	ResourceTable = ElementTable + 1<<56
)

// What a second port has lies so much further on.
const (
	PortTables    = 1 << 54
	PortAddresses = 1 << 60
)

// Memory is the memory on the chip (config.State).
//
// What a command of the driver writes, a new context or a region's translations, and the elements that
// the NIC reads are in it as long as there is room for all that there is. So a NIC on whose chip
// everything fits has nothing to look up. From when it does not on, what is used is looked up, and fetched.
type Memory struct {
	*chip.Chip
	// elements visits the elements on the chip: where each is and how long, and whether it is in the memory of elements (own) or
	// in that of all else.
	elements func(visit func(at uint64, bytes int, own bool))

	written  []span     // by commands, while all fits
	held     int        // lines of it, and of elements
	lines    *lineCache // nil as long as all fits
	Elements elementCache
	fetches  stage.Inflight
	// unbounded has no places: see NeedPosted.
	unbounded stage.Inflight
	uses      [numEntries]entryUse
	back      []uint64 // lines to write back
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

// New is empty, and takes in all until it is full. Then elements visits the elements that are there.
func New(on *chip.Chip, elements func(visit func(at uint64, bytes int, own bool))) *Memory {
	fetches := func() stage.Inflight { return stage.NewInflight(on.Config.State.Fetches) }
	return &Memory{Chip: on, elements: elements, Elements: elementCache{Chip: on, elements: elements, fetches: fetches()}, fetches: fetches()}
}

// Full reports whether entries have to be looked up.
func (s *Memory) Full() bool { return s.lines != nil }

// LinesOf returns the number of cache lines that hold n bytes.
func LinesOf(bytes int) int { return (bytes + pcie.CacheLine - 1) / pcie.CacheLine }

// Write says that a command has written entries.
func (s *Memory) Write(first uint64, bytes int) {
	if s.Config.State.Bytes == 0 || s.lines != nil {
		return
	}
	if n := LinesOf(bytes); s.hold(n) {
		s.written = append(s.written, span{first, n})
	}
}

// hold counts lines that are on the chip and reports whether all still fits. If not, what was
// there before is in the cache from now on, as far as its sets have room.
func (s *Memory) hold(n int) bool {
	most := int(s.Config.State.Bytes / pcie.CacheLine)
	if s.held+n <= most {
		s.held += n
		return true
	}
	s.lines = newLineCache(most, s.Config.State.Ways)
	for _, w := range s.written {
		for i := range w.n {
			s.lines.touch(w.first+uint64(i)*pcie.CacheLine, w.first >= ContextTable && w.first < KeyTable)
		}
	}
	s.elements(func(at uint64, bytes int, own bool) {
		if !own {
			s.enter(at, bytes)
		}
	})
	s.written, s.held = nil, 0
	return false
}

// Erase says that a command has taken entries away.
func (s *Memory) Erase(first uint64, bytes int) {
	if s.lines != nil {
		s.lines.forget(first, bytes)
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

// Put takes an element in that has come with its doorbell or was read.
func (s *Memory) Put(at uint64, bytes int) {
	switch {
	case s.lines != nil:
		s.enter(at, bytes)
	case s.Config.State.Bytes > 0:
		if !s.hold(LinesOf(bytes)) {
			s.enter(at, bytes)
		}
	}
}

// Take drops an element that is over.
func (s *Memory) Take(at uint64, bytes int) {
	switch {
	case s.lines != nil:
		s.lines.forget(at, bytes)
	case s.Config.State.Bytes > 0:
		s.held -= LinesOf(bytes)
	}
}

// enter puts into the cache what the NIC has read anyway.
func (s *Memory) enter(at uint64, bytes int) {
	for end := at + uint64(bytes); at < end; at += pcie.CacheLine {
		if _, _, displaced := s.lines.touch(at, false); displaced != 0 {
			s.Link.Write(s.Now(), displaced, pcie.CacheLine, pcie.ForContext)
		}
	}
}

// fetching is the time of a line that is being read, until that is known.
const fetching = units.Never

// Need returns when an entry of bytes bytes is available that is needed at t, from address at of its table
// and from in host memory.
// maximum number of reads was under way. Not all fits on the chip.
func (s *Memory) Need(t units.Time, kind entryKind, at, from uint64, bytes int) (ready, free units.Time) {
	return s.needIn(s.lines, &s.fetches, t, kind, at, from, bytes)
}

// NeedAwaited is Need of the element of a request whose answer has come, in the memory of elements.
func (s *Memory) NeedAwaited(t units.Time, at, from uint64, bytes int) (ready, free units.Time) {
	return s.needIn(s.Elements.lines, &s.Elements.fetches, t, entryAwaited, at, from, bytes)
}

// NeedPosted is Need of an element in the memory of elements of which a packet is made. Stage wqe reads it, as it does those whose doorbells
// have come: as many at a time as PCIe has tags for.
func (s *Memory) NeedPosted(t units.Time, at, from uint64, bytes int) (ready units.Time) {
	ready, _ = s.needIn(s.Elements.lines, &s.unbounded, t, EntryElement, at, from, bytes)
	return ready
}

// Fetchable returns from when on, t or later, an entry can be read.
func (s *Memory) Fetchable(t units.Time) units.Time { return s.fetches.Free(t) }

// LinesHeld reports how many lines are held at now in the memory and in that of elements, as long as nothing has to be looked up in them.
func (s *Memory) LinesHeld(now units.Time) (shared, elements int) {
	s.Elements.clear(now)
	if s.lines == nil {
		shared = s.held
	}
	if s.Elements.lines == nil {
		elements = s.Elements.held
	}
	return shared, elements
}

// CacheUse reports the lookups until now, by kind.
func (s *Memory) CacheUse() (all []stage.CacheUse) {
	for i, u := range s.uses {
		all = append(all, stage.CacheUse{Cache: entryKinds[i].name, Hits: u.hits, Misses: u.misses})
	}
	return all
}

// Waits reports how long lookups have waited until now.
func (s *Memory) Waits() (all []stage.Wait) {
	for i, u := range s.uses {
		all = append(all, stage.Wait{Where: entryKinds[i].name, For: "an entry in host memory", Total: u.waited})
	}
	return all
}

// needIn is need of one of the memories.
func (s *Memory) needIn(lines *lineCache, fetches *stage.Inflight, t units.Time, kind entryKind, at, from uint64, bytes int) (ready, free units.Time) {
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
