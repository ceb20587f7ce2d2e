package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// Stage cqe: completions.
//
// State: for each completion queue its ring in host memory (queue.go), a session of
// compression (compression.go), and what events wait for (interrupt.go,
// moderation.go). Cost: CQECycles a completion and an event, and on PCIe CQEBytes a
// completion. It does not stall: host memory takes what it writes.

// CQE is a completion as the NIC writes it to host memory.
type CQE struct {
	WRID      uint64
	QPN       uint32
	Slot      uint32 // of the send request; see NIC.Reported
	ByteLen   uint32
	Imm       uint32
	SrcQPN    uint32 // of a datagram received
	Status    ib.WCStatus
	Opcode    ib.WCOpcode
	HasImm    bool
	HasInv    bool
	HasGRH    bool // a datagram's global route header lies before it
	Solicited bool
	Timestamp uint64     // the counter when the NIC had finished the operation
	Visible   units.Time // when the host can see it

	made units.Time // when the stage was done with it, in a session
}

// complete gives the host a completion, once what it says is at hand, at ready.
func (n *NIC) complete(now, ready units.Time, num uint32, e CQE) {
	c := n.cqs[num]
	done := n.cqe.Serve(now, now, StallNone, n.cfg.CQECycles)
	e.Timestamp = n.cfg.Counter.Read(now)
	if n.onSpan != nil {
		n.completionSpan(&e, AtCQE, n.cqe.began(n.cfg.CQECycles), done)
	}
	compress := n.cfg.Compression.MaxNum > 0 && !c.stamped
	if compress {
		n.breaks(done, num, c, &e)
	}
	if c.n == len(c.ring) {
		if !c.overrun {
			c.overrun = true
			n.raise(now, AsyncEvent{Type: ib.EventCQErr, CQ: num})
		}
		return
	}
	at := c.head + c.n
	if at >= len(c.ring) {
		at -= len(c.ring)
	}
	c.ring[at] = e
	c.n++
	n.inCQs.add(now, 1)
	if compress {
		n.keep(done, ready, num, c)
		return
	}
	visible := n.writeCQE(done, c, 0)
	c.written++
	// Others go meanwhile to other queues; in one queue they are seen in order.
	visible = max(visible+ready-now, c.visible)
	c.visible = visible
	c.ring[at].Visible = visible
	if n.onSpan != nil {
		n.completionSpan(&e, AtCQEWrite, done, visible)
	}
	n.announce(done, visible, num, c, 1)
}

// writeCQE writes an element of the queue, so many behind those that have been
// written, and returns when the host can see it.
func (n *NIC) writeCQE(at units.Time, c *cq, ahead uint32) (visible units.Time) {
	place := (c.written + ahead) % uint32(len(c.ring))
	_, visible = n.pcie.Write(at, c.addr+uint64(place)*uint64(n.cfg.CQEBytes), n.cfg.CQEBytes, ForCQE)
	return visible
}

// announce lets whoever wants to know of a queue's completions know of the newest ones,
// which are like each other, are written at a time and then become visible.
func (n *NIC) announce(at, visible units.Time, num uint32, c *cq, count int) {
	e := c.newest(1)
	solicited := e.Solicited || e.Status != ib.WCSuccess
	n.tells(at, num, c, count, solicited)
	if c.handler == nil {
		return
	}
	arg := uint64(num) << 1
	if solicited {
		arg |= 1
	}
	n.engine.Schedule(visible, &n.src, n.id, evCompletion, arg)
}
