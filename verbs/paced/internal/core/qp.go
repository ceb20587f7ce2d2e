package core

import (
	"math"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// QPConfig is a queue pair's configuration, fixed when it is made.
type QPConfig struct {
	Number  uint32 // the provider's, for completions
	Index   int    // the driver's, which Batch.QP.Index returns
	Cap     verbs.QPCap
	SigAll  bool
	Segment units.Bytes // into which Writes and Reads are cut
	// CutImmediate cuts Writes with immediate data, too.
	CutImmediate bool
	Depth        int         // segments that the provider takes
	Limit        units.Bytes // outstanding, besides the engine's window
	Line         units.Rate  // of the port; 0 if not known
	MTU          ib.MTU
}

// QP is one queue pair of a Core.
type QP struct {
	// First what each segment needs, close together: with many queue pairs, most
	// of what a segment costs is fetching this.
	core         *Core
	member       *Member // nil without a group, whose loop steers then
	wrid         uint64  // the upper half of its segments' WRIDs
	flow         ratelimiter.FlowID
	state        ib.QPState
	filed        bool // the segment at the cursor is with the scheduler
	hold         Hold
	sigAll       bool
	cutImmediate bool
	timeout      uint8      // of retransmission: ackTimeout
	retransmits  uint8      // Sample.Retransmits, the last time
	longest      uint32     // message that the port carries
	heldFrom     units.Time // since when hold, or when that was last counted

	unsent     int32 // requests that are not claimed to their end
	depth      int16 // segments that the provider takes
	firstClaim int16 // in core.claims, or none
	lastClaim  int16 // valid unless firstClaim is none
	sges       int16 // a request has at most
	rdMax      int16 // reads and atomics that the NIC has outstanding; 0 if not known
	mtu        uint16
	at         cursor // where the next segment begins, valid while unsent is not 0

	requests []request   // by slot
	sgl      []verbs.SGE // sges for each slot
	limit    units.Bytes
	largest  units.Bytes
	size     size              // of the last segment; bytes is -1 if wire or the MTU changed since
	recent   [Holds]units.Time // how long what held it, since the instants were set back
	table    completions.Table
	loop     loop // what few segments need of it comes last

	// Then what few need.
	holds  Times      // before recent
	line   units.Rate // of the port; 0 if not known
	wire   units.Rate // at which the NIC sends a segment: its limiter's, else line
	inline []byte     // largestInline for each slot
	index  int32
	// largestInline is the most bytes that a request may have inline.
	largestInline int32
}

// request is a queue pair's state of a request that is not wholly posted.
type request struct {
	opcode     ib.WROpcode
	flags      verbs.SendFlags
	length     uint32
	sges       int32
	remoteAddr uint64
	rkey, imm  uint32
	compareAdd uint64
	swap       uint64
}

// cuts reports whether r may leave in several segments. Sends may not: the receiver's
// buffers decide their size.
func (q *QP) cuts(r *request) bool {
	switch r.opcode {
	case ib.WRRDMAWrite, ib.WRRDMARead:
		return r.flags&verbs.SendInline == 0
	case ib.WRRDMAWriteWithImm:
		return q.cutImmediate && r.flags&verbs.SendInline == 0
	}
	return false
}

// cursor is a place in the data of the requests.
type cursor struct {
	slot uint32
	off  uint32 // in the message
	sge  uint32 // the SGE that holds off,
	into uint32 // and where in it
}

// Add makes q a queue pair, which is in RESET and has no engine.
func (c *Core) Add(q *QP, a *QPConfig) error {
	flow, err := c.sched.AddFlow(ratelimiter.Unpaced)
	if err != nil {
		return err
	}
	table := completions.NewSmallTable(a.Number, a.Cap.MaxSendWR, a.Depth)
	slots := table.Slots()
	for len(c.flows) <= int(flow) {
		c.flows = append(c.flows, nil)
	}
	if a.Cap.MaxSendSGE > c.scratch.MaxSGE {
		c.scratch.MaxSGE = a.Cap.MaxSendSGE
		c.scratch.SGEs = make([]verbs.SGE, c.scratch.MaxSGE*len(c.claims))
	}
	c.add(q, a, flow, *table, make([]request, slots), make([]verbs.SGE, slots*a.Cap.MaxSendSGE), make([]byte, slots*a.Cap.MaxInlineData))
	return nil
}

// add is Add in the memory given: a flow of the scheduler's that is Unpaced, a table of
// Cap.MaxSendWR messages and Depth segments, and for each of its slots a request,
// MaxSendSGE of sgl and MaxInlineData of inline.
func (c *Core) add(q *QP, a *QPConfig, flow ratelimiter.FlowID, table completions.Table, requests []request, sgl []verbs.SGE, inline []byte) {
	*q = QP{
		core: c, flow: flow, sigAll: a.SigAll, cutImmediate: a.CutImmediate, largestInline: int32(a.Cap.MaxInlineData), index: int32(a.Index), depth: int16(min(a.Depth, math.MaxInt16)), sges: int16(min(a.Cap.MaxSendSGE, math.MaxInt16)),
		longest: ib.MaxMessage,
		limit:   a.Limit, largest: a.Segment, firstClaim: none, line: a.Line, wire: a.Line, mtu: uint16(a.MTU),
		timeout: noTimeout,
		table:   table, requests: requests, sgl: sgl, inline: inline,
	}
	q.size.bytes = -1
	q.loop.hold(a.Line)
	c.flows[flow] = q
}

// grow makes room for more requests.
func (q *QP) grow() {
	q.table.Grow()
	slots := q.table.Slots()
	requests := make([]request, slots)
	sgl := make([]verbs.SGE, slots*int(q.sges))
	inline := make([]byte, slots*int(q.largestInline))
	copy(requests, q.requests)
	copy(sgl, q.sgl)
	copy(inline, q.inline)
	q.requests, q.sgl, q.inline = requests, sgl, inline
}

// Remove forgets a queue pair that was cleared.
func (c *Core) Remove(q *QP) {
	c.sched.RemoveFlow(q.flow)
	c.flows[q.flow] = nil
}

// Name sets the upper half of the WRIDs of the queue pair's segments; the lower 32
// bits are theirs.
func (q *QP) Name(upper uint64) { q.wrid = upper &^ math.MaxUint32 }

// Named reports whether a WRID is of the queue pair's segments.
func (q *QP) Named(wrid uint64) bool { return q.wrid == wrid&^math.MaxUint32 }

// Index is QPConfig.Index.
func (q *QP) Index() int { return int(q.index) }

// State is the queue pair's state.
func (q *QP) State() ib.QPState { return q.state }

// Control returns the engine's Control; without an engine, the line rate.
func (q *QP) Control() cc.Control {
	if q.member != nil {
		return q.member.group.Control()
	}
	return q.loop.driver.Control()
}

// Engine is the engine, or nil.
func (q *QP) Engine() cc.Engine {
	if q.member != nil {
		return q.member.group.loop.driver.Engine()
	}
	return q.loop.driver.Engine()
}

// Outstanding is the payload bytes that the provider has.
func (q *QP) Outstanding() units.Bytes { return q.table.Outstanding() }

// InFlight is the number of segments the provider has.
func (q *QP) InFlight() int { return q.table.InFlight() }

// Finished returns the number of finished requests, and the number of them that failed.
func (q *QP) Finished() (all, failed uint64) { return q.table.Finished() }

// Finish moves the completion of the next request that has finished to a queue and
// returns it, valid until the next call. It returns nil if no request has finished.
func (q *QP) Finish(to *completions.Queue) *verbs.WC { return to.Push(&q.table) }

// SetMTU sets the path's MTU.
func (q *QP) SetMTU(m ib.MTU) { q.mtu, q.size.bytes = uint16(m), -1 }

// SetLongest sets the bytes of the longest message that the port carries, up to
// ib.MaxMessage; 0 for that.
func (q *QP) SetLongest(bytes uint32) {
	if bytes == 0 || bytes > ib.MaxMessage {
		bytes = ib.MaxMessage
	}
	q.longest = bytes
}

// SetReads bounds the reads and atomics that the NIC has outstanding; 0 if that is
// not known.
func (q *QP) SetReads(most int) { q.rdMax = int16(min(most, math.MaxInt16)) }

// SetTimeout sets the queue pair's acknowledgement timeout as ibv_qp_attr has it: the time is
// 4.096 us * 2^t, and t 0 is none (IBTA 1.4, 9.7.6.1.3).
func (q *QP) SetTimeout(t uint8) {
	q.timeout = noTimeout
	if t > 0 {
		q.timeout = t & 31
	}
}

const noTimeout = 40 // 52 days

// ackTimeout is the time after which the transport sends again what was not acknowledged.
func (q *QP) ackTimeout() units.Time { return 4096 * units.Nanosecond << q.timeout }

// SetLimiter says that the NIC paces the packets of a segment at r; 0 or the line
// rate and more is the line rate.
func (q *QP) SetLimiter(r units.Rate) {
	q.wire, q.size.bytes = q.line, -1
	if r > 0 && r < q.line {
		q.wire = r
	}
}

// Start installs an engine, or nil for none, at a port of that line rate. cnps is
// how many congestion notification packets have arrived so far.
func (q *QP) Start(now units.Time, engine cc.Engine, line units.Rate, limit units.Bytes, cnps uint64) {
	q.line, q.wire, q.limit, q.size.bytes, q.retransmits = line, line, limit, -1, 0
	q.loop.start(now, engine, line, q.largest, &q.core.cfg)
	q.loop.driver.CNPs(cnps)
	q.core.pace(q.flow, &q.loop)
}

// Cap bounds the rate to r, whatever the engine allows, until the next Start; of a member, its
// group's rate until the group's.
func (q *QP) Cap(r units.Rate) {
	l := q.loopOf()
	l.driver.Cap(r)
	q.core.pace(q.paced(), l)
}

// Stop puts a queue pair in a state in which it does not send.
func (q *QP) Stop(now units.Time, state ib.QPState) {
	q.state = state
	q.withdraw()
	q.held(now, HeldOther)
}

// Drain puts a queue pair in SQD: the request that has begun goes on, and none begins.
func (q *QP) Drain(now units.Time) {
	q.state = ib.SQD
	if q.filed && q.at.off == 0 {
		q.withdraw()
	}
	q.release(now, now)
}

// Begun reports whether a request has begun, at least in part, and not completed.
func (q *QP) Begun() bool { return q.table.InFlight() > 0 || q.unsent > 0 && q.at.off > 0 }

// Resume puts it in RTS and lets go, or files, what may be sent. One that is in error
// stays so until it is cleared.
func (q *QP) Resume(now units.Time) {
	if q.table.Aborted() {
		return
	}
	q.state = ib.RTS
	q.release(now, now)
}

// Suspend removes the queue pair from the scheduler, in the given state (RESET before
// it is destroyed), without counting what holds it.
func (q *QP) Suspend(state ib.QPState) {
	q.withdraw()
	q.state = state
}

// Restore puts it back in the state in which Suspend found it.
func (q *QP) Restore(now units.Time, state ib.QPState) {
	q.state = state
	q.File(now)
}

// Clear forgets everything that was posted, with its completions in the queue that were
// not polled, and returns how many segments of it the provider had. The queue pair is in
// RESET.
func (q *QP) Clear(now units.Time, unpolled *completions.Queue) (lost int) {
	unpolled.Drop(&q.table)
	q.state = ib.Reset
	q.withdraw()
	q.held(now, HeldIdle)
	q.unsent = 0
	lost = q.table.InFlight()
	q.core.inFlight -= lost
	before := q.table.Outstanding()
	q.table.Reset()
	q.left(before)
	q.passOn(now)
	return lost
}

// Fail stops sending for good: the queue pair is in error.
func (q *QP) Fail(now units.Time) {
	q.state = ib.Err
	q.table.Abort()
	q.withdraw()
	q.held(now, HeldIdle)
	q.unsent = 0
}

func (q *QP) withdraw() {
	switch {
	case q.member != nil:
		q.member.withdraw()
	case q.filed:
		q.core.sched.Withdraw(q.flow)
		q.filed = false
	}
}
