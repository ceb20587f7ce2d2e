package rdmacm

import (
	"context"
	"net/netip"
	"sync"

	"github.com/sluice-rdma/sluice/verbs"
)

// A Manager makes the connections of devices whose system has a connection manager
// of its own, which then has queue pair 1: the kernel's, by way of librdmacm
// (package verbs/ibverbs/librdmacm). Listen and Dial call it; applications have
// no need to.
//
// Its methods may be called from several goroutines at once.
type Manager interface {
	// Manages reports whether it makes the connections of a device that wraps no other.
	Manages(dev verbs.Device) bool
	Dial(ctx context.Context, dev verbs.Device, addr netip.AddrPort, qp verbs.QP, p Params) (*Conn, error)
	Listen(dev verbs.Device, addr netip.AddrPort) (*Listener, error)
}

var managers struct {
	sync.Mutex
	all []Manager
}

// Register adds a manager, from the init function of its package.
func Register(m Manager) {
	managers.Lock()
	defer managers.Unlock()
	managers.all = append(managers.all, m)
}

// managerOf returns the manager of a device that wraps no other, nil if it has none
// but this package.
func managerOf(dev verbs.Device) Manager {
	managers.Lock()
	defer managers.Unlock()
	for _, m := range managers.all {
		if m.Manages(dev) {
			return m
		}
	}
	return nil
}

// Ends is a Manager's knowledge of a connection, or of a request for one.
type Ends struct {
	Local, Remote netip.AddrPort
	Parameters    Parameters
	Private       []byte // the other application's
}

// NewConn makes the Conn of a connection that a Manager has made and qp is on.
// Conn.Disconnect calls leave, every time. The Manager calls end, with why, when the
// connection has ended; calls after the first do nothing. It must not hold what
// leave needs: end moves the queue pair to the error state.
func NewConn(qp verbs.QP, e Ends, leave func()) (c *Conn, end func(error)) {
	c = newConn(qp, e.Local, e.Remote)
	c.par, c.private, c.leave = e.Parameters, e.Private, leave
	return c, func(err error) { c.end(err)() }
}

// NewListener makes a Manager's Listener. The Manager calls offer with each request and
// refuses it if the result is false. Listener.Close calls shut, once, and rejects the
// requests that were not accepted.
func NewListener(addr netip.AddrPort, shut func()) (l *Listener, offer func(*Request) bool) {
	l = newListener(addr)
	l.shut = shut
	return l, l.enqueue
}

// An Answer is a Manager's answer to a request: it stands in for Request's methods of
// these names.
type Answer interface {
	Accept(ctx context.Context, qp verbs.QP, p Params) (*Conn, error)
	Reject(private []byte) error
	Established()
}

// NewRequest makes the Request that a Manager has got. The parameters are what the
// other side asks for.
func NewRequest(e Ends, a Answer) *Request {
	return &Request{local: e.Local, remote: e.Remote, offer: e.Parameters, private: e.Private, answer: a}
}

// Connect takes a queue pair from RESET or INIT to RTS with what the two sides have
// agreed on. gid is the index of the path's local address. For Managers: Dial and
// Request.Accept do it.
func Connect(qp verbs.QP, gid int, a Parameters, p Params) error {
	return transition(qp, gid, &a, &p)
}
