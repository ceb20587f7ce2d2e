//go:build ibverbs

package librdmacm

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"unsafe"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
)

// listener is the id of one.
type listener struct {
	dev   verbs.Device
	offer func(*rdmacm.Request) bool

	mu     sync.Mutex
	ch     *channel
	id     *C.struct_rdma_cm_id
	closed bool
}

// create makes the id.
func (l *listener) create() (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ch, l.id, err = create(l)
	return err
}

// Listen implements rdmacm.Manager. With 0.0.0.0 or :: requests arrive by every
// device of the machine; those by devices other than dev are refused.
func (manager) Listen(dev verbs.Device, addr netip.AddrPort) (*rdmacm.Listener, error) {
	if !addr.Addr().IsValid() {
		return nil, verbs.Errorf("listen", addr.String(), verbs.ErrInvalid, "take an address of the device, 0.0.0.0 or ::")
	}
	l := &listener{dev: dev}
	out, offer := rdmacm.NewListener(addr, l.shut)
	l.offer = offer
	if err := l.create(); err != nil {
		return nil, err
	}
	at := addrTo(dev, addr)
	var e C.int
	if addr.Addr().Unmap().IsUnspecified() {
		at = C.struct_cm_addr{six: 1, port: at.port} // :: without AFONLY is either version
		e = C.cm_set_option(l.id, C.RDMA_OPTION_ID_AFONLY, 0, C.sizeof_int)
	}
	if e == 0 {
		e = C.cm_bind(l.id, &at)
	}
	if e == 0 {
		if name := deviceName(l.id); name != "" && name != ibdev(dev) {
			l.ch.destroy(l.id)
			return nil, verbs.Errorf("listen", addr.String(), verbs.ErrInvalid, "it is an address of the device %s: take one of %s, 0.0.0.0 or ::", name, dev.Name())
		}
		e = C.cm_listen(l.id, rdmacm.Backlog)
	}
	if e != 0 {
		l.ch.destroy(l.id)
		switch syscall.Errno(e) {
		case syscall.EADDRINUSE:
			return nil, fail("listen", addr.String(), int(e), "another listener of this machine has the port")
		case syscall.EADDRNOTAVAIL, syscall.ENODEV:
			return nil, fail("listen", addr.String(), int(syscall.EADDRNOTAVAIL), "no RDMA device has the address: take one of %s, 0.0.0.0 or ::", dev.Name())
		}
		return nil, fail("listen", addr.String(), int(e), "")
	}
	return out, nil
}

// shut ends the requests.
func (l *listener) shut() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.ch.destroy(l.id)
}

// event implements sink. What may come is the device's removal, after which there
// are no requests.
func (l *listener) event(event) {}

// request implements sink.
func (l *listener) request(id *C.struct_rdma_cm_id, e event) {
	l.mu.Lock()
	ch := l.ch
	l.mu.Unlock()
	name := deviceName(id)
	local, remote := ends(id)
	a := &answer{link: newLink(l.dev, remote.String()), asked: e.param}
	a.link.ch, a.link.id = ch, id
	ch.register(id, a.link)
	p := &e.param
	a.ends = rdmacm.Ends{Local: local, Remote: remote, Private: e.private, Parameters: rdmacm.Parameters{
		Path: rdmacm.Path{Local: local.Addr(), Remote: remote.Addr()}, RemoteQPN: uint32(p.qp_num),
		MaxRdAtomic: uint8(p.initiator_depth), MaxDestRdAtomic: uint8(p.responder_resources),
		RetryCount: uint8(p.retry_count), RNRRetryCount: uint8(p.rnr_retry_count), FlowControl: p.flow_control != 0, RemoteSRQ: p.srq != 0,
	}}
	l.mu.Lock()
	ok := !l.closed && name == ibdev(l.dev) && l.offer(rdmacm.NewRequest(a.ends, a))
	l.mu.Unlock()
	if !ok {
		_ = a.Reject(nil) // fails if the peer has given up
	}
}

// answer implements rdmacm.Answer.
type answer struct {
	link  *link
	ends  rdmacm.Ends
	asked C.struct_cm_param

	mu       sync.Mutex
	answered bool
}

// once fails if the request has been answered already, and else marks it as
// answered.
func (a *answer) once(op string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered {
		return verbs.Errorf(op, a.link.remote, verbs.ErrState, "the request is answered")
	}
	a.answered = true
	return nil
}

// Accept implements rdmacm.Answer.
func (a *answer) Accept(ctx context.Context, qp verbs.QP, p rdmacm.Params) (*rdmacm.Conn, error) {
	if len(p.Private) > rdmacm.AcceptPrivateBytes {
		return nil, verbs.Errorf("accept", a.link.remote, verbs.ErrInvalid, "%d bytes of private data: a reply has room for %d", len(p.Private), rdmacm.AcceptPrivateBytes)
	}
	if err := a.once("accept"); err != nil {
		return nil, err
	}
	c, err := a.accept(ctx, qp, &p)
	if err != nil {
		a.link.close()
		return nil, a.link.why("accept", err)
	}
	return c, nil
}

func (a *answer) accept(ctx context.Context, qp verbs.QP, p *rdmacm.Params) (*rdmacm.Conn, error) {
	k := a.link
	offer := param(qp, p, k.dev.Attr())
	offer.responder_resources = min(offer.responder_resources, a.asked.responder_resources)
	offer.initiator_depth = min(offer.initiator_depth, a.asked.initiator_depth)
	e, gid, err := k.negotiate("init_qp_attr", qp.Num(), &offer, &a.asked)
	if errors.Is(err, syscall.EINVAL) {
		// The kernel reports this in no other way until the request is accepted.
		return nil, verbs.Errorf("accept", k.remote, verbs.ErrState, "the other side has given up")
	}
	if err != nil {
		return nil, err
	}
	e.Private = a.ends.Private
	if err := rdmacm.Connect(qp, gid, e.Parameters, *p); err != nil {
		return nil, verbs.Errorf("accept", k.remote, err, "the queue pair can't be connected")
	}
	private, n := data(p.Private)
	if err := k.call("accept", func(id *C.struct_rdma_cm_id) C.int { return C.cm_accept(id, &offer, unsafe.Pointer(private), n) }); err != nil {
		return nil, err
	}
	if _, err := k.await(ctx, "accept", C.RDMA_CM_EVENT_ESTABLISHED); err != nil {
		return nil, err
	}
	return k.connected(qp, e), nil
}

// Reject implements rdmacm.Answer.
func (a *answer) Reject(private []byte) error {
	if len(private) > rdmacm.RejectPrivateBytes {
		return verbs.Errorf("reject", a.link.remote, verbs.ErrInvalid, "%d bytes of private data: a refusal has room for %d", len(private), rdmacm.RejectPrivateBytes)
	}
	if err := a.once("reject"); err != nil {
		return err
	}
	b, n := data(private)
	err := a.link.call("reject", func(id *C.struct_rdma_cm_id) C.int { return C.cm_reject(id, unsafe.Pointer(b), n) })
	a.link.close()
	return err
}

// Established implements rdmacm.Answer.
func (a *answer) Established() {
	_ = a.link.call("notify", func(id *C.struct_rdma_cm_id) C.int { return C.cm_notify_established(id) }) // it is established already
}
