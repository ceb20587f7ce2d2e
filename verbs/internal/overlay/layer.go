package overlay

import (
	"net/netip"
	"sync"

	"github.com/sluice-rdma/sluice/verbs"
)

// Layer is a layer over a device. All fields are needed.
type Layer[Q Conn, V any] struct {
	// Mu is the layer's lock. It guards what a Device, a CQ and a QP know of
	// connections, and is held while a Conn's methods and Polled are called.
	Mu *sync.Mutex
	// Program knows connections by ids: an index of IndexBits, which bounds their
	// number, with a generation above it. So a record of a connection that is gone
	// reaches no other.
	Program   Program
	IndexBits uint
	// Matches says that requests are put into QP.Queue as they are posted.
	Matches bool
	// Refusal is the error of a connection that can't begin.
	Refusal string

	// Watches reports whether Polled is to be called for a CQ that is made with these
	// attributes. It may change the attributes that the device below gets.
	Watches func(*verbs.CQInitAttr) bool
	// Cover returns the queue pair over a new one of the device below.
	Cover func(*QP[Q, V], verbs.QPInitAttr) Q
	// Polled is called with what a Poll returned, if anything.
	Polled func(*CQ[Q, V], []verbs.WC)
}

// Program inspects packets: eBPF at the hooks of a network interface, or a test.
type Program interface {
	// Unregister ends what was registered under an id.
	Unregister(id uint32, c Connection) error
	// Close removes the program.
	Close() error
}

// Connection is the visible part of a reliable connection in its packets.
type Connection struct {
	Peer              netip.Addr // without a zone
	PeerQPN, LocalQPN uint32
}

// Conn is a layer's queue pair. It embeds a *QP, whose Modify calls the other methods.
type Conn interface {
	verbs.QP
	// Begins reports whether a change of state by these attributes begins the
	// connection. The QP has noted them.
	Begins(a *verbs.QPAttr, mask verbs.QPAttrMask) bool
	// Start begins the connection, before the change of the queue pair below.
	Start() error
	// End ends a connection that has begun.
	End()

	common() *state
}
