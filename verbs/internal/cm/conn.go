package cm

import (
	"container/heap"
	"net/netip"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
)

// State is the state of a connection (IBA 12.9.5, 12.9.6).
type State uint8

// States. Idle is that of an ID that names no connection.
const (
	Idle State = iota
	REQSent
	REPReceived
	REQReceived
	REPSent
	Established
	DREQSent
	TimeWait
	LookUpSent     // of a service ID, by a SIDR_REQ
	LookUpReceived // one that the application is to answer
)

var stateNames = [...]string{
	"idle", "REQ sent", "REP received", "REQ received", "REP sent", "established", "DREQ sent", "timewait",
	"SIDR_REQ sent", "SIDR_REQ received",
}

func (s State) String() string { return stateNames[min(int(s), len(stateNames)-1)] }

// conn is one connection.
type conn struct {
	id, remoteID uint32
	state        State
	active       bool
	lookUp       bool // the other side asked for a service ID
	closing      bool // Disconnect was called before the RTU arrived
	ended        bool // the application knows that it has ended
	path         Path
	tid          uint64
	guid         uint64 // of the other device
	local        Endpoint
	req          roce.REQ // as sent or received, without private data
	par          Parameters
	crowd        crowdLink // while the other side has not shown itself
	held         *heldREQ  // in its peer's name, while the peer is asked; see probe

	// sent goes out again without an answer: the REQ, REP or DREQ. answer goes to
	// duplicates: an RTU or a REJ. Both are whole datagrams.
	sent, answer [roce.MADBytes]byte
	answered     bool
	retries      int // left
	every        units.Time

	deadline units.Time
	seq      uint64 // breaks ties between deadlines
	at       int    // place in the heap, or -1
}

// timers is a heap of connections by deadline, in the order of their making where
// deadlines are equal.
type timers []*conn

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	if t[i].deadline != t[j].deadline {
		return t[i].deadline < t[j].deadline
	}
	return t[i].seq < t[j].seq
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i]; t[i].at, t[j].at = i, j }
func (t *timers) Push(x any)   { c := x.(*conn); c.at = len(*t); *t = append(*t, c) }
func (t *timers) Pop() any {
	last := len(*t) - 1
	c := (*t)[last]
	(*t)[last] = nil
	*t, c.at = (*t)[:last], -1
	return c
}

// schedule sets when the connection's timer is due; units.Never stops it.
func (m *Manager) schedule(c *conn, at units.Time) {
	c.deadline = at
	switch {
	case at == units.Never && c.at >= 0:
		heap.Remove(&m.timers, c.at)
	case at == units.Never:
	case c.at >= 0:
		heap.Fix(&m.timers, c.at)
	default:
		heap.Push(&m.timers, c)
	}
}

// peerID names a connection by the other side's ID, peerQP by its queue pair. The
// address belongs to both: a stranger's message can't then collide with a
// connection by naming its device.
type peerID struct {
	addr   netip.Addr
	guid   uint64 // 0 in a lookUp
	id     uint32
	lookUp bool
}

type peerQP struct {
	addr netip.Addr
	guid uint64
	qpn  uint32
}

func (c *conn) peerID() peerID { return peerID{c.path.Remote, c.guid, c.remoteID, c.lookUp} }
func (c *conn) peerQP() peerQP { return peerQP{c.path.Remote, c.guid, c.par.RemoteQPN} }

// listener is a service ID that takes REQs: the connections in REQReceived that the
// application does not hold.
type listener struct{ waiting crowd }
