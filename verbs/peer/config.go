package peer

import (
	"time"

	"github.com/sluice-rdma/sluice/verbs"
)

// Config is an end's own choice. The zero value is none: begin with
// DefaultConfig.
type Config struct {
	// RC are the attributes of the connection, among them what the other end may do to
	// the buffer (Access). PathMTU 0 is what the route to the other end carries; the lower of both ends' counts, as of
	// the reads outstanding.
	RC verbs.RCParams
	// GID is the index of the address in the port's GID table; negative for the one by which
	// the other end is reached (route.Choose). Both ends need addresses of one IP version.
	GID int
	// Cap is the queue pair's capacity. Its completion queues have as much room.
	Cap verbs.QPCap
	// Timeout is the time that the other end may take for one message of the set-up; 0 is
	// exchange.DefaultTimeout.
	Timeout time.Duration
	// Ready, unless it is nil, is called before the other end is told that this one is
	// connected: the place to post receives.
	Ready func(*Conn) error
}

// DefaultConfig returns verbs.DefaultRC with the MTU and the address of the route, and room for
// 64 sends and 64 receives of one piece of memory.
func DefaultConfig() Config {
	c := Config{RC: verbs.DefaultRC(), GID: -1, Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}}
	c.RC.PathMTU = 0
	return c
}
