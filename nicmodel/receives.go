package nicmodel

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

type recvWQE struct{ sgl []memory.SGE }

// SRQ is a shared receive queue, or the receive queue of one queue pair.
type SRQ struct {
	queue *rc.RecvQueue // the receives on the NIC
	wqes  []recvWQE     // by its slots
	sges  int
	users int
	// refill posts up to room receives that the host has written; nil for a queue that the
	// host posts to itself.
	refill func(room int)

	fetched bool // receives are fetched; all below is for that
	num     uint32
	resets  uint8 // seven bits: distinguishes reads from before a reset
	held    int   // posted and not completed
	addr    uint64
	// The ring in host memory, of a power of two, by running counts of receives: posted,
	// known to the NIC, read or being read, and arrived.
	ring                                []postedRecv
	posted, known, fetchIssued, arrived uint32
	readingRecord                       bool       // the doorbell record is being read
	recorded                            uint32     // what it said
	recordAt                            units.Time // when that is in the NIC
	fetchedAt                           units.Time // when the newest read of receives is
	waiting                             []*qp      // whose first parked packet needs a receive, in order
	limit                               int        // see LimitSRQ
}

type postedRecv struct {
	id     uint64
	length uint32
	sgl    []memory.SGE
}

// recordBytes is the size of a doorbell record: a counter of receives and one of sends.
const recordBytes = 8

// recvWQEBytes returns the bytes of a receive in its queue: a pointer of 16 bytes
// for each piece that the queue was made for, in a stride of a power of two.
func recvWQEBytes(sges int) int { return wqeSegment << bits.Len(uint(max(sges, 1)-1)) }

// receives fetches the elements of receive queues to the NIC, and keeps packets that
// need an element still on its way.
type receives struct {
	*chip.Chip
	regions   *memory.Regions
	transport *transport

	queues []*SRQ // whose receives are fetched
	free   []uint32
	waited units.Time // by packets for theirs, summed over them
	parked stage.Gauge
}

// CreateSRQ returns a receive queue for several queue pairs.
func (n *NIC) CreateSRQ(depth, sges int) (*SRQ, error) { return n.receives.create(depth, sges) }

func (r *receives) create(depth, sges int) (*SRQ, error) {
	if sges < 1 || sges > r.Config.MaxSGE {
		return nil, fmt.Errorf("%d pieces a receive: 1 to %d", sges, r.Config.MaxSGE)
	}
	q, err := rc.NewRecvQueue(depth)
	if err != nil {
		return nil, err
	}
	s := &SRQ{queue: q, wqes: make([]recvWQE, depth), sges: sges}
	if r.Config.Receives.Prefetch > 0 {
		s.fetched = true
		s.ring = make([]postedRecv, 1<<bits.Len(uint(depth-1)))
		s.addr = r.regions.Reserve(uint64(len(s.ring)*recvWQEBytes(sges)) + recordBytes)
		if k := len(r.free); k > 0 {
			s.num = r.free[k-1]
			s.resets = (r.queues[s.num].resets + 1) & 0x7f
			r.free = r.free[:k-1]
			r.queues[s.num] = s
		} else {
			s.num = uint32(len(r.queues))
			r.queues = append(r.queues, s)
		}
	}
	return s, nil
}

// DestroySRQ frees a receive queue that no queue pair draws on.
func (n *NIC) DestroySRQ(s *SRQ) { n.receives.destroy(s) }

func (r *receives) destroy(s *SRQ) {
	if s.fetched {
		s.forget()
		r.free = append(r.free, s.num)
	}
}

// LimitSRQ arms the queue's limit: when a message takes a receive and fewer than n are left,
// ib.EventSRQLimit is raised, once, about the message's queue pair. 0 disarms it.
func (n *NIC) LimitSRQ(s *SRQ, limit int) {
	if s.fetched {
		s.limit = limit
	} else {
		s.queue.SetLimit(limit)
	}
}

// ranLow reports, once, that fewer receives are left than the limit: in the NIC and in host
// memory.
func (s *SRQ) ranLow() bool {
	low := s.queue.Len()+int(s.posted-s.arrived) < s.limit
	if low {
		s.limit = 0
	}
	return low
}

// PostRecv adds a receive to the queue. It returns rc.ErrFull when there is no
// room.
func (s *SRQ) PostRecv(id uint64, sgl []memory.SGE) error {
	if len(sgl) > s.sges {
		return fmt.Errorf("%d pieces in a receive of a queue made for %d", len(sgl), s.sges)
	}
	total := uint64(0)
	for _, e := range sgl {
		total += uint64(e.Length)
	}
	if total > 1<<31 {
		return fmt.Errorf("a receive of %d bytes is longer than a message can be, 2 GiB", total)
	}
	if s.fetched {
		if s.held == len(s.wqes) {
			return rc.ErrFull
		}
		s.held++
		p := &s.ring[s.posted&uint32(len(s.ring)-1)]
		p.id, p.length, p.sgl = id, uint32(total), append(p.sgl[:0], sgl...)
		s.posted++
		return nil
	}
	slot, err := s.queue.Post(rc.Recv{ID: id, Length: uint32(total)})
	if err != nil {
		return err
	}
	s.wqes[slot].sgl = append(s.wqes[slot].sgl[:0], sgl...)
	return nil
}

// OnRefill has f called as the NIC reads how many receives the host has written: f posts
// them, room at most. nil for a queue whose receives are posted as the host writes them.
func (s *SRQ) OnRefill(f func(room int)) { s.refill = f }

// look calls the host's refill function if there is room.
func (s *SRQ) look() {
	if s.refill == nil {
		return
	}
	room := s.queue.Room()
	if s.fetched {
		room = len(s.wqes) - s.held
	}
	if room > 0 {
		s.refill(room)
	}
}

// free gives the place of a completed receive back.
func (s *SRQ) free(slot uint32) {
	s.queue.Free(slot)
	s.held--
}

// forget drops all receives that the transport does not have.
func (s *SRQ) forget() {
	s.resets = (s.resets + 1) & 0x7f
	s.posted, s.known, s.fetchIssued, s.arrived, s.held = 0, 0, 0, 0, 0
	s.readingRecord, s.fetchedAt = false, 0
}

// handOver passes receives to the transport, up to a running count.
func (s *SRQ) handOver(to uint32) {
	for ; s.arrived != to; s.arrived++ {
		p := &s.ring[s.arrived&uint32(len(s.ring)-1)]
		slot, err := s.queue.Post(rc.Recv{ID: p.id, Length: p.length})
		if err != nil {
			panic(fmt.Sprintf("nicmodel: no room for receive %d of %d held: %v", s.arrived, s.held, err))
		}
		p.sgl, s.wqes[slot].sgl = s.wqes[slot].sgl, p.sgl
	}
}

// surrender passes all receives of a queue pair in error to the transport, which
// flushes them. Packets that wait for one are dropped.
func (r *receives) surrender(now units.Time, q *qp) {
	s := q.recv
	if !s.fetched || s.arrived == s.posted && q.parked.Head == 0 {
		return
	}
	r.dropParked(now, q)
	s.handOver(s.posted)
	s.known, s.fetchIssued = s.posted, s.posted
	s.resets = (s.resets + 1) & 0x7f
	s.readingRecord = false
}

// prefetch reads as many more receives as a queue may hold, and the doorbell record when
// few are known.
func (r *receives) prefetch(now units.Time, s *SRQ) {
	r.fetch(now, s)
	if s.known == s.fetchIssued && 2*(s.queue.Len()+int(s.fetchIssued-s.arrived)) <= r.Config.Receives.Prefetch {
		r.readRecord(now, s)
	}
}

// fetch reads receives that the NIC knows of, by whole batches where there are
// enough.
func (r *receives) fetch(now units.Time, s *SRQ) {
	c := &r.Config.Receives
	for s.known != s.fetchIssued {
		at := s.fetchIssued & uint32(len(s.ring)-1)
		k := min(c.Batch, int(s.known-s.fetchIssued), len(s.ring)-int(at))
		if k > c.Prefetch-s.queue.Len()-int(s.fetchIssued-s.arrived) {
			return
		}
		stride := recvWQEBytes(s.sges)
		s.fetchIssued += uint32(k)
		s.fetchedAt = max(s.fetchedAt, r.Link.Read(now, s.addr+uint64(int(at)*stride), k*stride, pcie.ForRecvWQE))
		r.Schedule(s.fetchedAt, chip.EvReceives, chip.Receives{Queue: s.num, Count: k, Resets: s.resets}.Pack())
	}
}

// readRecord reads the doorbell record, unless that is under way.
func (r *receives) readRecord(now units.Time, s *SRQ) {
	if s.readingRecord {
		return
	}
	s.readingRecord = true
	there := r.Link.Read(now, s.addr+uint64(len(s.ring)*recvWQEBytes(s.sges)), recordBytes, pcie.ForRecvDoorbell)
	// Half way the request is at the host's memory.
	r.Schedule(now+(there-now)/2, chip.EvRecordRequested, chip.Receives{Queue: s.num, Count: 0, Resets: s.resets}.Pack())
	s.recordAt = there
}

// recordRequested handles the request for the doorbell record as it is at the host's memory.
func (r *receives) recordRequested(now units.Time, e chip.Receives) {
	s := r.queues[e.Queue]
	if s.resets != e.Resets {
		return
	}
	s.look()
	s.recorded = s.posted
	r.Schedule(s.recordAt, chip.EvRecordArrived, e.Pack())
}

// arrived handles receives that a read has fetched.
func (r *receives) arrived(now units.Time, e chip.Receives) {
	s := r.queues[e.Queue]
	if s.resets != e.Resets {
		return
	}
	s.handOver(s.arrived + uint32(e.Count))
	r.unpark(now, s, false)
}

// recordArrived handles the doorbell record. If there is nothing new, waiting packets go
// on and find no receive.
func (r *receives) recordArrived(now units.Time, e chip.Receives) {
	s := r.queues[e.Queue]
	if s.resets != e.Resets {
		return
	}
	s.readingRecord, s.known = false, s.recorded
	r.fetch(now, s)
	if s.fetchIssued == s.arrived {
		r.unpark(now, s, true)
	}
}

// takesRecv is the set of operations whose packets take a receive.
const takesRecv = 1<<ib.SendFirst | 1<<ib.SendOnly | 1<<ib.SendOnlyImm | 1<<ib.SendOnlyInv |
	1<<ib.WriteLastImm | 1<<ib.WriteOnlyImm

func needsRecv(f *frames.Frame) bool { return 1<<f.Desc.Header.Opcode.Operation()&takesRecv != 0 }

// park keeps a request's packet back if it needs a receive that is not on the NIC,
// or follows a packet that is kept back.
func (r *receives) park(now units.Time, q *qp, h fabric.Handle, f *frames.Frame) bool {
	s := q.recv
	if q.parked.Head == 0 {
		if !needsRecv(f) || s.queue.Len() > 0 || q.rc.State() == ib.Err {
			return false
		}
		s.waiting = append(s.waiting, q)
		r.ensure(now, s)
	}
	f.Ready = now
	q.parked.Push(r.Frames, h)
	r.parked.Add(now, 1)
	return true
}

// ensure makes sure that a fetch is on its way for waiting packets.
func (r *receives) ensure(now units.Time, s *SRQ) {
	if s.fetchIssued == s.arrived {
		if r.fetch(now, s); s.fetchIssued == s.arrived {
			r.readRecord(now, s)
		}
	}
}

// unpark lets packets go on for which there is a receive now, of queue pairs in turns,
// or all packets if none will come.
func (r *receives) unpark(now units.Time, s *SRQ, all bool) {
	for len(s.waiting) > 0 && (all || s.queue.Len() > 0) {
		q := s.waiting[0]
		s.waiting = s.waiting[:copy(s.waiting, s.waiting[1:])]
		for first := true; q.parked.Head != 0; first = false {
			h := q.parked.Head
			f := r.Frames.At(h)
			if !first && !all && needsRecv(f) {
				s.waiting = append(s.waiting, q)
				break
			}
			q.parked.Pop(r.Frames)
			r.parked.Add(now, -1)
			r.waited += now - f.Ready
			if r.Spans.Report != nil {
				r.Spans.Packet(f, chip.AtRecvFetch, f.Ready, now, r.Net.Packet(h).Src)
			}
			r.transport.handle(now, q, h)
		}
	}
	if len(s.waiting) > 0 {
		r.ensure(now, s)
	}
}

// dropParked drops the packets of a queue pair that wait for a receive.
func (r *receives) dropParked(now units.Time, q *qp) {
	if q.parked.Head == 0 {
		return
	}
	for q.parked.Head != 0 {
		r.transport.drop(now, q.parked.Pop(r.Frames))
		r.parked.Add(now, -1)
	}
	q.recv.waiting = slices.DeleteFunc(q.recv.waiting, func(w *qp) bool { return w == q })
}

// waitsUntil reports how long packets have waited for their receives.
func (r *receives) waitsUntil(units.Time) []stage.Wait {
	if r.Config.Receives.Prefetch == 0 {
		return nil
	}
	return []stage.Wait{{Where: "receives", For: "a receive over PCIe", Total: r.waited}}
}
