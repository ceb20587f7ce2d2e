//go:build linux

package virtual

import (
	"sync/atomic"

	"github.com/sluice-rdma/sluice/ib"
)

// counter counts the events of an object.
type counter struct{ sent atomic.Uint32 }

func (n *counter) add() { n.sent.Add(1) }

// raise sends an asynchronous event of the object that user names.
func (n *counter) raise(c *context, user uint64, t ib.EventType) {
	n.add()
	c.raise(user, t, c.async)
}

// read withdraws what the program has not read of the object's events, and returns how
// many it has. No event may be raised any more.
func (n *counter) read(f *eventFile, user uint64) uint32 {
	return n.sent.Load() - uint32(f.withdraw(user))
}
