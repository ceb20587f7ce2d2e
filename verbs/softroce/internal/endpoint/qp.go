package endpoint

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// QPInit are the attributes of a new queue pair.
type QPInit struct {
	Type           ib.QPType
	SendCQ, RecvCQ *CQ
	SRQ            *RecvQueue // nil for a receive queue of its own
	Cap            verbs.QPCap
	SigAll         bool
}

// QP is a queue pair.
type QP struct {
	Owner any // what the driver likes to find here

	e       *Endpoint
	pd      *PD
	service ib.Opcode // what the opcodes of its packets begin with
	num     uint32
	init    QPInit
	state   ib.QPState // as long as there is no rc, which has its own
	attr    verbs.QPAttr
	route   Route
	destQPN uint32
	gone    bool
	ready   readyLink

	sq   sendQueue
	recv *RecvQueue
	rc   *rc.QP // from RTR on
	to   Route  // of the datagram in hand

	timerAt    units.Time
	timerIndex int

	windows     int // bound to it
	incarnation *incarnation
	overrun     bool // a completion of it was lost

	congestion congestion
	cnps       atomic.Uint64
	turnaround turnaround
	collected  *collected // nil where packets collect nothing
}

// congestion is what a queue pair knows of marks.
type congestion struct {
	cnpDue  bool       // a CNP is to be sent
	cnpSent bool       // one was, at cnpAt
	cnpAt   units.Time // the earliest time for the next is cnpInterval later
	echo    bool       // the next acknowledgement says that the network has marked what it acknowledges
	marked  bool       // the peer or a READ response signalled congestion since the last completion
	echoEIN bool       // likewise of an early incast
	ein     bool

	cnpTaken   bool // one has counted, at cnpTakenAt
	cnpTakenAt units.Time
	served     bool // a READ of the peer's, at servedAt
	servedAt   units.Time
}

// check says why a queue pair can't be made.
func (p *PD) check(a *QPInit) error {
	e, c := p.e, &a.Cap
	bad := func(cause error, format string, args ...any) error {
		return verbs.Errorf("create_qp", e.cfg.Name, cause, format, args...)
	}
	switch {
	case p.gone:
		return bad(verbs.ErrClosed, "the protection domain is deallocated")
	case a.Type != ib.RC && a.Type != ib.UC && a.Type != ib.UD:
		return bad(verbs.ErrNotSupported, "the device has RC, UC and UD queue pairs, not %v", a.Type)
	case a.SendCQ == nil || a.RecvCQ == nil || a.SendCQ.gone || a.RecvCQ.gone || a.SendCQ.e != e || a.RecvCQ.e != e:
		return bad(verbs.ErrInvalid, "give a send and a receive CQ of this device")
	case c.MaxSendWR < 1 || c.MaxSendWR > MaxQPWR:
		return bad(verbs.ErrInvalid, "a send queue of %d requests: 1 to %d", c.MaxSendWR, MaxQPWR)
	case c.MaxRecvWR < 0 || c.MaxRecvWR > MaxQPWR:
		return bad(verbs.ErrInvalid, "a receive queue of %d requests: 0 to %d", c.MaxRecvWR, MaxQPWR)
	case c.MaxSendSGE < 0 || c.MaxSendSGE > MaxSGE || c.MaxRecvSGE < 0 || c.MaxRecvSGE > MaxSGE:
		return bad(verbs.ErrInvalid, "%d and %d pieces a request: 0 to %d", c.MaxSendSGE, c.MaxRecvSGE, MaxSGE)
	case c.MaxInlineData < 0 || c.MaxInlineData > MaxInline:
		return bad(verbs.ErrInvalid, "%d bytes of inline data, expected 0 to %d", c.MaxInlineData, MaxInline)
	case a.SRQ != nil && (a.SRQ.pd != p || a.SRQ.gone):
		return bad(verbs.ErrInvalid, "the SRQ belongs to another protection domain")
	case e.qps.n >= e.cfg.MaxQPs:
		return bad(verbs.ErrBusy, "the device has %d queue pairs and takes no more", e.qps.n)
	}
	return nil
}

// CreateQP makes a queue pair in state RESET.
func (p *PD) CreateQP(a QPInit) (*QP, error) {
	e, c := p.e, &a.Cap
	if err := p.check(&a); err != nil {
		return nil, err
	}
	num, err := e.newQPN()
	if err != nil {
		return nil, verbs.Errorf("create_qp", e.cfg.Name, err, "no random number")
	}
	q := &QP{e: e, pd: p, num: num, init: a, incarnation: new(incarnation), timerAt: units.Never, timerIndex: -1}
	if a.Type != ib.UD && e.cfg.Collect.any() {
		q.collected = &collected{}
	}
	q.attr.Cap = a.Cap
	q.sq.init(c.MaxSendWR)
	switch a.Type {
	case ib.UC:
		q.service = ib.ServiceUC
	case ib.UD:
		q.service = ib.ServiceUD
	}
	if a.SRQ != nil {
		q.recv = a.SRQ
		q.recv.users++
	} else if q.recv, err = p.recvQueue(q.object(), max(c.MaxRecvWR, 1), c.MaxRecvSGE); err != nil {
		return nil, verbs.Errorf("create_qp", e.cfg.Name, verbs.ErrInvalid, "%v", err) // the depth is within the limits that were checked
	}
	e.qps.put(num, q)
	a.SendCQ.users++
	a.RecvCQ.users++
	p.users++
	return q, nil
}

// newQPN draws a number above the reserved ones (IBA 3.5.1: 0 and 1 are the
// management queue pairs, 0xffffff is multicast).
func (e *Endpoint) newQPN() (uint32, error) {
	for {
		r, err := e.random()
		if err != nil {
			return 0, err
		}
		if n := uint32(r) & maxPSN; n > 1 && n < 0xffffff && e.qps.get(n) == nil {
			return n, nil
		}
	}
}

const maxPSN = 1<<24 - 1

func (q *QP) object() string { return fmt.Sprintf("qp %#x of %s", q.num, q.e.cfg.Name) }

// Num is the queue pair number: 24 random bits.
func (q *QP) Num() uint32 { return q.num }

// Type is the transport service.
func (q *QP) Type() ib.QPType { return q.init.Type }

// SendCQ is where its send completions go.
func (q *QP) SendCQ() *CQ { return q.init.SendCQ }

// CompletesOn reports whether completions of it go to a queue.
func (q *QP) CompletesOn(c *CQ) bool { return q.init.SendCQ == c || q.init.RecvCQ == c }

// CNPs returns how many congestion notifications the queue pair received. Any
// goroutine may call it.
func (q *QP) CNPs() uint64 { return q.cnps.Load() }

// Transport returns the connection's counters.
func (q *QP) Transport() rc.Counters {
	if q.rc == nil {
		return rc.Counters{}
	}
	return *q.rc.Counters()
}

// SetRecvSource sets where receives come from when none is left, of a queue pair with a
// receive queue of its own.
func (q *QP) SetRecvSource(s verbs.RecvSource) {
	if q.init.SRQ == nil {
		q.recv.SetSource(s)
	}
}

// State is the state of the queue pair.
func (q *QP) State() ib.QPState {
	if q.rc != nil && q.rc.State() != ib.RTR {
		return q.rc.State()
	}
	return q.state
}

// Query returns the current attributes.
func (q *QP) Query() (verbs.QPAttr, error) {
	if q.gone {
		return verbs.QPAttr{}, verbs.Errorf("query_qp", q.object(), verbs.ErrClosed, "")
	}
	a := q.attr
	a.State = q.State()
	return a, nil
}

// steps are the attributes that each step to RTS needs, by type: from RESET, from
// INIT and from RTR.
var steps = map[ib.QPType][3]verbs.QPAttrMask{
	ib.RC: {verbs.ResetToInitRC, verbs.InitToRTRRC, verbs.RTRToRTSRC},
	ib.UC: {verbs.ResetToInitUC, verbs.InitToRTRUC, verbs.RTRToRTSUC},
	ib.UD: {verbs.ResetToInitUD, verbs.InitToRTRUD, verbs.RTRToRTSUD},
}

func (q *QP) needs(from, to ib.QPState) verbs.QPAttrMask {
	switch {
	case from == ib.Reset && to == ib.Init, from == ib.Init && to == ib.RTR, from == ib.RTR && to == ib.RTS:
		return steps[q.init.Type][from]
	}
	return verbs.AttrState
}

// Modify sets the attributes in mask.
func (q *QP) Modify(now units.Time, a verbs.QPAttr, mask verbs.QPAttrMask) error {
	if q.gone {
		return q.bad(verbs.ErrClosed, "")
	}
	from := q.State()
	if mask&verbs.AttrState == 0 {
		a.State = from // attributes alone
	}
	if !from.CanBecome(a.State) || from == ib.Reset && mask&verbs.AttrState == 0 {
		return q.bad(verbs.ErrState, "a queue pair in %v can't go to %v", from, a.State)
	}
	if missing := q.needs(from, a.State) &^ (mask | verbs.AttrState); missing != 0 {
		return q.bad(verbs.ErrInvalid, "going to %v needs more attributes (ibv_modify_qp(3)): mask %#x is missing", a.State, uint32(missing))
	}
	switch a.State {
	case ib.Reset:
		q.reset()
	case ib.Err:
		q.fail(now)
	case ib.Init:
		return q.toInit(a, mask)
	case ib.RTR:
		if q.datagrams() {
			return q.toRTRDatagrams()
		}
		return q.toRTR(a, mask)
	case ib.RTS:
		return q.toRTS(now, from, a, mask)
	case ib.SQD:
		return q.drain(now, from)
	default:
		return q.bad(verbs.ErrInvalid, "no application brings a queue pair to %v", a.State)
	}
	return nil
}

func (q *QP) bad(cause error, format string, args ...any) error {
	return verbs.Errorf("modify_qp", q.object(), cause, format, args...)
}

func (q *QP) toInit(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	switch {
	case mask&verbs.AttrPort != 0 && a.Port != 1:
		return q.bad(verbs.ErrInvalid, "port %d does not exist: the device has port 1", a.Port)
	case mask&verbs.AttrPKeyIndex != 0 && a.PKeyIndex != 0:
		return q.bad(verbs.ErrInvalid, "P_Key index %d: the port has P_Key 0", a.PKeyIndex)
	}
	if mask&verbs.AttrPort != 0 {
		q.attr.Port = a.Port
	}
	if mask&verbs.AttrAccess != 0 {
		q.attr.Access = a.Access
	}
	if mask&verbs.AttrQKey != 0 {
		q.attr.QKey = a.QKey
	}
	q.state = ib.Init
	return nil
}

func (q *QP) toRTR(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	e := q.e
	route, err := e.cfg.Resolve(a.AV)
	switch {
	case errors.Is(err, verbs.ErrNotSupported):
		return q.bad(err, "")
	case err != nil:
		return q.bad(verbs.ErrInvalid, "%v", err)
	case !a.PathMTU.Valid():
		return q.bad(verbs.ErrInvalid, "a path MTU of %d: 256, 512, 1024, 2048 or 4096", a.PathMTU)
	case a.PathMTU > e.cfg.MTU:
		return q.bad(verbs.ErrInvalid, "a path MTU of %d is above the port's %d", a.PathMTU, e.cfg.MTU)
	case a.DestQPN > maxPSN:
		return q.bad(verbs.ErrInvalid, "peer queue pair %#x, expected 24 bits", a.DestQPN)
	case a.MaxDestRdAtomic > MaxRdAtomic:
		return q.bad(verbs.ErrInvalid, "%d responder resources: 0 to %d", a.MaxDestRdAtomic, MaxRdAtomic)
	}
	if mask&verbs.AttrAccess == 0 {
		a.Access = q.attr.Access
	}
	if q.init.Type == ib.UC {
		a.MaxDestRdAtomic, a.MinRNRTimer = 0, 0
	}
	t, err := rc.New(rc.Config{
		Type: q.init.Type, MTU: units.Bytes(a.PathMTU), SendDepth: len(q.sq.parts), Recv: q.recv.queue, SharedRecv: q.init.SRQ != nil,
		RemotePSN: units.MakePSN(a.RQPSN), MaxDestRdAtomic: int(a.MaxDestRdAtomic), MinRNRTimer: a.MinRNRTimer,
		Access: a.Access,
	})
	if err != nil {
		return q.bad(verbs.ErrInvalid, "%v", err)
	}
	route.SrcPort = srcPort(q.num, a.DestQPN, a.AV.FlowLabel)
	q.rc, q.route, q.destQPN, q.state = t, route, a.DestQPN, ib.RTR
	e.useGID(route.GID, 1)
	q.attr.PathMTU, q.attr.DestQPN, q.attr.RQPSN, q.attr.AV = a.PathMTU, a.DestQPN, a.RQPSN&maxPSN, a.AV
	q.attr.MaxDestRdAtomic, q.attr.MinRNRTimer, q.attr.Access = a.MaxDestRdAtomic, a.MinRNRTimer, a.Access
	return nil
}

// srcPort spreads connections over source ports, and so over paths, by the flow
// label or a hash in its place.
func srcPort(qpn, peer, label uint32) uint16 {
	if label == 0 {
		label = roce.FlowLabel(qpn, peer)
	}
	return roce.SrcPort(label)
}

func (q *QP) toRTS(now units.Time, from ib.QPState, a verbs.QPAttr, mask verbs.QPAttrMask) error {
	if q.datagrams() && mask&verbs.AttrQKey != 0 {
		q.attr.QKey = a.QKey
	}
	switch {
	case from == ib.SQD || from == ib.SQE:
		if err := q.rc.Resume(); err != nil {
			return q.bad(verbs.ErrState, "%v", err)
		}
	case q.init.Type != ib.RC && from == ib.RTR:
		if err := q.rc.ReadyToSend(rc.SendConfig{InitialPSN: units.MakePSN(a.SQPSN)}); err != nil {
			return q.bad(verbs.ErrInvalid, "%v", err)
		}
		q.attr.SQPSN = a.SQPSN & maxPSN
	case from == ib.RTS && q.datagrams(): // the Q_Key was all
	case from == ib.RTS && q.init.Type == ib.RC && mask&^verbs.AttrState == verbs.AttrMinRNRTimer:
		if err := q.rc.SetMinRNRTimer(a.MinRNRTimer); err != nil {
			return q.bad(verbs.ErrInvalid, "%v", err)
		}
		q.attr.MinRNRTimer = a.MinRNRTimer
	case from == ib.RTS:
		return q.bad(verbs.ErrNotSupported, "the attributes of a connection are fixed, but for MinRNRTimer: bring the queue pair to RESET and connect it anew")
	default:
		if a.MaxRdAtomic > MaxRdAtomic {
			return q.bad(verbs.ErrInvalid, "%d outstanding reads and atomics: 0 to %d", a.MaxRdAtomic, MaxRdAtomic)
		}
		window := q.e.cfg.Window(q.attr.PathMTU)
		if err := q.rc.ReadyToSend(rc.SendConfig{
			InitialPSN: units.MakePSN(a.SQPSN), Timeout: a.Timeout, RetryCount: a.RetryCnt, RNRRetry: a.RNRRetry,
			MaxRdAtomic: int(a.MaxRdAtomic), AckReqEvery: max(1, window/2), Window: window,
		}); err != nil {
			return q.bad(verbs.ErrInvalid, "%v", err)
		}
		// The requester splits a long READ into parts: only the requester limits the
		// responder, and the responses have to fit in the buffers here.
		part := window / max(1, min(2, int(a.MaxRdAtomic)))
		q.sq.readPart = uint32(max(1, part)) * uint32(q.attr.PathMTU)
		q.attr.SQPSN, q.attr.Timeout, q.attr.RetryCnt = a.SQPSN&maxPSN, a.Timeout, a.RetryCnt
		q.attr.RNRRetry, q.attr.MaxRdAtomic = a.RNRRetry, a.MaxRdAtomic
	}
	q.wake()
	return nil
}

func (q *QP) drain(now units.Time, from ib.QPState) error {
	if from == ib.SQD {
		return nil
	}
	if err := q.rc.Drain(&q.e.eff); err != nil {
		return q.bad(verbs.ErrState, "%v", err)
	}
	q.e.effects(now, q, nil)
	return nil
}

// fail takes the queue pair to the error state, which flushes its requests.
func (q *QP) fail(now units.Time) {
	if q.rc == nil {
		// Not connected yet. A transport in error flushes its receives too.
		q.rc, _ = rc.New(rc.Config{MTU: 256, SendDepth: 1, Recv: q.recv.queue, SharedRecv: q.init.SRQ != nil})
	}
	q.rc.ToError(&q.e.eff)
	q.e.effects(now, q, nil)
}

// reset takes the queue pair back to RESET. Its requests end without a completion,
// and completions that were not polled are dropped.
func (q *QP) reset() {
	e := q.e
	q.endIncarnation()
	q.unbindWindows()
	e.timers.remove(q)
	e.ready.remove(q)
	if q.rc != nil {
		e.past.Add(q.rc.Counters())
	}
	if q.route.Dst.IsValid() {
		e.useGID(q.route.GID, -1)
	}
	q.rc, q.state, q.destQPN, q.route = nil, ib.Reset, 0, Route{}
	q.sq.clear()
	q.congestion, q.turnaround = congestion{}, turnaround{}
	if q.collected != nil {
		*q.collected = collected{}
	}
	if q.init.SRQ == nil {
		// The depth is as it was.
		source := q.recv.source
		q.recv, _ = q.pd.recvQueue(q.recv.object, len(q.recv.sgls), q.recv.sges)
		q.recv.source = source
	}
	q.attr = verbs.QPAttr{Cap: q.init.Cap}
}

// Close frees the queue pair. Its requests end without completions, completions
// that were not polled are dropped, and packets on their way to it find no queue
// pair.
func (q *QP) Close() error {
	if q.gone {
		return verbs.Errorf("destroy_qp", q.object(), verbs.ErrClosed, "")
	}
	q.reset()
	q.gone = true
	q.e.qps.remove(q.num)
	q.init.SendCQ.users--
	q.init.RecvCQ.users--
	q.pd.users--
	if q.init.SRQ != nil {
		q.init.SRQ.users--
	}
	return nil
}

// PostRecv adds receives and returns how many were taken.
func (q *QP) PostRecv(now units.Time, wrs []verbs.RecvWR) (int, error) {
	switch {
	case q.gone:
		return 0, verbs.Errorf("post_recv", q.object(), verbs.ErrClosed, "")
	case q.init.SRQ != nil:
		return 0, verbs.Errorf("post_recv", q.object(), verbs.ErrInvalid, "the queue pair draws on an SRQ: post there")
	}
	s := q.State()
	if s == ib.Reset {
		return 0, verbs.Errorf("post_recv", q.object(), verbs.ErrState, "the queue pair is in %v; bring it to INIT first", s)
	}
	n, err := q.recv.PostRecv(wrs)
	if s == ib.Err {
		q.e.reap(q)
		q.e.failOverrun(now)
	}
	return n, err
}
