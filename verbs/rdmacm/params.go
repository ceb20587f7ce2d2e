package rdmacm

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
	"github.com/sluice-rdma/sluice/verbs/route"
)

// Room for private data in bytes. The data come out with all the room behind
// them, zeros included: nothing on the wire says how long they are.
const (
	DialPrivateBytes   = roce.REQPrivateBytes - roce.IPCMBytes
	AcceptPrivateBytes = roce.REPPrivateBytes
	RejectPrivateBytes = roce.REJPrivateBytes
)

// Parameters are both sides' agreement on a connection, seen from this
// side. They are the path, the queue pairs' numbers, the PSNs of the first packet
// sent and of the first one expected, and the attributes that [Connect] sets on a
// queue pair. Timeout is the exponent of 4.096 us.
type Parameters = cm.Parameters

// Path is the way between the two ends: the address of either.
type Path = cm.Path

// Params are one side's part of a connection (rdma_conn_param).
type Params struct {
	Access ib.AccessFlags // what the peer may do through the queue pair
	// ResponderResources is the number of Reads and atomics of the peer this side serves at
	// once, InitiatorDepth how many it wants to issue at once. Both sides agree on the
	// lower figures.
	ResponderResources, InitiatorDepth uint8
	// RNRRetryCount is the number of times that the peer shall try again when no receive is
	// posted here, 0 to 7; 7 is without end.
	RNRRetryCount uint8
	MinRNRTimer   uint8 // 0 to 31, the code of IBA table 45
	FlowControl   bool  // the receive queue gives credits
	SRQ           bool  // the queue pair draws on a shared receive queue
	// Timeout is the ACK timeout of this side's queue pair, 4.096us * 2^n; 0 is
	// what the sides agree on.
	Timeout uint8
	Private []byte // for the other application

	// For Dial only: the listener adopts them.
	LocalAddr    netip.Addr // zero: by the route to the peer (route.Choose)
	PathMTU      ib.MTU     // zero: what that route carries
	RetryCount   uint8      // how often either side sends again without an acknowledgement, 0 to 7
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
	SL           uint8  // 0 to 7
}

// DefaultParams returns usual parameters: all remote access, 16 Reads either way,
// 7 retries, RNR retries without end after 0.64 ms.
func DefaultParams() Params {
	rc := verbs.DefaultRC()
	return Params{
		Access: rc.Access, ResponderResources: rc.MaxDestRdAtomic, InitiatorDepth: rc.MaxRdAtomic,
		RNRRetryCount: rc.RNRRetry, MinRNRTimer: rc.MinRNRTimer, RetryCount: rc.RetryCnt,
	}
}

// endpoint turns p into the protocol's terms.
func (p *Params) endpoint(qp verbs.QP, attr verbs.DeviceAttr) cm.Endpoint {
	return cm.Endpoint{
		QPN: qp.Num(), StartingPSN: randomPSN(),
		ResponderResources: uint8(min(int(p.ResponderResources), attr.MaxQPRdAtom)),
		InitiatorDepth:     uint8(min(int(p.InitiatorDepth), attr.MaxQPInitRdAtom)),
		RNRRetryCount:      p.RNRRetryCount, FlowControl: p.FlowControl, SRQ: p.SRQ, Private: p.Private,
	}
}

// randomPSN draws where packets are counted from. Who can guess it can slip packets
// into the connection.
func randomPSN() units.PSN {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return units.PSN(binary.BigEndian.Uint32(b[:]) >> 8)
}

// randomPort draws a source port from the dynamic range of RFC 6335.
func randomPort() uint16 {
	var b [2]byte
	_, _ = rand.Read(b[:])
	return 0xc000 | binary.BigEndian.Uint16(b[:])
}

// Init takes a queue pair from RESET to INIT, where receives can be posted: do both
// before Dial or Request.Accept, because the peer's first message may arrive before
// they return.
func Init(qp verbs.QP, p Params) error {
	return qp.Modify(verbs.QPAttr{State: ib.Init, Port: port, Access: p.Access}, verbs.ResetToInitRC)
}

// transition takes a queue pair from RESET or INIT to RTS.
func transition(qp verbs.QP, gid int, a *Parameters, p *Params) error {
	now, err := qp.Query()
	if err == nil && now.State != ib.Init {
		err = Init(qp, *p)
	}
	if err != nil {
		return err
	}
	timeout := a.Timeout
	if p.Timeout != 0 {
		timeout = p.Timeout
	}
	for _, step := range []struct {
		attr verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		{verbs.QPAttr{
			State: ib.RTR, PathMTU: a.PathMTU, DestQPN: a.RemoteQPN, RQPSN: uint32(a.RQPSN),
			AV: verbs.AddressVector{
				GID: a.Path.Remote, SGIDIndex: gid, TrafficClass: a.TrafficClass, HopLimit: a.HopLimit, FlowLabel: a.FlowLabel, SL: a.SL,
			},
			MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: p.MinRNRTimer,
		}, verbs.InitToRTRRC},
		{verbs.QPAttr{
			State: ib.RTS, Timeout: timeout, RetryCnt: a.RetryCount, RNRRetry: a.RNRRetryCount, SQPSN: uint32(a.SQPSN),
			MaxRdAtomic: a.MaxRdAtomic,
		}, verbs.RTRToRTSRC},
	} {
		if err := qp.Modify(step.attr, step.mask); err != nil {
			return err
		}
	}
	return nil
}

// port is the device's port: RoCE devices have a port each.
const port = 1

// plain strips what Go adds to an address that a GID does not have.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// gidIndex finds an address in the port's GID table.
func gidIndex(dev verbs.Device, fits func(netip.Addr) bool) (int, netip.Addr, error) {
	attr, err := dev.Port(port)
	if err != nil {
		return 0, netip.Addr{}, err
	}
	for i := range attr.GIDs {
		a, err := dev.GID(port, i)
		if err != nil {
			return 0, netip.Addr{}, err
		}
		if a = plain(a); fits(a) {
			return i, a, nil
		}
	}
	return 0, netip.Addr{}, fmt.Errorf("no address of %s fits", dev.Name())
}

// pathTo finds the device's address to connect from, and the path MTU.
func pathTo(dev verbs.Device, local, remote netip.Addr) (Path, ib.MTU, error) {
	to := route.To{Peer: remote, Index: -1}
	if local.IsValid() {
		var err error
		if to.Index, _, err = gidIndex(dev, func(a netip.Addr) bool { return a == plain(local) }); err != nil {
			return Path{}, 0, err
		}
	}
	from, err := route.Choose(dev, port, to)
	if err != nil {
		return Path{}, 0, err
	}
	path := Path{Local: plain(from.GID), Remote: plain(remote)}
	if path.Local.Is4() != path.Remote.Is4() {
		return Path{}, 0, fmt.Errorf("no address of %s fits", dev.Name())
	}
	return path, from.MTU, nil
}
