package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
)

// DefaultPort is the TCP port of perftest's programs.
const DefaultPort = 18515

// DefaultTimeout is the most time for one message. perftest fills its buffers
// between two messages, which on a slow machine takes seconds.
const DefaultTimeout = time.Minute

// ErrProtocol is the cause of an error about bytes that are not perftest's.
var ErrProtocol = errors.New("not what perftest sends")

// Conn is one end of an exchange.
type Conn struct {
	c       net.Conn
	client  bool
	binary  bool // addresses are binary, and neither end sends "done"
	timeout time.Duration
	ctx     context.Context // ends messages

	renewals, asked uint32 // how often this end has called Renew, and the other one
	ahead           []byte // an address message that Asked has read; nil for none
}

// New returns an end over a connection that exists. The client is the end that
// connected. Each message may take until timeout; 0 takes DefaultTimeout.
func New(c net.Conn, client bool, timeout time.Duration) *Conn {
	e := &Conn{c: c, client: client, ctx: context.Background()}
	e.SetTimeout(timeout)
	return e
}

// NewMessages is New over a connection of rdma_cm, which perftest uses with its
// flags -R and -z in place of TCP. Each write of c is one message, and each read
// starts at a message. Addresses are binary, binaryDestSize bytes, and neither end
// sends "done".
func NewMessages(c net.Conn, client bool, timeout time.Duration) *Conn {
	e := New(c, client, timeout)
	e.binary = true
	return e
}

// Dial connects to a server. A host without a port gets DefaultPort.
func Dial(ctx context.Context, host string, timeout time.Duration) (*Conn, error) {
	address := host
	if _, _, err := net.SplitHostPort(host); err != nil {
		address = net.JoinHostPort(host, strconv.Itoa(DefaultPort))
	}
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	d := net.Dialer{Timeout: timeout}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, &verbs.OpError{Op: "exchange", Object: address, Err: err}
	}
	return New(c, true, timeout), nil
}

// Listener waits for clients.
type Listener struct{ l net.Listener }

// Listen listens on a TCP address such as ":18515".
func Listen(ctx context.Context, address string) (*Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &verbs.OpError{Op: "exchange", Object: address, Err: err}
	}
	return &Listener{l}, nil
}

// Addr is the address that it listens on.
func (l *Listener) Addr() net.Addr { return l.l.Addr() }

// Accept waits for a client until ctx is done, whose error it then returns. Each message
// of the connection may take until timeout, as with New. One goroutine at a time may call
// it with a context that can be done.
func (l *Listener) Accept(ctx context.Context, timeout time.Duration) (*Conn, error) {
	c, err := l.accept(ctx)
	if err != nil {
		return nil, &verbs.OpError{Op: "exchange", Object: l.l.Addr().String(), Err: err}
	}
	return New(c, false, timeout), nil
}

func (l *Listener) accept(ctx context.Context) (net.Conn, error) {
	if ctx.Done() == nil {
		return l.l.Accept()
	}
	// A listener of the net package has deadlines.
	limited := l.l.(interface{ SetDeadline(time.Time) error })
	if err := limited.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = limited.SetDeadline(time.Unix(1, 0)) // it fails if the listener is closed, and so does Accept
		close(ended)
	})
	c, err := l.l.Accept()
	if !stop() {
		<-ended // the next Accept takes the deadline off
		if err != nil {
			err = ctx.Err()
		}
	}
	return c, err
}

// Close stops listening; an Accept that waits fails.
func (l *Listener) Close() error { return l.l.Close() }

// Client reports whether this end is the client.
func (c *Conn) Client() bool { return c.client }

// RemoteAddr is the other end's address.
func (c *Conn) RemoteAddr() net.Addr { return c.c.RemoteAddr() }

// LocalAddr is this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.c.LocalAddr() }

// SetTimeout sets how long a message may take from now on; 0 takes DefaultTimeout.
// An end that waits for the other to finish its test needs more.
func (c *Conn) SetTimeout(d time.Duration) {
	if d <= 0 {
		d = DefaultTimeout
	}
	c.timeout = d
}

// Timeout returns the most time for a message.
func (c *Conn) Timeout() time.Duration { return c.timeout }

// until has ctx end the messages that follow: they fail with its error. The connection is
// of no use then. stop undoes it.
func (c *Conn) until(ctx context.Context) (stop func()) {
	c.ctx = ctx
	undo := context.AfterFunc(ctx, func() { _ = c.c.SetDeadline(time.Unix(1, 0)) })
	return func() {
		undo()
		c.ctx = context.Background()
	}
}

// Close ends the exchange.
func (c *Conn) Close() error { return c.c.Close() }

// swap sends out and receives the other end's message. take reads and checks that
// message before a server answers, so that an end that is not perftest is reported
// even if it did not wait for the answer. perftest reads a message with one call
// and does not read the rest, so swap writes each message with one call.
func (c *Conn) swap(what string, out []byte, take func() error) error {
	if c.client {
		if err := c.write(what, out); err != nil {
			return err
		}
		return take()
	}
	if err := take(); err != nil {
		return err
	}
	return c.write(what, out)
}

func (c *Conn) write(what string, b []byte) error {
	if err := c.c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return c.errorf(what, err, "")
	}
	// The deadline may have come after the one that the context set.
	if err := c.ctx.Err(); err != nil {
		return c.errorf(what, err, "")
	}
	if _, err := c.c.Write(b); err != nil {
		return c.failed(what, "send", err, 0, len(b))
	}
	return nil
}

func (c *Conn) read(what string, b []byte) error {
	if err := c.c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return c.errorf(what, err, "")
	}
	if err := c.ctx.Err(); err != nil {
		return c.errorf(what, err, "")
	}
	if n, err := io.ReadFull(c.c, b); err != nil {
		return c.failed(what, "receive", err, n, len(b))
	}
	return nil
}

func (c *Conn) failed(what, op string, err error, n, want int) error {
	switch {
	case c.ctx.Err() != nil:
		return c.errorf(what, c.ctx.Err(), "")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return c.errorf(what, verbs.ErrTimeout, "%s: %d of %d bytes in %v; is the other end the same test, with the same flags?", op, n, want, c.timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return c.errorf(what, err, "the other end closed the connection after %d of %d bytes; see what it says", n, want)
	}
	return c.errorf(what, err, "%s", op)
}

// errorf returns an error about one kind of message.
func (c *Conn) errorf(what string, cause error, format string, args ...any) error {
	peer := "peer"
	if a := c.c.RemoteAddr(); a != nil {
		peer = a.String()
	}
	return verbs.Errorf("exchange", what+" with "+peer, cause, format, args...)
}

// Finish is the end of an exchange: a last barrier and the message "done". It
// closes the connection.
func (c *Conn) Finish(local Dest) error {
	_, err := c.Swap(local)
	if err == nil && !c.binary {
		// Nobody needs it, and the other end may be gone. Taking its "done" out of
		// the socket keeps our close from resetting the connection under it.
		c.timeout = min(c.timeout, time.Second)
		_ = c.swap("done", []byte("done\x00"), func() error { return c.read("done", make([]byte, 5)) })
	}
	return errors.Join(err, c.Close())
}

// Gone reports whether the other end has closed the connection, or is no more, and all
// that it had sent is read. It does not wait.
func (c *Conn) Gone() bool {
	switch conn := c.c.(type) {
	case interface{ Gone() bool }:
		return conn.Gone() // a connection that may not be read from elsewhere
	case *unread:
		return len(conn.first) == 0 && closed(conn.TCPConn)
	case syscall.Conn:
		return closed(conn)
	}
	return false
}

// Watch returns a function that reports whether the other end has closed the
// connection. From now on nothing but Close may be called.
func (c *Conn) Watch() (gone func() bool) {
	if g, ok := c.c.(interface{ Gone() bool }); ok {
		return g.Gone // a connection that may not be read from elsewhere
	}
	var closed atomic.Bool
	_ = c.c.SetReadDeadline(time.Time{}) // a connection without deadlines has none to take off
	go func() {
		_, _ = c.c.Read(make([]byte, 1))
		closed.Store(true)
	}()
	return closed.Load
}

// Leave ends an exchange that has no last barrier, such as write_lat's. It signals
// that this end is done, waits until the other is, for leaveTime at most, and
// closes the connection. The queue pair must stay until then: the acknowledgement
// of the other end's last message may not have left, and in a test by time the
// other end may still be sending.
func (c *Conn) Leave() error {
	if half, ok := c.c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // if it fails, closing says the same later
	}
	c.timeout = min(c.timeout, leaveTime)
	_ = c.read("end", make([]byte, 1)) // whatever comes, or does not, it is over
	return c.Close()
}

// leaveTime bounds the wait of Leave.
const leaveTime = 2 * time.Second

// quote shows the beginning of what was received instead.
func quote(b []byte) string {
	const most = 64
	if len(b) > most {
		return fmt.Sprintf("%q...", b[:most])
	}
	return fmt.Sprintf("%q", b)
}
