package endpoint

import (
	"fmt"
	"math/bits"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// sendQueue is the requests of a queue pair, oldest first, by running count:
// freed <= fed <= posted. The transport gets them from fed on, long READs in
// parts. A place is free once the program has polled a completion of its request or of
// a later one, as with a NIC's driver (libmlx5: sq.tail).
type sendQueue struct {
	wqes   []wqe // by count
	mask   uint32
	depth  uint32
	posted uint32
	fed    uint32
	freed  uint32 // as post last saw it

	offset   uint32 // how far the request at fed has been handed over
	readPart uint32 // bytes of a READ that the transport gets at a time
	parts    []part // by the transport's slot, which is its count
	handed   uint32 // parts handed over
}

type wqe struct {
	id       uint64
	op       ib.WROpcode
	flags    verbs.SendFlags
	signaled bool
	failed   bool
	length   uint32
	sgl      []verbs.SGE
	inline   []byte

	remoteAddr    uint64
	rkey, imm     uint32
	compare, swap uint64

	to        Route // UD
	qpn, qkey uint32
}

// part is a piece of a request that is one request to the transport.
type part struct {
	wr     uint32 // count of the request
	offset uint32
}

const minParts = 16 // so that the parts of a READ overlap on a short send queue too

func (s *sendQueue) init(depth int) {
	s.depth = uint32(depth)
	s.wqes = make([]wqe, 1<<bits.Len(uint(depth-1)))
	s.mask = uint32(len(s.wqes) - 1)
	s.parts = make([]part, max(len(s.wqes), minParts))
}

// clear drops everything.
func (s *sendQueue) clear() {
	s.posted, s.fed, s.freed, s.offset, s.handed = 0, 0, 0, 0, 0
}

func (s *sendQueue) at(count uint32) *wqe { return &s.wqes[count&s.mask] }

func (s *sendQueue) part(slot uint32) *part { return &s.parts[slot&uint32(len(s.parts)-1)] }

// PostSend posts requests in order and returns how many were taken.
func (q *QP) PostSend(now units.Time, wrs []verbs.SendWR) (int, error) {
	if q.gone {
		return 0, verbs.Errorf("post_send", q.object(), verbs.ErrClosed, "")
	}
	state := q.State()
	switch state {
	case ib.RTS, ib.SQD, ib.SQE, ib.Err:
	default:
		return 0, verbs.Errorf("post_send", q.object(), verbs.ErrState, "the queue pair is in %v; bring it to RTS first", state)
	}
	limits := verbs.SendLimits{
		Type: q.init.Type, Cap: q.attr.Cap, Datagram: int(q.e.cfg.MTU),
		NoReads: q.attr.MaxRdAtomic == 0 && state != ib.Err,
	}
	n := 0
	var err error
	for i := range wrs {
		if err = q.post(&wrs[i], &limits); err != nil {
			break
		}
		n++
	}
	if n > 0 {
		q.feed()
		q.wake()
		if state == ib.Err || state == ib.SQE {
			q.e.reap(q)
			q.e.failOverrun(now)
		}
	}
	return n, err
}

// post takes one request.
func (q *QP) post(wr *verbs.SendWR, limits *verbs.SendLimits) error {
	s := &q.sq
	if s.posted-s.freed == s.depth {
		if s.freed = q.incarnation.freed.Load(); s.posted-s.freed == s.depth {
			return verbs.Errorf("post_send", q.object(), verbs.ErrQueueFull, "the send queue holds %d requests; polling a completion frees its place and those before it", s.depth)
		}
	}
	if err := verbs.CheckSend(limits, wr); err != nil {
		return verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "%v", err)
	}
	w := s.at(s.posted)
	if q.datagrams() {
		if err := q.address(w, wr); err != nil {
			return err
		}
	}
	w.id, w.op, w.flags, w.failed = wr.WRID, wr.Opcode, wr.Flags, false
	w.signaled = q.init.SigAll || wr.Flags&verbs.SendSignaled != 0
	w.length = uint32(wr.Length())
	w.remoteAddr, w.rkey, w.imm = wr.RemoteAddr, wr.RKey, wr.Imm
	w.compare, w.swap = wr.CompareAdd, wr.Swap
	w.sgl, w.inline = w.sgl[:0], w.inline[:0]
	if wr.Flags&verbs.SendInline != 0 {
		w.inline = append(w.inline, wr.Inline...)
	} else {
		w.sgl = append(w.sgl, wr.SGL...)
	}
	s.posted++
	return nil
}

// feed hands requests to the transport as long as it takes them.
func (q *QP) feed() {
	s := &q.sq
	for s.fed != s.posted && q.rc.State() != ib.Err {
		w := s.at(s.fed)
		r := rc.Request{
			ID: uint64(s.fed), Op: w.op, Signaled: w.signaled,
			Solicited: w.flags&verbs.SendSolicited != 0,
			Fence:     w.flags&verbs.SendFence != 0 && s.offset == 0,
			Length:    w.length - s.offset, RKey: w.rkey, Imm: w.imm,
			RemoteAddr: w.remoteAddr + uint64(s.offset), Swap: w.swap, Compare: w.compare,
		}
		if w.op == ib.WRAtomicFetchAndAdd {
			r.Swap = w.compare
		}
		last := true
		if w.op == ib.WRRDMARead && r.Length > s.readPart {
			r.Length, r.Signaled, last = s.readPart, false, false
		}
		slot, err := q.rc.PostSend(&r)
		if err != nil {
			if err != rc.ErrFull { //nolint:errorlint // rc returns it as it is
				panic(fmt.Sprintf("endpoint: the transport refused what was checked: %v", err))
			}
			return
		}
		*s.part(slot) = part{wr: s.fed, offset: s.offset}
		s.handed++
		if last {
			s.fed++
			s.offset = 0
		} else {
			s.offset += r.Length
		}
	}
}

// reap turns finished requests and flushed receives into completions.
func (e *Endpoint) reap(q *QP) {
	q.reapSends()
	s := &q.sq
	if q.rc.State() == ib.Err {
		for ; s.fed != s.posted; s.fed++ { // what the transport has not got
			if w := s.at(s.fed); !w.failed {
				q.completeSend(s.fed, ib.WCWRFlushErr, noticed{})
			}
		}
		s.offset = 0
		var r rc.RecvCompletion
		for q.rc.PollRecv(&r) {
			e.received(q, &r, nil)
		}
		return
	}
	q.feed()
}

// reapSends turns requests that the transport has ended into completions.
func (q *QP) reapSends() {
	s := &q.sq
	var c rc.SendCompletion
	for q.rc.PollSend(&c) {
		count := uint32(c.ID)
		w := s.at(count)
		if w.failed {
			continue // the other parts of a READ
		}
		w.failed = c.Status != ib.WCSuccess
		var n noticed
		q.turnaround.answered(&n, c.PSN)
		q.completeSend(count, c.Status, n)
	}
}

// completeSend completes the request of a count, of which n and the queue pair's marks are
// noticed.
func (q *QP) completeSend(count uint32, status ib.WCStatus, n noticed) {
	w := q.sq.at(count)
	n.ecn, n.ein = q.congestion.marked, q.congestion.ein
	q.complete(q.init.SendCQ, &verbs.WC{
		WRID: w.id, Status: status, Opcode: w.op.Completion(), ByteLen: w.length, QPN: q.num, Timestamp: q.e.stamp, VendorErr: connectx.VendorErr(status, false),
	}, places{true, count + 1}, n, q.lastReport(), false)
	q.congestion.marked, q.congestion.ein = false, false
}

// received reports a receive that has ended, with the packet in, or nil for a flush.
func (e *Endpoint) received(q *QP, r *rc.RecvCompletion, in *inbound) {
	q.recv.queue.Free(r.Slot)
	wc := verbs.WC{
		WRID: r.ID, Status: r.Status, Opcode: r.Opcode, ByteLen: r.Bytes, Imm: r.Imm, QPN: q.num, Timestamp: e.stamp,
		VendorErr: connectx.VendorErr(r.Status, true),
	}
	if r.HasImm {
		wc.Flags |= verbs.WCWithImm
	}
	if r.HasInvalidate {
		wc.Flags |= verbs.WCWithInv
	}
	if r.Solicited {
		wc.Flags |= verbs.WCSolicited
	}
	var n noticed
	if q.datagrams() && in != nil {
		wc.Flags |= verbs.WCGRH
		if e.grhIPv4 {
			wc.Flags |= verbs.WCIPv4
		}
		wc.SrcQP = in.SrcQP
		n.ecn = e.marked
	}
	q.complete(q.init.RecvCQ, &wc, places{}, n, nil, r.Solicited)
}
