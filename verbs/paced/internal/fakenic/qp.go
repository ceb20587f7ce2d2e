package fakenic

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// QP is an RC queue pair.
type QP struct {
	// CNPCount is the result of CNPs.
	CNPCount uint64

	dev    *Device
	attr   verbs.QPInitAttr
	num    uint32
	state  ib.QPState
	dest   uint32
	av     verbs.AddressVector
	limit  units.Rate
	gen    int  // advanced by reset, error and destruction
	sends  bool // has been to RTS since RESET: as mlx5's, it takes no sends before
	broken bool // a request failed at the responder, which takes no more
	free   units.Time
	ackAt  units.Time
	readAt units.Time
	queued int // requests whose completion is not polled
	sq     []work
	rq     []verbs.RecvWR
}

// work is a request that is with the NIC.
type work struct {
	wr  verbs.SendWR
	seq int
}

// CreateQP implements verbs.PD.
func (p *pd) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	w := p.dev.World
	q := &QP{dev: p.dev, attr: a, num: uint32(len(w.qps))}
	w.qps = append(w.qps, q)
	p.dev.objects++
	if p.dev.Plain {
		return struct{ verbs.QP }{q}, nil
	}
	return q, nil
}

// Num implements verbs.QP.
func (q *QP) Num() uint32 { return q.num }

// Type implements verbs.QP.
func (q *QP) Type() ib.QPType { return q.attr.Type }

// Query implements verbs.QP.
func (q *QP) Query() (verbs.QPAttr, error) {
	return verbs.QPAttr{State: q.state, Cap: q.attr.Cap, AV: q.av}, nil
}

// Queued returns the number of requests whose completion was not polled.
func (q *QP) Queued() int { return q.queued }

// CNPs implements verbs.CNPQP.
func (q *QP) CNPs() uint64 { return q.CNPCount }

// SetRateLimit implements verbs.RateLimitQP.
func (q *QP) SetRateLimit(bps int64) error {
	if q.dev.Unlimited {
		return verbs.ErrNotSupported
	}
	q.limit = units.Rate(bps)
	return nil
}

// CompletionTelemetry implements verbs.TelemetryQP.
func (q *QP) CompletionTelemetry(wc *verbs.WC, t *verbs.Telemetry) bool {
	return q.dev.Telemetry != nil && q.dev.Telemetry(wc, t)
}

// TelemetryKinds implements verbs.TelemetryQP.
func (q *QP) TelemetryKinds() verbs.TelemetryKinds { return q.dev.Kinds }

// Modify implements verbs.QP.
func (q *QP) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	if mask&verbs.AttrAV != 0 {
		if a.AV.StaticRate > 0 && q.dev.Paths == PathsRefuse {
			return verbs.ErrNotSupported
		}
		if q.av = a.AV; q.dev.Paths != PathsKeep {
			q.av.StaticRate = 0
		}
	}
	if mask&verbs.AttrState != 0 {
		if !q.state.CanBecome(a.State) {
			return verbs.ErrState
		}
		q.state = a.State
		switch a.State {
		case ib.RTS:
			q.sends = true
		case ib.Err:
			q.fail()
		case ib.Reset:
			q.gen++
			q.sends = false
			q.sq, q.rq, q.queued, q.broken = nil, nil, 0, false
		}
	}
	if mask&verbs.AttrDestQPN != 0 {
		q.dest = a.DestQPN
	}
	return nil
}

// Close implements verbs.QP.
func (q *QP) Close() error {
	q.gen++
	q.dev.World.qps[q.num] = nil
	q.dev.objects--
	return nil
}

// Break takes the queue pair into error, as a failure of the connection does.
func (q *QP) Break() {
	q.state = ib.Err
	q.fail()
}

// fail flushes both queues.
func (q *QP) fail() {
	q.gen++
	for _, s := range q.sq {
		q.complete(&s.wr, ib.WCWRFlushErr, 0)
	}
	q.sq = nil
	q.flushReceives()
}

func (q *QP) flushReceives() {
	for _, r := range q.rq {
		q.attr.RecvCQ.(*CQ).push(verbs.WC{WRID: r.WRID, Status: ib.WCWRFlushErr, QPN: q.num}, nil, false)
	}
	q.rq = nil
}

func (q *QP) complete(wr *verbs.SendWR, status ib.WCStatus, n uint32) {
	if status == ib.WCSuccess && wr.Flags&verbs.SendSignaled == 0 && !q.attr.SigAll {
		q.queued--
		return
	}
	wc := verbs.WC{WRID: wr.WRID, Status: status, Opcode: wr.Opcode.Completion(), ByteLen: n, QPN: q.num}
	if status != ib.WCSuccess {
		wc.Opcode, wc.VendorErr = 77, 0x100|uint32(status) // no one should look at the opcode
	}
	q.attr.SendCQ.(*CQ).push(wc, q, false)
}

// PostRecv implements verbs.QP.
func (q *QP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	for _, r := range wrs {
		r.SGL = append([]verbs.SGE(nil), r.SGL...)
		q.rq = append(q.rq, r)
	}
	if q.state == ib.Err {
		q.flushReceives()
	}
	return len(wrs), nil
}

// PostSend implements verbs.QP.
func (q *QP) PostSend(wrs []verbs.SendWR) (int, error) {
	if !q.sends {
		return 0, verbs.ErrState
	}
	for i := range wrs {
		wr := wrs[i]
		if q.queued >= q.attr.Cap.MaxSendWR {
			return i, verbs.ErrQueueFull
		}
		if len(wr.SGL) > q.attr.Cap.MaxSendSGE || len(wr.Inline) > q.attr.Cap.MaxInlineData {
			return i, verbs.ErrInvalid
		}
		if q.dev.PostError != nil {
			if err := q.dev.PostError(q, &wr); err != nil {
				return i, err
			}
		}
		if q.dev.OnPost != nil {
			q.dev.OnPost(q, &wr)
		}
		q.queued++
		if q.state == ib.Err {
			q.complete(&wr, ib.WCWRFlushErr, 0)
			continue
		}
		if q.state != ib.RTS {
			q.queued--
			return i, verbs.ErrState
		}
		wr.SGL = append([]verbs.SGE(nil), wr.SGL...)
		wr.Inline = append([]byte(nil), wr.Inline...)
		q.send(wr)
	}
	return len(wrs), nil
}

// send puts a request on the wire.
func (q *QP) send(wr verbs.SendWR) {
	d, w := q.dev, q.dev.World
	peer := w.qps[q.dest]
	n := units.Bytes(wr.Length())
	start := max(w.now, d.wireFree, q.free)
	if wr.Flags&verbs.SendFence != 0 {
		start = max(start, q.readAt)
	}
	var there, back units.Time
	if wr.Opcode == ib.WRRDMARead {
		data := start + d.Latency/2
		if peer != nil {
			data = max(data, peer.dev.wireFree)
			peer.dev.wireFree = data + d.LineRate.Serialize(n)
		}
		there = start + d.Latency/2
		back = data + d.LineRate.Serialize(n) + d.Latency/2
	} else {
		end := start + d.LineRate.Serialize(n)
		if limit := max(q.limit, units.Rate(q.av.StaticRate)); limit > 0 {
			end = start + limit.Serialize(n)
			q.free = end
		} else {
			d.wireFree = end
		}
		there = end + d.Latency/2
		back = end + d.Latency
	}
	if d.Delay != nil {
		back += d.Delay(q, &wr)
	}
	back = max(back, q.ackAt)
	q.ackAt = back
	if wr.Opcode == ib.WRRDMARead || wr.Opcode.IsAtomic() {
		q.readAt = back
	}
	gen := q.gen
	q.sq = append(q.sq, work{wr: wr, seq: w.seq})
	seq := w.seq
	status := ib.WCSuccess
	w.at(there, func() {
		if q.gen != gen || q.broken {
			return
		}
		if d.Fail != nil {
			status = d.Fail(q, &wr)
		}
		if status == ib.WCSuccess {
			status = q.execute(peer, &wr)
		}
		q.broken = status != ib.WCSuccess
	})
	w.at(back, func() {
		if q.gen != gen {
			return
		}
		if len(q.sq) == 0 || q.sq[0].seq != seq {
			panic("fakenic: acknowledged out of order")
		}
		q.sq = q.sq[1:]
		q.complete(&wr, status, uint32(n))
		if status != ib.WCSuccess {
			q.Break()
		}
	})
}

// gather returns the bytes that a request sends.
func (q *QP) gather(wr *verbs.SendWR) ([]byte, bool) {
	if wr.Flags&verbs.SendInline != 0 {
		return wr.Inline, true
	}
	var data []byte
	for _, s := range wr.SGL {
		b := q.dev.memory(s.Addr, s.Length, s.LKey, 0)
		if b == nil && s.Length > 0 {
			return nil, false
		}
		data = append(data, b...)
	}
	return data, true
}

// scatter places data in the memory that an SGL names.
func scatter(d *Device, sgl []verbs.SGE, data []byte) ib.WCStatus {
	for _, s := range sgl {
		n := min(int(s.Length), len(data))
		b := d.memory(s.Addr, uint32(n), s.LKey, ib.AccessLocalWrite)
		if b == nil && n > 0 {
			return ib.WCLocProtErr
		}
		copy(b, data[:n])
		data = data[n:]
	}
	if len(data) > 0 {
		return ib.WCLocLenErr
	}
	return ib.WCSuccess
}

// execute carries a request out at the peer.
func (q *QP) execute(peer *QP, wr *verbs.SendWR) ib.WCStatus {
	if peer == nil || peer.state != ib.RTS && peer.state != ib.RTR {
		return ib.WCRetryExcErr
	}
	n := uint32(wr.Length())
	remote := func(access ib.AccessFlags) []byte {
		if n == 0 {
			return []byte{}
		}
		return peer.dev.memory(wr.RemoteAddr, n, wr.RKey, access)
	}
	switch {
	case wr.Opcode == ib.WRRDMARead:
		data := remote(ib.AccessRemoteRead)
		if data == nil {
			return ib.WCRemAccessErr
		}
		return scatter(q.dev, wr.SGL, data)
	case wr.Opcode.IsAtomic():
		word := remote(ib.AccessRemoteAtomic)
		if word == nil {
			return ib.WCRemAccessErr
		}
		old := binary.NativeEndian.Uint64(word)
		switch {
		case wr.Opcode == ib.WRAtomicFetchAndAdd:
			binary.NativeEndian.PutUint64(word, old+wr.CompareAdd)
		case old == wr.CompareAdd:
			binary.NativeEndian.PutUint64(word, wr.Swap)
		}
		return scatter(q.dev, wr.SGL, binary.NativeEndian.AppendUint64(nil, old))
	}
	data, ok := q.gather(wr)
	if !ok {
		return ib.WCLocProtErr
	}
	if wr.Opcode == ib.WRRDMAWrite || wr.Opcode == ib.WRRDMAWriteWithImm {
		dst := remote(ib.AccessRemoteWrite)
		if dst == nil {
			return ib.WCRemAccessErr
		}
		copy(dst, data)
		if wr.Opcode == ib.WRRDMAWrite {
			return ib.WCSuccess
		}
	}
	if len(peer.rq) == 0 {
		return ib.WCRNRRetryExcErr
	}
	r := peer.rq[0]
	peer.rq = peer.rq[1:]
	wc := verbs.WC{WRID: r.WRID, Opcode: ib.WCRecv, ByteLen: n, QPN: peer.num}
	if wr.Opcode == ib.WRRDMAWriteWithImm {
		wc.Opcode = ib.WCRecvRDMAWithImm
	} else {
		wc.Status = scatter(peer.dev, r.SGL, data)
	}
	if wr.Opcode.HasImm() {
		wc.Flags, wc.Imm = verbs.WCWithImm, wr.Imm
	}
	peer.attr.RecvCQ.(*CQ).push(wc, nil, wr.Flags&verbs.SendSolicited != 0)
	return ib.WCSuccess
}
