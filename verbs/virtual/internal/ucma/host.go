//go:build linux

package ucma

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
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
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
)

// Config is what a Host is made with.
type Config struct {
	// Device makes the connections. It is a verbs.MADDevice whose management datagrams
	// nobody else handles.
	Device verbs.Device
	// NodeGUID is by which librdmacm finds the device among those of libibverbs.
	NodeGUID uint64
	// CM has the connection manager's times, by default Linux's; Rand, CAGUID and MTU are
	// filled in.
	CM cm.Config
	// Reach says whether packets can go from one of the device's addresses to another
	// address: nil asks the system's routes. Its error, if a syscall.Errno, is the
	// program's.
	Reach func(local, remote netip.Addr) error
}

// Host is one device's rdma_cm. Its methods may be called from several goroutines.
type Host struct {
	cfg  Config
	dev  verbs.Device
	mads verbs.MADDevice
	mtu  ib.MTU
	rate uint8
	gids []netip.Addr // IPv4 ones are not mapped

	mu       sync.Mutex // guards what follows, and files and identifiers
	core     *cm.Manager
	timer    *time.Timer
	ids      map[uint32]*ident
	lastID   uint32
	conns    map[uint32]*ident // by the connection manager's ID
	bound    map[binding][]*ident
	services map[uint64][]*ident // that listen
	closed   bool
}

// New returns a Host without identifiers, and takes the device's management datagrams.
func New(c Config) (*Host, error) {
	mads, ok := c.Device.(verbs.MADDevice)
	if !ok {
		return nil, fmt.Errorf("ucma: %s can't send management datagrams", c.Device.Name())
	}
	port, err := c.Device.Port(devicePort)
	if err != nil {
		return nil, err
	}
	if c.CM == (cm.Config{}) {
		c.CM = cm.DefaultConfig()
	}
	if c.Reach == nil {
		c.Reach = reach
	}
	c.CM.CAGUID, c.CM.Rand, c.CM.MTU = c.NodeGUID, rand.Reader, port.ActiveMTU
	core, err := cm.New(c.CM)
	if err != nil {
		return nil, err
	}
	h := &Host{
		cfg: c, dev: c.Device, mads: mads, mtu: port.ActiveMTU, rate: rateCode(port.LinkRate), core: core,
		ids: map[uint32]*ident{}, conns: map[uint32]*ident{}, bound: map[binding][]*ident{}, services: map[uint64][]*ident{},
	}
	for i := range port.GIDs {
		a, err := c.Device.GID(devicePort, i)
		if err != nil {
			return nil, err
		}
		h.gids = append(h.gids, a.Unmap().WithZone(""))
	}
	h.timer = time.AfterFunc(time.Hour, h.expire)
	h.timer.Stop()
	mads.HandleMAD(h.receive)
	return h, nil
}

// Close gives the device's management datagrams back. Files must be closed before.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	h.timer.Stop()
	h.mu.Unlock()
	h.mads.HandleMAD(nil)
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

// reach asks the system's routes.
func reach(local, remote netip.Addr) error {
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(remote, roce.Port)))
	if err != nil {
		return err
	}
	return c.Close()
}

// gidIndex finds an address among the device's, -1 if it is not there.
func (h *Host) gidIndex(a netip.Addr) int { return slices.Index(h.gids, a) }

func (h *Host) now() units.Time { return units.FromDuration(h.dev.Now()) }

// receive takes a datagram from the device.
func (h *Host) receive(local netip.Addr, src netip.AddrPort, srcQPN uint32, mad []byte) {
	if srcQPN != roce.GSIQP {
		return
	}
	h.mu.Lock()
	h.core.Receive(h.now(), cm.Path{Local: local, Remote: src.Addr()}, mad)
	h.unlock()
}

func (h *Host) expire() {
	h.mu.Lock()
	h.core.Expire(h.now())
	h.unlock()
}

// unlock carries out what the connection manager wants, and sends without the lock.
func (h *Host) unlock() {
	var e cm.Event
	for h.core.NextEvent(&e) {
		h.event(&e)
	}
	var out []cm.Outgoing
	var o cm.Outgoing
	for h.core.NextMAD(&o) {
		out = append(out, o)
	}
	switch at := h.core.Deadline(); {
	case h.closed:
	case at == units.Never:
		h.timer.Stop()
	default:
		h.timer.Reset(max(0, at-h.now()).Duration() + time.Microsecond)
	}
	h.mu.Unlock()
	for i := range out {
		// What can't be sent is as good as lost: it comes again.
		if index := h.gidIndex(out[i].Path.Local); index >= 0 {
			_ = h.mads.SendMAD(verbs.AddressVector{GID: out[i].Path.Remote, SGIDIndex: index, HopLimit: hopLimit}, roce.GSIQP, out[i].MAD[:])
		}
	}
}

// event turns an event of the connection manager into one of the program's.
func (h *Host) event(e *cm.Event) {
	if e.Type == cm.EventRequest || e.Type == cm.EventLookUp {
		h.requested(e)
		return
	}
	i := h.conns[e.ID]
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
		delete(h.conns, e.ID)
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
		case a.IsUnspecified() && (a.Is4() == local.Is4() || a.Is6() && !l.afOnly):
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
	if ip := a.Addr(); !ip.IsUnspecified() && h.gidIndex(ip) < 0 {
		return syscall.EADDRNOTAVAIL
	}
	if a.Port() != 0 {
		if h.conflict(i, a, false) {
			return syscall.EADDRINUSE
		}
		h.take(i, a)
		return 0
	}
	// The range of Linux's net.ipv4.ip_local_port_range.
	const first, ports = 32768, 28232
	from := int(random24()) % ports
	for n := range ports {
		b := netip.AddrPortFrom(a.Addr(), uint16(first+(from+n)%ports))
		if len(h.bound[binding{i.space, b.Port()}]) == 0 {
			h.take(i, b)
			return 0
		}
	}
	return syscall.EADDRNOTAVAIL
}

func (h *Host) take(i *ident, a netip.AddrPort) {
	i.src, i.state = a, bound
	b := binding{i.space, a.Port()}
	h.bound[b] = append(h.bound[b], i)
}

// conflict reports whether another has the port. Those that all set REUSEADDR share it, as
// long as none listens.
func (h *Host) conflict(i *ident, a netip.AddrPort, listens bool) bool {
	for _, o := range h.bound[binding{i.space, a.Port()}] {
		b := o.src.Addr()
		apart := !b.IsUnspecified() && !a.Addr().IsUnspecified() && b != a.Addr() ||
			b.Is4() != a.Addr().Is4() && (i.afOnly || o.afOnly || !b.IsUnspecified() && !a.Addr().IsUnspecified())
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
	if len(h.services[service]) == 0 {
		if err := h.core.Listen(service, most); err != nil {
			return syscall.EADDRINUSE
		}
	}
	h.services[service] = append(h.services[service], i)
	i.state = listening
	return 0
}

// source chooses the address that packets to a peer come from.
func (h *Host) source(i *ident, remote netip.Addr) (netip.Addr, syscall.Errno) {
	var errno syscall.Errno
	for _, a := range h.gids {
		if own := i.src.Addr(); own.IsValid() && !own.IsUnspecified() && a != own || a.Is4() != remote.Is4() {
			continue
		}
		err := h.cfg.Reach(a, remote)
		if err == nil {
			return a, 0
		}
		errors.As(err, &errno)
	}
	if errno == 0 || errno == syscall.EINVAL {
		errno = syscall.ENETUNREACH
	}
	return netip.Addr{}, errno
}

func (h *Host) newIdent(f *File, space roce.PortSpace, isUD bool) *ident {
	for h.lastID++; h.ids[h.lastID] != nil; h.lastID++ {
	}
	i := &ident{host: h, file: f, id: h.lastID, space: space, isUD: isUD, psn: units.PSN(random24())}
	h.ids[i.id] = i
	return i
}

func random24() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint32(b[:]) >> 8
}
