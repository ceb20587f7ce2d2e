package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// Backlog is the number of requests that wait for Listener.Accept. For further ones the oldest
// are dropped, of the address that has the most first; an honest peer asks again.
const Backlog = 128

// Listener takes requests for connections to a port.
type Listener struct {
	addr   netip.AddrPort
	more   chan struct{} // there may be requests in the queue
	closed chan struct{}
	once   sync.Once
	shut   func() // stops the requests

	lost    chan struct{} // closed, with why, when the device is gone
	lostErr error

	mu    sync.Mutex // guards queue
	queue []*Request
}

func newListener(addr netip.AddrPort) *Listener {
	return &Listener{addr: addr, more: make(chan struct{}, 1), closed: make(chan struct{}), lost: make(chan struct{})}
}

// lose ends the listener with its device. The driver calls it once.
func (l *Listener) lose(err error) {
	l.lostErr = err
	close(l.lost)
}

// Listen takes requests for a port, to one address of the device or, with
// 0.0.0.0 or ::, to all of them. Ports here have nothing to do with those of TCP
// sockets.
func Listen(dev verbs.Device, addr netip.AddrPort) (*Listener, error) {
	if m := managerOf(verbs.Bottom(dev)); m != nil {
		return m.Listen(verbs.Bottom(dev), addr)
	}
	d, err := driverOf("listen", dev)
	if err != nil {
		return nil, err
	}
	a := plain(addr.Addr())
	if !a.IsUnspecified() {
		if _, _, err := gidIndex(dev, func(g netip.Addr) bool { return g == a }); err != nil {
			d.release()
			return nil, verbs.Errorf("listen", addr.String(), verbs.ErrInvalid, "%v: take one of its own, 0.0.0.0 or ::", err)
		}
	}
	l, service := newListener(addr), roce.PortSpaceTCP.ServiceID(addr.Port())
	l.shut = func() { d.unlisten(l, service) }
	d.mu.Lock()
	if d.isLost() {
		d.mu.Unlock()
		d.release()
		return nil, d.lostError("listen")
	}
	err = d.core.Listen(service, Backlog)
	if err == nil {
		d.listeners[service] = l
	}
	d.mu.Unlock()
	if err != nil {
		d.release()
		return nil, verbs.Errorf("listen", addr.String(), verbs.ErrBusy, "another listener of %s has the port", dev.Name())
	}
	return l, nil
}

// Addr returns the address that Listen was given.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// unlisten ends a listener, so that the port behaves as without one.
func (d *driver) unlisten(l *Listener, service uint64) {
	d.mu.Lock()
	d.core.Unlisten(service)
	delete(d.listeners, service)
	for r := l.next(); r != nil; r = l.next() {
		_ = d.core.Reject(d.now(), r.answer.(*answer).id, roce.RejInvalidServiceID, nil, nil)
	}
	d.unlock()
	d.release()
}

// offer queues a request, with the driver's lock held. It returns false if the
// request is not for the listener.
func (l *Listener) offer(d *driver, e cm.Event) bool {
	var ip roce.IPCM
	private, err := ip.Decode(e.Private)
	if err != nil {
		return false
	}
	path := e.Parameters.Path
	if a := plain(l.addr.Addr()); !a.IsUnspecified() && a != path.Local {
		return false
	}
	r := &Request{
		private: private, offer: e.Parameters,
		local: netip.AddrPortFrom(path.Local, l.addr.Port()), remote: netip.AddrPortFrom(path.Remote, ip.SrcPort),
	}
	r.answer = &answer{d, e.ID, r}
	return l.enqueue(r)
}

// enqueue returns false if there is no room. The driver's manager admits no more than
// there is room for.
func (l *Listener) enqueue(r *Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) >= Backlog {
		return false
	}
	l.queue = append(l.queue, r)
	l.signal()
	return true
}

func (l *Listener) signal() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// dropped takes a request out that the driver's manager has dropped.
func (l *Listener) dropped(id uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = slices.DeleteFunc(l.queue, func(r *Request) bool { return r.answer.(*answer).id == id })
}

// Accept waits for the next request, until ctx is done or the listener closed
// (verbs.ErrClosed), or the device gone (verbs.ErrNoDevice).
func (l *Listener) Accept(ctx context.Context) (*Request, error) {
	for {
		if r := l.next(); r != nil {
			if a, ok := r.answer.(*answer); ok && !a.hold() {
				continue // it has been dropped meanwhile
			}
			return r, nil
		}
		select {
		case <-l.more:
		case <-l.closed:
			return nil, verbs.Errorf("accept", l.addr.String(), verbs.ErrClosed, "")
		case <-l.lost:
			return nil, l.lostErr
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close refuses the requests that wait and all further ones. Connections stay.
func (l *Listener) Close() error {
	err := verbs.Errorf("close_listener", l.addr.String(), verbs.ErrClosed, "")
	l.once.Do(func() {
		err = nil
		close(l.closed)
		l.shut()
		for r := l.next(); r != nil; r = l.next() {
			_ = r.Reject(nil) // fails if the peer has given up
		}
	})
	return err
}

// next removes and returns a request that waits; nil if there is none.
func (l *Listener) next() *Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil
	}
	r := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	if len(l.queue) > 0 {
		l.signal() // to another that waits
	}
	return r
}

// Request is a peer's wish to connect. One of Accept and Reject must be called.
type Request struct {
	local, remote netip.AddrPort
	offer         Parameters
	private       []byte
	answer        Answer
}

// Private returns the other application's private data: all the room of the
// message, zeros included.
func (r *Request) Private() []byte { return r.private }

// LocalAddr returns the address and port to which the request was sent.
func (r *Request) LocalAddr() netip.AddrPort { return r.local }

// RemoteAddr returns the other side's address and port.
func (r *Request) RemoteAddr() netip.AddrPort { return r.remote }

// Offer returns the other side's parameters; MaxRdAtomic and MaxDestRdAtomic are
// the most that the sides may settle on.
func (r *Request) Offer() Parameters { return r.offer }

// Accept connects qp, which must be in RESET or INIT, to the requester, and waits
// until the other side is ready or ctx is done. See Init.
func (r *Request) Accept(ctx context.Context, qp verbs.QP, p Params) (*Conn, error) {
	return r.answer.Accept(ctx, qp, p)
}

// Established reports that a packet has arrived on the queue pair (ib.EventCommEst)
// while Accept waits: Accept then does not wait for a lost message.
func (r *Request) Established() { r.answer.Established() }

// Reject refuses the request, with at most RejectPrivateBytes for the other
// application.
func (r *Request) Reject(private []byte) error { return r.answer.Reject(private) }

// answer is the driver's Answer.
type answer struct {
	d  *driver
	id uint32
	r  *Request
}

func (a *answer) Accept(ctx context.Context, qp verbs.QP, p Params) (*Conn, error) {
	d, r := a.d, a.r
	bad := func(cause error, format string, args ...any) (*Conn, error) {
		return nil, verbs.Errorf("accept", r.remote.String(), cause, format, args...)
	}
	ep := p.endpoint(qp, d.dev.Attr())
	d.mu.Lock()
	par, err := d.core.Offer(a.id, ep)
	d.mu.Unlock()
	if err != nil {
		return bad(verbs.ErrState, "%v", err)
	}
	c := d.newConn(a.id, qp, r.local, r.remote)
	if err := c.adopt(cm.Event{Parameters: par, Private: r.private}, &p); err != nil {
		_ = a.reject(roce.RejNoQP, nil)
		return bad(err, "the queue pair can't be connected")
	}
	d.mu.Lock()
	_, err = d.core.Accept(d.now(), a.id, ep)
	if err == nil {
		d.conns[a.id] = c
	}
	d.unlock()
	if err != nil {
		toError(qp)
		if errors.Is(err, cm.ErrState) {
			return bad(verbs.ErrState, "%v", err)
		}
		_ = a.reject(roce.RejNoResources, nil)
		return bad(verbs.ErrInvalid, "%v", err)
	}
	if _, err := c.wait(ctx); err != nil {
		return bad(err, "")
	}
	return c, nil
}

// hold keeps the request's place from later ones, and reports whether it still has one.
func (a *answer) hold() bool {
	d := a.d
	d.mu.Lock()
	err := d.core.Hold(d.now(), a.id)
	d.unlock()
	return err == nil
}

func (a *answer) Established() {
	d := a.d
	d.mu.Lock()
	_ = d.core.Established(d.now(), a.id)
	d.unlock()
}

func (a *answer) Reject(private []byte) error { return a.reject(roce.RejConsumer, private) }

func (a *answer) reject(reason roce.RejectReason, private []byte) error {
	d, r := a.d, a.r
	d.mu.Lock()
	err := d.core.Reject(d.now(), a.id, reason, nil, private)
	d.unlock()
	switch {
	case errors.Is(err, cm.ErrState):
		return verbs.Errorf("reject", r.remote.String(), verbs.ErrState, "%v", err)
	case err != nil:
		return verbs.Errorf("reject", r.remote.String(), verbs.ErrInvalid, "%v", err)
	}
	return nil
}
