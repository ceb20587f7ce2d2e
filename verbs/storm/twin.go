package storm

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// twin is a queue pair of a reliable connection as the specification and docs/storm.md have
// it. It is told what the real one is told: what is posted, what arrives, when the alarm
// rings. By that it knows each packet that the real one must send, and each completion, and
// holds both against what comes. Go-back-N without credits, as soft devices have it.
//
// PSNs are 64-bit numbers that do not wrap. asks are the requests that are not known to be
// carried out, oldest first; a READ that the device asks for in parts is several.
type twin struct {
	o          *observer
	host       int
	qpn        uint32
	service    ib.QPType
	pd         verbs.PD
	send, recv verbs.CQ
	sigAll     bool
	depth      int
	receives   *receives

	state   ib.QPState
	off     bool // nothing is known of it any more
	peer    int
	peerQPN uint32
	mtu     int64
	access  ib.AccessFlags
	attr    verbs.QPAttr
	window  int64
	parts   int    // requests that the transport takes at a time
	part    uint32 // bytes of a READ that go into one

	asks                     []ask
	cur                      int
	una, next, sent, posted  int64
	asked                    int64
	progress, rnrUntil       units.Time
	sinceAsked               int
	rdPosted, rdDone         uint32
	retries, rnrRetries      uint8
	recovering, drained      bool
	beyond                   int64
	number                   int // of requests posted
	repairs                  verbs.Repairs
	expected                 int64
	message                  ib.Opcode // the first of the message in hand, of SEND or WRITE; none if 0xff
	va                       uint64
	length, left, offset     uint32
	rkey, msn                uint32
	ackPending, gapNAKed     bool
	nak                      uint8
	answering, communicating bool
	ackMSN, nakMSN           uint32
	ackPSN, nakPSN           int64
	res                      []answer
	resNew, resDone, resSend int
	holds                    bool
	held                     verbs.RecvWR
	heldStatus               ib.WCStatus
	cnpDue, cnpSent, echo    bool
	echoEIN                  bool
	cnpAt                    units.Time
	turnAsked                bool
	turnPSN                  units.PSN
	turnCame                 uint64
	turnOf                   units.PSN
	turnTook                 units.Time
	turnTold                 bool
	cnpTaken, served         bool
	cnpTakenAt, servedAt     units.Time
	cnps                     uint64
	cnpsBefore               uint64     // RESET
	signals                  signals    // since the last completion
	reports                  []signals  // of sendDone
	content                  content    // of the packet that due had last
	sendDone, recvDone       []verbs.WC // that are to be polled; Timestamp 0 is any
	dirty                    bool
	retired                  int // of asks
}

// ask is a request to the transport.
type ask struct {
	wr       verbs.SendWR
	number   int // of the work request
	signaled bool
	first    bool // part of a READ
	length   uint32
	total    uint32 // of the work request
	va       uint64
	psn, end int64
	rdBefore uint32
	issued   bool
	status   ib.WCStatus
}

// answer is a READ or atomic that was accepted.
type answer struct {
	psn, end, from, next, stop int64
	va                         uint64
	rkey, length, bytes, msn   uint32
	orig                       uint64
	atomic                     bool
}

// receives are waiting receives, of one queue pair or of several.
type receives struct {
	wrs    []verbs.RecvWR
	shared verbs.SRQ
	limit  int
}

const noMessage ib.Opcode = 0xff

func (t *twin) reset() {
	*t = twin{
		o: t.o, host: t.host, qpn: t.qpn, service: t.service, pd: t.pd, send: t.send, recv: t.recv, sigAll: t.sigAll, depth: t.depth, receives: t.receives,
		state: ib.Reset, message: noMessage, peer: -1, cnpsBefore: t.cnpsBefore + t.cnps,
	}
	if t.receives.shared == nil {
		t.receives.wrs = nil
	}
}

func (t *twin) near(p units.PSN, ref int64) int64 {
	return ref + int64(p.Sub(units.MakePSN(uint32(ref))))
}

// stamp is the device's counter as what is done now happens: as its packet arrived.
func (t *twin) stamp() uint64 {
	if t.o.stamped {
		return t.o.stamp
	}
	return uint64((t.o.start + t.o.run.engine.Now()).Duration())
}

// toRTR and toRTS take the attributes of the steps.
func (t *twin) toRTR(a *verbs.QPAttr) {
	t.state, t.mtu, t.expected, t.message = ib.RTR, int64(a.PathMTU), int64(a.RQPSN&0xffffff), noMessage
	t.peer, t.peerQPN = int(a.AV.GID.Unmap().As4()[3])-1, a.DestQPN
	t.attr.MinRNRTimer, t.attr.MaxDestRdAtomic = a.MinRNRTimer, a.MaxDestRdAtomic
	if n := a.MaxDestRdAtomic; n > 0 {
		t.res = make([]answer, 1<<bits.Len(uint(n-1)))
	}
}

func (t *twin) toRTS(a *verbs.QPAttr) {
	t.state = ib.RTS
	t.attr.Timeout, t.attr.RetryCnt, t.attr.RNRRetry, t.attr.MaxRdAtomic = a.Timeout, a.RetryCnt, a.RNRRetry, a.MaxRdAtomic
	first := int64(a.SQPSN & 0xffffff)
	t.una, t.next, t.sent, t.posted, t.asked = first, first, first, first, first
	t.retries, t.rnrRetries = a.RetryCnt, a.RNRRetry
	if t.window = int64(t.o.window); t.service == ib.UC {
		t.window = 1 << 23
	}
	t.part = uint32(max(1, t.o.window/max(1, min(2, int(a.MaxRdAtomic))))) * uint32(t.mtu)
	t.parts = max(1<<bits.Len(uint(max(t.depth, 1)-1)), 16)
}

// post takes requests, and returns what unpost takes to take some of them back.
func (t *twin) post(wrs []verbs.SendWR) (marks []postMark) {
	for i := range wrs {
		marks = append(marks, postMark{t.retired + len(t.asks), t.posted, t.rdPosted})
		wr := wrs[i]
		wr.SGL, wr.Inline = slices.Clone(wr.SGL), slices.Clone(wr.Inline)
		t.number++
		total := uint32(wr.Length())
		for offset := uint32(0); ; {
			a := ask{
				wr: wr, number: t.number, signaled: t.sigAll || wr.Flags&verbs.SendSignaled != 0, first: offset == 0, total: total,
				length: total - offset, va: wr.RemoteAddr + uint64(offset), psn: t.posted, rdBefore: t.rdPosted,
			}
			last := true
			if wr.Opcode == ib.WRRDMARead && a.length > t.part && t.part > 0 {
				a.length, a.signaled, last = t.part, false, false
			}
			packets := max(1, (int64(a.length)+t.mtu-1)/max(1, t.mtu))
			if a.local() {
				packets = 0
			}
			if a.returns() {
				t.rdPosted++
			}
			t.posted += packets
			a.end = t.posted
			t.asks = append(t.asks, a)
			if last {
				break
			}
			offset += a.length
		}
	}
	t.dirty = true
	return marks
}

type postMark struct {
	asks     int
	posted   int64
	rdPosted uint32
}

// taken says how many of the requests were.
func (t *twin) taken(marks []postMark, n int) {
	if n < len(marks) {
		m := marks[n]
		if at := m.asks - t.retired; at >= 0 && at < len(t.asks) {
			t.asks = t.asks[:at]
		}
		t.posted, t.rdPosted = m.posted, m.rdPosted
		t.number -= len(marks) - n
	}
	if t.state == ib.Err || t.state == ib.SQE {
		t.flushSends(ib.WCSuccess, true)
		t.next = t.sent
		t.una, t.posted, t.asked = t.next, t.next, t.next
	}
}

func (a *ask) returns() bool {
	return a.wr.Opcode == ib.WRRDMARead || a.wr.Opcode.IsAtomic()
}

func (a *ask) local() bool { return a.wr.Opcode == ib.WRLocalInv || a.wr.Opcode == ib.WRBindMW }

// vendorErrs are the vendor's bytes of requests that fail (docs/failures.md).
var vendorErrs = map[ib.WCStatus]uint32{
	ib.WCLocQPOpErr: 0x68, ib.WCLocProtErr: 0x52, ib.WCWRFlushErr: 0xf9, ib.WCRemInvReqErr: 0x8a, ib.WCRemAccessErr: 0x88, ib.WCRemOpErr: 0x89, ib.WCRetryExcErr: 0x81,
}

// flushSends ends all requests, the oldest with a status that is not success, if given.
func (t *twin) flushSends(status ib.WCStatus, anyTime bool) {
	done := 0
	for i := range t.asks {
		a := &t.asks[i]
		if a.number == done {
			continue
		}
		done = a.number
		s := a.status
		if i == 0 && status != ib.WCSuccess && s == ib.WCSuccess {
			s = status
		}
		if s == ib.WCSuccess || i > 0 {
			s = ib.WCWRFlushErr
		}
		t.sendDone = append(t.sendDone, t.sendWC(a, s, anyTime))
	}
	t.asks, t.cur = nil, 0
}

func (t *twin) sendWC(a *ask, status ib.WCStatus, anyTime bool) verbs.WC {
	n := t.signals
	t.signals = signals{}
	switch {
	case !t.turnTold:
	case t.turnOf == units.MakePSN(uint32(a.end-1)):
		n.turned, n.turnaround = true, t.turnTook
	default:
		n.coalesced = true
	}
	t.reports = append(t.reports, n)
	wc := verbs.WC{WRID: a.wr.WRID, Status: status, Opcode: a.wr.Opcode.Completion(), ByteLen: a.total, QPN: t.qpn, Timestamp: t.stamp(), VendorErr: vendorErrs[status]}
	if anyTime {
		wc.Timestamp = 0
	}
	return wc
}

// enterErr ends all that is posted.
func (t *twin) enterErr(status ib.WCStatus, anyTime bool) {
	if t.state == ib.Err {
		return
	}
	t.state, t.rnrUntil = ib.Err, 0
	t.flushSends(status, anyTime)
	if t.holds {
		t.holds = false
		t.recvDone = append(t.recvDone, t.recvWC(&t.held, t.heldStatus, anyTime))
	}
	if t.receives.shared != nil {
		t.raise(ib.EventQPLastWQE)
		return
	}
	t.flushReceives(anyTime)
}

func (t *twin) flushReceives(anyTime bool) {
	for i := range t.receives.wrs {
		t.recvDone = append(t.recvDone, t.recvWC(&t.receives.wrs[i], ib.WCWRFlushErr, anyTime))
	}
	t.receives.wrs = nil
}

func (t *twin) recvWC(wr *verbs.RecvWR, status ib.WCStatus, anyTime bool) verbs.WC {
	wc := verbs.WC{WRID: wr.WRID, Status: status, Opcode: ib.WCRecv, QPN: t.qpn, Timestamp: t.stamp()}
	if status == ib.WCWRFlushErr { // the byte of others is unknown
		wc.VendorErr = vendorErrs[status]
	}
	if anyTime {
		wc.Timestamp = 0
	}
	return wc
}

func (t *twin) raise(e ib.EventType) { t.o.expectEvent(t, e) }

// dueAt is when the timer of the oldest packet is over.
func (t *twin) dueAt() units.Time {
	timeout := rc.TimeoutTime(t.attr.Timeout)
	if t.state != ib.RTS && t.state != ib.SQD || t.next == t.una || timeout == units.Never {
		return units.Never
	}
	return t.progress + timeout
}

// expire is called as the device's alarm rings.
func (t *twin) expire(now units.Time) {
	if now >= t.rnrUntil {
		t.rnrUntil = 0
	}
	if t.dueAt() <= now {
		t.repairs.Timeouts++
		t.retry(true)
	}
	t.dirty = true
}

func (t *twin) retry(timeout bool) {
	if t.retries == 0 {
		t.o.count(t.host, "retry_exceeded_err")
		t.fail(ib.WCRetryExcErr)
		return
	}
	t.retries--
	t.recovering = !timeout
	t.rewind()
}

func (t *twin) rewind() {
	t.next, t.cur, t.asked, t.beyond = t.una, 0, t.una, t.una
}

func (t *twin) fail(status ib.WCStatus) {
	t.answering = false
	t.enterErr(status, false)
}

// receive takes a packet that has arrived, with a right ICRC.
func (t *twin) receive(now units.Time, from int, h *roce.Packet, payload []byte, marked bool) {
	if h.Opcode == ib.CNP && !t.off && t.state >= ib.RTR && t.service != ib.UD && from == t.peer {
		t.told(now)
		return
	}
	if t.off || t.state < ib.RTR || t.service == ib.UD || from != t.peer || h.Opcode.Service() != t.opcodes() {
		return
	}
	h.Opcode = h.Opcode.Operation()
	t.dirty = true
	op := h.Opcode
	accepted, answer := false, t.service == ib.RC && op >= ib.ReadResponseFirst && op <= ib.AtomicAcknowledge
	if answer {
		t.signals.ecn = t.signals.ecn || marked || h.BECN
		t.signals.ein = t.signals.ein || h.Reserved6&(telemetry.EIN|telemetry.EINEcho) != 0
	}
	if answer && op == ib.Acknowledge && t.o.turnaround {
		t.turnOf = h.PSN
		t.turnTook, t.turnTold = roce.Turnaround(payload)
	}
	switch {
	case t.state == ib.Err:
	case t.service == ib.UC:
		t.unreliable(h, payload)
	case answer:
		t.response(now, h, payload)
	default:
		accepted = t.request(h, payload)
	}
	t.turnTold = false
	if !answer {
		t.echoEIN = t.echoEIN || h.Reserved6&telemetry.EIN != 0
	}
	if marked {
		if !answer {
			t.echo = true
		}
		if !(answer && op == ib.Acknowledge) && !(t.cnpSent && now-t.cnpAt < 50*units.Microsecond) {
			t.cnpDue, t.cnpSent, t.cnpAt = true, true, now
		}
	}
	if h.AckReq && h.Reserved6&roce.TurnaroundBit != 0 && accepted {
		t.turnAsked, t.turnPSN, t.turnCame = true, h.PSN, t.stamp()
	}
}

// signals are what a request's completion says of the network and of the peer.
type signals struct {
	ecn, ein, turned, coalesced bool
	turnaround                  units.Time
}

// told takes a congestion notification: one counts that comes while something is under way, or
// READs were answered, and not at once after another.
func (t *twin) told(now units.Time) {
	serving := t.served && now-t.servedAt < 10*units.Millisecond
	if len(t.asks) == 0 && !serving || t.cnpTaken && now-t.cnpTakenAt < 4*units.Microsecond {
		return
	}
	t.cnpTaken, t.cnpTakenAt, t.signals.ecn = true, now, true
	t.o.count(t.host, "rp_cnp_handled")
	t.cnps++
}

// opcodes is what the opcodes of its packets begin with.
func (t *twin) opcodes() ib.Opcode {
	if t.service == ib.UC {
		return ib.ServiceUC
	}
	return ib.ServiceRC
}

// unreliable takes a packet of an unreliable connection (IBA 9.8.3): what has an error, or is
// behind a gap, is dropped with its message.
func (t *twin) unreliable(h *roce.Packet, payload []byte) {
	if t.state == ib.RTR && !t.communicating {
		t.communicating = true
		t.raise(ib.EventCommEst)
	}
	p := t.near(h.PSN, t.expected)
	if p < t.expected && p >= t.expected-1<<16 {
		t.o.count(t.host, "duplicate_request")
		return
	}
	if p != t.expected {
		t.o.count(t.host, "out_of_sequence")
		t.message, t.offset, t.expected = noMessage, 0, p
	}
	op := h.Opcode
	known := op <= ib.WriteOnlyImm
	switch {
	case !known, t.message == noMessage && goesOn(op):
		t.dropMessage()
		return
	case !goesOn(op):
		t.message, t.offset = noMessage, 0
	}
	switch {
	case !t.valid(h, int64(len(payload))):
		t.dropMessage()
	case consumes(op) && len(t.receives.wrs) == 0 && !t.holds:
		t.o.count(t.host, "out_of_buffer")
		t.dropMessage()
	case !t.allowed(h):
		t.o.count(t.host, "resp_remote_access_errors")
		t.dropMessage()
	default:
		t.execute(h, uint32(len(payload)))
	}
}

func (t *twin) dropMessage() {
	t.message, t.offset = noMessage, 0
	t.advance(1)
}

// region finds memory by its key.
func (t *twin) region(key uint32, va uint64, n uint32, want ib.AccessFlags) *region {
	m := t.o.regions[t.host][key]
	if m == nil || m.pd != t.pd || m.access&want != want || va < m.addr || uint64(n) > m.size || va-m.addr > m.size-uint64(n) {
		return nil
	}
	return m
}

// list reports whether n bytes from offset on of what a list names may be used so.
func (t *twin) list(sgl []verbs.SGE, offset, n uint32, want ib.AccessFlags) bool {
	for i := range sgl {
		if n == 0 {
			break
		}
		s := &sgl[i]
		if offset >= s.Length {
			offset -= s.Length
			continue
		}
		some := min(s.Length-offset, n)
		if t.region(s.LKey, s.Addr+uint64(offset), some, want) == nil {
			return false
		}
		n, offset = n-some, 0
	}
	return n == 0
}

// request takes a request packet, and reports whether it was not dropped.
func (t *twin) request(h *roce.Packet, payload []byte) bool {
	if t.state == ib.RTR && !t.communicating {
		t.communicating = true
		t.raise(ib.EventCommEst)
	}
	p := t.near(h.PSN, t.expected)
	switch {
	case p < t.expected:
		t.duplicate(h, p)
		return false
	case p > t.expected:
		t.o.count(t.host, "out_of_sequence")
		if !t.gapNAKed && t.nak == 0 {
			t.nak = rc.SyndromeSequence
		}
		return false
	}
	if !t.valid(h, int64(len(payload))) {
		t.refuse(rc.SyndromeInvalid, t.expected, t.msn)
		return false
	}
	if consumes(h.Opcode) && len(t.receives.wrs) == 0 && !t.holds {
		t.notReady()
		return false
	}
	if !t.allowed(h) {
		t.refuse(rc.SyndromeAccess, t.expected, t.msn)
		return true // before it was looked up, it was fine
	}
	return t.execute(h, uint32(len(payload)))
}

// consumes reports whether a packet needs a receive.
func consumes(op ib.Opcode) bool {
	switch op {
	case ib.SendFirst, ib.SendOnly, ib.SendOnlyImm, ib.SendOnlyInv, ib.WriteLastImm, ib.WriteOnlyImm:
		return true
	}
	return false
}

func (t *twin) notReady() {
	t.o.count(t.host, "out_of_buffer")
	t.nak = rc.SyndromeRNR | t.attr.MinRNRTimer
}

// isSend and isWrite are of packets of those messages.
func isSend(op ib.Opcode) bool {
	return op <= ib.SendOnlyImm || op == ib.SendLastInv || op == ib.SendOnlyInv
}
func isWrite(op ib.Opcode) bool { return op >= ib.WriteFirst && op <= ib.WriteOnlyImm }

// goesOn reports whether a packet is within or at the end of a message.
func goesOn(op ib.Opcode) bool {
	switch op {
	case ib.SendMiddle, ib.SendLast, ib.SendLastImm, ib.SendLastInv, ib.WriteMiddle, ib.WriteLast, ib.WriteLastImm:
		return true
	}
	return false
}

// valid checks a request packet in its turn (IBA 9.7.4).
func (t *twin) valid(h *roce.Packet, n int64) bool {
	op := h.Opcode
	switch {
	case n > t.mtu:
		return false
	case goesOn(op) && (t.message == noMessage || isSend(op) != isSend(t.message)):
		return false
	case !goesOn(op) && t.message != noMessage:
		return false
	}
	may := func(want ib.AccessFlags) bool { return t.access&want != 0 }
	switch op {
	case ib.SendFirst, ib.SendMiddle:
		return n == t.mtu
	case ib.SendLast, ib.SendLastImm, ib.SendLastInv:
		return n > 0
	case ib.SendOnly, ib.SendOnlyImm, ib.SendOnlyInv:
		return true
	case ib.WriteFirst:
		return may(ib.AccessRemoteWrite) && n == t.mtu && int64(h.DMALen) > n && h.DMALen <= ib.MaxMessage
	case ib.WriteOnly, ib.WriteOnlyImm:
		return may(ib.AccessRemoteWrite) && int64(h.DMALen) == n
	case ib.WriteMiddle:
		return n == t.mtu && int64(t.left) > n
	case ib.WriteLast, ib.WriteLastImm:
		return n == int64(t.left)
	case ib.ReadRequest:
		return may(ib.AccessRemoteRead) && h.DMALen <= ib.MaxMessage && n == 0 && t.resNew-t.resDone < int(t.attr.MaxDestRdAtomic)
	case ib.CompareSwap, ib.FetchAdd:
		return may(ib.AccessRemoteAtomic) && h.VA%8 == 0 && n == 0 && t.resNew-t.resDone < int(t.attr.MaxDestRdAtomic)
	}
	return false
}

// allowed looks up the memory that a request names.
func (t *twin) allowed(h *roce.Packet) bool {
	want, n := ib.AccessRemoteWrite, h.DMALen
	switch h.Opcode {
	case ib.WriteFirst, ib.WriteOnly, ib.WriteOnlyImm:
	case ib.ReadRequest:
		want = ib.AccessRemoteRead
	case ib.CompareSwap, ib.FetchAdd:
		want, n = ib.AccessRemoteAtomic, 8
	case ib.SendLastInv, ib.SendOnlyInv:
		return t.o.invalidate(t, h.Imm, true)
	default:
		return true
	}
	return n == 0 || t.remote(h.RKey, h.VA, n, want) != nil
}

// remote finds the memory that the peer names.
func (t *twin) remote(key uint32, va uint64, n uint32, want ib.AccessFlags) *region {
	if m := t.region(key, va, n, want); m != nil {
		return m
	}
	w := t.o.windows[t.host][key>>8]
	switch {
	case w == nil || w.mr == nil || w.key != key || w.pd != t.pd || w.kind == ib.MWType2 && w.qp != t || w.access&want != want:
	case va < w.addr || uint64(n) > w.size || va-w.addr > w.size-uint64(n):
	case w.mr.gone || want&^ib.AccessRemoteRead != 0 && w.mr.access&ib.AccessLocalWrite == 0:
	default:
		return w.mr
	}
	return nil
}

// execute accepts a request packet, and reports whether it was not dropped.
func (t *twin) execute(h *roce.Packet, n uint32) bool {
	op := h.Opcode
	switch {
	case isSend(op):
		if !t.holds && !t.take() {
			t.notReady()
			return false
		}
		if uint32(t.held.Length())-t.offset < n {
			t.o.count(t.host, "resp_local_length_error")
			if t.service == ib.UC {
				t.dropMessage()
				return false
			}
			t.heldStatus = ib.WCLocLenErr
			t.refuse(rc.SyndromeInvalid, t.expected, t.msn)
			return false
		}
		if n > 0 && !t.list(t.held.SGL, t.offset, n, ib.AccessLocalWrite) {
			t.lose()
			return true
		}
		t.offset += n
		if op == ib.SendFirst || op == ib.SendMiddle {
			t.message = op
			t.accept(h, false)
			return true
		}
		t.received(h, ib.WCRecv, t.offset)
		t.accept(h, true)
	case isWrite(op):
		if !goesOn(op) {
			t.va, t.rkey, t.length, t.left = h.VA, h.RKey, h.DMALen, h.DMALen
		}
		imm := op == ib.WriteLastImm || op == ib.WriteOnlyImm
		if imm && !t.holds && !t.take() {
			t.notReady()
			return false
		}
		if n > 0 && t.remote(t.rkey, t.va, n, ib.AccessRemoteWrite) == nil {
			t.lose()
			return true
		}
		t.va += uint64(n)
		if t.left -= n; t.left > 0 {
			t.message = op
			t.accept(h, false)
			return true
		}
		t.o.count(t.host, "rx_write_requests")
		if imm {
			t.received(h, ib.WCRecvRDMAWithImm, t.length)
		}
		t.accept(h, true)
	case op == ib.ReadRequest:
		t.o.count(t.host, "rx_read_requests")
		t.msn++
		packets := t.packets(h.DMALen)
		t.addAnswer(answer{psn: t.expected, end: t.expected + packets, va: h.VA, rkey: h.RKey, length: h.DMALen, bytes: h.DMALen})
		t.advance(packets)
	default:
		t.o.count(t.host, "rx_atomic_requests")
		t.msn++
		a := answer{psn: t.expected, end: t.expected + 1, va: h.VA, rkey: h.RKey, length: 8, atomic: true}
		if m := t.remote(h.RKey, h.VA, 8, ib.AccessRemoteAtomic); m != nil {
			word := m.buf[h.VA-m.addr:][:8]
			orig, ok := t.o.words[&word[0]] // of this batch
			if a.orig = orig; !ok {
				a.orig = binary.NativeEndian.Uint64(word)
			}
			switch {
			case op == ib.FetchAdd:
				t.o.words[&word[0]] = a.orig + h.Swap
			case a.orig == h.Compare:
				t.o.words[&word[0]] = h.Swap
			}
		}
		t.addAnswer(a)
		t.advance(1)
	}
	return true
}

// lose gives up: memory was taken away in the middle of a message.
func (t *twin) lose() {
	t.off = true
	t.o.inexact[t.host] = true
}

func (t *twin) packets(n uint32) int64 { return max(1, (int64(n)+t.mtu-1)/t.mtu) }

func (t *twin) accept(h *roce.Packet, last bool) {
	if last {
		t.message, t.offset = noMessage, 0
		t.msn++
	}
	t.advance(1)
	if h.AckReq && t.service == ib.RC {
		t.ackPending, t.ackPSN, t.ackMSN = true, t.expected-1, t.msn
	}
}

func (t *twin) advance(n int64) {
	t.expected += n
	t.gapNAKed = false
	if t.nak&0xe0 == rc.SyndromeRNR {
		t.nak = 0
	}
}

// take takes the oldest receive.
func (t *twin) take() bool {
	r := t.receives
	if len(r.wrs) == 0 {
		return false
	}
	t.held, r.wrs = r.wrs[0], r.wrs[1:]
	t.holds, t.heldStatus = true, ib.WCWRFlushErr
	if len(r.wrs) < r.limit {
		r.limit = 0
		t.o.expectShared(t.host, r.shared)
	}
	return true
}

func (t *twin) received(h *roce.Packet, op ib.WCOpcode, n uint32) {
	t.holds = false
	wc := t.recvWC(&t.held, ib.WCSuccess, false)
	wc.Opcode, wc.ByteLen = op, n
	switch h.Opcode {
	case ib.SendLastImm, ib.SendOnlyImm, ib.WriteLastImm, ib.WriteOnlyImm:
		wc.Flags, wc.Imm = verbs.WCWithImm, h.Imm
	case ib.SendLastInv, ib.SendOnlyInv:
		wc.Flags, wc.Imm = verbs.WCWithInv, h.Imm
	}
	if h.Solicited {
		wc.Flags |= verbs.WCSolicited
	}
	t.recvDone = append(t.recvDone, wc)
}

func (t *twin) refuse(syndrome uint8, psn int64, msn uint32) {
	switch syndrome {
	case rc.SyndromeInvalid:
		if !t.holds {
			t.raise(ib.EventQPReqErr)
		} else if t.heldStatus == ib.WCWRFlushErr {
			t.heldStatus = ib.WCRemInvReqErr
		}
	case rc.SyndromeAccess:
		t.o.count(t.host, "resp_remote_access_errors")
		t.raise(ib.EventQPAccessErr)
	}
	t.nak, t.nakPSN, t.nakMSN, t.answering = syndrome, psn, msn, true
	t.enterErr(ib.WCSuccess, false)
}

func (t *twin) addAnswer(a answer) {
	a.from, a.next, a.stop, a.msn = a.psn, a.psn, a.end, t.msn
	if t.resNew-t.resSend == len(t.res) {
		t.resSend++
		t.answered()
	}
	t.res[t.resNew%len(t.res)] = a
	t.resNew++
}

// answered moves on to the oldest READ or atomic that has something to send.
func (t *twin) answered() {
	for t.resSend < t.resNew && t.at(t.resSend).next >= t.at(t.resSend).stop {
		t.resSend++
	}
	t.resDone = max(t.resDone, t.resSend)
}

func (t *twin) at(i int) *answer { return &t.res[i%len(t.res)] }

// duplicate takes a request that was carried out before (IBA 9.7.5.1).
func (t *twin) duplicate(h *roce.Packet, p int64) {
	t.o.count(t.host, "duplicate_request")
	op := h.Opcode
	oldest := max(0, t.resNew-len(t.res))
	switch {
	case isSend(op), isWrite(op):
		if t.ackPending {
			return
		}
		t.ackPending, t.ackPSN, t.ackMSN = true, t.expected-1, t.msn
		for i := t.resNew - 1; i >= oldest && t.at(i).psn > p; i-- {
			t.ackPSN, t.ackMSN = t.at(i).psn-1, t.at(i).msn-1
		}
		return
	case op != ib.ReadRequest && op != ib.CompareSwap && op != ib.FetchAdd:
		return
	}
	for i := t.resNew - 1; i >= oldest; i-- {
		a := t.at(i)
		if p < a.psn {
			continue
		}
		offset := (p - a.psn) * t.mtu
		switch {
		case p >= a.end || a.atomic != (op != ib.ReadRequest) || h.RKey != a.rkey:
		case a.atomic:
			if h.VA == a.va {
				t.again(i, p)
			}
		case h.VA != a.va+uint64(offset) || int64(h.DMALen) > int64(a.length)-offset:
		case h.DMALen > 0 && t.remote(h.RKey, h.VA, h.DMALen, ib.AccessRemoteRead) == nil:
			t.refuse(rc.SyndromeAccess, p, a.msn-1)
		default:
			a.stop = p + t.packets(h.DMALen)
			a.bytes = uint32(offset) + h.DMALen
			t.again(i, p)
		}
		return
	}
}

func (t *twin) again(i int, p int64) {
	if t.resSend != t.resNew && t.resSend > i {
		c := t.at(t.resSend)
		c.next = c.from
	}
	a := t.at(i)
	a.from, a.next = p, p
	t.resSend = min(t.resSend, i)
}

// response takes an answer (IBA 9.7.5.2, 9.7.6, 9.9.2).
func (t *twin) response(now units.Time, h *roce.Packet, payload []byte) {
	if t.state == ib.RTR {
		return
	}
	p := t.near(h.PSN, t.una)
	if p < t.una || p >= t.sent {
		return // of before, or of nothing
	}
	switch h.Opcode {
	case ib.Acknowledge:
		t.acknowledged(now, h.Syndrome, p)
	case ib.AtomicAcknowledge:
		switch {
		case !t.ackTo(now, p):
			t.implied()
		case !t.asks[0].wr.Opcode.IsAtomic() || len(payload) != 0:
			t.fail(ib.WCBadRespErr)
		case !t.list(t.asks[0].wr.SGL, 0, 8, ib.AccessLocalWrite):
			t.lose()
		default:
			t.answer(now)
		}
	default:
		if !t.ackTo(now, p) {
			if t.recovering && p <= t.beyond && t.state != ib.Err {
				if t.next != t.una {
					t.repairs.SequenceErrors++
					t.rewind()
					t.asked = t.una + 1
				}
			} else {
				t.implied()
			}
			t.beyond = p
			return
		}
		a := &t.asks[0]
		last := h.Opcode == ib.ReadResponseLast || h.Opcode == ib.ReadResponseOnly
		offset := (p - a.psn) * t.mtu
		switch {
		case a.wr.Opcode != ib.WRRDMARead || last != (p+1 == a.end):
			t.fail(ib.WCBadRespErr)
		case int64(len(payload)) != min(int64(a.length)-offset, t.mtu):
			t.fail(ib.WCLocLenErr)
		case !t.list(a.wr.SGL, uint32(offset)+uint32(a.va-a.wr.RemoteAddr), uint32(len(payload)), ib.AccessLocalWrite):
			t.lose()
		default:
			t.answer(now)
		}
	}
}

func (t *twin) acknowledged(now units.Time, syndrome uint8, p int64) {
	switch kind := syndrome & 0xe0; {
	case kind == 0:
		if !t.ackTo(now, p+1) {
			t.implied()
		}
	case kind == rc.SyndromeRNR:
		switch {
		case !t.ackTo(now, p):
			t.implied()
		case t.next == t.una:
		default:
			t.repairs.RNRNAKs++
			if t.rnrRetries == 0 {
				t.o.count(t.host, "rnr_nak_retry_exceeded_err")
				t.fail(ib.WCRNRRetryExcErr)
				return
			}
			if t.attr.RNRRetry != 7 {
				t.rnrRetries--
			}
			t.recovering = false
			t.rewind()
			t.rnrUntil = now + rc.RNRTime(syndrome&0x1f)
		}
	case kind == 0x60 && syndrome <= rc.SyndromeOperation:
		switch {
		case !t.ackTo(now, p):
			t.implied()
		case syndrome == rc.SyndromeSequence:
			if t.next != t.una && !t.recovering {
				t.repairs.SequenceErrors++
				t.retry(false)
			}
		case syndrome == rc.SyndromeInvalid:
			t.o.count(t.host, "req_remote_invalid_request")
			t.fail(ib.WCRemInvReqErr)
		case syndrome == rc.SyndromeAccess:
			t.o.count(t.host, "req_remote_access_errors")
			t.fail(ib.WCRemAccessErr)
		default:
			t.fail(ib.WCRemOpErr)
		}
	}
}

// implied goes back to the first answer that is missing, once.
func (t *twin) implied() {
	if t.state == ib.Err || t.recovering || t.next == t.una {
		return
	}
	t.repairs.SequenceErrors++
	t.retry(false)
}

// ackTo acknowledges all before p, up to a READ or atomic. It reports whether there was none.
func (t *twin) ackTo(now units.Time, p int64) bool {
	from := t.una
	for t.una < p {
		a := &t.asks[0]
		if a.returns() || a.status != ib.WCSuccess {
			break
		}
		if p < a.end {
			t.una = p
			break
		}
		t.una = a.end
		t.retire()
	}
	if t.una != from {
		t.progressed(now)
	}
	return t.una == p && t.state != ib.Err
}

// answer takes note of one answer of the oldest READ or atomic.
func (t *twin) answer(now units.Time) {
	t.una++
	if t.una == t.asks[0].end {
		t.rdDone++
		t.retire()
	}
	t.progressed(now)
}

func (t *twin) retire() {
	for len(t.asks) > 0 {
		a := &t.asks[0]
		if a.end > t.una || a.local() && !a.issued || a.status != ib.WCSuccess {
			return
		}
		if a.signaled {
			t.sendDone = append(t.sendDone, t.sendWC(a, ib.WCSuccess, a.local()))
		}
		t.asks = t.asks[1:]
		t.cur = max(0, t.cur-1)
		t.retired++
	}
}

func (t *twin) progressed(now units.Time) {
	if t.next < t.una {
		t.next, t.cur = t.una, 0
	}
	t.retries, t.rnrRetries, t.recovering, t.progress = t.attr.RetryCnt, t.attr.RNRRetry, false, now
	if len(t.asks) > 0 && t.asks[0].status != ib.WCSuccess {
		t.answering = false
		t.enterErr(ib.WCSuccess, false)
	}
	t.drainedYet()
}

func (t *twin) drain() {
	t.state, t.drained = ib.SQD, false
	t.drainedYet()
}

func (t *twin) drainedYet() {
	if t.state == ib.SQD && !t.drained && t.una == t.sent && (len(t.asks) == 0 || t.asks[0].psn >= t.una) {
		t.drained = true
		t.raise(ib.EventSQDrained)
	}
}

// due is the packet that must leave next, if any may. take says that it leaves. What it carries is
// in content.
func (t *twin) due(now units.Time, take bool) (h roce.Packet, payload int, ok bool) {
	t.content = content{}
	if t.cnpDue {
		t.cnpDue = !take
		h = roce.CNP(t.peerQPN, roce.DefaultPKey)
		return h, 0, true
	}
	payload, ok = t.dueResponse(now, &h, take)
	if !ok {
		payload, ok = t.dueRequest(now, &h, take)
	}
	h.DestQP, h.PKey = t.peerQPN, roce.DefaultPKey
	if ack := h.Opcode == ib.Acknowledge || h.Opcode == ib.AtomicAcknowledge; ok && ack && t.echo {
		h.BECN = true
		t.echo = !take
	}
	if ack := h.Opcode == ib.Acknowledge || h.Opcode == ib.AtomicAcknowledge; ok && ack && t.echoEIN {
		h.Reserved6 = telemetry.EINEcho
		t.echoEIN = !take
	}
	if ok && t.o.turnaround && h.AckReq && h.Opcode != ib.ReadRequest && h.Opcode != ib.CompareSwap && h.Opcode != ib.FetchAdd {
		h.Reserved6 |= roce.TurnaroundBit
	}
	if ok && h.Opcode == ib.Acknowledge && t.turnAsked && h.PSN == t.turnPSN {
		h.Reserved6, payload = h.Reserved6|roce.TurnaroundBit, roce.TurnaroundBytes
		t.content.turnaround = (t.o.start+now)/units.Nanosecond*units.Nanosecond - units.Time(t.turnCame)*units.Nanosecond
		t.turnAsked = !take
	}
	return h, payload, ok
}

func (t *twin) dueResponse(now units.Time, h *roce.Packet, take bool) (payload int, ok bool) {
	if t.state == ib.Err && !t.answering || t.state < ib.RTR {
		return 0, false
	}
	ack := func() {
		h.Opcode, h.PSN, h.Syndrome, h.MSN = ib.Acknowledge, units.MakePSN(uint32(t.ackPSN)), 0x1f, t.ackMSN&0xffffff
		t.ackPending = !take
	}
	if t.resSend < t.resNew {
		a := t.at(t.resSend)
		if t.ackPending && t.ackPSN < a.next {
			ack()
			return 0, true
		}
		h.PSN, h.Syndrome, h.MSN = units.MakePSN(uint32(a.next)), 0x1f, a.msn&0xffffff
		if a.atomic {
			h.Opcode, h.Orig = ib.AtomicAcknowledge, a.orig
		} else {
			payload = int(min(int64(a.bytes)-(a.next-a.psn)*t.mtu, t.mtu))
			if m := t.remote(a.rkey, a.va+uint64((a.next-a.psn)*t.mtu), uint32(payload), ib.AccessRemoteRead); m != nil {
				t.content.bytes = m.buf[a.va+uint64((a.next-a.psn)*t.mtu)-m.addr:]
			}
			first, last := a.next == a.from, a.next+1 == a.stop
			switch {
			case first && last:
				h.Opcode = ib.ReadResponseOnly
			case first:
				h.Opcode = ib.ReadResponseFirst
			case last:
				h.Opcode = ib.ReadResponseLast
			default:
				h.Opcode, h.Syndrome, h.MSN = ib.ReadResponseMiddle, 0, 0
			}
		}
		if take {
			if !a.atomic && payload > 0 {
				t.served, t.servedAt = true, now
			}
			a.next++
			t.answered()
		}
		return payload, true
	}
	switch {
	case t.nak != 0:
		psn, msn := t.expected, t.msn
		if t.nak&0xe0 == 0x60 && t.nak != rc.SyndromeSequence {
			psn, msn = t.nakPSN, t.nakMSN
		}
		h.Opcode, h.PSN, h.Syndrome, h.MSN = ib.Acknowledge, units.MakePSN(uint32(psn)), t.nak, msn&0xffffff
		if take {
			t.nak, t.ackPending, t.gapNAKed = 0, false, true
		}
	case t.ackPending:
		ack()
	default:
		return 0, false
	}
	return 0, true
}

// sendable is the request that may send.
func (t *twin) sendable(now units.Time) *ask {
	if now < t.rnrUntil {
		return nil
	}
	for t.cur < len(t.asks) && t.cur < t.parts {
		a := &t.asks[t.cur]
		switch {
		case a.issued:
			t.cur++
			continue
		case a.status != ib.WCSuccess:
			return nil
		case t.state != ib.RTS && (t.state != ib.SQD || a.psn >= t.sent):
			return nil
		}
		if out := a.rdBefore - t.rdDone; out > 0 && (t.next == a.psn || a.wr.Opcode == ib.WRRDMARead) {
			if a.wr.Flags&verbs.SendFence != 0 && a.first && t.next == a.psn || a.returns() && out >= uint32(t.attr.MaxRdAtomic) {
				return nil
			}
		}
		if a.local() {
			if !t.o.changeKey(t, a) {
				t.lose()
				return nil
			}
			a.issued = true
			t.cur++
			t.retire()
			continue
		}
		if t.next-t.una >= t.window {
			return nil
		}
		return a
	}
	return nil
}

var requestOpcodes = map[ib.WROpcode][4]ib.Opcode{ // by whether it is the first (1) and the last (2)
	ib.WRSend:              {ib.SendMiddle, ib.SendFirst, ib.SendLast, ib.SendOnly},
	ib.WRSendWithImm:       {ib.SendMiddle, ib.SendFirst, ib.SendLastImm, ib.SendOnlyImm},
	ib.WRSendWithInv:       {ib.SendMiddle, ib.SendFirst, ib.SendLastInv, ib.SendOnlyInv},
	ib.WRRDMAWrite:         {ib.WriteMiddle, ib.WriteFirst, ib.WriteLast, ib.WriteOnly},
	ib.WRRDMAWriteWithImm:  {ib.WriteMiddle, ib.WriteFirst, ib.WriteLastImm, ib.WriteOnlyImm},
	ib.WRAtomicCmpAndSwp:   {3: ib.CompareSwap},
	ib.WRAtomicFetchAndAdd: {3: ib.FetchAdd},
}

func (t *twin) dueRequest(now units.Time, h *roce.Packet, take bool) (payload int, ok bool) {
	a := t.sendable(now)
	if a == nil {
		return 0, false
	}
	at := t.next
	end, offset := at+1, (at-a.psn)*t.mtu
	left := int64(a.length) - offset
	since, unreadable := t.sinceAsked, false
	h.PSN = units.MakePSN(uint32(at))
	switch {
	case a.wr.Opcode == ib.WRRDMARead:
		end = a.end
		h.Opcode, h.AckReq, h.VA, h.RKey, h.DMALen = ib.ReadRequest, true, a.va+uint64(offset), a.wr.RKey, uint32(left)
	case a.wr.Opcode.IsAtomic():
		h.Opcode, h.AckReq, h.VA, h.RKey = requestOpcodes[a.wr.Opcode][3], true, a.va, a.wr.RKey
		h.Swap, h.Compare = a.wr.Swap, a.wr.CompareAdd
		if a.wr.Opcode == ib.WRAtomicFetchAndAdd {
			h.Swap = a.wr.CompareAdd
		}
	default:
		payload = int(min(left, t.mtu))
		unreadable = payload > 0 && a.wr.Flags&verbs.SendInline == 0 && !t.list(a.wr.SGL, uint32(offset), uint32(payload), 0)
		t.content.sgl, t.content.inline, t.content.offset = a.wr.SGL, a.wr.Inline, uint32(offset)
		which, last := 0, end == a.end
		if at == a.psn {
			which = 1
		}
		if last {
			which |= 2
		}
		h.Opcode = requestOpcodes[a.wr.Opcode][which]
		if which&1 != 0 && isWrite(h.Opcode) {
			h.VA, h.RKey, h.DMALen = a.va, a.wr.RKey, a.length
		}
		if last {
			if a.wr.Opcode != ib.WRSend && a.wr.Opcode != ib.WRRDMAWrite {
				h.Imm = a.wr.Imm
			}
			h.Solicited = a.wr.Flags&verbs.SendSolicited != 0 && a.wr.Opcode.ConsumesRecv()
		}
		if since++; last || since == max(1, int(t.window)/2) || end-t.una >= t.window {
			since = 0
			h.AckReq = t.service == ib.RC
		}
		h.Opcode |= t.opcodes()
	}
	if unreadable {
		// The request fails, when those before it are carried out.
		take, a.status = true, ib.WCLocProtErr
	}
	if !take {
		return payload, true
	}
	t.sinceAsked = since
	if at < t.sent {
		t.repairs.Retransmitted++
	}
	if t.asked <= t.una {
		t.progress = now
	}
	t.next = end
	if h.AckReq {
		t.asked = end
	}
	t.sent = max(t.sent, t.next)
	switch {
	case unreadable && t.service == ib.UC: // the send queue alone is in error
		t.state = ib.SQE
		t.flushSends(ib.WCSuccess, true)
		t.una, t.posted, t.asked = t.next, t.next, t.next
	case !unreadable:
		if t.next == a.end {
			t.cur++
		}
		if t.service == ib.UC { // it is done with as it leaves
			t.una = t.next
			t.retire()
			t.drainedYet()
		}
	case t.cur == 0:
		t.answering = false
		t.enterErr(ib.WCSuccess, true)
	}
	return payload, !unreadable
}

// content is what a packet carries: bytes of memory, of a request, or a turnaround.
type content struct {
	bytes, inline []byte
	sgl           []verbs.SGE
	offset        uint32
	turnaround    units.Time
}

// carries reports whether a payload is the content.
func (t *twin) carries(payload []byte) bool {
	c := &t.content
	switch {
	case len(payload) == 0:
		return true
	case c.bytes != nil:
		return bytes.Equal(payload, c.bytes[:len(payload)])
	case len(c.inline) > 0:
		return bytes.Equal(payload, c.inline[c.offset:][:len(payload)])
	case c.sgl != nil:
		offset := c.offset
		for i := range c.sgl {
			g := &c.sgl[i]
			if offset >= g.Length {
				offset -= g.Length
				continue
			}
			n := min(int(g.Length-offset), len(payload))
			m := t.region(g.LKey, g.Addr+uint64(offset), uint32(n), 0)
			if m == nil {
				return true
			}
			if !bytes.Equal(payload[:n], m.buf[g.Addr+uint64(offset)-m.addr:][:n]) {
				return false
			}
			if payload, offset = payload[n:], 0; len(payload) == 0 {
				return true
			}
		}
		return false
	}
	took, ok := roce.Turnaround(payload)
	return ok && took == c.turnaround/units.Nanosecond*units.Nanosecond
}
