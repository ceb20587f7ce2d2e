package nicmodel

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/icm"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// A work queue element is segments of 16 bytes: control; the remote address of a
// READ, a WRITE or an atomic, or the address vector of a datagram; the operands of
// an atomic; then a pointer for each piece of data, or the data themselves after a
// length of 4 bytes. Kalia et al. (ATC 2016, table 1) count 36 bytes before the
// inline data of a WRITE and 68 before those of a datagram. The element of a
// receive has only pointers.
const (
	wqeSegment       = 16
	wqeInlineHeader  = 4
	wqeDatagramBytes = 48
)

// sendWQEBytes returns what a send request takes in its queue: with inline data if
// there are any, else with a pointer for each of its pieces. Queues have strides of
// 64 bytes, a cache line, and an element has as many as it needs.
func sendWQEBytes(op ib.WROpcode, service ib.QPType, pieces, inline int) int {
	n := wqeSegment
	switch op {
	case ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead:
		n += wqeSegment
	case ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd:
		n += 2 * wqeSegment
	}
	if service == ib.UD {
		n += wqeDatagramBytes
	}
	if inline > 0 {
		n += (wqeInlineHeader + inline + wqeSegment - 1) / wqeSegment * wqeSegment
	} else {
		n += pieces * wqeSegment
	}
	return (n + pcie.CacheLine - 1) / pcie.CacheLine * pcie.CacheLine
}

func (q *qp) wqeBytes(w *sendWQE) int {
	bytes := sendWQEBytes(w.req.Op, q.cfg.Type, len(w.sgl), len(w.inline))
	if w.waitUntil != 0 {
		bytes += waitBytes
	}
	return bytes
}

// wqeAddr returns the address of the element with that running count. Elements of several
// strides are spread as if each had one: only their pages matter.
func (q *qp) wqeAddr(count uint32) uint64 {
	return q.sqAddr + uint64(count&uint32(len(q.sq)-1))*pcie.CacheLine
}

// elementAt returns the place of the element with that running count among those on the
// chip.
func (q *qp) elementAt(count uint32) uint64 {
	return q.elements + uint64(count&uint32(len(q.sq)-1))<<elementBits
}

// elementBits is of the room of an element there, which its 256 pieces at most do not fill.
const elementBits = 13

// elements is the stage wqe: elements of send queues, read after doorbells or written by
// BlueFlame, decoded and passed to the transport.
//
// State: for each queue pair how far it was doorbelled, read and handed; the elements are in
// the memory on the chip until they are over or are displaced. Cost: WQECycles an
// element, and on PCIe its cache lines, WQEFetch elements a read. It stalls for elements
// (StallPCIe) and for the context that says where they lie (StallContext).
type elements struct {
	*chip.Chip
	stage.Stage
	pairs     *pairs
	transport *transport
	scheduler *scheduler
	state     *icm.Memory
	buffer    *receiveBuffer
	ports     *ports

	queued stage.Gauge // requests whose doorbell has been rung
	handed uint64      // to the transport
	times  sendTimes
}

// take returns when the element is available for a packet to be built at t, which is the request's last or not.
func (e *elements) take(t units.Time, q *qp, slot uint32, last bool) units.Time {
	w := &q.sq[slot]
	first := !w.started
	if first {
		e.start(t, q, w)
	}
	ready := e.need(t, q, slot)
	switch {
	case !e.posted():
		if first && w.awaited { // which is another memory
			e.state.Take(q.elementAt(slot), q.wqeBytes(w))
		}
	case w.awaited:
	case !w.over && last:
		w.over = true
		e.state.Elements.Drop(q.elementAt(slot), q.wqeBytes(w))
	case w.over && ready > t: // it was read to be sent again
		e.state.Elements.Drop(q.elementAt(slot), q.wqeBytes(w))
	}
	return ready
}

// posted reports whether the elements of all that is posted are in the memory of elements.
func (e *elements) posted() bool { return e.ports.posted }

// need returns when an element that is needed at t is available: one that was
// displaced is fetched again.
func (e *elements) need(t units.Time, q *qp, slot uint32) (ready units.Time) {
	full := e.state.Full()
	if e.posted() {
		full = e.state.Elements.Full()
	}
	if !full {
		return t
	}
	at, from, bytes := q.elementAt(slot), q.wqeAddr(slot), q.wqeBytes(&q.sq[slot])
	if e.posted() {
		return e.state.NeedPosted(t, at, from, bytes)
	}
	ready, _ = e.state.Need(t, icm.EntryElement, at, from, bytes)
	return ready
}

// answered returns when the completion of an element can be made, whose response or
// acknowledgement has come. Where the data of a READ or an atomic go is in the element. The others are done with.
func (e *elements) answered(now units.Time, q *qp, slot uint32) units.Time {
	w := &q.sq[slot]
	switch {
	case !awaitsAnswer(w.req.Op):
		return now
	case w.awaited:
		return now // the packets of its answer have waited
	}
	return e.need(now, q, slot)
}

// release drops the elements from one running count to another, which have
// completed. One without a completion of its own is looked up only here.
func (e *elements) release(now units.Time, q *qp, from, to uint32) {
	for i := from; i != to; i++ {
		w := q.wqe(i)
		if !w.req.Signaled {
			e.answered(now, q, i&uint32(len(q.sq)-1))
		}
		e.drop(q, i)
	}
}

// drop drops the element with a running count from where it is.
func (e *elements) drop(q *qp, count uint32) {
	w := q.wqe(count)
	at, bytes := q.elementAt(count), q.wqeBytes(w)
	if w.awaited {
		e.state.Elements.Take(e.buffer.busy(), at, bytes)
		q.reads--
	}
	switch {
	case !e.posted():
		if !w.awaited || !w.started {
			e.state.Take(at, bytes)
		}
	case !w.awaited && !w.over:
		w.over = true
		e.state.Elements.Drop(at, bytes)
	}
}

// admit has the receive side take in the elements of Reads and atomics that the transport has, as far as the queue pair may have
// as many outstanding: where the answer goes is known there before it can come.
func (e *elements) admit(now units.Time, q *qp) {
	if e.Config.State.Elements == 0 || e.posted() {
		return
	}
	for q.admitted != q.handed {
		w := q.wqe(q.admitted)
		if awaitsAnswer(w.req.Op) {
			if q.reads == q.maxReads {
				return
			}
			q.reads++
			w.awaited = true
			at, bytes := q.elementAt(q.admitted), q.wqeBytes(w)
			if w.started {
				e.state.Take(at, bytes)
			}
			e.state.Elements.Put(now, at, bytes)
		}
		q.admitted++
	}
}

// forget drops all that there is of a queue pair's elements.
func (e *elements) forget(now units.Time, q *qp) {
	for i := q.reaped; i != q.handed; i++ {
		e.drop(q, i)
	}
	e.queued.Add(now, -int(q.doorbelled-q.fetchIssued)-q.waiting)
	e.noteWait(now, q, -q.waiting)
	q.progress = progress{}
}

// fetch reads the elements whose doorbells have arrived, as far ahead of the elements that were
// started as the NIC prefetches. The reads begin at now; stage wqe has them to do
// from t on, and knows where the queue lies at context.
func (e *elements) fetch(now, t, context units.Time, q *qp) {
	for part := e.next(q); part > 0; part = e.next(q) {
		bytes := 0
		for i := range part {
			bytes += q.wqeBytes(q.wqe(q.fetchIssued + uint32(i)))
		}
		arrived := e.Link.Read(now, q.wqeAddr(q.fetchIssued), bytes, pcie.ForWQE)
		if context > now {
			arrived = max(arrived, context+e.Link.Alone(bytes))
		}
		if context > t {
			e.Await(t, context, stage.StallContext)
		}
		done := e.Serve(t, arrived, stage.StallPCIe, int64(part)*e.Config.WQECycles)
		if e.Spans.Report != nil {
			e.Spans.Request(q.num, len(q.sq), chip.AtFetch, now, arrived, q.fetchIssued, part)
			e.Spans.Request(q.num, len(q.sq), chip.AtWQE, e.Began(int64(part)*e.Config.WQECycles), done, q.fetchIssued, part)
		}
		q.fetchIssued += uint32(part)
		q.fetching++
		e.Schedule(done, chip.EvElements, chip.Elements{QPN: q.num, Count: part, Resets: q.resets, Fetched: true}.Pack())
	}
}

// next returns how many elements of a queue the next read may fetch, none if that is not
// above 0.
func (e *elements) next(q *qp) int {
	part := int(q.doorbelled - q.fetchIssued)
	if ahead := e.ahead(q); ahead > 0 {
		room := ahead - int(q.fetchIssued-q.started)
		if part > room && 2*room < ahead {
			return 0 // so that reads are for several
		}
		part = min(part, room)
	}
	if e.Config.WQEFetch > 0 {
		part = min(part, e.Config.WQEFetch)
	}
	return part
}

// ahead is the largest number of a queue's elements on the chip that are not started; 0 is no limit. If not all
// fits there, the room is shared out evenly, one element at least: more would displace each other before their turn. That is half of the memory
// of elements, as its sets are not filled evenly, among the queue pairs that have requests, if what is posted is in it; else what
// the contexts of all leave.
func (e *elements) ahead(q *qp) int {
	var room, queues int
	switch {
	case e.Config.WQEPrefetch == 0:
		return 0
	case e.posted() && e.state.Elements.Full():
		room, queues = int(e.Config.State.Elements)/2, e.transport.active.N
	case !e.posted() && e.state.Full():
		for _, p := range e.ports.all {
			queues += p.live
		}
		room = int(e.Config.State.Bytes) - queues*icm.LinesOf(e.Config.State.Context)*pcie.CacheLine
	default:
		return e.Config.WQEPrefetch
	}
	return min(e.Config.WQEPrefetch, max(1, room/(max(queues, 1)*q.wqeBytes(q.wqe(q.fetchIssued)))))
}

// start takes note that an element is worked on for the first time.
func (e *elements) start(t units.Time, q *qp, w *sendWQE) {
	w.started = true
	q.started++
	if q.fetchIssued != q.doorbelled {
		e.fetch(t, t, t, q)
	}
}

// arrived hands work queue elements that are in the NIC to the transport.
func (e *elements) arrived(now units.Time, b chip.Elements) {
	q := e.pairs.find(b.QPN)
	if q == nil || q.rc == nil || q.resets != b.Resets {
		e.queued.Add(now, -b.Count)
		return // destroyed or reset meanwhile
	}
	q.fetching--
	if b.Fetched {
		q.fetched += uint32(b.Count)
	}
	if e.Spans.Report != nil {
		for i := range b.Count {
			q.wqe(q.handed + uint32(q.waiting+i)).inNIC = now
		}
	}
	e.noteWait(now, q, b.Count)
	e.hand(now, q)
}

// noteWait counts elements that wait in the NIC.
func (e *elements) noteWait(now units.Time, q *qp, change int) {
	e.times.waited += units.Time(q.waiting) * (now - q.waitFrom)
	q.waiting, q.waitFrom = q.waiting+change, now
}

// failed reports whether a queue pair flushes its send requests.
func failed(s ib.QPState) bool { return s == ib.Err || s == ib.SQE }

// timeCame handles that an element's wait is over, if there still is one.
func (e *elements) timeCame(now units.Time, q *qp) {
	if q != nil && q.rc != nil && q.waiting > 0 {
		e.hand(now, q)
	}
}

// awaitsAnswer reports whether a request's answer brings data, whose place the element says.
func awaitsAnswer(op ib.WROpcode) bool { return op == ib.WRRDMARead || op.IsAtomic() }

// count counts for NIC.Stats.
func (e *elements) count(s *Stats) { s.Requests = e.handed }

// waitBytes is a waiting element's size in the queue.
const waitBytes = pcie.CacheLine

// sendTimes draws how late waits end.
type sendTimes struct {
	stream des.Stream
	waited units.Time // by elements that were in the NIC, summed over them
}

// WaitUntil has the next request that is posted, and those behind it, leave no earlier than at: a wait before it in
// the send queue. A time that has passed is no wait. It fails on a NIC that does not schedule by time.
func (n *NIC) WaitUntil(num uint32, at units.Time) error {
	c := &n.chip.Config.SendTime
	if c.Tick == 0 {
		return fmt.Errorf("a send time of %v: the NIC does not schedule by time (nic.with.send_time.tick)", at)
	}
	if at < 0 || at >= units.Never-c.Tick-c.Jitter {
		return fmt.Errorf("a send time of %v: it must lie within the run", at)
	}
	at = (at + c.Tick - 1) / c.Tick * c.Tick
	if c.Jitter > 0 {
		at += units.Time(n.elements.times.stream.Float64() * float64(c.Jitter))
	}
	n.pairs.find(num).waitUntil = at
	return nil
}

// due returns how many of a queue pair's elements in the NIC the transport may have now, and when it may have the next, Never for
// none.
func (e *elements) due(now units.Time, q *qp) (n int, next units.Time) {
	if s := q.rc.State(); failed(s) {
		return q.waiting, units.Never // they are flushed
	}
	for n < q.waiting {
		if at := q.wqe(q.handed + uint32(n)).waitUntil; at > now {
			return n, at
		}
		n++
	}
	return n, units.Never
}

// waitedFor returns how long elements have waited until now, summed over them.
func (e *elements) waitedFor(now units.Time) units.Time {
	sum := e.times.waited
	for q := range e.pairs.every {
		sum += units.Time(q.waiting) * (now - q.waitFrom)
	}
	return sum
}

// waitsUntil reports how long elements have waited until now for their times.
func (e *elements) waitsUntil(now units.Time) []stage.Wait {
	if e.Config.SendTime.Tick == 0 {
		return nil
	}
	return []stage.Wait{{Where: "wqe", For: "their send time", Total: e.waitedFor(now)}}
}

// decode is fetch for the one element that has come with its doorbell.
func (e *elements) decode(t, context units.Time, q *qp) {
	done := e.Serve(t, context, stage.StallContext, e.Config.WQECycles)
	if e.Spans.Report != nil {
		e.Spans.Request(q.num, len(q.sq), chip.AtWQE, e.Began(e.Config.WQECycles), done, q.fetchIssued, 1)
	}
	q.fetchIssued++
	e.Schedule(done, chip.EvElements, chip.Elements{QPN: q.num, Count: 1, Resets: q.resets}.Pack())
}

// ready hands the transport the waiting elements that it may have, and returns their number. The next one
// is looked at when its time has come.
func (e *elements) ready(now units.Time, q *qp) int {
	count, next := e.due(now, q)
	if next != units.Never && next != q.waitWake {
		q.waitWake = next
		e.Schedule(next, chip.EvSendTime, uint64(q.num))
	}
	e.noteWait(now, q, -count)
	e.queued.Add(now, -count)
	e.handed += uint64(count)
	return count
}

// give gives the transport the next element of a queue pair.
func (e *elements) give(now units.Time, q *qp) {
	w := q.wqe(q.handed)
	if e.Spans.Report != nil && w.inNIC < now {
		e.Spans.Request(q.num, len(q.sq), chip.AtSendTime, w.inNIC, now, q.handed, 1)
	}
	w.started, w.awaited, w.over = false, false, false
	slot, err := q.rc.PostSend(&w.req)
	if err != nil || slot != q.handed&uint32(len(q.sq)-1) {
		// The provider has checked the request, and the ring is no deeper
		// than the transport's.
		panic(fmt.Sprintf("nicmodel: the transport took work queue element %d as %d: %v", q.handed, slot, err))
	}
	if q.departures != nil {
		q.departures[slot] = departure{}
	}
	if at, bytes := q.elementAt(q.handed), q.wqeBytes(w); e.posted() {
		if w.awaited = awaitsAnswer(w.req.Op); w.awaited {
			q.reads++
		}
		e.state.Elements.Put(now, at, bytes)
	} else {
		e.state.Put(at, bytes)
	}
	q.handed++
}
