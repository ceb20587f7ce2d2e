package mlx5

import (
	"encoding/binary"
	"sync"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// fetchBytes is the part of a receive ring that one call reads.
const fetchBytes = 2048

// recvRing is a ring of receive WQEs in the program's memory: of one queue pair, or
// shared. It is a verbs.RecvSource. Its lock is the innermost.
type recvRing struct {
	e      *Engine
	id     uint64 // the upper bits of the receives' WRID; the lower 16 are the WQE's index
	buffer uint64
	record uint64
	count  int // WQEs; 0 for none
	stride int
	linked bool // each WQE begins with the index of the next
	small  stage

	mu      sync.Mutex
	fetched uint16 // counter of the next WQE
	next    uint16 // its index
	broken  bool
	word    [4]byte
	buf     [fetchBytes]byte
	sges    [fetchBytes / connectx.DataBytes]verbs.SGE
	pieces  [2]verbs.MemoryPiece
}

func (r *recvRing) init(e *Engine, id, buffer, record uint64, count, stride int) {
	r.e, r.id, r.buffer, r.record, r.count, r.stride = e, id, buffer, record, count, stride
	r.pieces[0].Data = r.word[:]
	r.pieces[0].Addr = record
}

// reset takes the ring back to its beginning.
func (r *recvRing) reset() {
	r.mu.Lock()
	r.fetched, r.next, r.broken = 0, 0, false
	r.mu.Unlock()
}

// isBroken reports whether the ring can't be read, or is no list.
func (r *recvRing) isBroken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}

// posted reads the counter of posted WQEs.
func (r *recvRing) posted() (counter uint16, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.e.mem.ReadMemory(r.word[:], r.record)
	return uint16(binary.BigEndian.Uint32(r.word[:])), err == nil
}

// FetchRecv implements verbs.RecvSource.
func (r *recvRing) FetchRecv(wrs []verbs.RecvWR) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken || r.count == 0 {
		return 0
	}
	// The record is read before the WQEs, which were written before it.
	at := int(r.next)
	chunk := min(max(fetchBytes/r.stride, 1), len(wrs), r.count-at)
	r.pieces[1] = verbs.MemoryPiece{Addr: r.buffer + uint64(at*r.stride), Data: r.buf[:chunk*r.stride]}
	if err := r.e.mem.readAll(r.pieces[:]); err != nil {
		return r.breaks()
	}
	waiting := int(uint16(binary.BigEndian.Uint32(r.word[:])) - r.fetched)
	if waiting > r.count {
		return r.breaks()
	}
	n, used := 0, 0
	for n < min(chunk, waiting) {
		index := int(r.next)
		if index < at || index >= at+chunk {
			break // the list goes on elsewhere
		}
		wqe := r.buf[(index-at)*r.stride:][:r.stride]
		next := index + 1
		if r.linked {
			next = int(binary.BigEndian.Uint16(wqe[2:]))
			wqe = wqe[connectx.Octoword:]
		} else if next == r.count {
			next = 0
		}
		list := decodeList(wqe, r.sges[used:])
		used += len(list)
		wrs[n] = verbs.RecvWR{WRID: r.id | uint64(index), SGL: list[:len(list):len(list)]}
		if r.small.limit > 0 {
			wrs[n].Small = r.small.sge(index, bytesOf(list))
		}
		n++
		r.fetched++
		if next >= r.count {
			r.breaks()
			break
		}
		r.next = uint16(next)
	}
	return n
}

// breaks ends the use of the ring. Scan tells the owner: the back end's locks may be held.
func (r *recvRing) breaks() int {
	r.broken = true
	r.e.broken.Store(true)
	r.e.cfg.Wake()
	return 0
}
