package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
)

// DialCM runs the client of a test whose connections rdma_cm makes, as perftest's
// do with its flag -R: one for the exchange, and one for each queue pair.
func DialCM(ctx context.Context, dev verbs.Device, server netip.AddrPort, cfg Config) (*Result, error) {
	dial := func(ctx context.Context, qp verbs.QP, p rdmacm.Params) (*rdmacm.Conn, error) {
		return rdmacm.Dial(ctx, dev, server, qp, p)
	}
	return runCM(ctx, dev, true, cfg, dial, func(ctx context.Context, qp verbs.QP, p rdmacm.Params) (*rdmacm.Conn, error) {
		// perftest listens again for these, and may not be ready yet.
		for try := 1; ; try++ {
			c, err := dial(ctx, qp, p)
			var refused *rdmacm.RejectError
			if err == nil || !errors.As(err, &refused) || try == 20 {
				return c, err
			}
			verbs.Sleep(dev, 100*time.Millisecond)
			if err := errors.Join(qp.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState), rdmacm.Init(qp, p)); err != nil {
				return nil, err
			}
		}
	})
}

// AcceptCM runs the server of such a test. The first connection that the listener
// gets is the exchange's.
func AcceptCM(ctx context.Context, l *rdmacm.Listener, dev verbs.Device, cfg Config) (*Result, error) {
	accept := func(ctx context.Context, qp verbs.QP, p rdmacm.Params) (*rdmacm.Conn, error) {
		r, err := l.Accept(ctx)
		if err != nil {
			return nil, err
		}
		return r.Accept(ctx, qp, p)
	}
	return runCM(ctx, dev, false, cfg, accept, accept)
}

type connector = func(context.Context, verbs.QP, rdmacm.Params) (*rdmacm.Conn, error)

func runCM(ctx context.Context, dev verbs.Device, client bool, cfg Config, first, further connector) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Service != ib.RC {
		return nil, fmt.Errorf("%v: rdma_cm connects RC queue pairs here, not %v", cfg.Test, cfg.Service)
	}
	if cfg.Reconnect > 0 {
		return nil, fmt.Errorf("%v: reconnect needs the exchange to be over TCP, not rdma_cm, whose connections are lost with the others: leave -R out", cfg.Test)
	}
	p := Test{Verb: Send}.cmParams(0)
	p.PathMTU = cfg.MTU
	if client && cfg.GID >= 0 {
		gid, err := dev.GID(cfg.Port, cfg.GID)
		if err != nil {
			return nil, err
		}
		p.LocalAddr = gid
	}
	l, err := newCMLink(ctx, dev, p, first)
	if err != nil {
		return nil, err
	}
	e := newEnd(dev, exchange.NewMessages(l, client, 0), cfg)
	e.connectCM = further
	return e.runAll()
}

// connectAllCM connects the queue pairs by rdma_cm, between two barriers whose
// content is not used.
func (e *end) connectAllCM() error {
	if err := e.barrier(); err != nil {
		return err
	}
	p := e.cfg.Test.cmParams(e.outReads)
	p.PathMTU, p.Timeout, p.SL, p.TrafficClass = e.greeting.MTU, e.cfg.QPTimeout, e.cfg.SL, e.cfg.TClass
	p.LocalAddr = e.from.GID
	if !e.client || e.cfg.GID < 0 {
		p.LocalAddr = netip.Addr{} // by the other end's address
	}
	for _, qp := range e.qps {
		ctx, cancel := context.WithTimeout(context.Background(), e.conn.Timeout())
		err := rdmacm.Init(qp, p)
		if err == nil {
			var c *rdmacm.Conn
			if c, err = e.connectCM(ctx, qp, p); err == nil {
				e.conns = append(e.conns, c)
			}
		}
		cancel()
		if err != nil {
			return err
		}
	}
	return e.barrier()
}

// cmParams are what perftest asks of rdma_cm: reads and atomics only where the test
// has them.
func (t Test) cmParams(outReads int) rdmacm.Params {
	p := rdmacm.DefaultParams()
	p.Access = t.access()
	p.ResponderResources, p.InitiatorDepth = 0, 0
	if t.Verb == Read || t.Verb == Atomic {
		p.ResponderResources, p.InitiatorDepth = uint8(outReads), uint8(outReads)
	}
	return p
}

// part ends connections, without waiting long for the other end's answers.
func part(conns []*rdmacm.Conn) {
	for _, c := range conns {
		c.Disconnect()
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	for _, c := range conns {
		_ = c.Close(ctx) // an end that does not answer has left as well
	}
}

// cmLink is the exchange's connection: each write is a message by Send, and a read
// takes what the last message has left. Its deadlines are for reading and waiting
// together.
type cmLink struct {
	dev            verbs.Device
	pd             verbs.PD
	mr             verbs.MR
	channel        verbs.CompChannel
	sendCQ, recvCQ verbs.CQ
	qp             verbs.QP
	conn           *rdmacm.Conn
	buf            []byte // what is sent, and what is received
	in             []byte // received and not read
	read, write    time.Time
}

// cmMessage is room for the longest message.
const cmMessage = 256

func newCMLink(ctx context.Context, dev verbs.Device, p rdmacm.Params, connect connector) (*cmLink, error) {
	l := &cmLink{dev: dev, buf: make([]byte, 2*cmMessage)}
	if err := l.open(ctx, p, connect); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *cmLink) open(ctx context.Context, p rdmacm.Params, connect connector) (err error) {
	if l.pd, err = l.dev.AllocPD(); err != nil {
		return err
	}
	if l.mr, err = l.pd.RegMR(l.buf, ib.AccessLocalWrite); err != nil {
		return err
	}
	if l.channel, err = l.dev.CreateCompChannel(); err != nil {
		return err
	}
	if l.sendCQ, err = l.dev.CreateCQ(verbs.CQInitAttr{CQE: 4, Channel: l.channel}); err != nil {
		return err
	}
	if l.recvCQ, err = l.dev.CreateCQ(verbs.CQInitAttr{CQE: 4, Channel: l.channel}); err != nil {
		return err
	}
	if l.qp, err = l.pd.CreateQP(verbs.QPInitAttr{
		Type: ib.RC, SendCQ: l.sendCQ, RecvCQ: l.recvCQ,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
	}); err != nil {
		return err
	}
	if err = rdmacm.Init(l.qp, p); err != nil {
		return err
	}
	if err = l.post(); err != nil {
		return err
	}
	l.conn, err = connect(ctx, l.qp, p)
	return err
}

// post posts the receive of the next message.
func (l *cmLink) post() error {
	_, err := l.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(l.mr, cmMessage, cmMessage)}}})
	return err
}

// await waits for one completion.
func (l *cmLink) await(cq verbs.CQ, deadline time.Time) (verbs.WC, error) {
	const slice = 100 * time.Millisecond // between looks at the connection
	for {
		if err := cq.ReqNotify(false); err != nil {
			return verbs.WC{}, err
		}
		// Asked before the poll: what arrived before the connection ended is there by then.
		gone := l.conn.Err() != nil
		var wc [1]verbs.WC
		switch n, err := cq.Poll(wc[:]); {
		case err != nil:
			return wc[0], err
		case n > 0 && wc[0].Status == ib.WCWRFlushErr:
			return wc[0], io.EOF
		case n > 0 && wc[0].Status != ib.WCSuccess:
			return wc[0], verbs.Errorf("poll_cq", fmt.Sprintf("qp %#x of %s", l.qp.Num(), l.dev.Name()), &verbs.StatusError{WC: wc[0]}, "")
		case n > 0:
			return wc[0], nil
		case gone:
			return wc[0], io.EOF
		case !deadline.IsZero() && !time.Now().Before(deadline):
			return wc[0], os.ErrDeadlineExceeded
		}
		if _, err := l.channel.Wait(context.Background(), slice); err != nil && !errors.Is(err, verbs.ErrTimeout) {
			return wc[0], err
		}
	}
}

func (l *cmLink) Read(b []byte) (int, error) {
	if len(l.in) == 0 {
		wc, err := l.await(l.recvCQ, l.read)
		if err != nil {
			return 0, err
		}
		l.in = append(l.in[:0], l.buf[cmMessage:cmMessage+int(wc.ByteLen)]...)
		if err := l.post(); err != nil {
			return 0, err
		}
	}
	n := copy(b, l.in)
	l.in = l.in[n:]
	return n, nil
}

func (l *cmLink) Write(b []byte) (int, error) {
	n := copy(l.buf[:cmMessage], b)
	if n < len(b) {
		return 0, fmt.Errorf("a message of %d bytes: the most is %d", len(b), cmMessage)
	}
	if _, err := l.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(l.mr, 0, n)}}}); err != nil {
		return 0, err
	}
	if _, err := l.await(l.sendCQ, l.write); err != nil {
		return 0, err
	}
	return n, nil
}

// Close parts and gives everything back. A second call does nothing.
func (l *cmLink) Close() error {
	if l.conn != nil {
		part([]*rdmacm.Conn{l.conn})
	}
	var errs []error
	for _, o := range []interface{ Close() error }{l.qp, l.recvCQ, l.sendCQ, l.channel} {
		if o != nil {
			errs = append(errs, o.Close())
		}
	}
	if l.mr != nil {
		errs = append(errs, l.mr.Close())
	}
	if l.pd != nil {
		errs = append(errs, l.pd.Close())
	}
	*l = cmLink{dev: l.dev}
	return errors.Join(errs...)
}

// Gone reports whether the connection has ended.
func (l *cmLink) Gone() bool { return l.conn == nil || l.conn.Err() != nil }

func (l *cmLink) SetReadDeadline(t time.Time) error {
	l.read = t
	return nil
}

func (l *cmLink) SetWriteDeadline(t time.Time) error {
	l.write = t
	return nil
}

func (l *cmLink) SetDeadline(t time.Time) error {
	l.read, l.write = t, t
	return nil
}

func (l *cmLink) LocalAddr() net.Addr {
	if l.conn == nil {
		return nil
	}
	return net.TCPAddrFromAddrPort(l.conn.LocalAddr())
}

func (l *cmLink) RemoteAddr() net.Addr {
	if l.conn == nil {
		return nil
	}
	return net.TCPAddrFromAddrPort(l.conn.RemoteAddr())
}
