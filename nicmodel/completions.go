package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/units"
)

// completions is the stage cqe.
//
// State: for each completion queue (cq.go) its ring in host memory, a session of
// compression (compression.go), and what events wait for
// (interrupt.go). Cost: CQECycles a completion and an event, and on PCIe CQEBytes a
// completion. It stalls while as many completions wait for PCIe as may (StallPCIe).
type completions struct {
	*chip.Chip
	stage.Stage
	*queues
	async  *async
	buffer *receiveBuffer

	waiting stage.Inflight // completions before PCIe, until each has left
	eqes    uint64         // written to it
}

// complete gives the host a completion, once its data are available, at ready.
func (cs *completions) complete(now, ready units.Time, num uint32, e CQE) {
	c := cs.all[num]
	done, at := cs.make(now)
	cs.buffer.hold(done)
	e.Timestamp = cs.Config.Counter.Read(now)
	if cs.Spans.Report != nil {
		cs.Spans.Completion(e.QPN, e.Slot, e.Opcode, chip.AtCQE, cs.Began(cs.Config.CQECycles), done)
	}
	compress := cs.Config.Compression.MaxNum > 0 && !c.stamped
	if compress {
		cs.endUnlike(at, num, c, &e)
	}
	if c.n == len(c.ring) {
		if !c.overrun {
			c.overrun = true
			cs.async.raise(now, AsyncEvent{Type: ib.EventCQErr, CQ: num})
		}
		return
	}
	place := c.head + c.n
	if place >= len(c.ring) {
		place -= len(c.ring)
	}
	c.ring[place] = e
	c.n++
	cs.unpolled.Add(now, 1)
	if compress {
		cs.keep(at, done, ready, num, c)
		return
	}
	visible := cs.write(at, done, c, 0)
	c.written++
	// Others go meanwhile to other queues; in one queue they are seen in order.
	visible = max(visible+ready-now, c.visible)
	c.visible = visible
	c.ring[place].Visible = visible
	if cs.Spans.Report != nil {
		cs.Spans.Completion(e.QPN, e.Slot, e.Opcode, chip.AtCQEWrite, done, visible)
	}
	cs.announce(at, visible, num, c, 1)
}

// make makes a completion or an event, when there is room for it. What waits for room takes its place on the link as it
// comes, at, and not once it is made: credits that it waits for do not keep the link.
func (cs *completions) make(now units.Time) (done, at units.Time) {
	room := cs.waiting.Free(now)
	done = cs.Serve(now, room, stage.StallPCIe, cs.Config.CQECycles)
	if room > now {
		return done, min(done, max(now, cs.Link.Free(pcie.Upstream)))
	}
	return done, done
}

// sent says that something was written that is made at done, and has left at sent if it was made before. It returns
// when the host sees it.
func (cs *completions) sent(sent, visible, done units.Time) units.Time {
	if done > sent {
		sent, visible = done, cs.Link.Left(done)
	}
	cs.waiting.Hold(sent)
	cs.buffer.hold(sent)
	return visible
}

// write writes an element of the queue, ahead places beyond the next one, and returns when the host can see it.
// The link takes it at at; the element is complete at done.
func (cs *completions) write(at, done units.Time, c *cq, ahead uint32) (visible units.Time) {
	place := (c.written + ahead) % uint32(len(c.ring))
	sent, visible := cs.Link.Write(at, c.addr+uint64(place)*uint64(cs.Config.CQEBytes), cs.Config.CQEBytes, pcie.ForCQE)
	if ahead > 0 { // of a session, the title that comes last stands for all
		return visible
	}
	return cs.sent(sent, visible, done)
}

// announce reports a queue's newest completions to its observer. They are alike, are
// written at a time and then become visible.
func (cs *completions) announce(at, visible units.Time, num uint32, c *cq, count int) {
	e := c.newest(1)
	solicited := e.Solicited || e.Status != ib.WCSuccess
	cs.countWritten(at, num, c, count, solicited)
	if c.handler == nil {
		return
	}
	cs.Schedule(visible, chip.EvCompletion, chip.Completion{CQ: num, Solicited: solicited}.Pack())
}

// becameVisible handles that the host can see a completion, and the data before it.
func (cs *completions) becameVisible(now units.Time, e chip.Completion) {
	cs.landings.BringDown(now)
	if h := cs.all[e.CQ].handler; h != nil {
		h(now, e.Solicited)
	}
}

// drop takes the completions of a queue pair out of a queue.
func (cs *completions) drop(num, qpn uint32) {
	c := cs.all[num]
	if c.session.n > 0 && c.newest(1).QPN == qpn {
		cs.writeSession(cs.Now(), num, c)
	}
	kept := 0
	for i := range c.n {
		e := &c.ring[(c.head+i)%len(c.ring)]
		if e.QPN != qpn {
			c.ring[(c.head+kept)%len(c.ring)] = *e
			kept++
		}
	}
	cs.unpolled.Add(cs.Now(), kept-c.n)
	c.n = kept
}
