package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
	"github.com/sluice-rdma/sluice/verbs/route"
)

// Dial connects to the end that listens at a TCP address such as "192.0.2.7:18515", with
// DefaultConfig. See Config.Dial.
func Dial(ctx context.Context, dev verbs.Device, address string, buf []byte) (*Conn, error) {
	return DefaultConfig().Dial(ctx, dev, address, buf)
}

// Dial connects to the end that listens at a TCP address, until ctx is done. buf is
// registered for the other end: it is the device's until Close, and must not be empty.
// The device stays the caller's.
func (cfg Config) Dial(ctx context.Context, dev verbs.Device, address string, buf []byte) (*Conn, error) {
	var tcp net.Conn
	var err error
	verbs.Blocking(dev, func() { tcp, err = new(net.Dialer).DialContext(ctx, "tcp", address) })
	if err != nil {
		return nil, &verbs.OpError{Op: "dial", Object: address, Err: err}
	}
	return cfg.connect(ctx, dev, tcp, true, buf)
}

// Listener takes the connections of ends that dial.
type Listener struct{ tcp *net.TCPListener }

// Listen listens on a TCP address such as ":18515"; port 0 takes a free one.
func Listen(ctx context.Context, address string) (*Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &verbs.OpError{Op: "listen", Object: address, Err: err}
	}
	return &Listener{l.(*net.TCPListener)}, nil
}

// Addr is the TCP address that others dial.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// Close stops listening; an Accept that waits fails. Connections stay.
func (l *Listener) Close() error { return l.tcp.Close() }

// Accept waits for the next end and connects it, with DefaultConfig. See Config.Accept.
func (l *Listener) Accept(ctx context.Context, dev verbs.Device, buf []byte) (*Conn, error) {
	return DefaultConfig().Accept(ctx, l, dev, buf)
}

// Accept waits for the next end that dials and connects it, until ctx is done. It has the
// buffer as Config.Dial has it. One goroutine at a time may call it for a listener.
func (cfg Config) Accept(ctx context.Context, l *Listener, dev verbs.Device, buf []byte) (*Conn, error) {
	var tcp net.Conn
	var err error
	verbs.Blocking(dev, func() {
		if err = l.tcp.SetDeadline(time.Time{}); err != nil {
			return
		}
		defer onDone(ctx, func() { _ = l.tcp.SetDeadline(past) })()
		tcp, err = l.tcp.Accept()
	})
	switch {
	case err != nil && ctx.Err() != nil:
		err = ctx.Err()
		fallthrough
	case err != nil:
		return nil, &verbs.OpError{Op: "accept", Object: l.Addr().String(), Err: err}
	}
	return cfg.connect(ctx, dev, tcp, false, buf)
}

// past is a deadline that ends what waits.
var past = time.Unix(1, 0)

// onDone has f called when ctx is done, until the function that it returns is called. Of f
// nothing runs after that.
func onDone(ctx context.Context, f func()) (stop func()) {
	ended := make(chan struct{})
	undo := context.AfterFunc(ctx, func() { f(); close(ended) })
	return func() {
		if !undo() {
			<-ended
		}
	}
}

// connect makes an end's objects and connects them over a TCP connection, which it closes if
// it fails.
func (cfg Config) connect(ctx context.Context, dev verbs.Device, tcp net.Conn, client bool, buf []byte) (*Conn, error) {
	c := &Conn{Device: dev, Buffer: buf, tcp: tcp}
	err := cfg.make(c)
	if err == nil {
		err = cfg.join(ctx, c, client)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// make makes the objects.
func (cfg Config) make(c *Conn) (err error) {
	dev := c.Device
	if c.PD, err = dev.AllocPD(); err != nil {
		return err
	}
	if c.MR, err = c.PD.RegMR(c.Buffer, cfg.RC.Access|ib.AccessLocalWrite); err != nil {
		return err
	}
	if c.SendCQ, err = dev.CreateCQ(verbs.CQInitAttr{CQE: max(cfg.Cap.MaxSendWR, 1)}); err != nil {
		return err
	}
	if c.RecvCQ, err = dev.CreateCQ(verbs.CQInitAttr{CQE: max(cfg.Cap.MaxRecvWR, 1)}); err != nil {
		return err
	}
	c.QP, err = c.PD.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: c.SendCQ, RecvCQ: c.RecvCQ, Cap: cfg.Cap})
	return err
}

// join connects the queue pair and swaps what the buffers are.
func (cfg Config) join(ctx context.Context, c *Conn, client bool) error {
	dev, p := c.Device, cfg.RC
	to := route.Over(c.tcp)
	to.Index = cfg.GID
	from, err := route.Choose(dev, p.Port, to)
	if err != nil {
		return err
	}
	port, err := dev.Port(p.Port)
	if err != nil {
		return err
	}
	c.longest = int(port.MaxMsgSize)
	attr := dev.Attr()
	p.MaxRdAtomic = uint8(min(int(p.MaxRdAtomic), attr.MaxQPInitRdAtom))
	p.MaxDestRdAtomic = uint8(min(int(p.MaxDestRdAtomic), attr.MaxQPRdAtom))
	if p.PathMTU == 0 {
		p.PathMTU = from.MTU
	}
	local := exchange.Dest{LID: port.LID, QPN: c.QP.Num(), PSN: firstPSN(dev, c.QP), RKey: c.MR.RKey(), VAddr: c.MR.Addr(), GID: from.GID}
	p.SGIDIndex = from.Index
	ready := func() error {
		if cfg.Ready == nil {
			return nil
		}
		return cfg.Ready(c)
	}
	remote, err := exchange.New(outside{c.tcp, dev}, client, cfg.Timeout).ConnectRC(ctx, c.QP, local, p, ready)
	if err != nil {
		return err
	}
	c.Remote = Remote{Addr: remote.VAddr, RKey: remote.RKey}
	verbs.Blocking(dev, func() { c.Remote.Length, err = c.swapLength(ctx, cfg.Timeout) })
	return err
}

// swapLength tells the other end the length of the buffer, and learns that of its. Messages
// of package exchange have no room for it.
func (c *Conn) swapLength(ctx context.Context, timeout time.Duration) (int, error) {
	if timeout <= 0 {
		timeout = exchange.DefaultTimeout
	}
	fail := func(err error) (int, error) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return 0, verbs.Errorf("connect", c.tcp.RemoteAddr().String(), err, "the length of its buffer: is the other end of package peer?")
	}
	if err := c.tcp.SetDeadline(time.Now().Add(timeout)); err != nil {
		return fail(err)
	}
	defer onDone(ctx, func() { _ = c.tcp.SetDeadline(past) })()
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(len(c.Buffer)))
	if _, err := c.tcp.Write(b[:]); err != nil {
		return fail(err)
	}
	if _, err := io.ReadFull(c.tcp, b[:]); err != nil {
		return fail(err)
	}
	n := binary.BigEndian.Uint64(b[:])
	if n == 0 || n > 1<<62 {
		return fail(exchange.ErrProtocol)
	}
	return int(n), nil
}

// firstPSN is hard to guess on a real network, and the same in every simulated run.
func firstPSN(dev verbs.Device, qp verbs.QP) uint32 {
	if verbs.Simulated(dev) {
		return qp.Num()
	}
	return exchange.RandomPSN()
}

// outside is a connection that waits outside a device's simulated time.
type outside struct {
	net.Conn
	dev verbs.Device
}

func (o outside) Read(b []byte) (n int, err error) {
	verbs.Blocking(o.dev, func() { n, err = o.Conn.Read(b) })
	return n, err
}

func (o outside) Write(b []byte) (n int, err error) {
	verbs.Blocking(o.dev, func() { n, err = o.Conn.Write(b) })
	return n, err
}
