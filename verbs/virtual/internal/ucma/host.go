//go:build linux

package ucma

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
	routes "github.com/sluice-rdma/sluice/verbs/route"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
)

// Config configures a Host.
type Config struct {
	Devices []Device
	// CM has the connection manager's times, by default Linux's; Rand, CAGUID and MTU are
	// filled in.
	CM cm.Config
	// Source is the address that packets to another one get, zero if it is not known: nil
	// asks the kernel's routes.
	Source func(remote netip.Addr) netip.Addr
	// Reach reports whether packets can go from one of a device's addresses to another
	// address: nil asks the system's routes. Its error, if a syscall.Errno, is the
	// program's.
	Reach func(local, remote netip.Addr) error
	// Elsewhere reports whether another interface of the machine has an address that no device
	// has: nil asks the system.
	Elsewhere func(a netip.Addr) bool
	// NewTimer makes a timer that calls f, not yet set: nil makes one of real time.
	NewTimer func(f func()) Timer
	// Rand is the source of numbers that peers shall not guess: nil is crypto/rand.Reader. The Host reads it under its lock.
	Rand io.Reader
}

// Timer is a *time.Timer, or another that is like it.
type Timer interface {
	// Stop has it not call, unless it is about to.
	Stop() bool
	// Reset has it call in a time from now on, and not when it was to.
	Reset(d time.Duration) bool
}

// Device makes connections.
type Device struct {
	Verbs verbs.Device
	// MADs has the device's management datagrams, which nobody else handles: nil is Verbs.
	MADs verbs.MADDevice
	// NodeGUID identifies the device to librdmacm among libibverbs' devices.
	NodeGUID uint64
}

// Host is the rdma_cm of some devices. Its methods may be called from several goroutines.
type Host struct {
	cfg     Config
	devices []*device

	mu       sync.Mutex // guards what follows, devices, files and identifiers
	ids      map[uint32]*ident
	lastID   uint32
	bound    map[binding][]*ident
	services map[uint64][]*ident // that listen
	early    []*early            // requests that nobody listens for yet
	closed   bool
}

// device is one of a Host's.
type device struct {
	host  *Host
	guid  uint64
	verbs verbs.Device
	mads  verbs.MADDevice
	mtu   ib.MTU
	rate  uint8
	gids  []netip.Addr // IPv4 ones are not mapped; "::" where there is none
	gone  bool         // with its interface

	core  *cm.Manager
	timer Timer
	conns map[uint32]*ident // by core's IDs
}

// New returns a Host without identifiers, and takes the devices' management datagrams.
func New(c Config) (*Host, error) {
	if c.CM == (cm.Config{}) {
		c.CM = cm.DefaultConfig()
	}
	if c.Source == nil {
		c.Source = source
	}
	if c.Reach == nil {
		c.Reach = reach
	}
	if c.Elsewhere == nil {
		c.Elsewhere = elsewhere
	}
	if c.NewTimer == nil {
		c.NewTimer = newTimer
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	h := &Host{cfg: c, ids: map[uint32]*ident{}, bound: map[binding][]*ident{}, services: map[uint64][]*ident{}}
	for _, d := range c.Devices {
		if err := h.addDevice(d); err != nil {
			return nil, err
		}
	}
	for _, d := range h.devices {
		d.mads.HandleMAD(d.receive)
	}
	return h, nil
}

func (h *Host) addDevice(v Device) error {
	mads := v.MADs
	if mads == nil {
		mads, _ = v.Verbs.(verbs.MADDevice)
	}
	if mads == nil {
		return fmt.Errorf("ucma: %s can't send management datagrams", v.Verbs.Name())
	}
	port, err := v.Verbs.Port(devicePort)
	if err != nil {
		return err
	}
	d := &device{
		host: h, guid: v.NodeGUID, verbs: v.Verbs, mads: mads, mtu: port.ActiveMTU, rate: rateCode(port.LinkRate), conns: map[uint32]*ident{},
	}
	if err := d.readGIDs(); err != nil {
		return err
	}
	c := h.cfg.CM
	c.CAGUID, c.Rand, c.MTU = v.NodeGUID, h.cfg.Rand, port.ActiveMTU
	if d.core, err = cm.New(c); err != nil {
		return err
	}
	d.timer = h.cfg.NewTimer(d.expire)
	h.devices = append(h.devices, d)
	return nil
}

// newTimer makes a timer of real time.
func newTimer(f func()) Timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}

func (d *device) readGIDs() error {
	port, err := d.verbs.Port(devicePort)
	if err != nil {
		return err
	}
	gids := make([]netip.Addr, port.GIDs)
	for i := range gids {
		a, err := d.verbs.GID(devicePort, i)
		if err != nil {
			return err
		}
		gids[i] = a.Unmap().WithZone("")
	}
	d.gids = gids
	return nil
}

// Changed has the Host look at what a device's port is now. Identifiers of a device that
// is gone learn of it, as in Linux (cma_process_remove).
func (h *Host) Changed(dev verbs.Device) {
	h.mu.Lock()
	defer h.unlock()
	for _, d := range h.devices {
		if d.verbs != dev {
			continue
		}
		_ = d.readGIDs() // else they are as they were
		lost, ok := dev.(verbs.LostDevice)
		if !ok || d.gone {
			continue
		}
		select {
		case <-lost.Gone():
		default:
			continue
		}
		d.gone = true
		for _, i := range h.inOrder() {
			if i.dev == d {
				i.report(event{kind: evDeviceRemoval})
			}
		}
	}
}

// inOrder returns the identifiers as they were made.
func (h *Host) inOrder() []*ident {
	var all []*ident
	for _, id := range slices.Sorted(maps.Keys(h.ids)) {
		all = append(all, h.ids[id])
	}
	return all
}

// Close gives the devices' management datagrams back. Files must be closed before.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	for _, d := range h.devices {
		d.timer.Stop()
	}
	for _, e := range h.early {
		e.giveUp.Stop()
	}
	h.early = nil
	h.mu.Unlock()
	for _, d := range h.devices {
		d.mads.HandleMAD(nil)
	}
}

// Open opens the node for a process; it is the part of a guest.Opener for "rdma_cm".
func (h *Host) Open(p *guest.Process) (guest.File, *os.File, syscall.Errno) {
	f, poll, err := newFile(h, p)
	if err != nil {
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = syscall.EIO
		}
		return nil, nil, errno
	}
	return f, poll, 0
}

const (
	devicePort = 1 // RoCE devices have one
	hopLimit   = 64
)

// rateCode is the code of a link's rate in a path record (enum ib_rate): the largest of
// those in use that it reaches.
func rateCode(bps int64) uint8 {
	code := uint8(2) // 2.5 Gbps
	for _, r := range []struct {
		gbps int64
		code uint8
	}{{5, 5}, {10, 3}, {20, 6}, {25, 15}, {40, 7}, {50, 20}, {80, 8}, {100, 16}, {200, 17}, {300, 18}, {400, 21}} {
		if bps >= r.gbps*1e9 {
			code = r.code
		}
	}
	return code
}

// source asks the kernel's routes.
func source(remote netip.Addr) netip.Addr {
	way, err := routes.Lookup(remote, netip.Addr{})
	if err != nil {
		return netip.Addr{}
	}
	return way.Source
}

// reach asks the system's routes.
func reach(local, remote netip.Addr) error {
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(remote, roce.Port)))
	if err != nil {
		return err
	}
	return c.Close()
}

// gidIndex finds an address among the device's, -1 if it is not there.
func (d *device) gidIndex(a netip.Addr) int { return slices.Index(d.gids, a) }

// isAny reports whether an address stands for any: where no device has one of the
// loopback's, those do as well, as in Linux (cma_any_addr).
func (h *Host) isAny(a netip.Addr) bool {
	if !a.IsLoopback() {
		return a.IsUnspecified()
	}
	for _, d := range h.devices {
		if slices.ContainsFunc(d.gids, netip.Addr.IsLoopback) {
			return false
		}
	}
	return true
}

// deviceAt returns the device with an address, nil for none.
func (h *Host) deviceAt(a netip.Addr) *device {
	for _, d := range h.devices {
		if d.gidIndex(a) >= 0 {
			return d
		}
	}
	return nil
}

// now is the present, for a caller who holds the lock.
func (d *device) now() units.Time { return d.core.Now(units.Long(d.verbs.Now())) }

// receive takes a datagram from the device.
func (d *device) receive(local netip.Addr, src netip.AddrPort, srcQPN uint32, mad []byte) {
	if srcQPN != roce.GSIQP {
		return
	}
	path := cm.Path{Local: local, Remote: src.Addr()}
	d.host.mu.Lock()
	if !d.holdEarly(path, mad) {
		d.core.Receive(d.now(), path, mad)
	}
	d.host.unlock()
}

func (d *device) expire() {
	d.host.mu.Lock()
	d.core.Expire(d.now())
	d.host.unlock()
}

// outgoing is a datagram of a device's to send.
type outgoing struct {
	from  *device
	index int // of the GID to send from, -1 for none
	cm.Outgoing
}

// unlock carries out what the connection managers want, and sends without the lock.
func (h *Host) unlock() {
	var out []outgoing
	for _, d := range h.devices {
		var e cm.Event
		for d.core.NextEvent(&e) {
			d.event(&e)
		}
		var o cm.Outgoing
		for d.core.NextMAD(&o) {
			out = append(out, outgoing{d, d.gidIndex(o.Path.Local), o})
		}
		now := d.now() // which may set back what Deadline returns
		switch at := d.core.Deadline(); {
		case h.closed:
		case at == units.Never:
			d.timer.Stop()
		default:
			d.timer.Reset(max(0, at-now).Duration() + time.Microsecond)
		}
	}
	h.mu.Unlock()
	for i := range out {
		o := &out[i]
		// What can't be sent is as good as lost: it comes again.
		if o.index >= 0 {
			_ = o.from.mads.SendMAD(verbs.AddressVector{GID: o.Path.Remote, SGIDIndex: o.index, HopLimit: hopLimit}, roce.GSIQP, o.MAD[:])
		}
	}
}

// event turns an event of the connection manager into one of the program's.
func (d *device) event(e *cm.Event) {
	if e.Type == cm.EventRequest || e.Type == cm.EventLookUp {
		d.requested(e)
		return
	}
	i := d.conns[e.ID]
	if i == nil {
		return
	}
	switch e.Type {
	case cm.EventReply:
		i.par = e.Parameters
		i.report(event{kind: evConnectResponse, conn: i.parameters(e.Private)})
	case cm.EventEstablished:
		i.lived = true
		i.report(event{kind: evEstablished})
	case cm.EventRejected:
		i.report(event{kind: evRejected, status: int32(e.Reason), conn: connParam{private: e.Private}})
	case cm.EventUnreachable:
		i.report(event{kind: evUnreachable, status: -int32(syscall.ETIMEDOUT)})
	case cm.EventDisconnected:
		i.report(event{kind: evDisconnected})
	case cm.EventFound:
		i.found(e)
	case cm.EventTimeWaitExit:
		delete(d.conns, e.ID)
		if i.lived {
			i.report(event{kind: evTimeWaitExit})
		}
	}
}

// listener finds who listens for a service at an address: there alone, or at all.
func (h *Host) listener(service uint64, local netip.Addr) *ident {
	var any *ident
	for _, l := range h.services[service] {
		switch a := l.src.Addr(); {
		case a == local:
			return l
		case h.isAny(a) && (a.Is4() == local.Is4() || a.Is6() && !l.afOnly):
			any = l
		}
	}
	return any
}

// binding is a port of a port space.
type binding struct {
	space roce.PortSpace
	port  uint16
}

// bind gives an identifier an address and a port.
func (h *Host) bind(i *ident, a netip.AddrPort) syscall.Errno {
	if i.state != idle {
		return syscall.EINVAL
	}
	var own *device
	if ip := a.Addr(); !h.isAny(ip) {
		if own = h.deviceAt(ip); own == nil {
			if ip.IsLoopback() || h.cfg.Elsewhere(ip) {
				return syscall.ENODEV
			}
			return syscall.EADDRNOTAVAIL
		}
	}
	if a.Port() != 0 {
		if h.conflict(i, a, false) {
			return syscall.EADDRINUSE
		}
		h.take(i, a, own)
		return 0
	}
	// The range of Linux's net.ipv4.ip_local_port_range.
	const first, ports = 32768, 28232
	from := int(h.random24()) % ports
	for n := range ports {
		b := netip.AddrPortFrom(a.Addr(), uint16(first+(from+n)%ports))
		if len(h.bound[binding{i.space, b.Port()}]) == 0 {
			h.take(i, b, own)
			return 0
		}
	}
	return syscall.EADDRNOTAVAIL
}

// elsewhere asks the system whether an interface has an address.
func elsewhere(ip netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		if !ok {
			return false
		}
		own, _ := netip.AddrFromSlice(n.IP)
		return own.Unmap() == ip.Unmap()
	})
}

func (h *Host) take(i *ident, a netip.AddrPort, d *device) {
	i.src, i.state, i.dev = a, bound, d
	b := binding{i.space, a.Port()}
	h.bound[b] = append(h.bound[b], i)
}

// conflict reports whether another has the port. Those that all set REUSEADDR share it, as
// long as none listens.
func (h *Host) conflict(i *ident, a netip.AddrPort, listens bool) bool {
	for _, o := range h.bound[binding{i.space, a.Port()}] {
		b := o.src.Addr()
		both := !h.isAny(b) && !h.isAny(a.Addr())
		apart := both && b != a.Addr() || b.Is4() != a.Addr().Is4() && (i.afOnly || o.afOnly || both)
		shared := i.reuse && o.reuse && o.state != listening && !listens
		if o != i && !apart && !shared && (!listens || o.state == listening) {
			return true
		}
	}
	return false
}

func (h *Host) listen(i *ident, backlog uint32) syscall.Errno {
	if i.state == idle {
		if errno := h.bind(i, netip.AddrPortFrom(netip.IPv4Unspecified(), 0)); errno != 0 {
			return errno
		}
	}
	if i.state != bound {
		return syscall.EINVAL
	}
	if h.conflict(i, i.src, true) {
		return syscall.EADDRINUSE
	}
	const most = 1024
	i.backlog = int(backlog)
	if i.backlog <= 0 || i.backlog > most {
		i.backlog = most
	}
	service := i.service()
	for _, d := range h.devices {
		if !d.core.Listening(service) {
			if err := d.core.Listen(service, most); err != nil {
				return syscall.EADDRINUSE
			}
		}
	}
	h.services[service] = append(h.services[service], i)
	i.state = listening
	h.deliverEarly(service)
	return 0
}

// source chooses the device and the address that packets to a peer come from: the route's
// source, as rdma_resolve_addr has it, unless the program has bound another or no device
// has it.
func (h *Host) source(i *ident, remote netip.Addr) (*device, netip.Addr, syscall.Errno) {
	if h.isAny(i.src.Addr()) && !remote.IsUnspecified() && !remote.IsLinkLocalUnicast() {
		a := h.cfg.Source(remote)
		if d := h.deviceAt(a); d != nil {
			return d, a, 0
		}
	}
	var errno syscall.Errno
	for _, d := range h.devices {
		for _, a := range d.gids {
			if own := i.src.Addr(); a.IsUnspecified() || !h.isAny(own) && a != own || a.Is4() != remote.Is4() {
				continue
			}
			err := h.cfg.Reach(a, remote)
			if err == nil {
				return d, a, 0
			}
			errors.As(err, &errno)
		}
	}
	if errno == 0 || errno == syscall.EINVAL {
		errno = syscall.ENETUNREACH
	}
	return nil, netip.Addr{}, errno
}

func (h *Host) newIdent(f *File, space roce.PortSpace, isUD bool) *ident {
	for h.lastID++; h.ids[h.lastID] != nil; h.lastID++ {
	}
	i := &ident{host: h, file: f, id: h.lastID, space: space, isUD: isUD, psn: units.PSN(h.random24())}
	h.ids[i.id] = i
	return i
}

func (h *Host) random24() uint32 {
	var b [4]byte
	_, _ = io.ReadFull(h.cfg.Rand, b[:]) // never fails
	return binary.BigEndian.Uint32(b[:]) >> 8
}
