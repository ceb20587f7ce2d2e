//go:build ibverbs

package librdmacm

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
)

// link is an id of a connection, or of one being set up.
type link struct {
	dev    verbs.Device
	ch     *channel
	remote string // for errors

	mu     sync.Mutex
	id     *C.struct_rdma_cm_id // nil when it is destroyed
	end    func(error)          // of the connection, nil before there is one
	events chan event           // while end is nil
}

// pending is room for the events of a set-up. There are fewer.
const pending = 8

func newLink(dev verbs.Device, remote string) *link {
	return &link{dev: dev, remote: remote, events: make(chan event, pending)}
}

// create makes the id.
func (k *link) create() (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ch, k.id, err = create(k)
	return err
}

// event implements sink.
func (k *link) event(e event) {
	k.mu.Lock()
	end := k.end
	if end == nil {
		select {
		case k.events <- e:
		default:
		}
		k.mu.Unlock()
		return
	}
	err := k.over(e)
	k.mu.Unlock()
	if err != nil {
		end(err)
	}
}

// request implements sink: only listeners get requests.
func (k *link) request(id *C.struct_rdma_cm_id, _ event) { k.ch.destroy(id) }

// over reports whether an event ends the connection, and why. If so, the id is
// destroyed. The lock is held.
func (k *link) over(e event) error {
	err := rdmacm.ErrDisconnected
	switch e.kind {
	case C.RDMA_CM_EVENT_DISCONNECTED:
		if k.id != nil {
			C.cm_disconnect(k.id) // the answer, if the other side began; else it fails
		}
	case C.RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case C.RDMA_CM_EVENT_DEVICE_REMOVAL:
		err = fail("connection", k.remote, int(syscall.ENODEV), "the device has gone")
	default:
		return nil
	}
	k.destroy()
	return err
}

// destroy destroys the id, with the lock held. Once is enough.
func (k *link) destroy() {
	if k.id != nil {
		k.ch.destroy(k.id)
		k.id = nil
	}
}

// close gives a set-up up.
func (k *link) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.destroy()
}

// call calls f with the id, unless the id was destroyed.
func (k *link) call(op string, f func(id *C.struct_rdma_cm_id) C.int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.id == nil {
		return verbs.Errorf(op, k.remote, verbs.ErrState, "the other side has given up, or this one")
	}
	if e := f(k.id); e != 0 {
		return fail(op, k.remote, int(e), "")
	}
	return nil
}

// errPeerGone is a set-up's end by a peer that disconnects before it is done.
var errPeerGone = errors.New("the other side disconnected before the connection was established")

// await waits for an event of a set-up, until ctx is done.
func (k *link) await(ctx context.Context, op string, kind uint32) (event, error) {
	for {
		select {
		case e := <-k.events:
			if e.kind == kind {
				return e, nil
			}
			if err := k.failure(op, e); err != nil {
				return e, err
			}
		case <-ctx.Done():
			return event{}, ctx.Err()
		}
	}
}

// why is the error of a set-up that failed by err: what the other side did before, if
// anything has come of it.
func (k *link) why(op string, err error) error {
	for {
		select {
		case e := <-k.events:
			if f := k.failure(op, e); f != nil {
				return f
			}
		default:
			return named(op, k.remote, err)
		}
	}
}

// failure is the error that an event of a set-up means, nil for none.
func (k *link) failure(op string, e event) error {
	errno := -e.status
	if errno <= 0 {
		errno = int(syscall.EIO)
	}
	switch e.kind {
	case C.RDMA_CM_EVENT_ADDR_ERROR:
		if errno == int(syscall.ENODEV) {
			return fail("resolve_addr", k.remote, errno, "the way there is by no RDMA device")
		}
		return fail("resolve_addr", k.remote, errno, "no way there, or nobody has the address")
	case C.RDMA_CM_EVENT_ROUTE_ERROR:
		return fail("resolve_route", k.remote, errno, "")
	case C.RDMA_CM_EVENT_REJECTED:
		return verbs.Errorf(op, k.remote, &rdmacm.RejectError{Reason: roce.RejectReason(e.status), Private: e.private}, "")
	case C.RDMA_CM_EVENT_UNREACHABLE:
		return verbs.Errorf(op, k.remote, verbs.ErrTimeout, "no answer")
	case C.RDMA_CM_EVENT_CONNECT_ERROR:
		return fail(op, k.remote, errno, "the connection can't be made")
	case C.RDMA_CM_EVENT_DISCONNECTED, C.RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return verbs.Errorf(op, k.remote, errPeerGone, "")
	case C.RDMA_CM_EVENT_DEVICE_REMOVAL:
		return fail(op, k.remote, int(syscall.ENODEV), "the device has gone")
	}
	return nil
}

// connected makes the Conn of a set-up that has come to its end.
func (k *link) connected(qp verbs.QP, e rdmacm.Ends) *rdmacm.Conn {
	c, end := rdmacm.NewConn(qp, e, func() { _ = k.call("disconnect", func(id *C.struct_rdma_cm_id) C.int { return C.cm_disconnect(id) }) })
	k.mu.Lock()
	k.end = end
	var err error
	for len(k.events) > 0 && err == nil {
		err = k.over(<-k.events) // no other goroutine takes any
	}
	k.mu.Unlock()
	if err != nil {
		end(err)
	}
	return c
}

// deviceName is the kernel's name of the device that the id is bound to, or "".
func deviceName(id *C.struct_rdma_cm_id) string { return C.GoString(C.cm_device(id)) }

// ends are the addresses that the id is bound to.
func ends(id *C.struct_rdma_cm_id) (local, remote netip.AddrPort) {
	var l, r C.struct_cm_addr
	C.cm_addrs(id, &l, &r)
	return addrOf(&l), addrOf(&r)
}

func addrOf(c *C.struct_cm_addr) netip.AddrPort {
	var b [16]byte
	for i := range b {
		b[i] = byte(c.ip[i])
	}
	a := netip.AddrFrom4([4]byte(b[:4]))
	if c.six != 0 {
		a = netip.AddrFrom16(b).Unmap()
	}
	return netip.AddrPortFrom(a, uint16(c.port))
}

// addrTo is the address for C. A link-local one without a zone gets the interface's of
// the device.
func addrTo(dev verbs.Device, a netip.AddrPort) C.struct_cm_addr {
	addr := a.Addr().Unmap()
	out := C.struct_cm_addr{port: C.uint16_t(a.Port())}
	if addr.Is6() {
		out.six = 1
	}
	for i, b := range addr.AsSlice() {
		out.ip[i] = C.uint8_t(b)
	}
	if addr.Is6() && addr.IsLinkLocalUnicast() {
		zone := addr.Zone()
		if zone == "" {
			if attr, err := dev.Port(port); err == nil {
				zone = attr.Netdev
			}
		}
		if i, err := net.InterfaceByName(zone); err == nil {
			out.scope = C.uint32_t(i.Index)
		} else if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
			out.scope = C.uint32_t(n)
		}
	}
	return out
}

// port is the device's port: RoCE devices have a port each.
const port = 1

// negotiate asks librdmacm what to connect the queue pair with, and takes the lower of
// that and what this side offers. It returns the index of the GID too.
func (k *link) negotiate(op string, qpn uint32, offered *C.struct_cm_param, remote *C.struct_cm_param) (rdmacm.Ends, int, error) {
	var e rdmacm.Ends
	var a C.struct_ibv_qp_attr
	err := k.call(op, func(id *C.struct_rdma_cm_id) C.int {
		e.Local, e.Remote = ends(id)
		return C.cm_qp_attr(id, &a)
	})
	if err != nil {
		return e, 0, err
	}
	if a.ah_attr.port_num != port {
		return e, 0, verbs.Errorf(op, k.remote, verbs.ErrNotSupported, "the way there is by the device's port %d, and connections are made on port %d", a.ah_attr.port_num, port)
	}
	grh := &a.ah_attr.grh
	e.Parameters = rdmacm.Parameters{
		Path: rdmacm.Path{Local: e.Local.Addr(), Remote: netip.AddrFrom16(grh.dgid).Unmap()},
		QPN:  qpn, RemoteQPN: uint32(a.dest_qp_num), SQPSN: units.PSN(a.sq_psn), RQPSN: units.PSN(a.rq_psn),
		PathMTU:     ib.MTU(128 << a.path_mtu),
		MaxRdAtomic: min(uint8(a.max_rd_atomic), uint8(offered.initiator_depth)), MaxDestRdAtomic: min(uint8(a.max_dest_rd_atomic), uint8(offered.responder_resources)),
		Timeout: uint8(a.timeout), RetryCount: uint8(a.retry_cnt), RNRRetryCount: uint8(a.rnr_retry),
		FlowControl: offered.flow_control != 0 && remote.flow_control != 0, RemoteSRQ: remote.srq != 0,
		FlowLabel: uint32(grh.flow_label), TrafficClass: uint8(grh.traffic_class), HopLimit: uint8(grh.hop_limit), SL: uint8(a.ah_attr.sl),
	}
	return e, int(grh.sgid_index), nil
}

// param turns p into librdmacm's terms.
func param(qp verbs.QP, p *rdmacm.Params, attr verbs.DeviceAttr) C.struct_cm_param {
	out := C.struct_cm_param{
		qp_num:              C.uint32_t(qp.Num()),
		responder_resources: C.uint8_t(min(int(p.ResponderResources), attr.MaxQPRdAtom)),
		initiator_depth:     C.uint8_t(min(int(p.InitiatorDepth), attr.MaxQPInitRdAtom)),
		retry_count:         C.uint8_t(p.RetryCount), rnr_retry_count: C.uint8_t(p.RNRRetryCount),
	}
	if p.FlowControl {
		out.flow_control = 1
	}
	if p.SRQ {
		out.srq = 1
	}
	return out
}

// data is private data for C.
func data(b []byte) (*C.uint8_t, C.uint8_t) {
	if len(b) == 0 {
		return nil, 0
	}
	return (*C.uint8_t)(&b[0]), C.uint8_t(len(b))
}
