package nicmodel

import (
	"slices"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// QPConfig configures a queue pair.
type QPConfig struct {
	Type                 ib.QPType // RC, UC or UD; zero is RC
	PD                   uint32
	SendCQ, RecvCQ       uint32
	SendDepth, RecvDepth int
	SGEs                 int // most pieces of a request
	SigAll               bool
	SRQ                  *SRQ // nil for a receive queue of its own
	// GSI has it be queue pair 1, of the general services interface (IBA 13.5.1): of UD, and one at most.
	GSI bool
}

// Peer is the destination of a queue pair or of a datagram.
type Peer struct {
	Host     int
	QPN      uint32
	FlowHash uint32 // entropy of the path, as a UDP source port has
	Priority uint8
	IPv6     bool // packets to it have IPv6's header, where packets have one of IP
}

// Congestion configures a queue pair's congestion control inside the NIC, and the
// telemetry that its packets collect.
type Congestion struct {
	// Engine decides rate and window in the NIC, from every acknowledgement.
	// nil leaves the queue pair unpaced: a plain NIC.
	Engine cc.Engine
	// ReadEngine does the same for the data of READs, by their requests. It sees each
	// response with its telemetry, and bounds outstanding READs by its window and
	// their requests by its rate. With nil, Engine's initial Control applies to READs.
	ReadEngine cc.Engine
	// Telemetry is collected by the packets and reflected by the peer.
	Telemetry telemetry.Kind
	ECT       bool // switches may mark the packets
	// CNPInterval is the least time between two congestion notification packets
	// with which this queue pair, as a responder, answers marked ones; 0 sends none.
	CNPInterval units.Time
	// LossCNPs has this queue pair, as a responder, answer gaps so as well, where the NIC has slow restart. It needs
	// CNPInterval.
	LossCNPs bool
	// AckPriority is the priority of acknowledgements that this queue pair
	// sends as a responder.
	AckPriority uint8
	// BaseRTT is that of the path, for the engine's application limit and update
	// scaling.
	BaseRTT units.Time
}

// sendWQE is a send work queue element as the host wrote it.
type sendWQE struct {
	req     rc.Request
	sgl     []memory.SGE
	inline  []byte
	started bool // a packet was made of it; see elements.take
	awaited bool // it is in the memory of elements until its answer is there; see elements.admit
	over    bool // its last packet was made, and it is in that memory no more; see elements.take
	// waitUntil is of the wait before it, 0 for none: it is handed to the transport no earlier.
	waitUntil units.Time
	inNIC     units.Time // since when it is, where spans are reported
}

// qp is a queue pair: what the stages know of it.
type qp struct {
	num    uint32
	cfg    QPConfig
	state  ib.QPState
	resets uint8  // seven bits: distinguishes doorbells and frames from before a reset
	rc     *rc.QP // from RTR on
	rcCfg  rc.Config
	peer   Peer
	cong   Congestion
	mtu    units.Bytes
	qkey   uint32

	// The send queue in host memory: a ring of elements. The transport has the oldest
	// of them under slots.
	sq        []sendWQE
	to        []address // by slot, of datagrams
	sqAddr    uint64
	elements  uint64     // where its elements lie among those on the chip
	waitUntil units.Time // of the next request that is posted, or 0
	progress
	reports    []Report    // by slot, where telemetry is collected, from the first request on
	departures []departure // by slot, where sends are stamped

	// The scheduler's.
	ring     *ring
	flow     ratelimiter.FlowID
	hasFlow  bool
	function uint8 // of the NIC
	class    uint8 // of traffic, of its peer's priority
	weight   int   // of its turns, 0 is 1
	limit    limit
	maxReads int  // Reads and atomics that it may have outstanding
	hold     hold // why it is not before the scheduler
	holdFrom units.Time
	steering            // of what it sends
	pull     *pull      // of the data of its READs, or nil
	next     *steering  // that the next request is under
	path     uint32     // of the newest request, see cc.Pathed
	txUntil  units.Time // when its packets in processing units are done

	// The responder's.
	queuedResponder bool
	locked          int        // READs that wait for atomics
	responding      int        // frames in mac.responses
	translatedAt    units.Time // when the translations of what it received last are there
	echo            frames.Echo
	echoPacket      fabric.Handle // holds the newest packet's per-hop records
	notifications
	restarts Restarts

	// The receiver's and the transport's.
	recv      *SRQ
	parked    frames.FIFO // packets that wait for a receive
	rxUntil   units.Time  // when its packets in processing units are done
	contextAt units.Time  // when its context is on the chip, if it is not
	awaitedAt units.Time  // when the element that its newest answer needed was
	answers   bool        // Reads or atomics, and so has resources for that on the chip
	timerAt   units.Time
	report    Report // of the acknowledgement being handled
	delivered Delivered
}

// progress holds the progress of a send queue's elements, in running counts.
type progress struct {
	posted      uint32
	rung        uint32     // whose doorbell was written, of elements that are read and not written by BlueFlame
	doorbelled  uint32     // whose doorbell has arrived
	fetchIssued uint32     // that are or were read, or arrived with their doorbell
	fetched     uint32     // that a read has brought
	handed      uint32     // to the transport
	waitWake    units.Time // of the newest EvSendTime
	waiting     int        // that are in the NIC and wait for a time, or for one that does
	waitFrom    units.Time // since when
	admitted    uint32     // that the receive side has, if it needs them
	reads       int        // of those, whose answers are to come
	started     uint32     // that have a packet or are over
	reaped      uint32     // that the transport has ended
	freed       uint32     // whose places are free: a completion of each, or of a later one, was polled
	fetching    int        // reads of elements, and doorbells before them, under way
}

// wqe is the element with that running count.
func (q *qp) wqe(count uint32) *sendWQE { return &q.sq[count&uint32(len(q.sq)-1)] }

// qpn numbers encode an index and a generation, so that a number is not reused
// at once.
const qpGenerationBits = 4

// gsiQPN is the number of the general services interface's queue pair: no index has it.
const gsiQPN = 1

// every returns the queue pairs that have numbers, closing ones not among them.
func (p *pairs) every(yield func(*qp) bool) {
	if p.gsi != nil && !yield(p.gsi) {
		return
	}
	for _, q := range p.all {
		if q != nil && !yield(q) {
			return
		}
	}
}

// pairs is the NIC's table of queue pairs, by number. Its exported methods are the NIC's.
type pairs struct {
	all        []*qp
	gsi        *qp // queue pair 1, or nil
	free       []uint32
	late       []*qp // that are closing: their numbers are free
	live       int   // queue pairs, closing ones included
	stampSends bool  // see StampSends
	keep       bool  // the number of one that is removed is free only after recycle
}

func (p *pairs) find(num uint32) *qp {
	i := num>>qpGenerationBits - 1
	if int(i) < len(p.all) && p.all[i] != nil && p.all[i].num == num {
		return p.all[i]
	}
	if num == gsiQPN {
		return p.gsi
	}
	for _, q := range p.late {
		if q.num == num {
			return q
		}
	}
	return nil
}

// owner returns the queue pair's identity for memory.
func (q *qp) owner() memory.Owner { return memory.Owner{PD: q.cfg.PD, QPN: q.num} }

// translated has what the queue pair answers wait for the translation of what it received.
func (q *qp) translated(now, known units.Time) {
	if known > now {
		q.translatedAt = known
	}
}

// ports is the queue pairs of all ports of a NIC.
type ports struct {
	all    []*pairs
	posted bool // State.Posted
}

// elements visits the elements on the chip, in either memory or in both: see icm.New.
func (p *ports) elements(visit func(at uint64, bytes int, own bool)) {
	for _, pairs := range p.all {
		for q := range pairs.every {
			for i := q.reaped; i != q.handed; i++ {
				w := q.wqe(i)
				at, bytes := q.elementAt(i), q.wqeBytes(w)
				if w.awaited || p.posted && !w.over {
					visit(at, bytes, true)
				}
				if !p.posted && !(w.awaited && w.started) {
					visit(at, bytes, false)
				}
			}
		}
	}
}

// peerHost returns the host at the far end of a queue pair.
func (p *pairs) peerHost(num uint32) (host int, ok bool) {
	if q := p.find(num); q != nil {
		return q.peer.Host, true
	}
	return 0, false
}

// add gives a queue pair its number.
func (p *pairs) add(q *qp) {
	p.live++
	if q.cfg.GSI {
		q.num, p.gsi = gsiQPN, q
		return
	}
	k := len(p.free)
	if k == 0 {
		p.all = append(p.all, q)
		q.num = uint32(len(p.all)) << qpGenerationBits
		return
	}
	i := p.free[k-1] >> qpGenerationBits
	q.num = (i+1)<<qpGenerationBits | (p.free[k-1]+1)&(1<<qpGenerationBits-1)
	p.free = p.free[:k-1]
	p.all[i] = q
}

// remove takes a queue pair out of the table.
func (p *pairs) remove(q *qp) {
	p.live--
	if q == p.gsi {
		p.gsi = nil
		return
	}
	if i := slices.Index(p.late, q); i >= 0 {
		p.late = slices.Delete(p.late, i, i+1)
		return
	}
	p.all[q.num>>qpGenerationBits-1] = nil
	if !p.keep {
		p.recycle(q.num)
	}
}

// recycle frees a number.
func (p *pairs) recycle(num uint32) {
	p.free = append(p.free, (num>>qpGenerationBits-1)<<qpGenerationBits|num&(1<<qpGenerationBits-1))
}

// Recycle frees the number of a queue pair that was destroyed in a divided network. Call
// it between windows, in an order that does not depend on lanes: new queue pairs take
// numbers in the reverse order.
func (p *pairs) Recycle(num uint32) {
	if p.keep {
		p.recycle(num)
	}
}

// Init takes a queue pair from RESET to INIT.
func (p *pairs) Init(num uint32) { p.find(num).state = ib.Init }

// Resume takes a queue pair whose send queue has failed (SQE) back to RTS.
func (p *pairs) Resume(num uint32) error { return p.find(num).rc.Resume() }

// State returns the state of a queue pair.
func (p *pairs) State(num uint32) ib.QPState { return p.find(num).current() }

func (q *qp) current() ib.QPState {
	if q.rc != nil && q.rc.State() != ib.RTR {
		return q.rc.State()
	}
	return q.state
}

// Delivered counts the bytes that arrived for a queue pair and were placed in memory, each
// byte once.
type Delivered struct {
	Payload units.Bytes
	Frames  units.Bytes // the frames that carried it, from MAC header to FCS
	Packets uint64
}

func (d *Delivered) add(payload, frame units.Bytes) {
	d.Payload += payload
	d.Frames += frame
	d.Packets++
}

// Delivered returns the counts of a queue pair so far.
func (p *pairs) Delivered(num uint32) Delivered { return p.find(num).delivered }

// Peer returns the far end of a queue pair, from RTR on.
func (p *pairs) Peer(num uint32) Peer { return p.find(num).peer }

// RecvQueue returns the receive queue of a queue pair.
func (p *pairs) RecvQueue(num uint32) *SRQ { return p.find(num).recv }

// Control returns the current rate and window of a queue pair.
func (p *pairs) Control(num uint32) cc.Control { return p.find(num).Control() }

// Counters returns the transport counters of a queue pair from RTR on.
func (p *pairs) Counters(num uint32) rc.Counters {
	if q := p.find(num); q.rc != nil {
		return *q.rc.Counters()
	}
	return rc.Counters{}
}
