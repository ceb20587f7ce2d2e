package netif

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A Watch follows an interface from one state to the next.
type Watch struct {
	handle  *Handle
	fd      int // of netlink's groups
	event   int // an eventfd that Stop writes to
	stopped atomic.Bool
	buf     []byte

	facts Facts
	queue []Facts // what the last messages said, one after the other
}

// ErrStopped is what Next returns after Stop.
var ErrStopped = errors.New("watch stopped")

const (
	watchBytes = 1 << 20 // requested of the kernel for messages that wait
	readBytes  = 64 << 10
)

// NewWatch follows the interface of an index in the calling thread's network
// namespace.
func NewWatch(index int) (w *Watch, err error) {
	w = &Watch{fd: -1, event: -1, buf: make([]byte, readBytes)}
	defer func() {
		if err != nil {
			w.Close()
			w = nil
		}
	}()
	if w.handle, err = Open(); err != nil {
		return w, err
	}
	if w.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return w, os.NewSyscallError("eventfd", err)
	}
	if w.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE); err != nil {
		return w, os.NewSyscallError("netlink", err)
	}
	if unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, watchBytes) != nil {
		_ = unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, watchBytes)
	}
	const groups = 1<<(unix.RTNLGRP_LINK-1) | 1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1)
	if err = unix.Bind(w.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		return w, os.NewSyscallError("bind", err)
	}
	// What changes from here on has a message, so nothing is missed between the two.
	w.facts, err = w.handle.ByIndex(index)
	return w, err
}

// Facts returns Next's last facts, and before the first the facts at the start.
func (w *Watch) Facts() Facts { return w.facts }

// Next waits until something changes, and returns the interface's new facts. States
// that follow one another quickly are returned one by one, unless the kernel had no
// room for its messages: then the present state is read. A state in which the
// interface is gone is the last: after it Next waits for Stop.
func (w *Watch) Next() (Facts, error) {
	for {
		for len(w.queue) > 0 {
			f := w.queue[0]
			w.queue = w.queue[1:]
			if !w.facts.Gone && !f.Equal(&w.facts) {
				w.facts = f
				return f, nil
			}
		}
		if w.stopped.Load() {
			return w.facts, ErrStopped
		}
		fds := []unix.PollFd{{Fd: int32(w.event), Events: unix.POLLIN}, {Fd: int32(w.fd), Events: unix.POLLIN}}
		if w.facts.Gone {
			fds = fds[:1]
		}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return w.facts, os.NewSyscallError("poll", err)
		}
		if w.facts.Gone || w.stopped.Load() {
			continue
		}
		if err := w.receive(); err != nil {
			return w.facts, err
		}
	}
}

// Stop makes Next return ErrStopped. Any goroutine may call it, before Close.
func (w *Watch) Stop() {
	w.stopped.Store(true)
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(w.event, one[:])
}

// Close frees what the Watch holds. Next must not be running.
func (w *Watch) Close() {
	for _, fd := range []int{w.fd, w.event} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if w.handle != nil {
		w.handle.Close()
	}
}

// receive takes the messages that are there.
func (w *Watch) receive() error {
	for {
		n, from, err := unix.Recvfrom(w.fd, w.buf, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS):
			return w.reread()
		case err != nil:
			return os.NewSyscallError("recvfrom", err)
		default:
			if k, ok := from.(*unix.SockaddrNetlink); ok && k.Pid == 0 { // the kernel's
				w.take(w.buf[:n])
			}
		}
	}
}

// reread reads the present state, after messages were lost. Those that still wait are
// older than what was lost, and are dropped first.
func (w *Watch) reread() error {
	for {
		_, _, err := unix.Recvfrom(w.fd, w.buf, 0)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOBUFS) {
			return os.NewSyscallError("recvfrom", err)
		}
	}
	f, err := w.handle.ByIndex(w.facts.Index)
	if errors.Is(err, os.ErrNotExist) {
		f, err = w.last(), nil
		f.Gone = true
	}
	w.queue = append(w.queue, f)
	return err
}

// last returns the newest facts.
func (w *Watch) last() Facts {
	f := w.facts
	if n := len(w.queue); n > 0 {
		f = w.queue[n-1]
	}
	f.Addrs = slices.Clone(f.Addrs)
	return f
}

// take applies messages. What can't be parsed says nothing.
func (w *Watch) take(b []byte) {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return
	}
	for i := range messages {
		m := &messages[i]
		switch m.Header.Type {
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			w.takeLink(m)
		case unix.RTM_NEWADDR, unix.RTM_DELADDR:
			w.takeAddr(m)
		}
	}
}

func (w *Watch) takeLink(m *syscall.NetlinkMessage) {
	if len(m.Data) < unix.SizeofIfInfomsg {
		return
	}
	// A bridge tells of its ports by messages of its own family.
	if about := nl.DeserializeIfInfomsg(m.Data); about.Family != unix.AF_UNSPEC || int(about.Index) != w.facts.Index {
		return
	}
	f := w.last()
	if m.Header.Type == unix.RTM_DELLINK {
		f.Gone, f.Up, f.Carrier = true, false, false
		w.queue = append(w.queue, f)
		return
	}
	l, err := netlink.LinkDeserialize((*unix.NlMsghdr)(&m.Header), m.Data)
	if err != nil {
		return
	}
	w.handle.link(&f, l.Attrs())
	w.queue = append(w.queue, f)
}

func (w *Watch) takeAddr(m *syscall.NetlinkMessage) {
	if len(m.Data) < unix.SizeofIfAddrmsg {
		return
	}
	about := nl.DeserializeIfAddrmsg(m.Data)
	if int(about.Index) != w.facts.Index {
		return
	}
	attrs, err := nl.ParseRouteAttr(m.Data[about.Len():])
	if err != nil {
		return
	}
	// IFA_LOCAL is the interface's own; IFA_ADDRESS is the peer's where there is one, and
	// the own where there is no IFA_LOCAL, as for IPv6.
	var own, peer netip.Addr
	flags := uint32(about.Flags)
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.IFA_LOCAL:
			own, _ = netip.AddrFromSlice(a.Value)
		case unix.IFA_ADDRESS:
			peer, _ = netip.AddrFromSlice(a.Value)
		case unix.IFA_FLAGS:
			if len(a.Value) >= 4 {
				flags = binary.NativeEndian.Uint32(a.Value)
			}
		}
	}
	bits := int(about.Prefixlen)
	switch {
	case !own.IsValid():
		own = peer
	case peer.IsValid() && peer != own:
		bits = own.BitLen()
	}
	if !own.IsValid() {
		return
	}
	own = own.Unmap()
	f := w.last()
	at := slices.IndexFunc(f.Addrs, func(a Address) bool { return a.Prefix == netip.PrefixFrom(own, bits) })
	switch {
	case m.Header.Type == unix.RTM_DELADDR && at >= 0:
		f.Addrs = slices.Delete(f.Addrs, at, at+1)
	case m.Header.Type == unix.RTM_DELADDR:
		return
	case at >= 0:
		f.Addrs[at].Flags = flags
	default:
		f.Addrs = append(f.Addrs, Address{netip.PrefixFrom(own, bits), flags})
	}
	w.queue = append(w.queue, f)
}
