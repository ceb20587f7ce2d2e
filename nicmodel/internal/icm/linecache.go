package icm

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/units"
)

// lineCache is a set-associative cache of lines of 64 bytes, by their addresses in host memory,
// which are above 0. A hash of the address chooses the set, and of a full set any line goes, by a sequence that
// is the same each time. The hardware's policy is not known. If what was used longest ago went, entries that are used in turns
// would all be displaced before their next use as soon as they are a few more than fit, and published rates over
// queue pairs fall by degrees (docs/nic-figures.md).
//
// Lines of an entry have sets behind each other and mostly the same way in each, so that they go together: a context of
// which a quarter is gone is read again as one that is gone. It allocates when it is made only.
type lineCache struct {
	ways int
	sets uint64
	run  uint64 // lines of an entry that have sets behind each other: a power of two
	last uint64 // the run that a line was last taken in of
	draw uint64 // of the sequence
	all  []line // set after set; of each the newest first, what holds nothing last
}

type line struct {
	at    uint64     // its address, and dirtyLine; 0 is none
	ready units.Time // for the user of the cache: when it is on the chip; 0 at first
}

// dirtyLine in the address says that the line has to be written back.
const dirtyLine = 1

func newLineCache(count, ways int) *lineCache {
	sets, run := max(count/ways, 1), entryLines
	for sets%run != 0 {
		run /= 2
	}
	return &lineCache{ways: ways, sets: uint64(sets / run), run: uint64(run), all: make([]line, sets*ways)}
}

// set returns the lines that the one at an address can be in.
func (l *lineCache) set(at uint64) []line {
	h := at / (pcie.CacheLine * l.run) * 0x9e3779b97f4a7c15
	i, _ := bits.Mul64(h, l.sets)
	first := int(i*l.run+(at/pcie.CacheLine+h>>20)&(l.run-1)) * l.ways
	return l.all[first : first+l.ways]
}

// touch makes a line the newest of its set and reports whether it was there. One that was not
// takes the place of another if the set is full, whose address it returns if that is dirty, else 0.
func (l *lineCache) touch(at uint64, dirty bool) (slot *line, hit bool, displaced uint64) {
	set := l.set(at)
	slot = &set[0]
	if slot.at&^dirtyLine == at { // as mostly
		if dirty {
			slot.at |= dirtyLine
		}
		return slot, true, 0
	}
	k := 1
	for k < len(set) && set[k].at&^dirtyLine != at {
		k++
	}
	if hit = k < len(set); hit {
		found := set[k]
		copy(set[1:k+1], set[:k])
		*slot = found
	} else {
		k = len(set) - 1
		if set[k].at != 0 {
			k = l.victim(at)
		}
		if gone := set[k].at; gone&dirtyLine != 0 {
			displaced = gone &^ dirtyLine
		}
		copy(set[1:k+1], set[:k])
		*slot = line{at: at}
	}
	if dirty {
		slot.at |= dirtyLine
	}
	return slot, hit, displaced
}

// entryLines is the largest entry's, a context's, in lines.
const entryLines = 4

// victim draws a way, the same for lines of an entry that follow each other.
func (l *lineCache) victim(at uint64) int {
	if run := at / (pcie.CacheLine * l.run); run != l.last {
		l.last = run
		l.draw = l.draw*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
	}
	way, _ := bits.Mul64(l.draw, uint64(l.ways))
	return int(way)
}

// find returns the line of an address, nil if it is not there.
func (l *lineCache) find(at uint64) *line {
	set := l.set(at)
	for k := range set {
		if set[k].at&^dirtyLine == at {
			return &set[k]
		}
	}
	return nil
}

// remove forgets a line.
func (l *lineCache) remove(at uint64) {
	set := l.set(at)
	for k := range set {
		if set[k].at&^dirtyLine == at {
			copy(set[k:], set[k+1:])
			set[len(set)-1] = line{}
			return
		}
	}
}

// forget removes the lines of an entry.
func (l *lineCache) forget(at uint64, bytes int) {
	for end := at + uint64(bytes); at < end; at += pcie.CacheLine {
		l.remove(at)
	}
}
