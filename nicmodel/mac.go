package nicmodel

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// mac is the stage before the wire. Its cycles are picoseconds.
//
// State: for each priority a queue of acknowledgements, one of READ responses and one of
// requests, and which priorities the peer has paused. Cost: the frame with preamble, gap
// and checks at the line rate (package fabric). It stalls for the frame before
// (StallWire) and for a pause (StallPause).
type mac struct {
	*chip.Chip
	stage.Stage
	pairs      *pairs
	scheduler  *scheduler
	packetiser *packetiser
	transport  *transport

	// Frames on their way to the wire: acknowledgements and what else has no payload
	// and does not wait, READ responses, requests.
	control, responses, requests [fabric.MaxPriorities]frames.FIFO
	controls                     [fabric.MaxPriorities]int // frames in control
	responseRoom, requestRoom    [classRooms]txRoom        // by class, the first where there are none
	classes                      *shares                   // of the wire, or nil
	queued                       stage.Gauge               // of both
	backlogged                   uint8                     // priorities that may have any frame
	turn                         bool                      // READ responses and requests take turns on the wire
	lined                        int                       // frames of all kinds
	wireFree                     units.Time
	wakeAt                       units.Time // of the pending EvWire, or Never
	paused                       uint8
	resumed                      [fabric.MaxPriorities]units.Time // when each was last let go

	packets, stale uint64
	payload        units.Bytes

	capture func(now units.Time, h fabric.Handle) // or nil
}

// txRoom is memory for packets between the scheduler and the wire.
type txRoom struct {
	used, size, longest int // bytes
}

// classRooms is the largest number of classes with rooms of their own.
const classRooms = fabric.MaxPriorities

// open makes the rooms, and the shares of the classes if there are any.
func (m *mac) open(c *config.Config) {
	for i := range m.requestRoom {
		m.requestRoom[i].size, m.responseRoom[i].size = c.TxBuffer, c.TxBuffer
	}
	if len(c.Egress.TSA) > 0 {
		s := classShares(&c.Egress)
		m.classes = &s
	}
}

func roomOf(f *frames.Frame) int { return config.SlotBytes + f.Desc.Payload }

// takes reports whether there is room for a longest packet: how long the next one is, is
// known when it has been chosen.
func (r *txRoom) takes() bool { return r.used+r.longest <= r.size }

// expect says that packets may have so much payload.
func (r *txRoom) expect(payload int) { r.longest = max(r.longest, config.SlotBytes+payload) }

// wake makes sure that the MAC looks at its queues when a frame is ready and the
// wire free.
func (m *mac) wake(now, ready units.Time) {
	at := max(now, ready, m.wireFree)
	if at < m.wakeAt {
		m.wakeAt = at
		m.Schedule(at, chip.EvWire, 0)
	}
}

// lineUp queues a packet of a request or of a READ's response, or an answer that takes
// the same path, for the wire.
func (m *mac) lineUp(now units.Time, q *qp, h fabric.Handle, f *frames.Frame, response bool) {
	m.queued.Add(now, 1)
	f.Room = q.class
	if response {
		q.responding++
		m.responseRoom[f.Room].used += roomOf(f)
		m.push(now, &m.responses, h, f)
	} else {
		m.requestRoom[f.Room].used += roomOf(f)
		m.push(now, &m.requests, h, f)
	}
}

// lineUpControl puts an acknowledgement or a notification before the wire.
func (m *mac) lineUpControl(now units.Time, h fabric.Handle, f *frames.Frame) {
	m.controls[f.Wire.Priority]++
	m.push(now, &m.control, h, f)
}

// push puts a frame behind those of its kind and priority.
func (m *mac) push(now units.Time, kind *[fabric.MaxPriorities]frames.FIFO, h fabric.Handle, f *frames.Frame) {
	priority := f.Wire.Priority
	m.backlogged |= 1 << priority
	m.lined++
	kind[priority].Push(m.Frames, h)
	m.wake(now, f.Ready)
}

// send puts the next frame on the wire: of the highest priority that may send and has
// one that is ready.
func (m *mac) send(now units.Time) {
	if now < m.wireFree {
		m.wake(now, m.wireFree)
		return
	}
	if m.classes != nil {
		m.sendOfClasses(now)
		return
	}
	next := units.Never
	for left := m.backlogged &^ m.paused; left != 0; {
		priority := bits.Len8(left) - 1
		left &^= 1 << priority
		ready, sent := m.sendOf(now, priority)
		if sent {
			return
		}
		next = min(next, ready)
	}
	if next != units.Never {
		m.wake(now, next)
	}
	m.refill(now)
}

// sendOfClasses is send where classes have shares: of the class whose turn it is, the highest priority.
func (m *mac) sendOfClasses(now units.Time) {
	next := units.Never
	var of [classRooms]uint8 // the priorities of each class
	var classes uint64
	for left := m.backlogged &^ m.paused; left != 0; left &= left - 1 {
		priority := bits.TrailingZeros8(left)
		class := m.Config.Egress.Class(uint8(priority))
		of[class] |= 1 << priority
		classes |= 1 << class
	}
	for classes != 0 {
		class := m.classes.first(classes)
		for left := of[class]; left != 0; {
			priority := bits.Len8(left) - 1
			left &^= 1 << priority
			ready, sent := m.sendOf(now, priority)
			if sent {
				m.classes.served(class, int(m.Line.BytesIn(m.wireFree-now)))
				return
			}
			next = min(next, ready)
		}
		classes &^= 1 << class
	}
	if next != units.Never {
		m.wake(now, next)
	}
	m.refill(now)
}

// sendOf puts the next frame of a priority on the wire, or returns when one is ready:
// Never for none. Acknowledgements go first; READ responses and requests take turns.
func (m *mac) sendOf(now units.Time, priority int) (ready units.Time, sent bool) {
	first, second := &m.requests[priority], &m.responses[priority]
	if m.turn {
		first, second = second, first
	}
	ready = units.Never
	for i, from := range [...]*frames.FIFO{&m.control[priority], first, second} {
		for from.Head != 0 {
			h := from.Head
			f := m.Frames.At(h)
			if f.Ready > now {
				ready = min(ready, f.Ready)
				break
			}
			from.Pop(m.Frames)
			m.lined--
			if !m.transmit(now, h, f, from) {
				continue
			}
			if i > 0 {
				m.turn = !m.turn
			}
			return 0, true
		}
	}
	if ready == units.Never {
		m.backlogged &^= 1 << priority
	}
	return ready, false
}

// Pause implements fabric.Endpoint.
func (n *NIC) Pause(x *fabric.Lane, now units.Time, paused uint8) {
	n.enter(x, now)
	n.mac.pause(now, paused)
}

func (m *mac) pause(now units.Time, paused uint8) {
	resumed := m.paused &^ paused
	m.paused = paused
	if resumed == 0 {
		return
	}
	for priority := range m.resumed {
		if resumed&(1<<priority) != 0 {
			m.resumed[priority] = now
		}
	}
	m.wake(now, now)
}

// count counts for NIC.Stats.
func (m *mac) count(s *Stats) { s.TxPackets, s.TxPayload, s.Stale = m.packets, m.payload, m.stale }

// takesAck reports whether there is room for an acknowledgement of a queue pair. One that goes behind READ responses
// takes theirs.
func (m *mac) takesAck(q *qp) bool {
	return q.locked == 0 && (q.responding > 0 || m.takesNotification(q))
}

// takesNotification is takesAck for a CNP, which goes behind nothing.
func (m *mac) takesNotification(q *qp) bool {
	most := m.Config.Queues.Acks
	return most == 0 || m.controls[q.cong.AckPriority] < most
}

// departure holds the times at which a send request's packets left, by the counter of completion
// timestamps.
type departure struct {
	first, last uint64
	reach       uint64 // of the message's bytes, and one: what has left
}

// StampSends makes the NIC note when each send request's packets leave, for the queue
// pairs that are created from then on: see Departed.
func (p *pairs) StampSends() { p.stampSends = true }

// Departed returns what the counter of completion timestamps showed when the first
// and the last packet of a completed send request went on the wire, for the first
// time if packets were sent again. It reports false without StampSends, and for a
// request that sent no packet. The result is valid until the slot is used again.
func (p *pairs) Departed(num, slot uint32) (first, last uint64, ok bool) {
	q := p.find(num)
	if q == nil || q.departures == nil || q.departures[slot].reach == 0 {
		return 0, 0, false
	}
	d := &q.departures[slot]
	return d.first, d.last, true
}

// leaves takes note that a request's packet goes on the wire when the counter shows
// ticks.
func (d *departure) leaves(ticks uint64, p *rc.Descriptor) {
	reach := uint64(p.Offset) + uint64(p.Payload) + 1
	if reach <= d.reach {
		return // again
	}
	if d.reach == 0 {
		d.first = ticks
	}
	d.last, d.reach = ticks, reach
}

// Sent is a packet as it goes on the wire.
type Sent struct {
	Header       *rc.Header // read-only
	SrcQP, DstQP uint32
	QKey         uint32        // of a datagram
	Bytes        int           // of payload
	Payload      []byte        // nil where it is a phantom's, which are zeros; read-only
	Src          int32         // the host that sends it
	IPv6         bool          // it goes by IPv6
	Frame        *fabric.Frame // read-only
}

// OnTransmit calls f with each packet of which the NIC puts the first bit on the wire,
// valid during the call, after those that were given before. nil removes all.
func (n *NIC) OnTransmit(f func(now units.Time, p *Sent)) {
	if f == nil {
		n.mac.capture = nil
		return
	}
	before := n.mac.capture
	n.mac.capture = func(now units.Time, h fabric.Handle) {
		if before != nil {
			before(now, h)
		}
		x := n.chip.Frames.At(h)
		p := Sent{
			Header: &x.Desc.Header, SrcQP: x.SrcQPN, DstQP: x.DstQPN, QKey: x.QKey, Bytes: x.Desc.Payload, Src: n.chip.Net.Packet(h).Src, IPv6: x.IPv6, Frame: &x.Wire,
		}
		if x.Buffer != 0 {
			p.Payload = n.chip.Frames.Bytes(x.Buffer)[:p.Bytes]
		}
		f(now, &p)
	}
}

// makeRoom gives back what a frame has taken before the wire.
func (m *mac) makeRoom(now units.Time, q *qp, f *frames.Frame, from *frames.FIFO) {
	priority := f.Wire.Priority
	switch from {
	case &m.requests[priority]:
		m.requestRoom[f.Room].used -= roomOf(f)
		m.queued.Add(now, -1)
	case &m.control[priority]:
		m.controls[priority]--
	case &m.responses[priority]:
		m.responseRoom[f.Room].used -= roomOf(f)
		m.queued.Add(now, -1)
		if q != nil && q.resets == f.Resets {
			q.responding--
		}
	}
}

// fresh reports whether a frame's queue pair has not gone back since it was built.
func fresh(q *qp, f *frames.Frame) bool {
	return q != nil && q.rc != nil && q.resets == f.Resets && (f.Desc.Header.Opcode == ib.CNP || q.rc.Fresh(&f.Desc))
}

// leaves takes note that a frame goes on the wire.
func (m *mac) leaves(now units.Time, q *qp, h fabric.Handle, f *frames.Frame, from *frames.FIFO) {
	f.SentAt = now
	if q.pull != nil && f.Desc.Header.Opcode == ib.ReadRequest {
		q.pull.Requested(now, &f.Desc)
		q.pull.size = units.Bytes(f.Desc.Expect)
	}
	if q.departures != nil && from == &m.requests[f.Wire.Priority] {
		q.departures[f.Desc.Slot].leaves(m.Config.Counter.Read(now), &f.Desc)
	}
	if m.capture != nil {
		m.capture(now, h)
	}
	m.packets++
	m.payload += units.Bytes(f.Desc.Payload)
}

// occupy puts a frame on the wire. What waits looks at the wire again when it is free; what comes meanwhile does so by
// itself.
func (m *mac) occupy(now units.Time, h fabric.Handle, f *frames.Frame) {
	ready, why := f.Ready, stage.StallWire
	if m.resumed[f.Wire.Priority] > ready {
		why = stage.StallPause
	}
	m.wireFree = m.Lane.Transmit(now, m.Host, h, &f.Wire)
	m.Serve(ready, now, why, int64(m.wireFree-now))
	if m.Spans.Report != nil {
		m.Spans.Packet(f, chip.AtWire, now, m.wireFree, int32(m.Host))
	}
	if m.lined > 0 {
		m.wake(now, m.wireFree)
	}
}
