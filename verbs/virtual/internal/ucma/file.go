//go:build linux

package ucma

import (
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	routes "github.com/sluice-rdma/sluice/verbs/route"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
)

// File is an open node: a guest.File. The host's lock guards it.
type File struct {
	host    *Host
	process *guest.Process
	events  []pending // that the program has not read
	// A record lies between own and theirs, the program's end, exactly while events has
	// some: so the program can poll it.
	own, theirs int
}

// pending is an event of an identifier's. A request for a connection is its listener's,
// and has made another one.
type pending struct {
	event
	of, made *ident
}

func newFile(h *Host, p *guest.Process) (*File, *os.File, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	program, err := unix.FcntlInt(uintptr(ends[1]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(ends[0])
		_ = unix.Close(ends[1])
		return nil, nil, err
	}
	return &File{host: h, process: p, own: ends[0], theirs: ends[1]}, os.NewFile(uintptr(program), "rdma_cm"), nil
}

// show keeps the record as events demands.
func (f *File) show(had bool) {
	b := [1]byte{1}
	switch has := len(f.events) > 0; {
	case has && !had:
		_ = unix.Send(f.own, b[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) // there is room for one
	case had && !has:
		_, _, _ = unix.Recvfrom(f.theirs, b[:], unix.MSG_DONTWAIT) // the program may have taken it
	}
}

func (f *File) add(p pending) {
	had := len(f.events) > 0
	f.events = append(f.events, p)
	f.show(had)
}

// take removes and returns the events that are chosen.
func (f *File) take(chosen func(*pending) bool) []pending {
	had := len(f.events) > 0
	var out []pending
	f.events = slices.DeleteFunc(f.events, func(p pending) bool {
		yes := chosen(&p)
		if yes {
			out = append(out, p)
		}
		return yes
	})
	f.show(had)
	return out
}

// forget drops the events of an identifier, and returns the identifiers that its requests
// have made, which the program has not seen.
func (f *File) forget(i *ident) (made []*ident) {
	for _, p := range f.take(func(p *pending) bool { return p.of == i }) {
		if p.made != nil {
			made = append(made, p.made)
		}
	}
	return made
}

// Close implements guest.File: it destroys what was made on the file.
func (f *File) Close() {
	h := f.host
	h.mu.Lock()
	for _, i := range h.inOrder() {
		if i.file == f && h.ids[i.id] == i { // with a listener go those that its requests made
			h.destroy(i)
		}
	}
	_ = unix.Close(f.own)
	_ = unix.Close(f.theirs)
	f.own, f.theirs = -1, -1
	h.unlock()
}

// Ioctl implements guest.File: the node has none.
func (f *File) Ioctl(uint64, uint64) guest.Reply { return guest.Reply{Errno: syscall.ENOTTY} }

// Mmap implements guest.File: the node has nothing to map.
func (f *File) Mmap(uint64, int, bool) guest.MapReply { return guest.MapReply{Errno: syscall.ENODEV} }

// Mapped implements guest.File.
func (f *File) Mapped(uint64, uint64) {}

// Write implements guest.File.
func (f *File) Write(b []byte) guest.Reply {
	c, errno := parse(b)
	if errno != 0 {
		return guest.Reply{Errno: errno}
	}
	if c.op == cmdSetOption {
		// Before the lock: memory of the program's may be long in coming.
		if c.option, errno = f.readOption(&c); errno != 0 {
			return guest.Reply{Errno: errno}
		}
	}
	h := f.host
	h.mu.Lock()
	to, data, errno := f.command(&c)
	h.unlock()
	if errno != 0 {
		return guest.Reply{Errno: errno}
	}
	return guest.Reply{To: to, Data: data}
}

// command carries out a command. Its response, if it has one, goes to an address in the
// program.
func (f *File) command(c *command) (to uint64, response []byte, errno syscall.Errno) {
	h := f.host
	switch c.op {
	case cmdCreateID:
		return f.createID(c)
	case cmdGetEvent:
		return f.getEvent(c)
	case cmdMigrateID:
		return f.migrate(c)
	case cmdJoinIPMcast, cmdJoinMcast, cmdLeaveMcast:
		return 0, nil, syscall.EOPNOTSUPP
	}
	i := h.ids[c.id()]
	switch {
	case i == nil:
		return 0, nil, syscall.ENOENT
	case i.file != f:
		return 0, nil, syscall.EINVAL
	}
	switch c.op {
	case cmdDestroyID, cmdQueryRoute, cmdQuery, cmdInitQPAttr:
		response, errno = f.answer(c, i)
		at := c.u64(0)
		if len(response) > c.out {
			response = response[:c.out]
		}
		return at, response, errno
	case cmdBindIP, cmdBind, cmdResolveIP, cmdResolveAddr:
		return 0, nil, h.addresses(c, i)
	case cmdResolveRoute:
		if i.state != addrResolved {
			return 0, nil, syscall.EINVAL
		}
		i.state = routeResolved
		i.report(event{kind: evRouteResolved})
	case cmdListen:
		errno = h.listen(i, c.u32(4))
	case cmdConnect:
		var p connParam
		p.decode(c.body)
		errno = i.connect(&p)
	case cmdAccept:
		var p connParam
		p.decode(c.body[8:])
		errno = i.accept(c.u64(0), &p)
	case cmdReject:
		errno = i.reject(c.u8(5), c.body[8:8+int(c.u8(4))])
	case cmdDisconnect:
		if i.cmID == 0 || i.isUD {
			return 0, nil, syscall.EINVAL
		}
		_ = i.dev.core.Disconnect(i.dev.now(), i.cmID, nil) // it may have ended
	case cmdNotify:
		errno = i.notify(c.u32(4))
	case cmdSetOption:
		errno = i.setOption(c.u32(16), c.option)
	}
	return 0, nil, errno
}

// answer is that of a command with a response.
func (f *File) answer(c *command, i *ident) ([]byte, syscall.Errno) {
	switch c.op {
	case cmdDestroyID:
		f.host.destroy(i)
		return binary.NativeEndian.AppendUint32(nil, i.reported), 0
	case cmdQueryRoute:
		return i.route().routeResponse(), 0
	case cmdQuery:
		switch c.u32(12) {
		case queryAddr:
			return i.route().addrResponse(), 0
		case queryPath:
			return i.route().pathResponse(), 0
		case queryGID:
			return i.route().gidResponse(), 0
		}
		return nil, syscall.ENOSYS
	}
	state := c.u32(12)
	if state > uint32(ib.Err) { // which ib.QPState may not hold
		return nil, syscall.EINVAL
	}
	a, errno := i.attributes(ib.QPState(state))
	if errno != 0 {
		return nil, errno
	}
	return a.put(), 0
}

func (f *File) createID(c *command) (uint64, []byte, syscall.Errno) {
	if len(f.host.devices) == 0 {
		return 0, nil, syscall.ENODEV // or the program would wait for a connection that can't come
	}
	const ipoib, rc, ud = 2, 2, 4 // RDMA_PS_IPOIB, IB_QPT_RC, IB_QPT_UD
	space, isUD := roce.PortSpace(c.u16(16)), false
	switch space {
	case roce.PortSpaceTCP:
	case roce.PortSpaceUDP, ipoib:
		isUD = true
	case roce.PortSpaceIB:
		if isUD = c.u8(18) == ud; !isUD && c.u8(18) != rc {
			return 0, nil, syscall.EINVAL
		}
	default:
		return 0, nil, syscall.EINVAL
	}
	if c.out < 4 {
		return 0, nil, syscall.ENOSPC
	}
	i := f.host.newIdent(f, space, isUD)
	i.uid = c.u64(0)
	return c.u64(8), binary.NativeEndian.AppendUint32(nil, i.id), 0
}

func (f *File) getEvent(c *command) (uint64, []byte, syscall.Errno) {
	const least = eventBytes - 4 - 8 // without what later versions have added
	if c.out < least {
		return 0, nil, syscall.ENOSPC
	}
	if len(f.events) == 0 {
		return 0, nil, syscall.EAGAIN
	}
	p := f.events[0]
	f.events = slices.Delete(f.events, 0, 1)
	f.show(true)
	p.of.reported++
	if p.made != nil {
		p.of.backlog++
	}
	b := p.put()
	return c.u64(0), b[:min(len(b), c.out)], 0
}

// migrate moves an identifier here, with the events that the program has not read. The
// file where it was is known: the descriptor that the command names too says no more.
func (f *File) migrate(c *command) (uint64, []byte, syscall.Errno) {
	i := f.host.ids[c.u32(8)]
	switch {
	case i == nil:
		return 0, nil, syscall.ENOENT
	case i.file.process.PID != f.process.PID:
		return 0, nil, syscall.EINVAL
	case c.out < 4:
		return 0, nil, syscall.ENOSPC
	}
	moved := i.file.take(func(p *pending) bool { return p.of == i })
	i.file = f
	for _, p := range moved {
		f.add(p)
	}
	return c.u64(0), binary.NativeEndian.AppendUint32(nil, i.reported), 0
}

// addresses binds an identifier, or resolves an address for it.
func (h *Host) addresses(c *command, i *ident) syscall.Errno {
	var src, dst netip.AddrPort
	var errno syscall.Errno
	switch c.op {
	case cmdBindIP:
		src, errno = sockaddr(c.body[8:36], -1)
	case cmdBind:
		src, errno = sockaddr(c.body[8:], int(c.u16(4)))
	case cmdResolveIP:
		if src, errno = sockaddr(c.body[:28], -1); errno == 0 {
			dst, errno = sockaddr(c.body[28:56], -1)
		}
	default:
		if src, errno = sockaddr(c.body[16:], int(c.u16(8))); errno == 0 {
			dst, errno = sockaddr(c.body[16+storageBytes:], int(c.u16(10)))
		}
	}
	switch {
	case errno != 0:
		return errno
	case c.op == cmdBindIP || c.op == cmdBind:
		if !src.IsValid() {
			return syscall.EAFNOSUPPORT
		}
		return h.bind(i, src)
	case !dst.IsValid():
		return syscall.EINVAL
	}
	return h.resolve(i, src, dst)
}

// resolve finds the way to an address.
func (h *Host) resolve(i *ident, src, dst netip.AddrPort) syscall.Errno {
	if i.state == idle {
		if !src.IsValid() {
			src = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
			if dst.Addr().Is6() {
				src = netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
			}
		}
		if errno := h.bind(i, src); errno != 0 {
			return errno
		}
	}
	if i.state != bound {
		return syscall.EINVAL
	}
	itself := h.isAny(dst.Addr())
	if itself {
		unspecified := netip.IPv6Unspecified()
		if dst.Addr().Is4() {
			unspecified = netip.IPv4Unspecified()
		}
		dst = netip.AddrPortFrom(unspecified, dst.Port())
	}
	dev, local, errno := h.source(i, dst.Addr())
	if errno != 0 {
		return errno
	}
	if itself {
		dst = netip.AddrPortFrom(local, dst.Port())
	}
	i.src, i.dst, i.dev, i.state = netip.AddrPortFrom(local, i.src.Port()), dst, dev, addrResolved
	i.mtu = dev.mtu
	if from, err := routes.Choose(dev.verbs, devicePort, routes.To{Peer: dst.Addr(), Index: dev.gidIndex(local)}); err == nil {
		i.mtu = from.MTU
	}
	i.report(event{kind: evAddrResolved})
	return 0
}

// notify takes an asynchronous event that the program has read: that packets have come on a
// queue pair whose RTU has not.
func (i *ident) notify(kind uint32) syscall.Errno {
	if i.cmID == 0 || kind != uint32(ib.EventCommEst) {
		return syscall.EINVAL
	}
	if i.dev.core.Established(i.dev.now(), i.cmID) != nil {
		if i.lived {
			return syscall.EISCONN
		}
		return syscall.EINVAL
	}
	return 0
}

// readOption reads the value of SET_OPTION, which lies in the program's memory.
func (f *File) readOption(c *command) (value uint32, errno syscall.Errno) {
	level, name, size := c.u32(12), c.u32(16), c.u32(20)
	want := uint32(1)
	switch {
	case level != 0:
		return 0, syscall.ENOSYS
	case name == optionReuseAddr, name == optionAFOnly:
		want = 4
	case name != optionTOS && name != optionAckTimeout:
		return 0, syscall.ENOSYS
	}
	var b [4]byte
	switch {
	case size != want:
		return 0, syscall.EINVAL
	case f.process.Memory.ReadMemory(b[:size], c.u64(0)) != nil:
		return 0, syscall.EFAULT
	case size == 1:
		return uint32(b[0]), 0
	}
	return binary.NativeEndian.Uint32(b[:]), 0
}

// setOption sets an option to the value that was read.
func (i *ident) setOption(name, value uint32) syscall.Errno {
	switch {
	case name == optionTOS:
		i.tos = uint8(value)
	case name == optionReuseAddr:
		i.reuse = value != 0
	case name == optionAckTimeout && value <= 31 && !i.isUD:
		i.ackTimeout = uint8(value)
	case name == optionAFOnly && i.state == idle:
		i.afOnly = value != 0
	default:
		return syscall.EINVAL
	}
	return 0
}
