package paced

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// QP is a paced RC queue pair. It implements verbs.QP. Its PD's CreateQP makes
// it; the CQs given there must be the Shim's.
//
// A request counts against Cap.MaxSendWR from PostSend until its completion is
// polled; one that is not signaled, until it has succeeded.
type QP struct {
	// First what each segment needs, close together: with many queue pairs, most
	// of what a segment costs is fetching this.
	shim  *Shim
	inner verbs.QP
	sends *sendCQ // where the provider completes the segments
	cq    *CQ     // where the application gets its completions
	wrid  uint64  // the upper half of its segments' WRIDs
	flow  ratelimiter.FlowID
	state ib.QPState
	filed bool // the segment at the cursor is with the scheduler
	going bool // Destroy is at work
	hold  hold

	heldFrom units.Time // since when hold, or when that was last counted

	sigAll     bool
	cap        verbs.QPCap
	depth      int         // segments that the provider takes
	rdMax      int         // reads and atomics that the NIC has outstanding; 0 if not known
	limit      units.Bytes // Config.MaxOutstanding
	largest    units.Bytes // Config.Segment
	firstClaim int         // in shim.claims, or none
	lastClaim  int

	// Requests, and where the next segment begins.
	at       cursor      // valid while unsent is not 0
	unsent   int         // requests that are not claimed to their end
	requests []request   // by slot
	sgl      []verbs.SGE // MaxSendSGE for each slot
	inline   []byte      // MaxInlineData for each slot
	table    completions.Table

	steering

	recv  *CQ
	index int
	port  int
	mtu   ib.MTU
	tally tally
	watch func(a *cc.Ack, c cc.Control) // nil if nobody does
}

// request is what a queue pair keeps of a request that is not wholly posted.
type request struct {
	opcode     ib.WROpcode
	flags      verbs.SendFlags
	length     uint32
	sges       int
	remoteAddr uint64
	rkey, imm  uint32
	compareAdd uint64
	swap       uint64
}

// cut reports whether r may leave in several segments. Sends may not: the
// receiver's buffers decide their size.
func (r *request) cut() bool {
	switch r.opcode {
	case ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead:
		return r.flags&verbs.SendInline == 0
	}
	return false
}

// cursor is a place in the data of the requests.
type cursor struct {
	slot int
	off  uint32 // in the message
	sge  int    // the SGE that holds off,
	into uint32 // and where in it
}

// Segments are told apart by their WRID: the QP's index above, a generation
// that a reset advances, and the segment's number in the table below.
const (
	genShift   = 32
	indexShift = 40
	kickWRID   = math.MaxUint64
	maxQPs     = 1<<24 - 1
)

func (s *Shim) qpOf(wrid uint64) *QP {
	i := int(wrid >> indexShift)
	if i >= len(s.qps) || s.qps[i] == nil || s.qps[i].wrid != wrid&^math.MaxUint32 {
		return nil
	}
	return s.qps[i]
}

// maxMessage is the longest message of the InfiniBand transport (IBA 9.7.3).
const maxMessage = 1 << 31

// maxDepth bounds the segments of one QP with the provider, whatever
// MaxOutstanding would allow.
const maxDepth = 4096

type pd struct {
	verbs.PD
	shim    *Shim
	adopted bool
}

// CreateQP implements verbs.PD.
func (p *pd) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	s := p.shim
	bad := func(cause error, format string, args ...any) (verbs.QP, error) {
		return nil, verbs.Errorf("create_qp", s.dev.Name(), cause, format, args...)
	}
	if a.Type != ib.RC {
		return bad(verbs.ErrNotSupported, "only RC is paced, since only its acknowledgements give round trips: make the %s queue pair on the device below the shim", a.Type)
	}
	send, ok1 := a.SendCQ.(*CQ)
	recv, ok2 := a.RecvCQ.(*CQ)
	if !ok1 || !ok2 || send.shim != s || recv.shim != s {
		return bad(verbs.ErrInvalid, "SendCQ and RecvCQ must be made by this device")
	}
	if a.Cap.MaxSendWR < 0 || a.Cap.MaxSendSGE < 0 || a.Cap.MaxInlineData < 0 {
		return bad(verbs.ErrInvalid, "Cap has a negative size")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.qps)-len(s.vacant) >= maxQPs {
		return bad(verbs.ErrInvalid, "a shim takes %d queue pairs", maxQPs)
	}

	q := &QP{
		shim: s, cq: send, recv: recv, sigAll: a.SigAll, cap: a.Cap, port: 1, mtu: 1024,
		firstClaim: none, largest: s.cfg.Segment,
	}
	if q.cap.MaxSendSGE == 0 {
		q.cap.MaxSendSGE = 1
	}
	q.cap.MaxSendWR = max(q.cap.MaxSendWR, 1)
	q.limit = s.cfg.Outstanding(s.lineRate(q.port))
	q.depth = min(max(q.cap.MaxSendWR, int((q.limit+q.largest-1)/q.largest)), maxDepth)
	if s.attr.MaxQPWR > 0 {
		q.depth = min(q.depth, s.attr.MaxQPWR)
	}

	sends, err := s.sendCQFor(send, recv, q.depth)
	if err != nil {
		return nil, err
	}
	a.SendCQ, a.RecvCQ, a.SigAll = sends.cq, recv.recv, false
	a.Cap.MaxSendWR, a.Cap.MaxSendSGE = q.depth, q.cap.MaxSendSGE
	if q.inner, err = p.PD.CreateQP(a); err != nil {
		return nil, err
	}
	if q.flow, err = s.sched.AddFlow(ratelimiter.Unpaced); err != nil {
		return nil, errors.Join(err, q.inner.Destroy())
	}
	q.sends = sends
	sends.used += q.depth
	q.table = *completions.NewTable(q.inner.Num(), q.cap.MaxSendWR, q.depth)
	slots := q.table.Slots()
	q.requests = make([]request, slots)
	q.sgl = make([]verbs.SGE, slots*q.cap.MaxSendSGE)
	q.inline = make([]byte, slots*q.cap.MaxInlineData)
	q.prepare()

	s.adopt(q)
	send.addQP(q.cap.MaxSendWR)
	recv.refs++
	if q.cap.MaxSendSGE > s.maxSGE {
		s.maxSGE = q.cap.MaxSendSGE
		s.sges = make([]verbs.SGE, s.maxSGE*len(s.wrs))
	}
	return q, nil
}

// adopt enters q in the shim's tables.
func (s *Shim) adopt(q *QP) {
	if n := len(s.vacant); n > 0 {
		q.index, s.vacant = s.vacant[n-1], s.vacant[:n-1]
	} else {
		q.index = len(s.qps)
		s.qps = append(s.qps, nil)
		s.gens = append(s.gens, 0)
	}
	s.qps[q.index] = q
	q.renew()
	for len(s.flows) <= int(q.flow) {
		s.flows = append(s.flows, nil)
	}
	s.flows[q.flow] = q
	s.byInner[q.inner] = q
}

// renew makes completions of segments posted so far strays.
func (q *QP) renew() {
	q.shim.gens[q.index]++
	q.wrid = uint64(q.index)<<indexShift | uint64(q.shim.gens[q.index])<<genShift
}

// lineRate is the NIC's line rate at a port, 0 if that is not known.
func (s *Shim) lineRate(port int) units.Rate {
	if s.cfg.LineRate > 0 {
		return s.cfg.LineRate
	}
	a, err := s.dev.Port(port)
	if err != nil {
		return 0
	}
	return units.Rate(a.LinkRate)
}

// Num implements verbs.QP.
func (q *QP) Num() uint32 { return q.inner.Num() }

// Type implements verbs.QP.
func (q *QP) Type() ib.QPType { return q.inner.Type() }

// Unwrap returns the provider's queue pair.
func (q *QP) Unwrap() verbs.QP { return q.inner }

// PostRecv implements verbs.QP.
func (q *QP) PostRecv(wrs []verbs.RecvWR) (int, error) { return q.inner.PostRecv(wrs) }

// Query implements verbs.QP.
func (q *QP) Query() (verbs.QPAttr, error) {
	a, err := q.inner.Query()
	recvWR, recvSGE := a.Cap.MaxRecvWR, a.Cap.MaxRecvSGE
	a.Cap = q.cap
	a.Cap.MaxRecvWR, a.Cap.MaxRecvSGE = recvWR, recvSGE
	return a, err
}

// Control returns what the engine allows at present; without an engine, the
// line rate.
func (q *QP) Control() cc.Control {
	q.shim.mu.Lock()
	defer q.shim.mu.Unlock()
	return q.driver.Control()
}

// Outstanding returns the payload bytes that are with the NIC.
func (q *QP) Outstanding() units.Bytes {
	q.shim.mu.Lock()
	defer q.shim.mu.Unlock()
	return q.table.Outstanding()
}

// CNPs implements verbs.CNPQP. It is 0 where the provider does not count them.
func (q *QP) CNPs() uint64 {
	if q.cnps == nil {
		return 0
	}
	return q.cnps.CNPs()
}

// SetRateLimit implements verbs.RateLimitQP: it sets the NIC's limiter, in place
// of Config.NICRate, and takes its rate out of the round trips from then on.
func (q *QP) SetRateLimit(bps int64) error {
	q.shim.mu.Lock()
	defer q.shim.mu.Unlock()
	return q.limitNIC(units.Rate(bps))
}

// Modify implements verbs.QP. The engine is made, and the NIC's rate limit set,
// on the way from RTR to RTS. RESET forgets requests without completions and
// ERR flushes them, as the verbs have it; in SQD, nothing is sent.
func (q *QP) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	if err := q.modify(a, mask); err != nil {
		return err
	}
	if mask&verbs.AttrState != 0 && a.State == ib.Reset {
		return q.sweep()
	}
	return nil
}

// sweep takes what the provider completed of requests that are forgotten, so
// that it does not fill the CQ.
func (q *QP) sweep() error {
	s := q.shim
	s.mu.Lock()
	defer s.mu.Unlock()
	if !q.sends.stale {
		return nil
	}
	return s.turn(0, true)
}

func (q *QP) modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	s := q.shim
	s.mu.Lock()
	defer s.mu.Unlock()
	start := mask&verbs.AttrState != 0 && a.State == ib.RTS && q.state == ib.RTR
	if start {
		if err := q.start(); err != nil {
			return err
		}
	}
	if err := q.inner.Modify(a, mask); err != nil {
		return err
	}
	if mask&verbs.AttrPort != 0 {
		q.port = a.Port
	}
	if mask&verbs.AttrPathMTU != 0 && a.PathMTU > 0 {
		q.mtu, q.size.bytes = a.PathMTU, -1
	}
	if mask&verbs.AttrMaxQPRdAtomic != 0 {
		q.rdMax = int(a.MaxRdAtomic)
	}
	if mask&verbs.AttrState == 0 {
		return nil
	}
	q.state = a.State
	switch a.State {
	case ib.RTS:
		if start && s.cfg.NICRate > 0 && q.limitNIC(s.cfg.NICRate) != nil {
			s.stats.NICRateRefused++
		}
		now := s.Clock()
		q.offer(now, now)
		s.release(now, true)
		s.alert()
	case ib.Reset:
		q.clear()
		q.renew()
	case ib.Err:
		q.fail()
		q.finish(false)
	default:
		q.withdraw()
		q.held(s.Clock(), holdOther)
	}
	return nil
}

// clear forgets everything that was posted.
func (q *QP) clear() {
	s := q.shim
	q.withdraw()
	q.held(s.Clock(), holdIdle)
	q.unsent = 0
	if n := q.table.InFlight(); n > 0 {
		q.sends.inFlight -= n
		q.sends.stale = true
		s.inFlight -= n
	}
	q.table.Reset()
}

// fail stops sending for good: the queue pair is in error.
func (q *QP) fail() {
	q.state = ib.Err
	q.table.Abort()
	q.withdraw()
	q.held(q.shim.Clock(), holdIdle)
	q.unsent = 0
}

func (q *QP) withdraw() {
	if q.filed {
		q.shim.sched.Withdraw(q.flow)
		q.filed = false
	}
}

// Destroy implements verbs.QP. Requests outstanding are forgotten without
// completions; those in the CQ already stay there.
func (q *QP) Destroy() error {
	if err := q.destroy(); err != nil {
		return err
	}
	return q.sweep()
}

func (q *QP) destroy() error {
	s := q.shim
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.qps[q.index] != q {
		return q.errorf("destroy_qp", verbs.ErrClosed, "")
	}
	if q.going {
		return q.errorf("destroy_qp", verbs.ErrBusy, "another call is destroying it")
	}
	// A provider's may wait for the program to acknowledge the queue pair's events,
	// and the program for the lock. Meanwhile nothing is sent.
	q.withdraw()
	state := q.state
	q.going, q.state = true, ib.Reset
	s.mu.Unlock()
	err := q.inner.Destroy()
	s.mu.Lock()
	q.going = false
	if err != nil {
		if q.state == ib.Reset {
			q.state = state
			q.file(s.Clock())
		}
		return err
	}
	q.clear()
	all, failed := q.table.Finished()
	s.stats.Messages += all
	s.stats.Failed += failed
	s.stats.add(&q.tally, q.tally.held.sums())
	s.sched.RemoveFlow(q.flow)
	s.flows[q.flow] = nil
	s.qps[q.index] = nil
	s.vacant = append(s.vacant, q.index)
	delete(s.byInner, q.inner)
	q.sends.used -= q.depth
	q.cq.removeQP(q.cap.MaxSendWR)
	q.recv.refs--
	q.state = ib.Reset
	return nil
}

func (q *QP) errorf(op string, cause error, format string, args ...any) error {
	return verbs.Errorf(op, fmt.Sprintf("qp %d of %s", q.inner.Num(), q.shim.dev.Name()), cause, format, args...)
}
