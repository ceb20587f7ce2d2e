package nicmodel

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/icm"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// QPConfig is what a queue pair is made with.
type QPConfig struct {
	Type                 ib.QPType // RC, UC or UD; zero is RC
	PD                   uint32
	SendCQ, RecvCQ       uint32
	SendDepth, RecvDepth int
	SGEs                 int // most pieces of a request
	SigAll               bool
	SRQ                  *SRQ // nil for a receive queue of its own
}

// Peer is the destination of a queue pair or of a datagram.
type Peer struct {
	Host     int
	QPN      uint32
	FlowHash uint32 // entropy of the path, as a UDP source port has
	Priority uint8
}

// Congestion is how a queue pair's sending is controlled inside the NIC, and
// what its packets collect on their way.
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
	awaited bool // it is in the memory of the receive side; see elements.admit
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
	responding      int        // frames in mac.responses
	translatedAt    units.Time // when the translations of what it received last are there
	echo            frames.Echo
	echoPacket      fabric.Handle // holds the newest packet's per-hop records
	notifications

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

// progress is how far the elements of a send queue have got, in running counts.
type progress struct {
	posted      uint32
	rung        uint32     // whose doorbell was written, of those that are read and not written by BlueFlame
	doorbelled  uint32     // whose doorbell has arrived
	fetchIssued uint32     // that are or were read, or arrived with their doorbell
	fetched     uint32     // that a read has brought
	handed      uint32     // to the transport
	waitWake    units.Time // of the newest evSendTime
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

// queuePairs is the NIC's table of queue pairs, by number.
type queuePairs struct {
	all  []*qp
	free []uint32
	late []*qp // that are closing: their numbers are free
	live int   // that exist, with those that are closing
	keep bool  // the number of one that is removed is free only after recycle
}

func (p *queuePairs) find(num uint32) *qp {
	i := num>>qpGenerationBits - 1
	if int(i) < len(p.all) && p.all[i] != nil && p.all[i].num == num {
		return p.all[i]
	}
	for _, q := range p.late {
		if q.num == num {
			return q
		}
	}
	return nil
}

// owner is who the queue pair is to memory.
func (q *qp) owner() memory.Owner { return memory.Owner{PD: q.cfg.PD, QPN: q.num} }

// translated has what the queue pair answers wait for the translation of what it received.
func (q *qp) translated(now, known units.Time) {
	if known > now {
		q.translatedAt = known
	}
}

// ports is the queue pairs of all ports of a NIC.
type ports struct{ all []*queuePairs }

// elements visits the elements that are in the memory on the chip: see newState.
func (p *ports) elements(visit func(at uint64, bytes int, started, awaited bool)) {
	for _, pairs := range p.all {
		for _, q := range pairs.all {
			if q == nil {
				continue
			}
			for i := q.reaped; i != q.handed; i++ {
				w := q.wqe(i)
				visit(q.elementAt(i), q.wqeBytes(w), w.started, w.awaited)
			}
		}
	}
}

// peerHost returns the host at the far end of a queue pair.
func (p *queuePairs) peerHost(num uint32) (host int, ok bool) {
	if q := p.find(num); q != nil {
		return q.peer.Host, true
	}
	return 0, false
}

// add gives a queue pair its number.
func (p *queuePairs) add(q *qp) {
	p.live++
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
func (p *queuePairs) remove(q *qp) {
	p.live--
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
func (p *queuePairs) recycle(num uint32) {
	p.free = append(p.free, (num>>qpGenerationBits-1)<<qpGenerationBits|num&(1<<qpGenerationBits-1))
}

// CreateQP makes a queue pair in state RESET and returns its number.
func (n *NIC) CreateQP(cfg QPConfig) (uint32, error) {
	if cfg.Type == 0 {
		cfg.Type = ib.RC
	}
	switch {
	case cfg.Type != ib.RC && cfg.Type != ib.UC && cfg.Type != ib.UD:
		return 0, fmt.Errorf("a queue pair of type %v: RC, UC or UD", cfg.Type)
	case cfg.SendDepth < 1 || cfg.SendDepth > n.chip.Config.MaxQPWR:
		return 0, fmt.Errorf("a send queue of %d requests: 1 to %d", cfg.SendDepth, n.chip.Config.MaxQPWR)
	case cfg.SRQ == nil && (cfg.RecvDepth < 0 || cfg.RecvDepth > n.chip.Config.MaxQPWR):
		return 0, fmt.Errorf("a receive queue of %d requests: 0 to %d", cfg.RecvDepth, n.chip.Config.MaxQPWR)
	case cfg.SGEs < 1 || cfg.SGEs > n.chip.Config.MaxSGE:
		return 0, fmt.Errorf("%d pieces a request: 1 to %d", cfg.SGEs, n.chip.Config.MaxSGE)
	}
	q := &qp{cfg: cfg, recv: cfg.SRQ, timerAt: units.Never}
	if q.recv == nil {
		recv, err := n.receives.create(max(cfg.RecvDepth, 1), cfg.SGEs)
		if err != nil {
			return 0, err
		}
		q.recv = recv
	}
	// The transport numbers its slots in the same way, so slot and place are the same.
	q.sq = make([]sendWQE, 1<<bits.Len(uint(cfg.SendDepth-1)))
	if cfg.Type == ib.UD {
		q.to = make([]address, len(q.sq))
	}
	q.sqAddr = n.regions.Reserve(uint64(len(q.sq)) * pcie.CacheLine)
	if n.stampSends {
		q.departures = make([]departure, len(q.sq))
	}
	n.pairs.add(q)
	q.elements = icm.ElementTable + n.chip.Tables + uint64(q.num>>qpGenerationBits)<<(16+elementBits)
	n.completions.queues[cfg.SendCQ].users++
	n.completions.queues[cfg.RecvCQ].users++
	q.recv.users++
	n.contexts.add(q)
	return q.num, nil
}

// DestroyQP frees a queue pair. Its outstanding requests end without completions,
// and packets on their way to it meet no queue pair. In a divided network its number is
// free only after Recycle.
func (n *NIC) DestroyQP(num uint32) { n.destroy(n.pairs.find(num)) }

// Recycle frees the number of a queue pair that was destroyed in a divided network. Call
// it between windows, in an order that does not depend on lanes: new queue pairs take
// numbers in the reverse order.
func (n *NIC) Recycle(num uint32) {
	if n.pairs.keep {
		n.pairs.recycle(num)
	}
}

// closing is a queue pair, or the key of a region, that is destroyed at a time.
type closing struct {
	at  units.Time
	qp  *qp // nil for a region
	key uint32
}

// CloseQP is DestroyQP at a time, in the order of these times. The number is free at
// once. It is for the end of a connection that has to be told of its end: until then it
// answers what comes to it.
func (n *NIC) CloseQP(num uint32, at units.Time) {
	if at <= n.chip.Now() {
		n.DestroyQP(num)
		n.Recycle(num)
		return
	}
	q := n.pairs.find(num)
	n.pairs.late = append(n.pairs.late, q)
	n.pairs.all[num>>qpGenerationBits-1] = nil
	n.pairs.recycle(num)
	n.closeAt(closing{at: at, qp: q})
}

// CloseMR is DeregMR at a time, in the order of the times of this and of CloseQP.
func (n *NIC) CloseMR(key uint32, at units.Time) { n.closeAt(closing{at: at, key: key}) }

func (n *NIC) closeAt(c closing) {
	n.closing = append(n.closing, c)
	n.chip.Net.SetAlarm(n.chip.Host, chip.AlarmClose, c.at)
}

// close destroys what is to be closed by now.
func (n *NIC) close(now units.Time) {
	for len(n.closing) > 0 && n.closing[0].at <= now {
		if c := &n.closing[0]; c.qp != nil {
			n.destroy(c.qp)
		} else {
			n.DeregMR(c.key)
		}
		n.closing = slices.Delete(n.closing, 0, 1)
	}
	if n.chip.Divided && len(n.closing) > 0 {
		n.chip.Net.SetAlarm(n.chip.Host, chip.AlarmClose, n.closing[0].at)
	}
}

func (n *NIC) destroy(q *qp) {
	n.reset(q)
	n.completions.queues[q.cfg.SendCQ].users--
	n.completions.queues[q.cfg.RecvCQ].users--
	q.recv.users--
	n.contexts.drop(q)
	if q.cfg.SRQ == nil {
		n.receives.destroy(q.recv)
	}
	n.pairs.remove(q)
}

// reset takes a queue pair back to RESET. Its completions that were not polled are
// dropped.
func (n *NIC) reset(q *qp) {
	n.completions.drop(q.cfg.SendCQ, q.num)
	n.completions.drop(q.cfg.RecvCQ, q.num)
	n.scheduler.remove(n.chip.Now(), q)
	q.dropEcho(&n.chip)
	n.receives.dropParked(n.chip.Now(), q)
	if q.rc != nil {
		// The receive that a broken-off message holds goes back to a shared queue.
		var eff rc.Effects
		q.rc.ToError(&eff)
		var r rc.RecvCompletion
		for q.rc.PollRecv(&r) {
			q.recv.free(r.Slot)
		}
	} else if q.cfg.SRQ == nil {
		q.recv.queue, _ = rc.NewRecvQueue(len(q.recv.wqes)) // the depth was good before
	}
	if q.cfg.SRQ == nil {
		q.recv.forget()
	}
	n.regions.UnbindAll(q.num)
	q.resets = (q.resets + 1) & 0x7f
	q.responding, q.echo = 0, frames.Echo{}
	q.steering, q.pull, q.next = steering{}, nil, nil
	q.path = 0
	q.rc, q.state = nil, ib.Reset
	n.transport.countRequests(n.chip.Now(), q, int(int32(q.reaped-q.handed)))
	n.elements.forget(n.chip.Now(), q)
	q.timerAt = units.Never
	q.notifications = notifications{}
}

// Reset takes a queue pair back to RESET, with all that it had to do.
func (n *NIC) Reset(num uint32) { n.reset(n.pairs.find(num)) }

// Init takes a queue pair from RESET to INIT.
func (n *NIC) Init(num uint32) { n.pairs.find(num).state = ib.Init }

// ReadyToReceive takes a queue pair to RTR. The NIC fills in type, send depth and receive
// queue of cfg. Datagrams have no peer to notify. Only a reliable connection has an
// engine or telemetry, since acknowledgements carry it.
func (n *NIC) ReadyToReceive(num uint32, peer Peer, cong Congestion, cfg rc.Config) error {
	q := n.pairs.find(num)
	if q.cfg.Type != ib.RC && (cong.Engine != nil || cong.ReadEngine != nil || cong.Telemetry != telemetry.None) {
		return fmt.Errorf("an engine or telemetry for a queue pair of type %v, where nothing comes back", q.cfg.Type)
	}
	if q.cfg.Type == ib.UD && cong.CNPInterval != 0 {
		return errors.New("congestion notifications from a queue pair of datagrams, which has no peer to send them to: leave CNPInterval 0")
	}
	cfg.Type, cfg.SendDepth, cfg.Recv, cfg.SharedRecv = q.cfg.Type, q.cfg.SendDepth, q.recv.queue, q.cfg.SRQ != nil
	n.chip.Config.Transport.Set(&cfg)
	t, err := rc.New(cfg)
	if err != nil {
		return err
	}
	if peer.Host < 0 || peer.Host >= n.chip.Net.Topology().Hosts() {
		return fmt.Errorf("host %d does not exist: the network has %d", peer.Host, n.chip.Net.Topology().Hosts())
	}
	q.rc, q.rcCfg, q.peer, q.cong, q.mtu, q.state = t, cfg, peer, cong, cfg.MTU, ib.RTR
	q.class = uint8(n.chip.Config.Egress.Class(peer.Priority))
	n.mac.requestRoom[q.class].expect(int(cfg.MTU))
	n.mac.responseRoom[q.class].expect(int(cfg.MTU))
	if q.recv.fetched && (q.cfg.RecvDepth > 0 || q.cfg.SRQ != nil) {
		n.receives.readRecord(n.chip.Now(), q.recv)
	}
	return nil
}

// ReadyToSend takes a queue pair from RTR to RTS.
func (n *NIC) ReadyToSend(num uint32, cfg rc.SendConfig) error {
	q := n.pairs.find(num)
	if q.cong.ReadEngine != nil && !q.rcCfg.Credits {
		cfg.ReadPackets = ReadPackets(units.Bytes(q.mtu))
	}
	if q.cfg.Type == ib.RC {
		n.chip.Config.Transport.SetSend(&cfg)
	}
	if err := q.rc.ReadyToSend(cfg); err != nil {
		return err
	}
	q.maxReads = cfg.MaxRdAtomic
	held := cc.Control{Rate: ratelimiter.Unpaced, Window: cc.Unlimited}
	if limit := q.Control().Rate; limit != 0 { // it was set before
		held.Rate = limit
	}
	q.Hold(held)
	q.next = &q.steering
	if q.cong.Engine != nil || q.cong.ReadEngine != nil {
		n.scheduler.unlimit(q)
	}
	if q.cong.Engine != nil {
		q.Start(q.cong.Engine, n.chip.Line, units.Bytes(q.mtu), q.cong.BaseRTT)
	}
	if q.cong.ReadEngine != nil {
		q.pull = &pull{ReadTimes: NewReadTimes(cfg.MaxRdAtomic)}
		q.pull.Start(q.cong.ReadEngine, n.chip.Line, units.Bytes(q.mtu), q.cong.BaseRTT)
	}
	if err := n.scheduler.add(q); err != nil {
		return err
	}
	q.state = ib.RTS
	return nil
}

// Resume takes a queue pair whose send queue has failed (SQE) back to RTS.
func (n *NIC) Resume(num uint32) error { return n.pairs.find(num).rc.Resume() }

// Fail takes a queue pair to the error state, which flushes its requests.
func (n *NIC) Fail(now units.Time, num uint32) {
	q := n.pairs.find(num)
	if q.rc == nil {
		// Not connected yet. A transport in error flushes its receives too.
		q.rc, _ = rc.New(rc.Config{MTU: 256, SendDepth: q.cfg.SendDepth, Recv: q.recv.queue, SharedRecv: q.cfg.SRQ != nil})
	}
	var eff rc.Effects
	q.rc.ToError(&eff)
	n.transport.carryOut(now, q, &eff, arrival{})
	if q.waiting > 0 {
		n.elements.hand(now, q)
	}
}

// Flush completes what has been posted to a queue pair in the error state.
func (n *NIC) Flush(now units.Time, num uint32) {
	if q := n.pairs.find(num); q.rc != nil && (q.rc.State() == ib.Err || q.rc.State() == ib.SQE) {
		n.transport.reap(now, q)
	}
}

// State returns the state of a queue pair.
func (n *NIC) State(num uint32) ib.QPState { return n.pairs.find(num).current() }

func (q *qp) current() ib.QPState {
	if q.rc != nil && q.rc.State() != ib.RTR {
		return q.rc.State()
	}
	return q.state
}

// Delivered is what has arrived for a queue pair and was placed in memory, each
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

// Delivered returns what has arrived for a queue pair so far.
func (n *NIC) Delivered(num uint32) Delivered { return n.pairs.find(num).delivered }

// Peer returns the far end of a queue pair, from RTR on.
func (n *NIC) Peer(num uint32) Peer { return n.pairs.find(num).peer }

// RecvQueue returns the receive queue of a queue pair.
func (n *NIC) RecvQueue(num uint32) *SRQ { return n.pairs.find(num).recv }

// Control returns the current rate and window of a queue pair.
func (n *NIC) Control(num uint32) cc.Control { return n.pairs.find(num).Control() }

// Counters returns the transport counters of a queue pair from RTR on.
func (n *NIC) Counters(num uint32) rc.Counters {
	if q := n.pairs.find(num); q.rc != nil {
		return *q.rc.Counters()
	}
	return rc.Counters{}
}
