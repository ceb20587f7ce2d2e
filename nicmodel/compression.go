package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/units"
)

const miniCQEs = 8 // of an array

// alike reports whether two completions may be in one session.
func alike(a, b *CQE) bool {
	return a.QPN == b.QPN && a.SrcQPN == b.SrcQPN && (a.Opcode == b.Opcode || (a.Opcode|b.Opcode)&ib.WCRecv == 0) && a.small() && b.small()
}

// small reports whether a mini element holds all of a completion that the title
// does not.
func (e *CQE) small() bool {
	return e.Status == ib.WCSuccess && !e.HasImm && !e.HasInv && !e.Solicited
}

// endUnlike ends the session that the next completion of a queue, which the stage is done
// with at a time, is not like.
func (cs *completions) endUnlike(at units.Time, num uint32, c *cq, next *CQE) {
	if c.session.n > 0 && !alike(c.newest(1), next) {
		cs.writeSession(at, num, c)
	}
}

// keep takes the newest completion of a queue, which is made at done, into its session.
func (cs *completions) keep(at, done, ready units.Time, num uint32, c *cq) {
	e := c.newest(1)
	e.Visible, e.made = units.Never, done
	s := &c.session
	s.n++
	s.ready = max(s.ready, ready)
	switch {
	case s.n == cs.Config.Compression.MaxNum || !e.small():
		cs.writeSession(at, num, c)
	case s.n == 1:
		s.until = at + cs.Config.Compression.Timeout
		cs.Schedule(s.until, chip.EvSession, uint64(num))
	}
}

// sessionTimeout is the end of a queue's session by time.
func (cs *completions) sessionTimeout(now units.Time, num uint32) {
	if c := cs.all[num]; c.session.n > 0 && c.session.until == now {
		cs.writeSession(now, num, c)
	}
}

// writeSession writes the completions of a session. The title goes last, for it makes the
// others valid.
func (cs *completions) writeSession(at units.Time, num uint32, c *cq) {
	kept := c.session
	c.session = session{}
	var visible units.Time
	if kept.n > 1 {
		// The first array lies behind the title, and each of the others where the
		// first of its completions would.
		for i := 0; i < kept.n; i += miniCQEs {
			cs.write(at, at, c, uint32(max(i, 1)))
		}
	}
	visible = cs.write(at, at, c, 0)
	c.written += uint32(kept.n)
	visible = max(visible+max(kept.ready-at, 0), c.visible)
	c.visible = visible
	for i := kept.n; i > 0; i-- {
		e := c.newest(i)
		e.Visible = visible
		if cs.Spans.Report != nil {
			cs.Spans.Completion(e.QPN, e.Slot, e.Opcode, chip.AtCQEWrite, e.made, visible)
		}
	}
	cs.announce(at, visible, num, c, kept.n)
}
