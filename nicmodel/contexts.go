package nicmodel

import (
	"github.com/sluice-rdma/sluice/units"
)

// ContextsConfig describes the cache of queue pairs' contexts: what the NIC has to know
// of a queue pair for each of its doorbells, and for each packet that it builds or
// receives. All contexts are in host memory, and those used last on the chip too. Each
// use changes a context, so that one that is displaced is written back.
//
// What needs a context that is not there waits for it, and so does what comes behind
// it for that queue pair. Others go on: packets received at once, those to send as far as
// they are not behind it in the packetiser, elements as far as they are not in stage wqe.
// If as many are being read as can be, receiving stops until that changes.
type ContextsConfig struct {
	// Entries is how many contexts are on the chip, of which the least recently used
	// goes; 0 is no limit.
	Entries int `yaml:"entries"`
	// Bytes is what a context takes, from 1 to 4096.
	Bytes int `yaml:"bytes"`
	// Fetches is how many are read at a time; 0 is no limit.
	Fetches int `yaml:"fetches"`
}

// contextTable is where the contexts lie, above all regions and queues.
const contextTable = addressTop + 1<<60

// contexts is that cache.
type contexts struct {
	*chip
	icm
}

func newContexts(on *chip) contexts {
	c := &on.cfg.Contexts
	fetches := newInflight(c.Fetches)
	return contexts{on, icm{name: "contexts", capacity: c.Entries, bytes: c.Bytes, dirty: true, fetches: &fetches, why: ForContext}}
}

// addr is where a queue pair's context lies.
func (c *contexts) addr(q *qp) uint64 {
	return contextTable + uint64(q.num>>qpGenerationBits)*uint64(c.cfg.Contexts.Bytes)
}

// lookUp returns when a queue pair's context that is needed at t is available. It
// also returns until when a stage in front of it that can't set work aside is
// stalled.
func (c *contexts) lookUp(t units.Time, q *qp) (ready, free units.Time) {
	if c.lru == nil {
		return t, t
	}
	return c.lookUpCached(t, q)
}

func (c *contexts) lookUpCached(t units.Time, q *qp) (ready, free units.Time) {
	ready, free = c.need(c.pcie, t, c.addr(q))
	// Read again though it was under way, a context does not come before it would have.
	q.contextAt = max(q.contextAt, ready)
	return max(q.contextAt, t), free
}
