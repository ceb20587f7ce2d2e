//go:build linux

package ucma

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// state is an identifier's state.
type state uint8

const (
	idle state = iota
	bound
	addrResolved
	routeResolved
	connecting // and after
	listening
)

// ident is an identifier (rdma_cm_id). The host's lock guards it.
type ident struct {
	host  *Host
	file  *File
	id    uint32
	uid   uint64 // the program's name for it; 0 until it accepts a request
	space roce.PortSpace
	isUD  bool

	state    state
	src, dst netip.AddrPort
	dev      *device // that has src; nil as long as none is chosen
	mtu      ib.MTU  // of the path; 0 as long as dst is not resolved
	psn      units.PSN
	reported uint32 // events

	tos        uint8
	reuse      bool
	afOnly     bool
	ackTimeout uint8 // 0 for what the sides agree on
	backlog    int   // requests that may still wait for the program

	cmID    uint32 // 0 for none
	passive bool
	lived   bool // the connection was established
	par     cm.Parameters
}

func (i *ident) service() uint64 { return i.space.ServiceID(i.src.Port()) }

// report puts an event of the identifier's into its file's queue. A program that has not
// accepted a request has no name for it, and learns nothing.
func (i *ident) report(e event) {
	if i.uid == 0 {
		return
	}
	e.uid, e.id, e.isUD = i.uid, i.id, i.isUD
	i.file.add(pending{event: e, of: i})
}

// parameters are those of a request or of its answer, seen from this side.
func (i *ident) parameters(private []byte) connParam {
	p := &i.par
	return connParam{
		qpn: p.RemoteQPN, private: private, srq: p.RemoteSRQ, flowControl: p.FlowControl,
		responderResources: p.MaxDestRdAtomic, initiatorDepth: p.MaxRdAtomic, retryCount: p.RetryCount, rnrRetryCount: p.RNRRetryCount,
	}
}

// destroy ends an identifier and its connection.
func (h *Host) destroy(i *ident) {
	delete(h.ids, i.id)
	if i.src.Port() != 0 {
		b := binding{i.space, i.src.Port()}
		if h.bound[b] = slices.DeleteFunc(h.bound[b], func(o *ident) bool { return o == i }); len(h.bound[b]) == 0 {
			delete(h.bound, b)
		}
	}
	if i.state == listening {
		service := i.service()
		left := slices.DeleteFunc(h.services[service], func(o *ident) bool { return o == i })
		if h.services[service] = left; len(left) == 0 {
			delete(h.services, service)
			for _, d := range h.devices {
				d.core.Unlisten(service)
			}
		}
	}
	if i.cmID != 0 {
		_ = i.dev.core.Disconnect(i.dev.now(), i.cmID, nil) // it may have ended
		delete(i.dev.conns, i.cmID)
	}
	for _, made := range i.file.forget(i) {
		h.destroy(made)
	}
}

// route returns the route that queries show.
func (i *ident) route() *route {
	r := &route{src: i.src, dst: i.dst}
	if d := i.dev; d != nil {
		r.guid, r.port = d.guid, devicePort
		r.sgid, r.dgid = i.src.Addr(), i.dst.Addr()
		r.resolved = i.state >= routeResolved && i.state != listening
		r.mtu, r.rate, r.lifetime = roce.MTUCode(i.pathMTU()), d.rate, i.host.cfg.CM.PacketLifetime
		r.hopLimit, r.trafficClass = hopLimit, i.tos
	}
	return r
}

// pathMTU returns the MTU of the way to the peer, or the one for which the peer asks.
func (i *ident) pathMTU() ib.MTU {
	switch {
	case i.mtu != 0:
		return i.mtu
	case i.passive && i.par.PathMTU != 0:
		return i.par.PathMTU
	}
	return i.dev.mtu
}

// connect sends the request.
func (i *ident) connect(p *connParam) syscall.Errno {
	switch {
	case !p.valid || i.state != routeResolved:
		return syscall.EINVAL
	case i.isUD:
		return i.lookUp(p)
	}
	private, errno := i.withAddresses(p.private, roce.REQPrivateBytes)
	if errno != 0 {
		return errno
	}
	e := i.endpoint(p)
	e.Private = private
	id, err := i.dev.core.Connect(i.dev.now(), cm.Request{
		Path: cm.Path{Local: i.src.Addr(), Remote: i.dst.Addr()}, ServiceID: i.space.ServiceID(i.dst.Port()), Endpoint: e,
		PathMTU: i.pathMTU(), RetryCount: min(p.retryCount, 7), TrafficClass: i.tos, HopLimit: hopLimit,
	})
	if err != nil {
		return errnoOf(err)
	}
	i.began(id)
	i.par = cm.Parameters{MaxDestRdAtomic: p.responderResources, MaxRdAtomic: p.initiatorDepth}
	return 0
}

func (i *ident) began(cmID uint32) {
	i.cmID, i.state = cmID, connecting
	i.dev.conns[cmID] = i
}

// withAddresses puts what rdma_cm says of addresses before a program's private data.
func (i *ident) withAddresses(private []byte, room int) ([]byte, syscall.Errno) {
	if len(private) > room-roce.IPCMBytes {
		return nil, syscall.EINVAL
	}
	b := make([]byte, roce.IPCMBytes, room)
	ip := roce.IPCM{SrcPort: i.src.Port(), Src: i.src.Addr(), Dst: i.dst.Addr()}
	if ip.Put(b) == 0 {
		return nil, syscall.EINVAL
	}
	return append(b, private...), 0
}

// endpoint is this side of a connection.
func (i *ident) endpoint(p *connParam) cm.Endpoint {
	return cm.Endpoint{
		QPN: p.qpn, StartingPSN: i.psn, ResponderResources: p.responderResources, InitiatorDepth: p.initiatorDepth,
		RNRRetryCount: min(p.rnrRetryCount, 7), FlowControl: p.flowControl, SRQ: p.srq, Private: p.private,
	}
}

// accept answers a request, or, without parameters, sends the RTU for an answer.
func (i *ident) accept(uid uint64, p *connParam) syscall.Errno {
	switch {
	case i.state != connecting || i.cmID == 0:
		return syscall.EINVAL
	case i.isUD:
		return i.answerLookUp(uid, p)
	case !p.valid && i.passive:
		return syscall.EINVAL
	case !p.valid:
		err := i.dev.core.Ready(i.dev.now(), i.cmID, nil)
		i.lived = i.lived || err == nil
		return errnoOf(err)
	}
	par, err := i.dev.core.Accept(i.dev.now(), i.cmID, i.endpoint(p))
	if err != nil {
		return errnoOf(err)
	}
	i.par, i.uid = par, uid
	return 0
}

func (i *ident) reject(reason uint8, private []byte) syscall.Errno {
	r := roce.RejectReason(reason)
	switch {
	case i.cmID == 0:
		return syscall.EINVAL
	case r == 0:
		r = roce.RejConsumer
	case r != roce.RejConsumer && r != roce.RejVendorOptionNotKnown:
		return syscall.EINVAL
	}
	if i.isUD {
		return errnoOf(i.dev.core.Answer(i.dev.now(), i.cmID, cm.Answer{Status: roce.SIDRReject, Private: private}))
	}
	return errnoOf(i.dev.core.Reject(i.dev.now(), i.cmID, r, nil, private))
}

func errnoOf(err error) syscall.Errno {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, cm.ErrFull):
		return syscall.ENOMEM
	}
	return syscall.EINVAL
}

// Masks of queue pairs' attributes (enum ib_qp_attr_mask), and access flags.
const (
	maskState           = 1 << 0
	maskAccess          = 1 << 3
	maskPKeyIndex       = 1 << 4
	maskPort            = 1 << 5
	maskQKey            = 1 << 6
	maskAV              = 1 << 7
	maskPathMTU         = 1 << 8
	maskTimeout         = 1 << 9
	maskRetryCnt        = 1 << 10
	maskRNRRetry        = 1 << 11
	maskRQPSN           = 1 << 12
	maskMaxRdAtomic     = 1 << 13
	maskMinRNRTimer     = 1 << 15
	maskSQPSN           = 1 << 16
	maskMaxDestRdAtomic = 1 << 17
	maskDestQPN         = 1 << 20

	accessRemoteWrite  = 2
	accessRemoteRead   = 4
	accessRemoteAtomic = 8
)

// attributes returns the attributes that the program shall set on its queue pair to bring
// it to a state.
func (i *ident) attributes(to ib.QPState) (*qpAttr, syscall.Errno) {
	a := &qpAttr{state: uint32(to)}
	if i.dev == nil || to > ib.RTS {
		return nil, syscall.EINVAL
	}
	p := &i.par
	known := i.cmID != 0 && !i.isUD
	if known {
		switch i.dev.core.State(i.cmID) {
		case cm.REPReceived, cm.REQReceived, cm.REPSent, cm.Established:
		case cm.REQSent:
			known = to == ib.Init
			if !known {
				return nil, syscall.EINVAL
			}
		default:
			return nil, syscall.EINVAL
		}
	}
	switch {
	case !known || to == ib.Init:
		a.mask, a.port = maskState|maskPKeyIndex|maskPort, devicePort
		switch {
		case i.isUD:
			a.mask |= maskQKey
			a.qkey = udpQKey
		case known:
			a.access = accessRemoteWrite
			if p.MaxDestRdAtomic > 0 {
				a.access |= accessRemoteRead | accessRemoteAtomic
			}
			fallthrough
		default:
			a.mask |= maskAccess
		}
		if to == ib.RTR {
			a.rqPSN = uint32(i.psn)
		}
	case to == ib.RTR:
		a.mask = maskState | maskAV | maskPathMTU | maskDestQPN | maskRQPSN | maskMaxDestRdAtomic | maskMinRNRTimer
		a.ah, a.hasAH = i.ah(), true
		a.pathMTU, a.destQPN, a.rqPSN = uint32(roce.MTUCode(p.PathMTU)), p.RemoteQPN, uint32(i.psn)
		a.maxDestRdAtomic = p.MaxDestRdAtomic
	case to == ib.RTS:
		a.mask = maskState | maskSQPSN | maskTimeout | maskRetryCnt | maskRNRRetry | maskMaxRdAtomic
		a.sqPSN, a.timeout, a.retryCnt, a.rnrRetry = uint32(p.SQPSN), p.Timeout, p.RetryCount, p.RNRRetryCount
		a.maxRdAtomic = p.MaxRdAtomic
		if i.ackTimeout != 0 {
			a.timeout = i.ackTimeout
		}
	default:
		return nil, syscall.EINVAL
	}
	return a, 0
}

// ah is the way to the other side.
func (i *ident) ah() ahAttr {
	return ahAttr{
		dgid: i.dst.Addr(), flowLabel: i.par.FlowLabel, sgidIndex: uint8(max(0, i.dev.gidIndex(i.src.Addr()))),
		hopLimit: hopLimit, trafficClass: i.tos, sl: i.par.SL, port: devicePort,
	}
}
