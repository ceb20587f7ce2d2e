package simverbs

import (
	"fmt"
	"net/netip"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/actors"
)

// PollCost is the simulated time that a Poll takes which finds nothing: the
// order of a turn of a polling loop.
const PollCost = 100 * units.Nanosecond

// World is one simulated network and the devices on its hosts.
type World struct {
	engine  *des.Engine
	net     *fabric.Network
	devices []*Device // by host
	actors  *actors.Actors
	// interactive: applications wait here, so an empty Poll takes time.
	interactive bool
}

// NewWorld returns a world without devices, on an engine and a network that the
// caller drives.
func NewWorld(e *des.Engine, net *fabric.Network) *World {
	return &World{engine: e, net: net, actors: actors.New(e), devices: make([]*Device, net.Topology().Hosts())}
}

// ForApplications makes a Poll that finds nothing take PollCost: for a world whose
// devices applications use by verbs.Run.
func (w *World) ForApplications() { w.interactive = true }

// AddDevice puts a device over a NIC of the world's network. CongestionFor
// decides what each queue pair of the device gets when it is connected; nil
// gives plain queue pairs without telemetry.
func (w *World) AddDevice(name string, nic *nicmodel.NIC, congestion CongestionFor) *Device {
	d := &Device{world: w, nic: nic, name: name, congestion: congestion}
	nic.OnAsyncEvent(func(units.Time) { d.pumpEvents() })
	nic.OnDatagram(func(header *[rc.GRHBytes]byte, x nicmodel.Datagram) { writeGRH(header, nic.Host(), x) })
	w.devices[nic.Host()] = d
	return d
}

// CongestionFor returns the congestion control, inside the NIC, of a queue pair
// that sends to a peer. It also returns the number of packets of which one asks for an
// acknowledgement, 0 for only the last of a message.
type CongestionFor func(peerHost int) (c nicmodel.Congestion, ackReqEvery int, err error)

// gidOf is the address of a host: 10.0.0.1 is the first.
func gidOf(host int) netip.Addr {
	i := host + 1
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// gid6Of is the IPv6 address of a host, of a unique local prefix: fd00::a00:1 is the first.
func gid6Of(host int) netip.Addr {
	a := [16]byte{0: 0xfd}
	v4 := gidOf(host).As4()
	copy(a[12:], v4[:])
	return netip.AddrFrom16(a)
}

// hostOf inverts gidOf and gid6Of.
func (w *World) hostOf(gid netip.Addr) (int, error) {
	gid = gid.Unmap()
	b := gid.As16()
	if host := int(b[13])<<16 + int(b[14])<<8 + int(b[15]) - 1; host >= 0 && host < len(w.devices) && (gid == gidOf(host) || gid == gid6Of(host)) {
		return host, nil
	}
	last := len(w.devices) - 1
	return 0, fmt.Errorf("no host of the simulated network has the address %v: hosts are %v to %v, and %v to %v", gid, gidOf(0), gidOf(last), gid6Of(0), gid6Of(last))
}

// priority is that of a service level: the least where the network has none for it.
func (d *Device) priority(sl uint8) uint8 {
	if int(sl) < d.world.net.Priorities() {
		return sl
	}
	return 0
}

// PathTo returns an error unless the device has a path to the host at an address.
func (d *Device) PathTo(gid netip.Addr) error {
	_, err := d.peerOf(gid)
	return err
}

// peerOf returns the host at an address, to which the device must have a path.
func (d *Device) peerOf(gid netip.Addr) (int, error) {
	host, err := d.world.hostOf(gid)
	if err == nil && !d.world.net.Joined(d.nic.Host(), host) {
		return 0, fmt.Errorf("%v is in another plane than %v, and planes share no link", gid, gidOf(d.nic.Host()))
	}
	return host, err
}
