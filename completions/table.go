package completions

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Message is a request of the application.
type Message struct {
	WRID     uint64
	Opcode   ib.WROpcode
	Signaled bool // it completes also when it succeeds
}

// Segment is a Table's knowledge of a segment that completed.
type Segment struct {
	Bytes    units.Bytes
	PostedAt units.Time
	// Acked and Sent are the payload bytes of the queue pair that completed and
	// that were posted so far, this segment included.
	Acked, Sent units.Bytes
}

type request struct {
	wrid      uint64
	timestamp uint64 // of the segment that completed last
	placed    uint32 // by the segments that succeeded before the first that did not
	vendorErr uint32
	inFlight  uint32 // segments with the provider
	next      uint32 // the slot of the one added after, or of the next that is free
	opcode    ib.WROpcode
	status    ib.WCStatus // of the first segment that failed
	unposted  ib.WCStatus // of what was not posted, if not whole
	signaled  bool
	whole     bool // the last segment was posted
}

type posted struct {
	postedAt units.Time
	bytes    uint32
	slot     uint32
}

// Table holds the requests of one queue pair, in order, from the application's
// post until its poll, and the segments that the provider has of them. Requests
// finish in the order in which they were added, each exactly once.
type Table struct {
	// The slot that was freed last is taken first, so that few of them are in use, and
	// in the cache, while few requests are open.
	messages    []request
	first, last uint32 // slots of those not finished, if any
	free        uint32 // the slot freed last, or none
	used        uint32 // slots that were ever taken
	unfinished  uint32
	freed       uint32 // finished requests whose place is free, modulo 2^32
	max         uint32 // of unfinished ones and those finished whose place is not free

	// Of the ring no more is in use than there once were segments with the provider.
	segments           []posted
	mask               uint32
	segHead, segTail   uint32 // of segments with the provider, free-running
	depth              uint32
	reads              uint32
	outstanding        units.Bytes
	acked, sent        units.Bytes
	finished, failures uint64
	qpn                uint32
	aborted            bool
}

const (
	none   = ^uint32(0)
	fewest = 4 // messages or segments that there is room for at first
)

// NewTable returns a table for the queue pair of number qpn that holds up to
// messages requests and depth segments with the provider. It panics unless both
// are from 1 to 2^20.
func NewTable(qpn uint32, messages, depth int) *Table {
	const most = 1 << 20
	if messages < 1 || messages > most || depth < 1 || depth > most {
		panic(fmt.Sprintf("completions: a table of %d messages and %d segments: both must be from 1 to %d", messages, depth, most))
	}
	t := start(qpn, messages, depth, make([]request, messages), make([]posted, ceilPow2(depth)))
	return &t
}

// NewSmallTable is NewTable, but that the table has memory for few messages at first:
// while Tight reports true, Grow has to come before Add. Where there are many tables,
// few of them full, most of what a segment costs is fetching them from memory.
func NewSmallTable(qpn uint32, messages, depth int) *Table {
	t := NewTable(qpn, min(messages, fewest), depth)
	t.max = uint32(messages)
	return t
}

// Tight reports whether there is no memory for one more message, though the table may
// hold it.
func (t *Table) Tight() bool {
	return t.free == none && int(t.used) == len(t.messages) && t.used < t.max
}

// Grow doubles Slots.
func (t *Table) Grow() {
	messages := make([]request, min(2*len(t.messages), int(t.max)))
	copy(messages, t.messages)
	t.messages = messages
}

// start returns a table in the memory given: ring for messages requests or more, and
// segments for the least power of two that is no less than depth.
func start(qpn uint32, messages, depth int, ring []request, segments []posted) Table {
	return Table{qpn: qpn, max: uint32(messages), depth: uint32(depth), messages: ring, free: none, segments: segments, mask: min(fewest, uint32(len(segments))) - 1}
}

func ceilPow2(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

// Slots is the number of values Add returns: slots are from 0 to Slots-1.
func (t *Table) Slots() int { return len(t.messages) }

// Add takes a request and returns its slot, which is the request's until Next
// has returned it. It reports false if the table is full.
func (t *Table) Add(m Message) (slot int, ok bool) {
	if t.taken() >= t.max {
		return 0, false
	}
	at := t.free
	if at == none {
		at = t.used
		t.used++
	} else {
		t.free = t.messages[at].next
	}
	// Field by field: a literal would be made elsewhere and copied.
	r := &t.messages[at]
	r.wrid, r.timestamp, r.placed, r.vendorErr, r.inFlight, r.next = m.WRID, 0, 0, 0, 0, none
	r.opcode, r.status, r.unposted, r.signaled, r.whole = m.Opcode, ib.WCSuccess, ib.WCWRFlushErr, m.Signaled, false
	if t.unfinished == 0 {
		t.first = at
	} else {
		t.messages[t.last].next = at
	}
	t.last = at
	t.unfinished++
	return int(at), true
}

// After returns the slot of the message that was added after one that is not finished.
// There has to be one.
func (t *Table) After(slot int) int { return int(t.messages[slot].next) }

// taken returns the number of places that are not free.
func (t *Table) taken() uint32 { return t.unfinished + uint32(t.finished) - t.freed }

// Room returns the number of messages that Add would take.
func (t *Table) Room() int { return int(t.max - t.taken()) }

// Post records that n bytes of the message in slot go to the provider at the given
// time as one segment, and returns the segment's number. last says that it is the
// message's last segment. Numbers count up, modulo 2^32. It panics if the provider
// has depth segments already.
func (t *Table) Post(slot int, n units.Bytes, last bool, at units.Time) uint32 {
	if t.InFlight() >= int(t.depth) {
		panic("completions: more segments posted than the table was made for")
	}
	if t.segTail-t.segHead > t.mask {
		t.widen()
	}
	m := &t.messages[slot]
	m.inFlight++
	m.whole = last
	seq := t.segTail
	s := &t.segments[seq&t.mask]
	s.postedAt, s.bytes, s.slot = at, uint32(n), uint32(slot)
	t.segTail++
	t.outstanding += n
	t.sent += n
	if responds(m.opcode) {
		t.reads++
	}
	return seq
}

// widen takes twice as much of the ring for segments into use.
func (t *Table) widen() {
	before := t.mask
	t.mask = 2*before + 1
	for seq := t.segHead; seq != t.segTail; seq++ {
		if to := seq & t.mask; to != seq&before {
			t.segments[to] = t.segments[seq&before]
		}
	}
}

// responds reports whether a request takes one of the responder's resources for
// reads and atomics, and is what SendFence waits for.
func responds(o ib.WROpcode) bool { return o == ib.WRRDMARead || o.IsAtomic() }

// Unpost takes back the n segments posted last, which the provider refused.
func (t *Table) Unpost(n int) {
	for range n {
		t.segTail--
		s := &t.segments[t.segTail&t.mask]
		m := &t.messages[s.slot]
		m.inFlight--
		m.whole = false
		t.outstanding -= units.Bytes(s.bytes)
		t.sent -= units.Bytes(s.bytes)
		if responds(m.opcode) {
			t.reads--
		}
	}
}

// Complete takes the provider's completion wc of the segment numbered seq and
// fills out. Segments before it that have not completed have succeeded, as the
// verbs have it for requests that give no completion; of them only the bytes
// count. It reports false if there is no such segment with the provider.
func (t *Table) Complete(seq uint32, wc *verbs.WC, out *Segment) bool {
	if seq-t.segHead >= t.segTail-t.segHead {
		return false
	}
	for t.segHead != seq {
		t.retire(ib.WCSuccess, 0, wc.Timestamp)
	}
	s := t.retire(wc.Status, wc.VendorErr, wc.Timestamp)
	if wc.Status != ib.WCSuccess {
		t.aborted = true
	}
	out.Bytes, out.PostedAt, out.Acked, out.Sent = units.Bytes(s.bytes), s.postedAt, t.acked, t.sent
	return true
}

// retire takes the oldest segment off the provider.
func (t *Table) retire(status ib.WCStatus, vendorErr uint32, timestamp uint64) *posted {
	s := &t.segments[t.segHead&t.mask]
	t.segHead++
	m := &t.messages[s.slot]
	m.inFlight--
	m.timestamp = timestamp
	t.outstanding -= units.Bytes(s.bytes)
	if responds(m.opcode) {
		t.reads--
	}
	switch {
	case m.status != ib.WCSuccess:
	case status == ib.WCSuccess:
		m.placed += s.bytes
		t.acked += units.Bytes(s.bytes)
	default:
		m.status, m.vendorErr = status, vendorErr
	}
	return s
}

// Fail records why the rest of the message in slot can't be posted, and aborts
// the table.
func (t *Table) Fail(slot int, status ib.WCStatus) {
	t.messages[slot].unposted = status
	t.aborted = true
}

// Abort records that no further segment will be posted: the queue pair is in error.
// Messages then finish as soon as the provider has completed their segments.
// Messages not posted in whole finish as flushed. A completion that did not succeed
// has the same effect.
func (t *Table) Abort() { t.aborted = true }

// Aborted reports whether the queue pair is in error.
func (t *Table) Aborted() bool { return t.aborted }

// Next takes the oldest message if it has finished and fills wc with its
// completion. Messages that succeed and are not signaled it takes without. It
// reports false if the oldest message has not finished. All of them keep their places
// in the table until Release.
//
// ByteLen is the length of the message; of one that failed, the bytes that were
// certainly placed: those of its segments that succeeded before the first that
// did not. Status and VendorErr are those of that segment. Timestamp is that of
// the segment that completed last.
func (t *Table) Next(wc *verbs.WC) bool {
	for t.unfinished > 0 {
		at := t.first
		m := &t.messages[at]
		if m.inFlight > 0 || !m.whole && !t.aborted {
			return false
		}
		// What the provider flushed of a message whose rest it refused, it
		// flushed for that refusal.
		if !m.whole && (m.status == ib.WCSuccess || m.status == ib.WCWRFlushErr) {
			m.status = m.unposted
		}
		t.first = m.next
		m.next = t.free
		t.free = at
		t.unfinished--
		t.finished++
		if m.status == ib.WCSuccess && !m.signaled {
			continue
		}
		// Field by field: a literal would be made elsewhere and copied.
		wc.WRID, wc.Status, wc.Opcode, wc.ByteLen = m.wrid, m.status, m.opcode.Completion(), m.placed
		wc.QPN, wc.VendorErr, wc.Timestamp = t.qpn, m.vendorErr, m.timestamp
		wc.Flags, wc.Imm, wc.SrcQP = 0, 0, 0
		if m.status != ib.WCSuccess {
			t.failures++
		}
		return true
	}
	return false
}

// Last counts the messages that Next took, modulo 2^32, the last among them.
func (t *Table) Last() uint32 { return uint32(t.finished) }

// Release frees the places of the messages that Next had taken when Last was last: the
// application has polled the completion that Next then returned. A NIC's driver learns of
// messages without a completion in the same way, by a later one (libmlx5: sq.tail).
func (t *Table) Release(last uint32) {
	if int32(last-t.freed) > 0 {
		t.freed = last
	}
}

// Reset forgets all messages and segments without completions: the queue pair
// was reset. All places are free.
func (t *Table) Reset() {
	if t.unfinished > 0 {
		t.messages[t.last].next = t.free
		t.free, t.unfinished = t.first, 0
	}
	t.segHead = t.segTail
	t.freed = uint32(t.finished)
	t.reads, t.outstanding, t.aborted = 0, 0, false
	t.sent = t.acked
}

// Unfinished returns the number of messages that Next has yet to take.
func (t *Table) Unfinished() int { return int(t.unfinished) }

// InFlight returns the number of segments at the provider.
func (t *Table) InFlight() int { return int(t.segTail - t.segHead) }

// Outstanding is the payload bytes of the segments with the provider.
func (t *Table) Outstanding() units.Bytes { return t.outstanding }

// Reads returns the number of reads and atomics at the provider.
func (t *Table) Reads() int { return int(t.reads) }

// Finished counts the messages that Next took, and those of them that failed.
func (t *Table) Finished() (all, failed uint64) { return t.finished, t.failures }

// SetBack sets back the instants of Post, of segments with the provider, as
// units.Time.SetBack does.
func (t *Table) SetBack(by units.Time) {
	for seq := t.segHead; seq != t.segTail; seq++ {
		s := &t.segments[seq&t.mask]
		s.postedAt = s.postedAt.SetBack(by)
	}
}
