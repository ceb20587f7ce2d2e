package simverbs

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// QP implements verbs.QP, verbs.TelemetryQP, verbs.RateLimitQP, verbs.WeightQP, verbs.RepairsQP and
// verbs.SentTimestampQP.
type QP struct {
	pd     *PD
	num    uint32
	init   verbs.QPInitAttr
	sendCQ *CQ
	recvCQ *CQ
	attr   verbs.QPAttr
	srq    *SRQ
	gone   bool
	made   uint32 // how many had been made with it
	resets uint8  // distinguishes doorbells from before a reset
	stamps bool   // of sending
	// everyAck is SendConfig.AckReqEvery, decided when the peer is known.
	everyAck int
	kinds    verbs.TelemetryKinds // known with the peer, too

	wr  nicmodel.WR
	sgl []nicmodel.SGE
}

// CreateQP implements verbs.PD.
func (p *PD) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	d := p.dev
	bad := func(cause error, format string, args ...any) (verbs.QP, error) {
		return nil, verbs.Errorf("create_qp", d.name, cause, format, args...)
	}
	if p.gone {
		return bad(verbs.ErrClosed, "the protection domain is deallocated")
	}
	if err := d.usable("create_qp"); err != nil {
		return nil, err
	}
	if _, ok := steps[a.Type]; !ok {
		return bad(verbs.ErrNotSupported, "the model has RC, UC and UD queue pairs, not %v", a.Type)
	}
	send, ok1 := a.SendCQ.(*CQ)
	recv, ok2 := a.RecvCQ.(*CQ)
	if !ok1 || !ok2 || send.dev != d || recv.dev != d || send.gone || recv.gone {
		return bad(verbs.ErrInvalid, "give a send and a receive CQ of this device")
	}
	most := d.Attr()
	switch c := &a.Cap; {
	case c.MaxSendSGE < 0 || c.MaxSendSGE > most.MaxSGE || c.MaxRecvSGE < 0 || c.MaxRecvSGE > most.MaxSGE:
		return bad(verbs.ErrInvalid, "%d and %d pieces a request: 0 to %d", c.MaxSendSGE, c.MaxRecvSGE, most.MaxSGE)
	case c.MaxInlineData < 0 || c.MaxInlineData > most.MaxInlineData:
		return bad(verbs.ErrInvalid, "%d bytes of inline data, expected 0 to %d", c.MaxInlineData, most.MaxInlineData)
	}
	cfg := nicmodel.QPConfig{
		Type: a.Type, PD: p.num, SendCQ: send.num, RecvCQ: recv.num,
		SendDepth: a.Cap.MaxSendWR, RecvDepth: a.Cap.MaxRecvWR,
		SGEs: max(a.Cap.MaxSendSGE, a.Cap.MaxRecvSGE, 1), SigAll: a.SigAll,
	}
	q := &QP{pd: p, init: a, sendCQ: send, recvCQ: recv, stamps: d.stamps}
	if a.SRQ != nil {
		s, ok := a.SRQ.(*SRQ)
		if !ok || s.pd != p || s.gone {
			return bad(verbs.ErrInvalid, "the SRQ belongs to another protection domain")
		}
		q.srq, cfg.SRQ = s, s.srq
	}
	num, err := d.nic.CreateQP(cfg)
	if err != nil {
		return bad(verbs.ErrInvalid, "%v", err)
	}
	d.made++
	q.num, q.made = num, d.made
	q.attr.Cap = a.Cap
	send.users++
	recv.users++
	p.users++
	if q.srq != nil {
		q.srq.users++
	}
	if d.qps == nil {
		d.qps = map[uint32]*QP{}
	}
	d.qps[num] = q
	return q, nil
}

func (q *QP) object() string { return fmt.Sprintf("qp %d of %s", q.num, q.pd.dev.name) }

// Num implements verbs.QP.
func (q *QP) Num() uint32 { return q.num }

// Type implements verbs.QP.
func (q *QP) Type() ib.QPType { return q.init.Type }

// Query implements verbs.QP.
func (q *QP) Query() (verbs.QPAttr, error) {
	if q.gone {
		return verbs.QPAttr{}, verbs.Errorf("query_qp", q.object(), verbs.ErrClosed, "")
	}
	a := q.attr
	a.State = q.pd.dev.nic.State(q.num)
	return a, nil
}

// steps are the attributes that each step to RTS needs, by type: from RESET, from
// INIT and from RTR.
var steps = map[ib.QPType][3]verbs.QPAttrMask{
	ib.RC: {verbs.ResetToInitRC, verbs.InitToRTRRC, verbs.RTRToRTSRC},
	ib.UC: {verbs.ResetToInitUC, verbs.InitToRTRUC, verbs.RTRToRTSUC},
	ib.UD: {verbs.ResetToInitUD, verbs.InitToRTRUD, verbs.RTRToRTSUD},
}

// Modify implements verbs.QP.
func (q *QP) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	bad := func(cause error, format string, args ...any) error {
		return verbs.Errorf("modify_qp", q.object(), cause, format, args...)
	}
	if q.gone {
		return bad(verbs.ErrClosed, "")
	}
	if q.pd.dev.gone && a.State != ib.Err {
		return bad(verbs.ErrNoDevice, "")
	}
	nic := q.pd.dev.nic
	now := q.pd.dev.nic.Now()
	from := nic.State(q.num)
	if mask&verbs.AttrState == 0 {
		return bad(verbs.ErrNotSupported, "the model changes attributes only together with the state")
	}
	if !from.CanBecome(a.State) {
		return bad(verbs.ErrState, "a queue pair in %v can't go to %v", from, a.State)
	}
	var needs verbs.QPAttrMask
	if a.State == ib.Init || a.State == ib.RTR || from == ib.RTR && a.State == ib.RTS {
		needs = steps[q.init.Type][a.State-1]
	}
	if missing := needs &^ mask; missing != 0 {
		return bad(verbs.ErrInvalid, "going to %v needs more attributes (ibv_modify_qp(3)): mask %#x is missing", a.State, uint32(missing))
	}
	switch a.State {
	case ib.Reset:
		q.pd.dev.past.add(nic, q.num)
		nic.Reset(q.num)
		q.resets++
		q.attr = verbs.QPAttr{Cap: q.init.Cap}
	case ib.Err:
		nic.Fail(now, q.num)
	case ib.Init:
		if a.Port != 1 {
			return bad(verbs.ErrInvalid, "port %d does not exist: the device has port 1", a.Port)
		}
		if mask&verbs.AttrPKeyIndex != 0 && a.PKeyIndex != 0 {
			return bad(verbs.ErrInvalid, "P_Key index %d: the port has P_Key 0", a.PKeyIndex)
		}
		nic.Init(q.num)
		q.attr.Port, q.attr.Access = a.Port, a.Access
		if q.init.Type == ib.UD {
			q.attr.QKey = a.QKey
			nic.SetQKey(q.num, a.QKey)
		}
	case ib.RTR:
		return q.toRTR(a, bad)
	case ib.RTS:
		switch from {
		case ib.RTR:
		case ib.SQE:
			return nic.Resume(q.num)
		default:
			return bad(verbs.ErrNotSupported, "the model does not come back from %v", from)
		}
		if q.init.Type != ib.RC { // nothing is answered
			a.Timeout, a.RetryCnt, a.RNRRetry, a.MaxRdAtomic = 0, 0, 0, 0
		}
		if most := nic.Config().MaxRdAtomic; int(a.MaxRdAtomic) > most {
			return bad(verbs.ErrInvalid, "%d outstanding reads and atomics: 0 to %d", a.MaxRdAtomic, most)
		}
		err := nic.ReadyToSend(q.num, rc.SendConfig{
			InitialPSN: units.MakePSN(a.SQPSN), Timeout: a.Timeout, RetryCount: a.RetryCnt, RNRRetry: a.RNRRetry,
			MaxRdAtomic: int(a.MaxRdAtomic), AckReqEvery: q.everyAck,
		})
		if err != nil {
			return bad(verbs.ErrInvalid, "%v", err)
		}
		q.attr.SQPSN, q.attr.Timeout, q.attr.RetryCnt, q.attr.RNRRetry, q.attr.MaxRdAtomic = a.SQPSN, a.Timeout, a.RetryCnt, a.RNRRetry, a.MaxRdAtomic
	default:
		return bad(verbs.ErrNotSupported, "the model has no state %v", a.State)
	}
	return nil
}

// portMTU is the active MTU of all ports.
const portMTU = 4096

func (q *QP) toRTR(a verbs.QPAttr, bad func(error, string, ...any) error) error {
	d := q.pd.dev
	if q.init.Type == ib.UD {
		if err := d.nic.ReadyToReceive(q.num, nicmodel.Peer{}, nicmodel.Congestion{}, rc.Config{MTU: portMTU}); err != nil {
			return bad(verbs.ErrInvalid, "%v", err)
		}
		return nil
	}
	host, err := d.peerOf(a.AV.GID)
	if err != nil {
		return bad(verbs.ErrInvalid, "%v", err)
	}
	if a.PathMTU > portMTU {
		return bad(verbs.ErrInvalid, "a path MTU of %d is above the port's %d", a.PathMTU, portMTU)
	}
	if err := a.AV.CheckSinglePort(); err != nil {
		return bad(verbs.ErrInvalid, "%v", err)
	}
	if most := d.nic.Config().MaxRdAtomic; q.init.Type == ib.RC && int(a.MaxDestRdAtomic) > most {
		return bad(verbs.ErrInvalid, "%d responder resources: 0 to %d", a.MaxDestRdAtomic, most)
	}
	cong := nicmodel.Congestion{AckPriority: d.priority(a.AV.SL)}
	q.everyAck = 0
	if q.init.Type == ib.UC {
		a.MaxDestRdAtomic, a.MinRNRTimer = 0, 0
	} else if d.congestion != nil {
		if cong, q.everyAck, err = d.congestion(host); err != nil {
			return bad(verbs.ErrInvalid, "%v", err)
		}
	}
	err = d.nic.ReadyToReceive(q.num,
		nicmodel.Peer{Host: host, QPN: a.DestQPN, FlowHash: flowHash(d.nic.Host(), host, q.num, a.DestQPN, a.AV.FlowLabel), Priority: d.priority(a.AV.SL), IPv6: byIPv6(a.AV.GID)},
		cong,
		rc.Config{
			MTU: units.Bytes(a.PathMTU), RemotePSN: units.MakePSN(a.RQPSN), MaxDestRdAtomic: int(a.MaxDestRdAtomic),
			MinRNRTimer: a.MinRNRTimer, Access: q.attr.Access,
		})
	if err != nil {
		return bad(verbs.ErrInvalid, "%v", err)
	}
	if a.AV.StaticRate > 0 {
		// The model has one limiter a queue pair.
		if err := q.SetRateLimit(a.AV.StaticRate); err != nil {
			return err
		}
	}
	q.kinds = reports(&cong)
	q.attr.PathMTU, q.attr.DestQPN, q.attr.RQPSN, q.attr.AV = a.PathMTU, a.DestQPN, a.RQPSN, a.AV
	q.attr.MaxDestRdAtomic, q.attr.MinRNRTimer = a.MaxDestRdAtomic, a.MinRNRTimer
	return nil
}

// flowHash represents the five-tuple by which switches choose a path: the
// addresses, and a UDP source port that depends on the connection and its flow
// label (FNV-1a).
func flowHash(src, dst int, qpn, peer, label uint32) uint32 {
	h := uint32(2166136261)
	for _, v := range [...]uint32{uint32(src), uint32(dst), qpn, peer, label} {
		for range 4 {
			h = (h ^ v&0xff) * 16777619
			v >>= 8
		}
	}
	return h
}

// PostSend implements verbs.QP.
func (q *QP) PostSend(wrs []verbs.SendWR) (int, error) {
	if c := &q.pd.dev.chosen; c.Any() {
		return c.PostSend(q.num, q.object(), len(wrs), func(n int) (int, error) { return q.postSend(wrs[:n]) })
	}
	return q.postSend(wrs)
}

func (q *QP) postSend(wrs []verbs.SendWR) (int, error) {
	d := q.pd.dev
	if q.gone {
		return 0, verbs.Errorf("post_send", q.object(), verbs.ErrClosed, "")
	}
	if s := d.nic.State(q.num); s != ib.RTS && s != ib.Err && s != ib.SQD && s != ib.SQE {
		return 0, verbs.Errorf("post_send", q.object(), verbs.ErrState, "the queue pair is in %v; bring it to RTS first", s)
	}
	limits := verbs.SendLimits{
		Type: q.init.Type, Cap: q.init.Cap, Datagram: portMTU, NoReads: q.attr.MaxRdAtomic == 0,
	}
	n := 0
	var err error
	for i := range wrs {
		if err = q.post(&wrs[i], &limits); err != nil {
			break
		}
		n++
	}
	d.ring(q, n)
	return n, err
}

func (q *QP) post(wr *verbs.SendWR, limits *verbs.SendLimits) error {
	if err := verbs.CheckSend(limits, wr); err != nil {
		return verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "%v", err)
	}
	if q.init.Type == ib.UD {
		if err := q.address(wr); err != nil {
			return err
		}
	}
	q.wr.Request = rc.Request{
		ID: wr.WRID, Op: wr.Opcode, Length: uint32(wr.Length()), RemoteAddr: wr.RemoteAddr, RKey: wr.RKey, Imm: wr.Imm,
		Signaled:  wr.Flags&verbs.SendSignaled != 0,
		Solicited: wr.Flags&verbs.SendSolicited != 0,
		Fence:     wr.Flags&verbs.SendFence != 0,
	}
	switch wr.Opcode {
	case ib.WRAtomicCmpAndSwp:
		q.wr.Request.Compare, q.wr.Request.Swap = wr.CompareAdd, wr.Swap
	case ib.WRAtomicFetchAndAdd:
		q.wr.Request.Swap = wr.CompareAdd
	case ib.WRBindMW:
		q.wr.Request.Compare, q.wr.Request.Swap = wr.CompareAdd, wr.Swap
	}
	q.wr.SGL, q.wr.Inline = q.sgl[:0], nil
	if wr.Flags&verbs.SendInline != 0 {
		q.wr.Inline = wr.Inline
	} else {
		for _, e := range wr.SGL {
			if e.Length > 0 {
				q.wr.SGL = append(q.wr.SGL, nicmodel.SGE{Addr: e.Addr, Length: e.Length, Key: e.LKey})
			}
		}
		q.sgl = q.wr.SGL
	}
	if err := q.pd.dev.nic.PostSend(q.num, &q.wr); err != nil {
		if errors.Is(err, rc.ErrFull) {
			err = verbs.ErrQueueFull
		}
		return verbs.Errorf("post_send", q.object(), err, "the send queue holds %d requests", q.init.Cap.MaxSendWR)
	}
	return nil
}

// PostRecv implements verbs.QP.
func (q *QP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if q.gone {
		return 0, verbs.Errorf("post_recv", q.object(), verbs.ErrClosed, "")
	}
	if q.srq != nil {
		return 0, verbs.Errorf("post_recv", q.object(), verbs.ErrInvalid, "the queue pair draws on an SRQ: post there")
	}
	d := q.pd.dev
	if s := d.nic.State(q.num); s == ib.Reset {
		return 0, verbs.Errorf("post_recv", q.object(), verbs.ErrState, "the queue pair is in %v; bring it to INIT first", s)
	}
	n, err := postRecv(d.nic.RecvQueue(q.num), q.object(), wrs, &q.sgl)
	d.nic.Flush(d.nic.Now(), q.num)
	return n, err
}

func postRecv(s *nicmodel.SRQ, object string, wrs []verbs.RecvWR, scratch *[]nicmodel.SGE) (int, error) {
	for i := range wrs {
		sgl := (*scratch)[:0]
		for _, e := range wrs[i].SGL {
			if e.Length > 0 {
				sgl = append(sgl, nicmodel.SGE{Addr: e.Addr, Length: e.Length, Key: e.LKey})
			}
		}
		*scratch = sgl
		if err := s.PostRecv(wrs[i].WRID, sgl); err != nil {
			cause := verbs.ErrInvalid
			if errors.Is(err, rc.ErrFull) {
				cause = verbs.ErrQueueFull
			}
			return i, verbs.Errorf("post_recv", object, cause, "%v", err)
		}
	}
	return len(wrs), nil
}

// SetRecvSource implements verbs.SourcedRecv. The NIC draws on it as it reads how many
// receives the host has written. A queue pair with an SRQ ignores it.
func (q *QP) SetRecvSource(s verbs.RecvSource) {
	if q.srq == nil {
		setRecvSource(q.pd.dev.nic.RecvQueue(q.num), q.object(), s, &q.sgl)
	}
}

// SetRecvSource implements verbs.SourcedRecv, as QP's.
func (s *SRQ) SetRecvSource(from verbs.RecvSource) {
	setRecvSource(s.srq, "srq of "+s.pd.dev.name, from, &s.sgl)
}

// fetches is the number of receives drawn from a source at a time.
const fetches = 64

func setRecvSource(to *nicmodel.SRQ, object string, from verbs.RecvSource, scratch *[]nicmodel.SGE) {
	if from == nil {
		to.OnRefill(nil)
		return
	}
	fetched := make([]verbs.RecvWR, fetches)
	to.OnRefill(func(room int) {
		for room > 0 {
			n := from.FetchRecv(fetched[:min(room, fetches)])
			if n == 0 {
				return
			}
			room -= n
			for wrs := fetched[:n]; len(wrs) > 0; {
				taken, err := postRecv(to, object, wrs, scratch)
				if wrs = wrs[taken:]; err != nil {
					wrs[0].SGL = nil // one that the queue does not take holds no bytes
				}
			}
		}
	})
}

// SetRateLimit implements verbs.RateLimitQP.
func (q *QP) SetRateLimit(bps int64) error {
	return q.ModifyRateLimit(verbs.RateLimitAttr{Rate: bps})
}

// ModifyRateLimit implements verbs.RateLimitAttrQP.
func (q *QP) ModifyRateLimit(a verbs.RateLimitAttr) error {
	if q.gone {
		return verbs.Errorf("modify_qp_rate_limit", q.object(), verbs.ErrClosed, "")
	}
	if err := q.pd.dev.nic.ModifyRateLimit(q.pd.dev.nic.Now(), q.num, nicmodel.RateLimit{
		Rate: units.Rate(a.Rate), MaxBurst: units.Bytes(a.MaxBurst), TypicalPacket: units.Bytes(a.TypicalSize),
	}); err != nil {
		return verbs.Errorf("modify_qp_rate_limit", q.object(), verbs.ErrInvalid, "%v", err)
	}
	return nil
}

// SetWeight implements verbs.WeightQP.
func (q *QP) SetWeight(w int) error {
	if q.gone {
		return verbs.Errorf("modify_qp_sched_elem", q.object(), verbs.ErrClosed, "")
	}
	if err := q.pd.dev.nic.SetWeight(q.num, w); err != nil {
		return verbs.Errorf("modify_qp_sched_elem", q.object(), verbs.ErrInvalid, "%v", err)
	}
	return nil
}

// Repairs implements verbs.RepairsQP.
func (q *QP) Repairs() verbs.Repairs {
	if q.gone {
		return verbs.Repairs{}
	}
	c := q.pd.dev.nic.Counters(q.num)
	return verbs.Repairs{
		Retransmitted: c.RetransmittedPackets, SequenceErrors: c.PacketSeqErr + c.ImpliedNakSeqErr,
		Timeouts: c.LocalAckTimeoutErr, AdpRetrans: c.RoceAdpRetrans, AdpRetransTO: c.RoceAdpRetransTO, RNRNAKs: c.RNRNakRetryErr,
	}
}

// AdpRetrans implements verbs.AdpRetransQP.
func (q *QP) AdpRetrans() uint64 { return q.Repairs().AdpRetrans }

// CompletionTelemetry implements verbs.TelemetryQP.
func (q *QP) CompletionTelemetry(wc *verbs.WC, t *verbs.Telemetry) bool {
	for i := range q.sendCQ.n {
		e := &q.sendCQ.polled[i]
		if e.QPN != q.num || e.WRID != wc.WRID {
			continue
		}
		r := q.pd.dev.nic.Reported(q.num, e.Slot)
		if r == nil {
			return false
		}
		t.MaxHopDelay, t.ReverseMaxHopDelay, t.HasMaxDelay = r.MaxHopDelay, r.ReverseMaxHopDelay, r.HasMaxDelay
		t.ECN, t.EIN = r.ECN, r.EIN
		t.Path.N, t.Path.Overflow = r.Path.N, r.Path.Overflow
		copy(t.Path.Path(), r.Path.Path())
		return true
	}
	return false
}

// TelemetryKinds implements verbs.TelemetryQP: what the packets to the present
// peer collect. Switches of the model set no explicit incast notifications.
func (q *QP) TelemetryKinds() verbs.TelemetryKinds { return q.kinds }

func reports(c *nicmodel.Congestion) (k verbs.TelemetryKinds) {
	switch c.Telemetry {
	case telemetry.MaxDelay:
		k = verbs.ReportsMaxDelay
	case telemetry.PerHop:
		k = verbs.ReportsPath
	}
	if c.ECT {
		k |= verbs.ReportsECN
	}
	return k
}

// Close implements verbs.QP.
func (q *QP) Close() error {
	if q.gone {
		return verbs.Errorf("destroy_qp", q.object(), verbs.ErrClosed, "")
	}
	q.pd.dev.past.add(q.pd.dev.nic, q.num)
	q.pd.dev.nic.DestroyQP(q.num)
	q.forget()
	return nil
}

// CloseAt is Close, but the NIC answers what comes until a time. It is for simulators that
// end both sides of a connection at once, of which one can know only later.
func (q *QP) CloseAt(at units.Time) error {
	if q.gone {
		return verbs.Errorf("destroy_qp", q.object(), verbs.ErrClosed, "")
	}
	q.pd.dev.past.add(q.pd.dev.nic, q.num)
	q.pd.dev.nic.CloseQP(q.num, at)
	q.forget()
	return nil
}

// forget counts a queue pair as gone.
func (q *QP) forget() {
	delete(q.pd.dev.qps, q.num)
	if c := &q.pd.dev.chosen; c.Any() {
		c.Forget(q.num)
	}
	q.pd.dev.events.Forget(verbs.AsyncEvent{QP: q})
	q.gone = true
	q.sendCQ.users--
	q.recvCQ.users--
	q.pd.users--
	if q.srq != nil {
		q.srq.users--
	}
}

// SRQ implements verbs.SRQ.
type SRQ struct {
	pd    *PD
	depth int
	srq   *nicmodel.SRQ
	sgl   []nicmodel.SGE
	users int
	gone  bool
}

// CreateSRQ implements verbs.PD.
func (p *PD) CreateSRQ(a verbs.SRQInitAttr) (verbs.SRQ, error) {
	if p.gone {
		return nil, verbs.Errorf("create_srq", p.dev.name, verbs.ErrClosed, "the protection domain is deallocated")
	}
	if err := p.dev.usable("create_srq"); err != nil {
		return nil, err
	}
	switch most := p.dev.Attr(); {
	case a.MaxWR < 1 || a.MaxWR > most.MaxSRQWR:
		return nil, verbs.Errorf("create_srq", p.dev.name, verbs.ErrInvalid, "a queue of %d receives: 1 to %d", a.MaxWR, most.MaxSRQWR)
	case a.MaxSGE < 0 || a.MaxSGE > most.MaxSGE:
		return nil, verbs.Errorf("create_srq", p.dev.name, verbs.ErrInvalid, "%d pieces a receive: 0 to %d", a.MaxSGE, most.MaxSGE)
	}
	s, err := p.dev.nic.CreateSRQ(a.MaxWR, max(a.MaxSGE, 1))
	if err != nil {
		return nil, verbs.Errorf("create_srq", p.dev.name, verbs.ErrInvalid, "%v", err)
	}
	p.users++
	return &SRQ{pd: p, depth: a.MaxWR, srq: s}, nil
}

// PostRecv implements verbs.SRQ.
func (s *SRQ) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if s.gone {
		return 0, verbs.Errorf("post_srq_recv", "srq of "+s.pd.dev.name, verbs.ErrClosed, "")
	}
	return postRecv(s.srq, "srq of "+s.pd.dev.name, wrs, &s.sgl)
}

// SetLimit implements verbs.LimitSRQ.
func (s *SRQ) SetLimit(n int) error {
	bad := func(cause error, format string, args ...any) error {
		return verbs.Errorf("modify_srq", "srq of "+s.pd.dev.name, cause, format, args...)
	}
	switch {
	case s.gone:
		return bad(verbs.ErrClosed, "")
	case n < 0 || n > s.depth:
		return bad(verbs.ErrInvalid, "a limit of %d receives: 0 to %d, which it holds", n, s.depth)
	}
	s.pd.dev.nic.LimitSRQ(s.srq, n)
	return nil
}

// Close implements verbs.SRQ.
func (s *SRQ) Close() error {
	switch {
	case s.gone:
		return verbs.Errorf("destroy_srq", s.pd.dev.name, verbs.ErrClosed, "")
	case s.users > 0:
		return verbs.Errorf("destroy_srq", s.pd.dev.name, verbs.ErrBusy, "%d queue pairs draw on it", s.users)
	}
	s.gone = true
	s.pd.dev.nic.DestroySRQ(s.srq)
	s.pd.dev.events.Forget(verbs.AsyncEvent{SRQ: s})
	s.pd.users--
	return nil
}
