//go:build race

package softroce

import "sync/atomic"

// What a packet brings was written before it was sent, and the kernel carries that order
// from one socket to the next. The race detector does not see it: the system calls that
// carry packets are not its own. So it is told: what happened before a send in this process
// happened before every receive that comes after it. (Package syscall does the same for its
// reads and writes.)
//
// Registered memory that a peer in the same process wrote may then be read after a
// completion that stands for it. Reading memory that one-sided WRITEs change, without a
// completion, stays a race.
var onWire atomic.Uint64

func wireSends()    { onWire.Add(1) }
func wireReceives() { onWire.Load() }
