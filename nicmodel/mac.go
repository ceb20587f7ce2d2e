package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Stage mac: the wire. Its cycles are picoseconds.
//
// State: for each priority a queue of acknowledgements, one of READ responses and one of
// requests, and which priorities the peer has paused. Cost: the frame with preamble, gap
// and checks at the line rate (package fabric). It stalls for the frame before
// (StallWire) and for a pause (StallPause).

// kick makes sure that the MAC looks at its queues when a frame is ready and the
// wire free.
func (n *NIC) kick(now, ready units.Time) {
	at := max(now, ready, n.wireFree)
	if at < n.wireAt {
		n.wireAt = at
		n.engine.Schedule(at, &n.src, n.id, evWire, 0)
	}
}

// send puts the next frame on the wire. Within a priority acknowledgements go
// first; READ responses and requests take turns.
func (n *NIC) send(now units.Time) {
	if now < n.wireFree {
		n.kick(now, n.wireFree)
		return
	}
	next := units.Never
	for priority := fabric.MaxPriorities - 1; priority >= 0; priority-- {
		if n.paused&(1<<priority) != 0 {
			continue
		}
		first, second := &n.requests[priority], &n.responses[priority]
		if n.turn {
			first, second = second, first
		}
		for i, from := range [...]*fifo{&n.control[priority], first, second} {
			for from.head != 0 {
				h := from.head
				f := &n.frames.frames[h]
				if f.ready > now {
					next = min(next, f.ready)
					break
				}
				from.pop(n.frames)
				if n.transmit(now, h, f, from) {
					if i > 0 {
						n.turn = !n.turn
					}
					return
				}
			}
		}
	}
	if next != units.Never {
		n.kick(now, next)
	}
	n.refill(now)
}

// transmit puts one frame on the wire, unless its queue pair has gone back since
// it was built.
func (n *NIC) transmit(now units.Time, h fabric.Handle, f *frame, from *fifo) bool {
	p := n.net.Packet(h)
	q := n.qp(f.srcQPN)
	switch from {
	case &n.requests[p.Priority]:
		n.inRequests--
		n.inTransmit.add(now, -1)
	case &n.responses[p.Priority]:
		n.inResponses--
		n.inTransmit.add(now, -1)
		if q != nil && q.resets == f.resets {
			q.responding--
		}
	}
	if q == nil || q.rc == nil || q.resets != f.resets || f.desc.Header.Opcode != ib.CNP && !q.rc.Fresh(&f.desc) {
		n.stat.Stale++
		n.frames.free(h)
		return false
	}
	f.sentAt = now
	if q.pull != nil && f.desc.Header.Opcode == ib.ReadRequest {
		q.pull.requested(now, &f.desc)
	}
	if q.departures != nil && from == &n.requests[p.Priority] {
		q.departures[f.desc.Slot].leaves(n.ReadClock(now), &f.desc)
	}
	n.stat.TxPackets++
	n.stat.TxPayload += units.Bytes(f.desc.Payload)
	ready, why := f.ready, StallWire
	if n.resumed[p.Priority] > ready {
		why = StallPause
	}
	n.wireFree = n.net.Transmit(now, n.host, h)
	n.mac.Serve(ready, now, why, int64(n.wireFree-now))
	if n.onSpan != nil {
		n.packetSpan(f, AtWire, now, n.wireFree, int32(n.host))
	}
	// The wire is looked at again when it is free: the frame that goes next
	// may not be there yet, and this one makes room.
	n.kick(now, n.wireFree)
	if q.cfg.Type != ib.RC {
		n.left(now, q, &f.desc)
	}
	n.refill(now)
	return true
}

// Pause implements fabric.Endpoint.
func (n *NIC) Pause(_ *fabric.Lane, now units.Time, paused uint8) {
	resumed := n.paused &^ paused
	n.paused = paused
	if resumed == 0 {
		return
	}
	for priority := range n.resumed {
		if resumed&(1<<priority) != 0 {
			n.resumed[priority] = now
		}
	}
	n.kick(now, now)
}
