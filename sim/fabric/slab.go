package fabric

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-rdma/sluice/internal/hugepages"
	"github.com/sluice-rdma/sluice/units"
)

// slab is the memory of packets, of what waits and flies, and of per-hop records.
// It is in blocks that never move, so that lanes use it side by side; only what
// hands out more of it takes a lock. Nothing in it is a pointer.
type slab struct {
	packets [maxBlocks]*[blockPackets]Packet
	records [maxBlocks]atomic.Pointer[[blockPackets]records]
	asides  [maxBlocks]atomic.Pointer[[blockPackets]aside]
	chunks  [maxBlocks]*[blockChunks]chunk

	mu         sync.Mutex
	slots      uint32   // packets handed to lanes so far; 0 is no packet
	freeSlots  []Handle // of these, returned by lanes
	chunkCount uint32
	freeChunks []uint32

	// Blocks that are not yet in use.
	packetBlocks [][blockPackets]Packet
	recordBlocks [][blockPackets]records
	asideBlocks  [][blockPackets]aside
	chunkBlocks  [][blockChunks]chunk
}

// spare returns blocks not yet in use, at least one. The first calls return few
// blocks. A caller that has used several gets many at a time, in large pages; pages
// that are not touched cost nothing.
func spare[T any](blocks []T, used uint32) []T {
	switch {
	case len(blocks) > 0:
		return blocks
	case used < 32:
		return make([]T, 1)
	}
	return hugepages.Slice[T](64)
}

const (
	blockShift   = 11
	blockPackets = 1 << blockShift
	chunkShift   = 9
	blockChunks  = 1 << chunkShift
	maxBlocks    = 1 << 14 // 33 million packets, and 4 GiB of entries

	// batch is the number of packets or chunks a lane gets at a time, and gives back
	// when it has kept more than four batches.
	batch = 32
)

// records holds the records that switches on its way wrote for a packet.
type records [8]record

// record is a telemetry.Hop, packed.
type record struct {
	time    units.Time
	txBytes int64
	qlen    int32
	kind    uint32 // of the port, which has the rate; or from reportedBase on one of Network.reported
}

// packet returns a packet. Go's own index into a block looks at the block's beginning,
// too, as in chunk.at.
func (n *Network) packet(h Handle) *Packet {
	return (*Packet)(unsafe.Add(unsafe.Pointer(n.slab.packets[h>>blockShift]), uintptr(h&(blockPackets-1))*unsafe.Sizeof(Packet{})))
}

func (s *slab) recordsOf(h Handle) *records {
	b := s.records[h>>blockShift].Load()
	if b == nil {
		b = more(s, &s.records, &s.recordBlocks, h)
	}
	return &b[h&(blockPackets-1)]
}

func (s *slab) asideOf(h Handle) *aside {
	b := s.asides[h>>blockShift].Load()
	if b == nil {
		b = more(s, &s.asides, &s.asideBlocks, h)
	}
	return &b[h&(blockPackets-1)]
}

// more makes a block of the memory beside packets.
func more[T any](s *slab, blocks *[maxBlocks]atomic.Pointer[[blockPackets]T], left *[][blockPackets]T, h Handle) *[blockPackets]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &blocks[h>>blockShift]
	if p.Load() == nil {
		*left = spare(*left, uint32(h>>blockShift))
		p.Store(&(*left)[0])
		*left = (*left)[1:]
	}
	return p.Load()
}

// packetsFor appends a batch of free packets.
func (s *slab) packetsFor(free []Handle) []Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := len(s.freeSlots); k >= batch {
		free = append(free, s.freeSlots[k-batch:]...)
		s.freeSlots = s.freeSlots[:k-batch]
		return free
	}
	first := s.slots
	if first == 0 {
		first = 1
	}
	// The lowest is handed out first.
	last := (first | (batch - 1)) + 1
	for h := last - 1; h >= first; h-- {
		if b := &s.packets[h>>blockShift]; *b == nil {
			s.packetBlocks = spare(s.packetBlocks, h>>blockShift)
			*b, s.packetBlocks = &s.packetBlocks[0], s.packetBlocks[1:]
		}
		free = append(free, Handle(h))
	}
	s.slots = last
	return free
}

// takePackets takes free packets back.
func (s *slab) takePackets(hs []Handle) {
	s.mu.Lock()
	s.freeSlots = append(s.freeSlots, hs...)
	s.mu.Unlock()
}

func (s *slab) chunksFor(free []uint32) []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := len(s.freeChunks); k >= batch {
		free = append(free, s.freeChunks[k-batch:]...)
		s.freeChunks = s.freeChunks[:k-batch]
		return free
	}
	first := s.chunkCount
	s.chunkCount += batch
	for i := s.chunkCount - 1; ; i-- {
		b := &s.chunks[i>>chunkShift]
		if *b == nil {
			s.chunkBlocks = spare(s.chunkBlocks, i>>chunkShift)
			*b, s.chunkBlocks = &s.chunkBlocks[0], s.chunkBlocks[1:]
		}
		(*b)[i&(blockChunks-1)].id = i
		free = append(free, i)
		if i == first {
			return free
		}
	}
}

func (s *slab) takeChunks(ids []uint32) {
	s.mu.Lock()
	s.freeChunks = append(s.freeChunks, ids...)
	s.mu.Unlock()
}
