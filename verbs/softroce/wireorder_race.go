//go:build race

package softroce

import "sync/atomic"

// A packet's payload was written before it was sent, and the kernel keeps that order from
// one socket to the next. The race detector does not see this order: it does not
// instrument the system calls that carry packets. So onWire declares it: what happened
// before a send in this process happened before every later receive. (Package syscall
// does the same for its reads and writes.)
//
// Registered memory that a peer in the same process wrote may then be read after the
// completion of that write. Reading memory that one-sided WRITEs change, without a
// completion, stays a race.
var onWire atomic.Uint64

func wireSends()    { onWire.Add(1) }
func wireReceives() { onWire.Load() }
