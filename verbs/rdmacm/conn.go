package rdmacm

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
	"github.com/sluice-rdma/sluice/verbs/route"
)

// Conn is a connection.
type Conn struct {
	qp            verbs.QP
	local, remote netip.AddrPort
	par           Parameters
	private       []byte
	leave         func() // asks the other side to part

	d        *driver // nil if a Manager made it, as is progress
	id       uint32
	progress chan cm.Event // a reply, an establishment
	done     chan struct{}
	once     sync.Once // for done
	stop     sync.Once // for the queue pair's way to the error state
	err      error
}

func newConn(qp verbs.QP, local, remote netip.AddrPort) *Conn {
	return &Conn{qp: qp, local: local, remote: remote, done: make(chan struct{})}
}

// newConn makes a connection of the driver's.
func (d *driver) newConn(id uint32, qp verbs.QP, local, remote netip.AddrPort) *Conn {
	c := newConn(qp, local, remote)
	c.d, c.id, c.progress, c.leave = d, id, make(chan cm.Event, 2), func() { d.leave(c) }
	return c
}

// Dial connects qp, which must be in RESET or INIT, to the listener at addr. It waits
// for the answer, until ctx is done. If the other side refuses, the error is a
// *RejectError; without an answer, it is verbs.ErrTimeout after about 20 s; where the
// kernel has no route to addr, it is that of route.Reachable, at once.
func Dial(ctx context.Context, dev verbs.Device, addr netip.AddrPort, qp verbs.QP, p Params) (*Conn, error) {
	if m := managerOf(verbs.Bottom(dev)); m != nil {
		return m.Dial(ctx, verbs.Bottom(dev), addr, qp, p)
	}
	d, err := driverOf("dial", dev)
	if err != nil {
		return nil, err
	}
	defer d.release()
	bad := func(cause error, format string, args ...any) (*Conn, error) {
		return nil, verbs.Errorf("dial", addr.String(), cause, format, args...)
	}
	d.mu.Lock()
	lost := d.isLost()
	d.mu.Unlock()
	if lost {
		return nil, d.lostError("dial")
	}
	path, mtu, err := pathTo(dev, p.LocalAddr, addr.Addr())
	if err != nil {
		return bad(verbs.ErrInvalid, "%v: it needs one of the peer's IP version, and LocalAddr must be one of its own", err)
	}
	if err := route.Reachable(dev, port, path.Local, addr.Addr()); err != nil {
		return nil, fmt.Errorf("dial %v: %w", addr, err)
	}
	if len(p.Private) > DialPrivateBytes {
		return bad(verbs.ErrInvalid, "%d bytes of private data: a connection request has room for %d", len(p.Private), DialPrivateBytes)
	}
	if p.PathMTU != 0 {
		mtu = p.PathMTU
	}
	src := randomPort()
	r := cm.Request{
		Path: path, ServiceID: roce.PortSpaceTCP.ServiceID(addr.Port()), Endpoint: p.endpoint(qp, dev.Attr()),
		PathMTU: mtu, RetryCount: p.RetryCount, FlowLabel: p.FlowLabel, TrafficClass: p.TrafficClass, HopLimit: hopLimit, SL: p.SL,
	}
	ip := roce.IPCM{SrcPort: src, Src: path.Local, Dst: path.Remote}
	r.Private = make([]byte, roce.IPCMBytes, roce.REQPrivateBytes)
	if ip.Put(r.Private) == 0 {
		return bad(verbs.ErrInvalid, "%v and %v are not of one IP version", path.Local, path.Remote)
	}
	r.Private = append(r.Private, p.Private...)

	d.mu.Lock()
	if d.isLost() {
		d.mu.Unlock()
		return nil, d.lostError("dial")
	}
	id, err := d.core.Connect(d.now(), r)
	if err != nil {
		d.mu.Unlock()
		return bad(verbs.ErrInvalid, "%v", err)
	}
	c := d.newConn(id, qp, netip.AddrPortFrom(path.Local, src), netip.AddrPortFrom(path.Remote, addr.Port()))
	d.conns[id] = c
	d.unlock()

	e, err := c.wait(ctx)
	if err != nil {
		return bad(err, "")
	}
	if err := c.adopt(e, &p); err != nil {
		c.Disconnect()
		return bad(err, "the queue pair can't be connected")
	}
	d.mu.Lock()
	err = d.core.Ready(d.now(), id, nil)
	d.unlock()
	if err != nil {
		// The other side has given up meanwhile.
		<-c.done
		return bad(c.err, "")
	}
	return c, nil
}

// wait waits for progress, the connection's end, or ctx.
func (c *Conn) wait(ctx context.Context) (cm.Event, error) {
	select {
	case e := <-c.progress:
		return e, nil
	case <-c.done:
		return cm.Event{}, c.err
	case <-ctx.Done():
		c.Disconnect()
		return cm.Event{}, ctx.Err()
	}
}

// adopt brings the queue pair to RTS.
func (c *Conn) adopt(e cm.Event, p *Params) error {
	c.par, c.private = e.Parameters, e.Private
	i, _, err := gidIndex(c.d.dev, func(a netip.Addr) bool { return a == c.par.Path.Local })
	if err != nil {
		return err
	}
	return transition(c.qp, i, &c.par, p)
}

// end makes the connection's end known. The queue pair has to be moved without
// the driver's lock.
func (c *Conn) end(err error) func() {
	return func() {
		c.once.Do(func() {
			c.toError()
			c.err = err
			close(c.done)
		})
	}
}

// toError moves the queue pair to the error state once: after Disconnect the
// application may destroy it.
func (c *Conn) toError() { c.stop.Do(func() { toError(c.qp) }) }

// QP returns the queue pair.
func (c *Conn) QP() verbs.QP { return c.qp }

// Parameters returns the two sides' agreement.
func (c *Conn) Parameters() Parameters { return c.par }

// Private returns the other application's private data: all the room of the
// message, zeros included.
func (c *Conn) Private() []byte { return c.private }

// LocalAddr returns this side's address and port.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr returns the other side's address and port.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// Done is closed when the connection has ended, by either side or for want of
// an answer. The queue pair is then in the error state.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says why the connection has ended: ErrDisconnected in the usual case. It
// is nil before Done is closed.
func (c *Conn) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Disconnect asks the other side to part and puts the queue pair into the error
// state. It does not wait: Done is closed once the other side has answered.
// Disconnecting twice does nothing.
func (c *Conn) Disconnect() {
	c.leave()
	c.toError()
}

// leave is Conn.Disconnect without the queue pair.
func (d *driver) leave(c *Conn) {
	d.mu.Lock()
	early := false
	switch d.core.State(c.id) {
	case cm.REQSent, cm.REPReceived, cm.REQReceived:
		early = true // no event will report it
	}
	_ = d.core.Disconnect(d.now(), c.id, nil)
	d.unlock()
	if early {
		c.end(ErrDisconnected)()
	}
}

// Close disconnects and waits for the other side's answer, until ctx is done.
func (c *Conn) Close(ctx context.Context) error {
	c.Disconnect()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
