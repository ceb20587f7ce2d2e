package nicmodel

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Kinds of events that a NIC schedules for itself.
const (
	evDoorbell   = iota // a doorbell has arrived; arg: QP number, WQEs, BlueFlame
	evWQE               // work queue elements are in the NIC; arg: QP number, how many, last of a doorbell
	evSchedule          // the scheduler is free
	evLimiter           // a paced queue pair is due
	evLimit             // a burst of a limited queue pair is due; arg: QP number
	evWire              // the wire is free and a frame may be ready
	evReceive           // a received packet has reached the transport; arg: handle
	evTimer             // a queue pair's transport timer; arg: QP number
	evAtomic            // an atomic operation has ended; arg: which
	evUnit              // a queue pair's request has left its processing unit; arg: QP number
	evCompletion        // a completion has become visible; arg: CQ number, solicited
	evLand              // data are due in host memory
	evArm               // a completion queue is armed; arg: CQ number
	evModeration        // a queue's event has waited long enough; arg: CQ number
	evEvent             // a completion event has got to the host; arg: CQ number
	evRecvs             // receives are in the NIC; arg: number of the queue, how many
	evRecordRead        // the request for that is at the host's memory; arg: number of the queue
	evRecord            // the doorbell record of a receive queue is; arg: number of the queue
	evSession           // a queue's compression session ends; arg: CQ number
)

// NIC is one network adapter at a host's port. It belongs to the goroutine of its
// engine. Everything a host does with it happens at the engine's Now.
type NIC struct {
	engine *des.Engine
	net    *fabric.Network
	frames *Frames
	host   int
	id     des.NodeID
	src    des.Source
	cfg    Config
	line   units.Rate

	doorbell, wqe, scheduler, packetiser, mac, parse, transport, cqe Stage

	pcie      *PCIe
	txUnits   *Units
	rxUnits   *Units
	nowhere   units.Time // serialises what is for no queue pair
	atomics   *atomics
	wqes      *lru // elements that the NIC holds, or nil for all
	mem       memory
	qps       []*qp
	freeQPs   []uint32
	cqs       []*cq
	recvs     []*SRQ // whose receives are fetched
	freeRecvs []uint32
	recvWait  units.Time // that packets have waited for theirs
	eqAddr    uint64     // of the event queue
	eqes      uint64     // written to it
	events    []AsyncEvent
	onEvent   func(now units.Time)
	pds       uint32

	contexts   icm
	keys       icm        // memory keys' entries
	pages      icm        // translations, by cache line
	rxHeld     units.Time // until when packets can't be taken, since too many translations are being read
	landings   landings
	wqeCounts  WQECache
	stampSends bool

	limiter   *ratelimiter.Scheduler
	rates     rateTable
	flows     []*qp // by ratelimiter.FlowID
	limiterAt units.Time
	schedAt   units.Time
	unitsFrom units.Time // since when requests have waited for a unit, or Never

	responders []*qp // queue pairs with responses to send, in order
	// Frames on their way to the MAC: acknowledgements and what else has no
	// payload and does not wait, READ responses, requests.
	control, responses, requests [fabric.MaxPriorities]fifo
	inResponses, inRequests      int
	turn                         bool // READ responses and requests take turns on the wire
	wireFree                     units.Time
	wireAt                       units.Time // of the pending evWire, or Never
	paused                       uint8
	resumed                      [fabric.MaxPriorities]units.Time // when each was last let go

	ack   cc.Ack
	onAck func(qpn uint32, a *cc.Ack)
	stat  Stats

	inWQE, inTransport, inTransmit, inReceive, inParked gauge
	inCQs                                               gauge
	inPairs                                             gauge
	cuts                                                uint64               // how often engines lowered a rate or a window
	holds                                               [numHolds]units.Time // what queue pairs were held for, summed over them
	txFull                                              units.Time           // since when a due queue pair has waited for room, or Never
	onSpan                                              func(*Span)
	span                                                Span
}

// Stats counts what a NIC did.
type Stats struct {
	TxPackets, RxPackets uint64
	TxPayload            units.Bytes // payload sent, retransmissions included
	RxPayload            units.Bytes // payload that arrived for a queue pair
	Requests             uint64      // work queue elements that the transport was given
	NoQP                 uint64      // packets for a queue pair that does not exist
	BadQKey              uint64      // datagrams with another Q_Key than the queue pair's
	Stale                uint64      // packets built but not sent, since the queue pair went back
}

// AsyncEvent is an asynchronous event; QPN and CQ are valid where Type is about
// one.
type AsyncEvent struct {
	Type ib.EventType
	QPN  uint32
	CQ   uint32
}

// New puts a NIC at a host's port. line is the rate of that port.
func New(e *des.Engine, net *fabric.Network, frames *Frames, host int, line units.Rate, cfg Config) (*NIC, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if line <= 0 {
		return nil, fmt.Errorf("nic: line rate is %v; it must be positive", line)
	}
	limiter, err := ratelimiter.New(ratelimiter.Config{LineRate: line, CatchUp: catchUp, PullIn: units.Microsecond})
	if err != nil {
		return nil, err
	}
	link, err := NewPCIe(cfg.PCIe)
	if err != nil {
		return nil, err
	}
	n := &NIC{
		engine: e, net: net, frames: frames, host: host, src: e.NewSource(), cfg: cfg, line: line,
		pcie: link, limiter: limiter,
		limiterAt: units.Never, schedAt: units.Never, wireAt: units.Never, txFull: units.Never, unitsFrom: units.Never,
		txUnits: newUnits("tx_units", cfg.TxUnits, cfg.CoreClock), rxUnits: newUnits("rx_units", cfg.RxUnits, cfg.CoreClock),
		atomics: newAtomics(cfg.Atomics, cfg.CoreClock), landings: landings{wakeAt: units.Never},
	}
	for _, s := range []struct {
		stage *Stage
		name  string
	}{
		{&n.doorbell, "doorbell"}, {&n.wqe, "wqe"}, {&n.scheduler, "scheduler"}, {&n.packetiser, "packetiser"},
		{&n.parse, "parse"}, {&n.transport, "transport"}, {&n.cqe, "cqe"},
	} {
		*s.stage = Stage{Name: s.name, clock: cfg.CoreClock}
	}
	n.contexts = newContexts(cfg.Contexts)
	n.keys, n.pages = newTranslation(cfg.Translation)
	if cfg.WQECache > 0 {
		n.wqes = newLRU(cfg.WQECache)
	}
	// The MAC's cycle is a picosecond: its work is measured in bit times, which
	// the link keeps exactly.
	n.mac = Stage{Name: "mac", clock: Clock(second)}
	n.id = e.AddHandler(n)
	net.Attach(host, n)
	return n, nil
}

// Config returns the configuration that the NIC was made with.
func (n *NIC) Config() Config { return n.cfg }

// Host returns the index of the host that the NIC sits in.
func (n *NIC) Host() int { return n.host }

// LineRate returns the rate of the NIC's port.
func (n *NIC) LineRate() units.Rate { return n.line }

// Stats returns the counters.
func (n *NIC) Stats() Stats { return n.stat }

// ReadClock returns the counter of completion timestamps at now.
func (n *NIC) ReadClock(now units.Time) uint64 { return n.cfg.Counter.Read(now) }

// AllocPD returns the number of a new protection domain.
func (n *NIC) AllocPD() uint32 {
	n.pds++
	return n.pds
}

// Region is a registered memory region.
type Region struct {
	Addr   uint64
	Length uint64
	Key    uint32 // both L_Key and R_Key
}

// RegMR registers buf; or, if buf is nil, a phantom of so many bytes: memory that
// has bounds and keys but no content, for workloads whose bytes nobody reads.
func (n *NIC) RegMR(pd uint32, buf []byte, length uint64, access ib.AccessFlags) (Region, error) {
	if buf != nil {
		length = uint64(len(buf))
	}
	if access&(ib.AccessRemoteWrite|ib.AccessRemoteAtomic) != 0 && access&ib.AccessLocalWrite == 0 {
		return Region{}, fmt.Errorf("access %v needs LOCAL_WRITE too (ibv_reg_mr)", access)
	}
	r, err := n.mem.register(buf, length, access, pd)
	if err == nil {
		n.enter(r.key, n.cfg.Translation.pageSize(access))
	}
	return Region{Addr: r.base, Length: r.length, Key: r.key}, err
}

// DeregMR makes a region's key invalid and reports whether there was one. What was on
// its way there is in memory when it returns.
func (n *NIC) DeregMR(key uint32) bool {
	n.settle(key)
	return n.forget(key)
}

// TakeEvent returns the oldest asynchronous event that was not yet taken.
func (n *NIC) TakeEvent() (AsyncEvent, bool) {
	if len(n.events) == 0 {
		return AsyncEvent{}, false
	}
	e := n.events[0]
	n.events = n.events[1:]
	return e, true
}

// OnAsyncEvent calls f when an asynchronous event has been raised.
func (n *NIC) OnAsyncEvent(f func(now units.Time)) { n.onEvent = f }

func (n *NIC) raise(now units.Time, e AsyncEvent) {
	n.events = append(n.events, e)
	if n.onEvent != nil {
		n.onEvent(now)
	}
}

// Units returns the processing units of requests and those of received packets, nil
// where the NIC has none.
func (n *NIC) Units() (tx, rx *Units) { return n.txUnits, n.rxUnits }

// PCIe returns the link to the host, for what it has counted.
func (n *NIC) PCIe() *PCIe { return n.pcie }

// PCIeBytes reports the bytes that crossed the link to the host and from it, by
// purpose.
func (n *NIC) PCIeBytes() (toHost, fromHost map[string]units.Bytes) {
	toHost, fromHost = map[string]units.Bytes{}, map[string]units.Bytes{}
	for p := range numPurposes {
		toHost[p.String()] = n.pcie.bytes(Upstream, p)
		fromHost[p.String()] = n.pcie.bytes(Downstream, p)
	}
	return toHost, fromHost
}

// Handle implements des.Handler.
func (n *NIC) Handle(ev des.Event) {
	now := ev.At
	switch ev.Kind {
	case evDoorbell:
		n.rings(now, uint32(ev.Arg), int(ev.Arg>>32&0xffffff), uint8(ev.Arg>>56&0x7f), ev.Arg>>63 != 0)
	case evWQE:
		n.fetched(now, uint32(ev.Arg), int(ev.Arg>>32&0xffffff), uint8(ev.Arg>>56&0x7f), ev.Arg>>63 != 0)
	// Of the events of each of these kinds only the one that is remembered
	// counts: an earlier one has taken the place of any other.
	case evSchedule:
		if now == n.schedAt {
			n.schedAt = units.Never
			n.schedule(now)
		}
	case evLimiter:
		if now == n.limiterAt {
			n.limiterAt = units.Never
			n.schedule(now)
		}
	case evLimit:
		n.looks(now, uint32(ev.Arg))
	case evWire:
		if now == n.wireAt {
			n.wireAt = units.Never
			n.send(now)
		}
	case evReceive:
		n.receive(now, fabric.Handle(ev.Arg))
	case evTimer:
		n.expire(now, uint32(ev.Arg))
	case evAtomic:
		n.atomicEnds(now, uint32(ev.Arg))
	case evUnit:
		if q := n.qp(uint32(ev.Arg)); q != nil && q.hasFlow {
			n.file(now, q)
			n.schedule(now)
		}
	case evLand:
		n.landed(now)
	case evArm:
		n.armed(now, uint32(ev.Arg))
	case evModeration:
		n.moderated(now, uint32(ev.Arg))
	case evEvent:
		if h := n.cqs[ev.Arg].events.handler; h != nil {
			h(now)
		}
	case evRecvs:
		n.recvsCame(now, uint32(ev.Arg), int(ev.Arg>>32&0xffffff), uint8(ev.Arg>>56))
	case evRecordRead:
		n.recordRead(now, uint32(ev.Arg), uint8(ev.Arg>>56))
	case evRecord:
		n.recordCame(now, uint32(ev.Arg), uint8(ev.Arg>>56))
	case evSession:
		n.sessionEnds(now, uint32(ev.Arg))
	case evCompletion:
		n.land(now)
		if h := n.cqs[ev.Arg>>1].handler; h != nil {
			h(now, ev.Arg&1 != 0)
		}
	}
}
