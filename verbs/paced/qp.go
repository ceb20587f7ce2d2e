package paced

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
	"github.com/sluice-rdma/sluice/verbs/route"
)

// QP is a paced RC queue pair. It implements verbs.QP. Its PD's CreateQP makes
// it; the CQs given there must be the Shim's.
//
// A request counts against Cap.MaxSendWR from PostSend until its completion, or that of
// a later one, is polled: so a queue of requests that are not signaled stays full.
type QP struct {
	// First what each segment needs, close together: with many queue pairs, most
	// of what a segment costs is fetching this. At more than 1784 bytes Go would
	// give it 2048, header included, and the same fields of all queue pairs would compete for a few
	// sets of a cache.
	shard     *shard
	inner     verbs.QP
	sends     *sendCQ                       // where the provider completes the segments
	cq        *CQ                           // where the application gets its completions
	watch     func(a *cc.Ack, c cc.Control) // nil if there is no watcher
	drain     atomic.Pointer[drain]         // the change to SQD that waits, nil for none; set with the shard's lock
	tells     bool                          // the provider's queue pair tells something of a segment: one of abilities
	reported  bool                          // telemetry has something for the engine
	adaptive  bool                          // inner is a verbs.AdpRetransQP
	core      core.QP
	*settings                   // with limiter, it has the tally begin a cache line
	limiter   verbs.RateLimitQP // the provider's queue pair, or nil
	tally     tally

	abilities
}

// settings are the parts of a queue pair that no segment needs: elsewhere, so that it fits its
// size class.
type settings struct {
	modifying sync.Mutex // held by Modify and SetRateLimit; guards port, mtu and the path's

	going bool          // Close is at work
	path  ib.StaticRate // which the shim gave the path, 0 for none
	av    verbs.AddressVector
	port  int
	cap   verbs.QPCap
	depth int // segments that the provider takes
	recv  *CQ
	index int
	mtu   ib.MTU

	// Of the group, guarded by the shard's lock.
	weight, class int
	group         groupKey
	place         core.Member
}

// The WRID identifies a segment: the QP's index above, a generation that a reset
// advances, and the segment's number in the table below.
const (
	genShift   = 32
	indexShift = 40
	kickWRID   = math.MaxUint64
	maxQPs     = 1<<24 - 1
)

func (s *shard) qpOf(wrid uint64) *QP {
	i := int(wrid >> indexShift)
	if i >= len(s.qps) || s.qps[i] == nil || !s.qps[i].core.Named(wrid) {
		return nil
	}
	return s.qps[i]
}

// maxDepth bounds the segments of one QP with the provider, whatever
// MaxOutstanding would allow.
const maxDepth = 4096

type pd struct {
	verbs.PD
	shim *Shim
}

// AllocMW implements verbs.WindowPD: the window is the provider's, and is bound by requests
// on paced queue pairs as on others.
func (p *pd) AllocMW(t ib.MWType) (verbs.MW, error) { return verbs.AllocMW(p.PD, t) }

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
	if most := s.attr.MaxQPWR; most > 0 && a.Cap.MaxSendWR > most {
		return bad(verbs.ErrInvalid, "Cap.MaxSendWR is %d, and the device takes %d", a.Cap.MaxSendWR, most)
	}
	x, err := send.home()
	if err != nil {
		return nil, err
	}
	q := &QP{
		shard: x, cq: send, settings: &settings{recv: recv, cap: a.Cap, port: 1, mtu: 1024, weight: 1},
	}
	if q.cap.MaxSendSGE == 0 {
		q.cap.MaxSendSGE = 1
	}
	q.cap.MaxSendWR = max(q.cap.MaxSendWR, 1)
	line := q.lineRate()
	limit := s.cfg.Outstanding(line)
	q.depth = min(max(q.cap.MaxSendWR, int((limit+s.cfg.Segment-1)/s.cfg.Segment)), maxDepth)
	if s.attr.MaxQPWR > 0 {
		q.depth = min(q.depth, s.attr.MaxQPWR)
	}

	if q.sends, err = x.sendCQFor(send, recv, q.depth); err != nil {
		return nil, err
	}
	sigAll := a.SigAll
	a.SendCQ, a.RecvCQ, a.SigAll = q.sends.cq, recv.recv, false
	a.Cap.MaxSendWR, a.Cap.MaxSendSGE = q.depth, q.cap.MaxSendSGE
	if q.inner, err = p.PD.CreateQP(a); err == nil {
		q.prepare()
		err = q.enter(&core.QPConfig{
			Number: q.inner.Num(), Cap: q.cap, SigAll: sigAll,
			Segment: s.cfg.Segment, CutImmediate: s.cfg.CutImmediate, Depth: q.depth, Limit: limit, Line: line, MTU: q.mtu,
		})
		if err != nil {
			err = errors.Join(err, q.inner.Close())
		}
	}
	if err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		q.sends.used -= q.depth
		return nil, err
	}
	return q, nil
}

// enter makes q one of the shim's.
func (q *QP) enter(a *core.QPConfig) error {
	s := q.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.qps)-len(s.vacant) >= maxQPs {
		return verbs.Errorf("create_qp", s.dev.Name(), verbs.ErrInvalid, "a shim takes %d queue pairs", maxQPs)
	}
	s.place(q)
	a.Index = q.index
	if err := s.core.Add(&q.core, a); err != nil {
		s.unplace(q)
		return err
	}
	q.renew()
	q.cq.addQP(q.cap.MaxSendWR)
	s.refer(q.cq, q.recv, 1)
	return nil
}

// place enters q in the shim's tables.
func (s *shard) place(q *QP) {
	if n := len(s.vacant); n > 0 {
		q.index, s.vacant = s.vacant[n-1], s.vacant[:n-1]
	} else {
		q.index = len(s.qps)
		s.qps = append(s.qps, nil)
		s.gens = append(s.gens, 0)
	}
	s.qps[q.index] = q
	s.know(q.inner, q)
}

// unplace takes it out.
func (s *shard) unplace(q *QP) {
	s.qps[q.index] = nil
	s.vacant = append(s.vacant, q.index)
	s.forget(q.inner)
}

// renew makes completions of segments posted so far strays.
func (q *QP) renew() {
	q.shard.gens[q.index]++
	q.core.Name(uint64(q.index)<<indexShift | uint64(q.shard.gens[q.index])<<genShift)
}

// lineRate returns the rate at which the queue pair can send: its port's, and for a device of the loopback
// that of the way to its peer. 0 if that is not known.
func (q *QP) lineRate() units.Rate {
	s := q.shard
	if s.cfg.LineRate > 0 {
		return s.cfg.LineRate
	}
	return units.Rate(route.Rate(s.dev, q.port, q.av.SGIDIndex, q.av.GID))
}

// longest is the bytes of the longest message at a port, 0 if that is not known.
func (s *Shim) longest(port int) uint32 {
	a, err := s.dev.Port(port)
	if err != nil {
		return 0
	}
	return a.MaxMsgSize
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
	if q.drain.Load() != nil {
		a.State = ib.SQD
	}
	recvWR, recvSGE := a.Cap.MaxRecvWR, a.Cap.MaxRecvSGE
	a.Cap = q.cap
	a.Cap.MaxRecvWR, a.Cap.MaxRecvSGE = recvWR, recvSGE
	return a, err
}

// Control returns the engine's present Control; without an engine, the line rate.
func (q *QP) Control() cc.Control {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	return q.core.Control()
}

// Outstanding returns the payload bytes that are with the NIC.
func (q *QP) Outstanding() units.Bytes {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	return q.core.Outstanding()
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
	q.modifying.Lock()
	defer q.modifying.Unlock()
	return q.limitNIC(units.Rate(bps))
}

// Modify implements verbs.QP. The engine is made, and the NIC's rate limit set,
// on the way from RTR to RTS; the static rate of its path, where that takes its place, on
// the way to RTR. RESET forgets requests without completions and
// ERR flushes them, as the verbs have it. In SQD, requests that have begun are sent to
// their end, by the calls that make progress, and the provider's queue pair gets there after them.
func (q *QP) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	if err := q.modify(a, mask); err != nil {
		return err
	}
	q.shard.finishDrains() // that found the queue pair being modified
	if mask&verbs.AttrState != 0 && a.State == ib.Reset {
		return q.sweep()
	}
	return nil
}

// sweep takes what the provider completed of requests that are forgotten, so
// that it does not fill the CQ.
func (q *QP) sweep() error {
	s := q.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if !q.sends.stale {
		return nil
	}
	return s.turn(s.now())
}

// same is a state for Modify without verbs.AttrState.
const same ib.QPState = 0xff

func (q *QP) modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	q.modifying.Lock()
	defer q.modifying.Unlock()
	to := a.State
	if mask&verbs.AttrState == 0 {
		to = same
	}
	if deferred, err := q.deferSQD(&a, mask, to); deferred || err != nil {
		return err
	}
	from, err := q.leave(to)
	if err != nil {
		return err
	}
	static := q.staticRate(&a, mask)
	err = q.inner.Modify(a, mask)
	if err != nil && static > 0 { // it may be that which the provider does not take
		a.AV.StaticRate, static = 0, 0
		err = q.inner.Modify(a, mask)
	}
	if err != nil {
		q.stay(from, to)
		return err
	}
	if mask&verbs.AttrAV != 0 {
		q.path = q.keptRate(static)
		q.av = a.AV
	}
	if mask&verbs.AttrPort != 0 {
		q.port = a.Port
	}
	refused := from == ib.RTR && to == ib.RTS && q.shard.cfg.NICRate > 0 && q.hybrid() != nil

	s := q.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused {
		s.stats.NICRateRefused++
	}
	if mask&verbs.AttrPathMTU != 0 && a.PathMTU > 0 {
		q.mtu = a.PathMTU
		q.core.SetMTU(q.mtu)
	}
	if mask&verbs.AttrMaxQPRdAtomic != 0 {
		q.core.SetReads(int(a.MaxRdAtomic))
	}
	if mask&verbs.AttrTimeout != 0 {
		q.core.SetTimeout(a.Timeout)
	}
	q.arrive(to)
	return nil
}

// leave prepares for a state, which the provider has yet to take the queue pair to, and
// returns the present one. Meanwhile nothing is sent, unless the state is RTS, or ERR,
// where the provider flushes what is sent.
func (q *QP) leave(to ib.QPState) (from ib.QPState, err error) {
	s := q.shard
	s.mu.Lock()
	from = q.core.State()
	s.mu.Unlock()
	switch to {
	case same, ib.Err:
	case ib.RTS:
		if from == ib.RTR {
			return from, q.start()
		}
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		q.core.Suspend(to)
	}
	return from, nil
}

// stay goes back from leave, as the provider has refused.
func (q *QP) stay(from, to ib.QPState) {
	if to == same || to == ib.Err || to == ib.RTS {
		return
	}
	s := q.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.core.State() == to {
		q.core.Restore(s.instant(), from)
	}
}

// arrive takes note of a new state.
func (q *QP) arrive(state ib.QPState) {
	s := q.shard
	if state != same {
		q.undrain()
	}
	switch state {
	case same:
	case ib.RTS:
		t := s.now()
		t.read(s.core)
		q.core.Resume(t.now)
		s.release(&t)
		s.publish(t.long)
	case ib.Reset:
		q.clear()
		q.renew()
	case ib.Err:
		now := s.Clock()
		q.core.Fail(s.core.Now(now))
		q.finish(false)
		s.publish(now)
	default:
		q.core.Stop(s.instant(), state)
	}
}

// clear forgets everything that was posted.
func (q *QP) clear() {
	if n := q.core.Clear(q.shard.instant(), &q.cq.sends); n > 0 {
		q.sends.inFlight -= n
		q.sends.stale = true
	}
	q.leaveGroup()
}

// Close implements verbs.QP. Requests outstanding are forgotten without
// completions, and completions that were not polled are dropped.
func (q *QP) Close() error {
	if err := q.destroy(); err != nil {
		return err
	}
	return q.sweep()
}

func (q *QP) destroy() error {
	s := q.shard
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
	state := q.core.State()
	q.core.Suspend(ib.Reset)
	q.going = true
	s.mu.Unlock()
	err := q.inner.Close()
	s.mu.Lock()
	q.going = false
	if err != nil {
		if q.core.State() == ib.Reset {
			q.core.Restore(s.instant(), state)
		}
		return err
	}
	q.clear()
	q.undrain()
	all, failed := q.core.Finished()
	s.stats.Messages += all
	s.stats.Failed += failed
	s.stats.add(&q.tally, heldOf(q.core.Held(s.instant())))
	s.core.Remove(&q.core)
	s.unplace(q)
	q.sends.used -= q.depth
	q.cq.capacity -= q.cap.MaxSendWR
	s.refer(q.cq, q.recv, -1)
	return nil
}

func (q *QP) errorf(op string, cause error, format string, args ...any) error {
	return verbs.Errorf(op, fmt.Sprintf("qp %d of %s", q.inner.Num(), q.shard.dev.Name()), cause, format, args...)
}
