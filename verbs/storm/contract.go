package storm

import (
	"errors"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// guardQP is a queue pair with what it has been asked, for the contract of package
// verbs: requests complete in their order, each once, and after one has failed only by
// being flushed; a post is taken where there is room.
type guardQP struct {
	qp   verbs.QP
	p    *Process
	init verbs.QPInitAttr
	srq  *guardSRQ

	sends  []request // posted and not known to have ended
	recvs  []request
	failed bool // a request has completed with an error

	accepted units.Bytes // of requests, since RESET
	empty    int         // of them, without bytes
	looks    int
	mtu      ib.MTU
	av       verbs.AddressVector
}

// request is a work request under way.
type request struct {
	id       uint64
	opcode   ib.WROpcode
	signaled bool
	length   int
}

// CreateQP implements verbs.PD.
func (d *guardPD) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	if !d.p.enter() {
		return nil, closed("create_qp")
	}
	own := &guardQP{p: d.p}
	for _, c := range []*verbs.CQ{&a.SendCQ, &a.RecvCQ} {
		if g, ok := (*c).(*guardCQ); ok {
			*c = g.cq
		}
	}
	if s, ok := a.SRQ.(*guardSRQ); ok {
		own.srq, a.SRQ = s, s.srq
	}
	q, err := d.pd.CreateQP(a)
	if err != nil {
		return nil, err
	}
	if d.p.byNum[q.Num()] != nil {
		d.p.Failf("queue pair %#x is made while it exists", q.Num())
	}
	own.qp, own.init = q, a
	d.p.qps[q], d.p.byNum[q.Num()] = own, own
	return own, nil
}

// Num implements verbs.QP.
func (q *guardQP) Num() uint32 { return q.qp.Num() }

// Type implements verbs.QP.
func (q *guardQP) Type() ib.QPType { return q.qp.Type() }

// PostSend implements verbs.QP.
func (q *guardQP) PostSend(wrs []verbs.SendWR) (int, error) {
	if !q.p.enter() {
		return 0, closed("post_send")
	}
	given := wrs
	for i := range wrs {
		if a, ok := wrs[i].AH.(*guardAH); ok {
			if &given[0] == &wrs[0] {
				given = append([]verbs.SendWR(nil), wrs...)
			}
			given[i].AH = a.ah
		}
	}
	n, err := q.qp.PostSend(given)
	if n < 0 || n > len(wrs) || n < len(wrs) && err == nil || n == len(wrs) && err != nil && n > 0 {
		q.p.Failf("post_send of %d requests took %d with the error %v", len(wrs), n, err)
		return n, err
	}
	for i := range wrs[:n] {
		wr := &wrs[i]
		q.sends = append(q.sends, request{
			wr.WRID, wr.Opcode, q.init.SigAll || wr.Flags&verbs.SendSignaled != 0, wr.Length(),
		})
		q.accepted += units.Bytes(wr.Length())
		if wr.Length() == 0 {
			q.empty++
		}
	}
	q.p.ward.accepted += uint64(n)
	q.holdsItsOwn(n > 0 && q.alone())
	// Requests without a completion of their own hold their places until a later one's
	// is polled.
	if errors.Is(err, verbs.ErrQueueFull) && len(q.sends) < q.init.Cap.MaxSendWR {
		q.p.Failf("post_send on queue pair %#x finds the queue full with %d of %d requests under way", q.Num(), len(q.sends), q.init.Cap.MaxSendWR)
	}
	return n, err
}

// PostRecv implements verbs.QP.
func (q *guardQP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if !q.p.enter() {
		return 0, closed("post_recv")
	}
	n, err := q.qp.PostRecv(wrs)
	if n < 0 || n > len(wrs) || n < len(wrs) && err == nil {
		q.p.Failf("post_recv of %d receives took %d with the error %v", len(wrs), n, err)
		return n, err
	}
	for i := range wrs[:n] {
		length := 0
		for _, s := range wrs[i].SGL {
			length += int(s.Length)
		}
		q.recvs = append(q.recvs, request{id: wrs[i].WRID, length: length})
	}
	if errors.Is(err, verbs.ErrQueueFull) && len(q.recvs) < q.init.Cap.MaxRecvWR {
		q.p.Failf("post_recv on queue pair %#x finds the queue full with %d of %d receives under way", q.Num(), len(q.recvs), q.init.Cap.MaxRecvWR)
	}
	return n, err
}

// Modify implements verbs.QP.
func (q *guardQP) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	if !q.p.enter() {
		return closed("modify_qp")
	}
	if err := q.qp.Modify(a, mask); err != nil {
		return err
	}
	if mask&verbs.AttrPathMTU != 0 {
		q.mtu = a.PathMTU
	}
	if mask&verbs.AttrAV != 0 {
		q.av = a.AV
	}
	if mask&verbs.AttrState != 0 && a.State == ib.Reset {
		q.sends, q.recvs, q.failed, q.accepted, q.empty = nil, nil, false, 0, 0
	}
	if mask&verbs.AttrState != 0 && a.State == ib.RTS && q.init.Type != ib.RC {
		q.failed = false // the send queue goes on, from SQE
	}
	if own, shim := q.p.ward.paces[q.Num()], q.shim(); own != nil && shim != nil && mask&verbs.AttrMaxQPRdAtomic != 0 && a.State == ib.RTS {
		own.mtu = units.Bytes(q.mtu)
		q.p.ward.join(own, &q.av, shim.Control())
	}
	return nil
}

// Query implements verbs.QP.
func (q *guardQP) Query() (verbs.QPAttr, error) {
	if !q.p.enter() {
		return verbs.QPAttr{}, closed("query_qp")
	}
	return q.qp.Query()
}

// Close implements verbs.QP.
func (q *guardQP) Close() error {
	if !q.p.enter() {
		return closed("destroy_qp")
	}
	if err := q.qp.Close(); err != nil {
		return err
	}
	delete(q.p.qps, q.qp)
	delete(q.p.byNum, q.Num())
	return nil
}

// completed holds a completion against what was asked.
func (p *Process) completed(wc *verbs.WC) {
	q := p.byNum[wc.QPN]
	switch {
	case q == nil:
		p.Failf("a completion is of queue pair %#x, which does not exist: %+v", wc.QPN, *wc)
	case q.isReceive(wc):
		q.received(wc)
	default:
		q.sent(wc)
	}
}

// isReceive tells whether a completion is of a receive. Failed ones have no opcode that
// counts: those belong to where their WRID is next.
func (q *guardQP) isReceive(wc *verbs.WC) bool {
	if wc.Status == ib.WCSuccess {
		return wc.Opcode >= ib.WCRecv
	}
	for i := range q.sends {
		if q.sends[i].id == wc.WRID {
			return false
		}
	}
	return true
}

func (q *guardQP) sent(wc *verbs.WC) {
	i := 0
	// Requests before it that are unsignaled have succeeded without a word.
	for i < len(q.sends) && q.sends[i].id != wc.WRID && !q.sends[i].signaled {
		i++
	}
	switch {
	case i == len(q.sends) || q.sends[i].id != wc.WRID:
		q.p.Failf("queue pair %#x completes request %#x (%v), of %d under way, the first of which is %#x", q.Num(), wc.WRID, wc.Status, len(q.sends), first(q.sends))
		return
	case wc.Status == ib.WCSuccess && q.failed:
		q.p.Failf("queue pair %#x completes request %#x with success after a failure", q.Num(), wc.WRID)
	case wc.Status == ib.WCSuccess && !q.sends[i].signaled:
		q.p.Failf("queue pair %#x completes request %#x, which is not signaled, with success", q.Num(), wc.WRID)
	case wc.Status == ib.WCSuccess && wc.Opcode != q.sends[i].opcode.Completion():
		q.p.Failf("queue pair %#x completes request %#x, a %v, as %v", q.Num(), wc.WRID, q.sends[i].opcode, wc.Opcode)
	case wc.Status != ib.WCSuccess && wc.Status != ib.WCWRFlushErr && q.failed:
		q.p.Failf("queue pair %#x completes request %#x with %v after a failure, where it is to be flushed", q.Num(), wc.WRID, wc.Status)
	}
	if wc.Status == ib.WCSuccess {
		q.p.run.result.Requests++
	} else {
		q.failed = true
		q.p.run.result.Failed++
	}
	q.sends = q.sends[:copy(q.sends, q.sends[i+1:])]
}

func (q *guardQP) received(wc *verbs.WC) {
	if s := q.srq; s != nil {
		if s.posted[wc.WRID] == 0 {
			q.p.Failf("queue pair %#x completes receive %#x (%v), which its shared queue does not have", q.Num(), wc.WRID, wc.Status)
		}
		s.posted[wc.WRID]--
		return
	}
	if len(q.recvs) == 0 || q.recvs[0].id != wc.WRID {
		q.p.Failf("queue pair %#x completes receive %#x (%v), of %d under way, the first of which is %#x", q.Num(), wc.WRID, wc.Status, len(q.recvs), first(q.recvs))
		return
	}
	r := q.recvs[0]
	q.recvs = q.recvs[:copy(q.recvs, q.recvs[1:])]
	if wc.Status == ib.WCSuccess && wc.Opcode == ib.WCRecv && int(wc.ByteLen) > r.length {
		q.p.Failf("queue pair %#x completes receive %#x with %d bytes, and it has room for %d", q.Num(), wc.WRID, wc.ByteLen, r.length)
	}
}

// shim is the shim's queue pair, nil if there is none.
func (q *guardQP) shim() *paced.QP {
	shim, _ := q.qp.(*paced.QP)
	return shim
}

// alone reports whether the queue pair has no group: a post for one lets go only what nothing of
// another's is before.
func (q *guardQP) alone() bool {
	own := q.p.ward.paces[q.Num()]
	return own == nil || own.name == ""
}

// holdsItsOwn holds what the shim does and says against what was asked and has not completed.
// progressed says that it has just made progress.
func (q *guardQP) holdsItsOwn(progressed bool) {
	shim, own := q.shim(), q.p.ward.paces[q.Num()]
	if shim == nil || own == nil {
		return
	}
	q.p.ward.rested(q.p.guard.dev.(*paced.Shim))
	var stats *paced.QPStats
	if q.looks++; q.looks%8 == 0 {
		stats = &q.p.stats
		q.p.ward.groups(q.p.guard.dev.(*paced.Shim))
		if n := q.p.guard.dev.(*paced.Shim).Stats(); n.Failed > n.Messages || n.Messages > q.p.ward.accepted {
			q.p.Failf("rule 19: the shim counts %d messages, %d failed, of %d", n.Messages, n.Failed, q.p.ward.accepted)
		}
	}
	own.holds(q.p.Now(), shim, q.accepted > own.sent || q.empty > own.zero, progressed, stats)
}

// underWay counts the requests and receives that have still to complete. Unsignaled
// requests at the end may have succeeded already.
func (q *guardQP) underWay() (sends, recvs int) {
	sends = len(q.sends)
	for sends > 0 && !q.sends[sends-1].signaled {
		sends--
	}
	return sends, len(q.recvs)
}

func first(r []request) uint64 {
	if len(r) == 0 {
		return 0
	}
	return r[0].id
}
