package perf

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
)

// connection returns the ends of a connection between two applications of this
// process.
func connection(client, server verbs.Device) (a, b net.Conn, err error) {
	if verbs.Simulated(client) {
		a, b = newLink(client, server)
		return a, b, nil
	}
	return loopback()
}

// loopback returns the ends of a TCP connection within this machine.
func loopback() (a, b net.Conn, err error) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = l.Close() }()
	// The listener's queue holds the connection until it is accepted.
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	if b, err = l.Accept(); err != nil {
		return nil, nil, errors.Join(err, a.Close())
	}
	return a, b, nil
}

// link is one end of a connection between two applications of a simulation. It
// models the TCP connection that two hosts have besides their RDMA devices. A read
// waits in simulated time, so that nothing depends on which goroutine the operating
// system wakes first.
type link struct {
	dev      verbs.Device
	in, out  *mailbox
	deadline time.Duration // of the device's time; 0 for none
}

// mailbox holds what was written and not yet read. Only one application of a
// simulation runs at a time, so it needs no lock.
type mailbox struct {
	bytes  []byte
	closed bool
}

// newLink returns the ends of a link.
func newLink(a, b verbs.Device) (net.Conn, net.Conn) {
	x, y := &mailbox{}, &mailbox{}
	return &link{dev: a, in: x, out: y}, &link{dev: b, in: y, out: x}
}

// A reader looks again after linkDelay, then after twice as long, up to linkMost.
const (
	linkDelay = time.Microsecond
	linkMost  = 128 * time.Microsecond
)

func (l *link) Read(b []byte) (int, error) {
	for wait := linkDelay; len(l.in.bytes) == 0; wait = min(2*wait, linkMost) {
		switch {
		case l.in.closed:
			return 0, io.EOF
		case l.deadline > 0 && l.dev.Now() >= l.deadline:
			return 0, os.ErrDeadlineExceeded
		}
		verbs.Sleep(l.dev, wait)
	}
	n := copy(b, l.in.bytes)
	l.in.bytes = l.in.bytes[n:]
	return n, nil
}

func (l *link) Write(b []byte) (int, error) {
	if l.out.closed {
		return 0, io.ErrClosedPipe
	}
	l.out.bytes = append(l.out.bytes, b...)
	return len(b), nil
}

func (l *link) Close() error {
	l.in.closed, l.out.closed = true, true
	return nil
}

// Gone reports whether the other end has closed.
func (l *link) Gone() bool { return l.in.closed }

// Pending reports whether something can be read.
func (l *link) Pending() bool { return len(l.in.bytes) > 0 }

// CloseWrite closes one direction, as that of a TCP connection.
func (l *link) CloseWrite() error {
	l.out.closed = true
	return nil
}

// SetReadDeadline takes how far the deadline is from now as simulated time.
func (l *link) SetReadDeadline(t time.Time) error {
	l.deadline = l.dev.Now() + time.Until(t)
	return nil
}

func (l *link) SetWriteDeadline(time.Time) error { return nil }

func (l *link) SetDeadline(t time.Time) error { return l.SetReadDeadline(t) }

func (l *link) LocalAddr() net.Addr  { return linkAddr(l.dev.Name()) }
func (l *link) RemoteAddr() net.Addr { return linkAddr("peer of " + l.dev.Name()) }

// linkAddr is the address of an end: its device's name.
type linkAddr string

func (linkAddr) Network() string  { return "sim" }
func (a linkAddr) String() string { return string(a) }
