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

type completions struct {
	*chip
	stage
	regions  *memory
	landings *landings
	async    *asyncEvents

	queues   []*cq
	unpolled gauge
	eqAddr   uint64 // of the event queue
	eqes     uint64 // written to it
}

// complete gives the host a completion, once what it says is at hand, at ready.
func (cs *completions) complete(now, ready units.Time, num uint32, e CQE) {
	c := cs.queues[num]
	done := cs.serve(now, now, StallNone, cs.cfg.CQECycles)
	e.Timestamp = cs.cfg.Counter.Read(now)
	if cs.spans.report != nil {
		cs.spans.completion(&e, AtCQE, cs.began(cs.cfg.CQECycles), done)
	}
	compress := cs.cfg.Compression.MaxNum > 0 && !c.stamped
	if compress {
		cs.endUnlike(done, num, c, &e)
	}
	if c.n == len(c.ring) {
		if !c.overrun {
			c.overrun = true
			cs.async.raise(now, AsyncEvent{Type: ib.EventCQErr, CQ: num})
		}
		return
	}
	at := c.head + c.n
	if at >= len(c.ring) {
		at -= len(c.ring)
	}
	c.ring[at] = e
	c.n++
	cs.unpolled.add(now, 1)
	if compress {
		cs.keep(done, ready, num, c)
		return
	}
	visible := cs.write(done, c, 0)
	c.written++
	// Others go meanwhile to other queues; in one queue they are seen in order.
	visible = max(visible+ready-now, c.visible)
	c.visible = visible
	c.ring[at].Visible = visible
	if cs.spans.report != nil {
		cs.spans.completion(&e, AtCQEWrite, done, visible)
	}
	cs.announce(done, visible, num, c, 1)
}

// write writes an element of the queue, so many behind those that have been
// written, and returns when the host can see it.
func (cs *completions) write(at units.Time, c *cq, ahead uint32) (visible units.Time) {
	place := (c.written + ahead) % uint32(len(c.ring))
	_, visible = cs.pcie.Write(at, c.addr+uint64(place)*uint64(cs.cfg.CQEBytes), cs.cfg.CQEBytes, ForCQE)
	return visible
}

// announce lets whoever wants to know of a queue's completions know of the newest ones,
// which are like each other, are written at a time and then become visible.
func (cs *completions) announce(at, visible units.Time, num uint32, c *cq, count int) {
	e := c.newest(1)
	solicited := e.Solicited || e.Status != ib.WCSuccess
	cs.countWritten(at, num, c, count, solicited)
	if c.handler == nil {
		return
	}
	cs.schedule(visible, evCompletion, completionEvent{num, solicited}.pack())
}

// becameVisible handles that the host can see a completion, and the data before it.
func (cs *completions) becameVisible(now units.Time, e completionEvent) {
	cs.landings.bringDown(now)
	if h := cs.queues[e.cq].handler; h != nil {
		h(now, e.solicited)
	}
}
