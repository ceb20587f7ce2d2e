package mlx5

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// SRQMemory is a shared receive queue's memory, as mlx5dv_init_obj shows it.
type SRQMemory struct {
	Record     *uint32
	Ring       []byte // each WQE begins with the index of the next
	Stride     int
	Head, Tail int // the first free WQE, and the last, which is never used
}

// SRQ is a shared receive queue: a list of free WQEs, taken from its head and put back to its
// tail as they complete.
type SRQ struct {
	mu         sync.Mutex
	m          SRQMemory
	sges       int
	head, tail int
	put        uint32 // posted
	ids        []uint64
}

// NewSRQ makes a shared receive queue, to which nothing has been posted, of its memory. sges
// is how many pieces of memory a receive may have. It fails for a ring that is no list.
func NewSRQ(m SRQMemory, sges int) (*SRQ, error) {
	if err := powerOfTwo("bytes of a shared receive WQE", m.Stride, 2048); err != nil {
		return nil, err
	}
	n := len(m.Ring) / m.Stride
	if err := powerOfTwo("WQEs of a shared receive ring", n, 1<<16); err != nil {
		return nil, err
	}
	if m.Stride < 2*connectx.Octoword || m.Head < 0 || m.Head >= n || m.Tail < 0 || m.Tail >= n {
		return nil, fmt.Errorf("mlx5: a shared receive queue of %d WQEs of %d bytes from %d to %d", n, m.Stride, m.Head, m.Tail)
	}
	most := (m.Stride - connectx.NextBytes) / connectx.DataBytes
	return &SRQ{m: m, sges: min(sges, most), head: m.Head, tail: m.Tail, ids: make([]uint64, n)}, nil
}

func (s *SRQ) wqe(index int) []byte { return s.m.Ring[index*s.m.Stride:][:s.m.Stride] }

// PostRecv posts receives in order, and returns how many. It fails with verbs.ErrQueueFull or
// what is wrong with the next.
func (s *SRQ) PostRecv(wrs []verbs.RecvWR) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(wrs) {
		wr := &wrs[n]
		if len(wr.SGL) > s.sges {
			err = tooMany(len(wr.SGL), s.sges)
			break
		}
		if s.head == s.tail {
			err = verbs.ErrQueueFull
			break
		}
		b := s.wqe(s.head)
		s.ids[s.head] = wr.WRID
		s.head = int(binary.BigEndian.Uint16(b[2:])) & (len(s.ids) - 1)
		putRecvList(b[connectx.NextBytes:], wr.SGL, true)
		n++
	}
	if n > 0 {
		s.put += uint32(n)
		publish(s.m.Record, bits.ReverseBytes32(s.put))
	}
	return n, err
}

// complete takes the WQE at an index from the device, with its data if that came in the CQE,
// and returns its WRID and whether the data had room.
func (s *SRQ) complete(index int, data []byte) (id uint64, room bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	index &= len(s.ids) - 1
	room = len(data) == 0 || scatter(s.wqe(index)[connectx.NextBytes:], data)
	binary.BigEndian.PutUint16(s.wqe(s.tail)[2:], uint16(index))
	s.tail = index
	return s.ids[index], room
}
