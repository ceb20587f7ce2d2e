//go:build ibverbs

package librdmacm

// #include "shim.h"
import "C"

import (
	"context"
	"net/netip"
	"strings"
	"unsafe"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/ibverbs"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
)

func init() { rdmacm.Register(manager{}) }

// manager is the rdmacm.Manager.
type manager struct{}

// Manages implements rdmacm.Manager.
func (manager) Manages(dev verbs.Device) bool {
	_, ok := dev.(*ibverbs.Device)
	return ok
}

// resolveMs is the time that the kernel may take to find an address's hardware address, in ms,
// and again to find the route.
const resolveMs = 5000

// Dial implements rdmacm.Manager.
func (manager) Dial(ctx context.Context, dev verbs.Device, addr netip.AddrPort, qp verbs.QP, p rdmacm.Params) (*rdmacm.Conn, error) {
	switch {
	case len(p.Private) > rdmacm.DialPrivateBytes:
		return nil, verbs.Errorf("dial", addr.String(), verbs.ErrInvalid, "%d bytes of private data: a connection request has room for %d", len(p.Private), rdmacm.DialPrivateBytes)
	case p.FlowLabel != 0 || p.SL != 0:
		return nil, verbs.Errorf("dial", addr.String(), verbs.ErrNotSupported, "librdmacm chooses the flow label and the service level: leave them 0")
	case !addr.Addr().IsValid() || p.LocalAddr.IsValid() && p.LocalAddr.Unmap().Is4() != addr.Addr().Unmap().Is4():
		return nil, verbs.Errorf("dial", addr.String(), verbs.ErrInvalid, "it has to be of LocalAddr's IP version (%v)", p.LocalAddr)
	}
	k := newLink(dev, addr.String())
	if err := k.create(); err != nil {
		return nil, err
	}
	c, err := k.dial(ctx, addr, qp, &p)
	if err != nil {
		k.close()
		return nil, k.why("dial", err)
	}
	return c, nil
}

func (k *link) dial(ctx context.Context, addr netip.AddrPort, qp verbs.QP, p *rdmacm.Params) (*rdmacm.Conn, error) {
	dst := addrTo(k.dev, addr)
	var src *C.struct_cm_addr
	if p.LocalAddr.IsValid() {
		a := addrTo(k.dev, netip.AddrPortFrom(p.LocalAddr, 0))
		src = &a
	}
	if p.TrafficClass != 0 {
		if err := k.call("set_option", func(id *C.struct_rdma_cm_id) C.int {
			return C.cm_set_option(id, C.RDMA_OPTION_ID_TOS, C.int(p.TrafficClass), 1)
		}); err != nil {
			return nil, err
		}
	}
	if err := k.call("resolve_addr", func(id *C.struct_rdma_cm_id) C.int { return C.cm_resolve_addr(id, src, &dst, resolveMs) }); err != nil {
		return nil, err
	}
	if _, err := k.await(ctx, "resolve_addr", C.RDMA_CM_EVENT_ADDR_RESOLVED); err != nil {
		return nil, err
	}
	var bound string
	if err := k.call("resolve_route", func(id *C.struct_rdma_cm_id) C.int {
		if bound = deviceName(id); bound != ibdev(k.dev) {
			return 0
		}
		return C.cm_resolve_route(id, resolveMs)
	}); err != nil {
		return nil, err
	}
	if bound != ibdev(k.dev) {
		return nil, verbs.Errorf("resolve_addr", k.remote, verbs.ErrInvalid, "the way there is by the device %q: set LocalAddr to an address of %s", bound, k.dev.Name())
	}
	if _, err := k.await(ctx, "resolve_route", C.RDMA_CM_EVENT_ROUTE_RESOLVED); err != nil {
		return nil, err
	}
	offer := param(qp, p, k.dev.Attr())
	private, n := data(p.Private)
	if err := k.call("connect", func(id *C.struct_rdma_cm_id) C.int { return C.cm_connect(id, &offer, unsafe.Pointer(private), n) }); err != nil {
		return nil, err
	}
	reply, err := k.await(ctx, "connect", C.RDMA_CM_EVENT_CONNECT_RESPONSE)
	if err != nil {
		return nil, err
	}
	e, gid, err := k.negotiate("init_qp_attr", qp.Num(), &offer, &reply.param)
	if err != nil {
		return nil, err
	}
	e.Private = reply.private
	if p.PathMTU != 0 && p.PathMTU != e.Parameters.PathMTU {
		return nil, verbs.Errorf("connect", k.remote, verbs.ErrNotSupported, "a path MTU of %d: the kernel has made it %d, after the interface's MTU", p.PathMTU, e.Parameters.PathMTU)
	}
	if err := rdmacm.Connect(qp, gid, e.Parameters, *p); err != nil {
		return nil, verbs.Errorf("connect", k.remote, err, "the queue pair can't be connected")
	}
	if err := k.call("establish", func(id *C.struct_rdma_cm_id) C.int { return C.cm_establish(id) }); err != nil {
		return nil, err
	}
	return k.connected(qp, e), nil
}

// ibdev is the kernel's name of a device.
func ibdev(dev verbs.Device) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(dev.Name(), "ibv:"), "?")
	return name
}
