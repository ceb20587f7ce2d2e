package nicmodel

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/icm"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// resourceBytes is a queue pair's memory for each Read or atomic that it answers (mlx4's
// RDMARC entries), as many as it may have outstanding.
const resourceBytes = 32

// contexts looks up queue pairs' contexts: what the NIC has to know of a queue pair for each
// of its doorbells, and for each packet that it builds or receives.
type contexts struct {
	*chip.Chip
	state *icm.Memory
}

func (c *contexts) addr(q *qp) uint64 {
	return icm.ContextTable + c.Tables + uint64(q.num>>qpGenerationBits)*uint64(icm.LinesOf(c.Config.State.Context))*pcie.CacheLine
}

// resources returns the address and the size of a queue pair's memory for its answers.
func (c *contexts) resources(q *qp) (at uint64, bytes int) {
	bytes = icm.LinesOf(c.Config.MaxRdAtomic*resourceBytes) * pcie.CacheLine
	return icm.ResourceTable + c.Tables + uint64(q.num>>qpGenerationBits)*uint64(bytes), bytes
}

func (c *contexts) add(q *qp) { c.state.Write(c.addr(q), c.Config.State.Context) }

func (c *contexts) drop(q *qp) {
	c.state.Erase(c.addr(q), c.Config.State.Context)
	if q.answers {
		c.state.Erase(c.resources(q))
	}
}

// lookUp returns when a queue pair's context that is needed at t is available. It
// also returns until when a stage in front of it that can't set work aside is
// stalled.
func (c *contexts) lookUp(t units.Time, q *qp) (ready, free units.Time) {
	if !c.state.Full() {
		return t, t
	}
	at := c.addr(q)
	ready, free = c.state.Need(t, icm.EntryContext, at, at, c.Config.State.Context)
	// Read again though it was under way, a context does not come before it would have.
	q.contextAt = max(q.contextAt, ready)
	return max(q.contextAt, t), free
}

// answered reports whether a packet is a request that takes resources for its answer.
func answered(op ib.Opcode) bool {
	o := op.Operation()
	return o == ib.ReadRequest.Operation() || o == ib.CompareSwap.Operation() || o == ib.FetchAdd.Operation()
}

// lookUpReceived is lookUp for a received packet. A request of a Read or an atomic also needs a line of the
// queue pair's resources for answers, which they take in turns.
func (c *contexts) lookUpReceived(t units.Time, q *qp, h *rc.Header) (ready, free units.Time) {
	ready, free = c.lookUp(t, q)
	if !answered(h.Opcode) {
		return ready, free
	}
	at, bytes := c.resources(q)
	if !c.state.Full() {
		if !q.answers {
			q.answers = true
			c.state.Write(at, bytes)
		}
		return ready, free
	}
	at += uint64(uint32(h.PSN)%uint32(bytes/pcie.CacheLine)) * pcie.CacheLine
	known, from := c.state.Need(t, icm.EntryContext, at, at, pcie.CacheLine)
	q.contextAt = max(q.contextAt, known)
	return max(ready, known), max(free, from)
}
