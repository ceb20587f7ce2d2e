package rc

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

const maxDepth = 1 << 16

// QP is one end of a reliable connection: a requester and a responder. It is
// not safe for concurrent use.
type QP struct {
	cfg   Config
	state ib.QPState
	ctr   Counters
}

// New returns a queue pair in state RTR, which receives and responds. All
// memory that it will need is allocated here.
func New(cfg Config) (*QP, error) { return &QP{cfg: cfg, state: ib.RTR}, nil }

// ReadyToSend takes the queue pair from RTR to RTS.
func (q *QP) ReadyToSend(cfg SendConfig) error { return nil }

// State returns RTR, RTS, SQD or Err.
func (q *QP) State() ib.QPState { return q.state }

// Counters returns the counters, which the driver may read and not write.
func (q *QP) Counters() *Counters { return &q.ctr }

// Drain takes the queue pair from RTS to SQD: requests that have begun are
// finished, no other is started. EventSQDrained follows, in eff or in that of
// a later call, when the last one is acknowledged.
func (q *QP) Drain(eff *Effects) error { return nil }

// Resume takes the queue pair from SQD back to RTS.
func (q *QP) Resume() error { return nil }

// ToError takes the queue pair to Err at the application's wish: nothing more
// is sent or accepted, and all work requests are flushed.
func (q *QP) ToError(eff *Effects) {}

// FailSend says that the driver could not do its part for the request in slot:
// fetch its payload (WCLocProtErr), place what a READ or atomic brought back
// (WCLocProtErr), invalidate a key (WCMWBindErr). Requests before it complete
// in their own right, then it fails with that status and the queue pair goes
// to Err.
func (q *QP) FailSend(now units.Time, slot uint32, status ib.WCStatus, eff *Effects) {}

// FailRecv says that the driver could not place the payload of the packet last
// received, or perform its atomic. The peer gets a NAK (remote access error for
// WCRemAccessErr, else remote operational error), the receive that the message
// had taken completes with status in eff, and the queue pair goes to Err. If the
// Effects of that packet carried DoRecv, the driver reports that completion
// with its own status.
func (q *QP) FailRecv(now units.Time, status ib.WCStatus, eff *Effects) {}

// FailResponse says that the driver could not fetch the payload of the READ
// response d. In its place the peer gets a NAK as with FailRecv, no response
// after it is Fresh, and the queue pair goes to Err.
func (q *QP) FailResponse(now units.Time, d *Descriptor, status ib.WCStatus, eff *Effects) {}

// PostSend queues a request and returns its slot, which is free again when
// PollSend has gone past it. It fails with ErrFull, or says what is wrong with r.
// In state Err the request is taken, and flushed.
func (q *QP) PostSend(r *Request) (slot uint32, err error) { return 0, nil }

// PeekRequest returns what NextRequest would send, in bytes: the payload of the
// packet, or what a READ will bring back. ok is false when nothing may be sent
// now: the queue is empty, or a fence, the limit of outstanding READs and
// atomics, the PSN window, missing credits, an RNR wait or the state forbid it.
func (q *QP) PeekRequest(now units.Time) (bytes int, ok bool) { return 0, false }

// NextRequest describes the next request packet in d and counts it as sent now,
// or returns false as PeekRequest does. Packets must be sent in the order of
// the calls.
func (q *QP) NextRequest(now units.Time, d *Descriptor) bool { return false }

// NextResponse describes the next response packet in d, or returns false.
// Packets must be sent in the order of the calls.
func (q *QP) NextResponse(now units.Time, d *Descriptor) bool { return false }

// ResponseReady reports whether NextResponse has a packet.
func (q *QP) ResponseReady() bool { return false }

// Fresh reports whether d, which NextRequest or NextResponse has filled, should
// still be sent. It turns false when the requester went back, the responder
// began a READ again or the queue pair failed after that call: the packet will
// be described anew, or not be needed.
func (q *QP) Fresh(d *Descriptor) bool { return false }

// Receive takes one packet with good ICRC that came from the peer. h is not
// kept. payload is its length in bytes without padding.
func (q *QP) Receive(now units.Time, h *Header, payload int, eff *Effects) {}

// Checked answers DoCheck.
func (q *QP) Checked(now units.Time, ok bool, eff *Effects) {}

// AtomicDone answers DoAtomic with the value that the memory had before.
func (q *QP) AtomicDone(slot uint32, orig uint64) {}

// PollSend returns the next completion in the order of posting. Requests that
// succeeded and were not signaled are skipped; their slots are free after it.
func (q *QP) PollSend(c *SendCompletion) bool { return false }

// PollRecv returns the next receive that the queue pair flushes because it is in
// state Err. It leaves a shared queue alone.
func (q *QP) PollRecv(c *RecvCompletion) bool { return false }

// Inflight returns the bytes that are sent, or requested by READs, and not yet
// acknowledged or arrived; after going back it begins at zero again.
func (q *QP) Inflight() units.Bytes { return 0 }

// Deadline returns when to call Expire, or units.Never. It may turn out early:
// progress moves the timer without moving the deadline, and Expire then only
// sets it anew.
func (q *QP) Deadline() units.Time { return units.Never }

// Expire does what time demands: it goes back after a timeout, ends an RNR
// wait, or nothing. Calling it early does no harm.
func (q *QP) Expire(now units.Time, eff *Effects) {}
