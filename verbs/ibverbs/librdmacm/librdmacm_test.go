//go:build ibverbs

package librdmacm

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/ibverbs"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
)

// The kernel connects a device to itself: give one, and its address.
var (
	device  = flag.String("device", "", "test on this device, which connects to itself")
	address = flag.String("address", "", "one of its addresses")
)

// host is the device with what a queue pair needs.
type host struct {
	t    testing.TB
	dev  verbs.Device
	addr netip.Addr
	pd   verbs.PD
	cq   verbs.CQ
}

// open opens the device, and sees when the test ends that nothing is left of
// librdmacm's.
func open(t testing.TB) *host {
	t.Helper()
	if *device == "" {
		t.Skip("no -device was given")
	}
	dev, err := verbs.Open(*device)
	check(t, err)
	t.Cleanup(func() {
		check(t, dev.Close())
		// An id is destroyed as its connection ends, which is soon.
		for start := time.Now(); ; time.Sleep(10 * time.Millisecond) { //nolint:forbidigo // until the kernel is done
			channels.Lock()
			ch := channels.current
			channels.Unlock()
			if ch == nil {
				return
			}
			if time.Since(start) > 30*time.Second {
				t.Errorf("%d ids are left", ch.users)
				return
			}
		}
	})
	h := &host{t: t, dev: dev, addr: netip.MustParseAddr(*address)}
	h.pd, err = dev.AllocPD()
	check(t, err)
	h.cq, err = dev.CreateCQ(verbs.CQInitAttr{CQE: 64})
	check(t, err)
	t.Cleanup(func() { check(t, errors.Join(h.cq.Close(), h.pd.Close())) })
	return h
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *host) qp() verbs.QP {
	h.t.Helper()
	qp, err := h.pd.CreateQP(verbs.QPInitAttr{
		Type: ib.RC, SendCQ: h.cq, RecvCQ: h.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 64},
	})
	check(h.t, err)
	h.t.Cleanup(func() { check(h.t, qp.Close()) })
	return qp
}

func patience(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// prefix cuts the zeros off that private data come with.
func prefix(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }

func (h *host) listen(port uint16) *rdmacm.Listener {
	h.t.Helper()
	l, err := rdmacm.Listen(h.dev, netip.AddrPortFrom(h.addr, port))
	check(h.t, err)
	return l
}

// pair makes a connection of the device with itself.
func (h *host) pair(ctx context.Context, l *rdmacm.Listener, dial, accept rdmacm.Params) (c, s *rdmacm.Conn) {
	h.t.Helper()
	cqp, sqp := h.qp(), h.qp()
	type result struct {
		c   *rdmacm.Conn
		err error
	}
	accepted := make(chan result, 1)
	go func() {
		r, err := l.Accept(ctx)
		if err != nil {
			accepted <- result{nil, err}
			return
		}
		if prefix(r.Private()) != prefix(dial.Private) || r.RemoteAddr().Addr() != h.addr || r.LocalAddr() != l.Addr() {
			h.t.Errorf("request with %q from %v to %v", prefix(r.Private()), r.RemoteAddr(), r.LocalAddr())
		}
		c, err := r.Accept(ctx, sqp, accept)
		accepted <- result{c, err}
	}()
	c, err := rdmacm.Dial(ctx, h.dev, l.Addr(), cqp, dial)
	check(h.t, err)
	got := <-accepted
	check(h.t, got.err)
	return c, got.c
}

func TestConnectTalkDisconnect(t *testing.T) {
	h := open(t)
	ctx := patience(t)
	l := h.listen(7301)
	dial, accept := rdmacm.DefaultParams(), rdmacm.DefaultParams()
	dial.ResponderResources, dial.Private = 2, []byte("hello")
	accept.InitiatorDepth, accept.Private = 3, []byte("welcome")
	c, s := h.pair(ctx, l, dial, accept)
	if got := prefix(c.Private()); got != "welcome" {
		t.Errorf("the reply has %q", got)
	}
	a, b := c.Parameters(), s.Parameters()
	t.Logf("agreed on %+v", a)
	if a.QPN != c.QP().Num() || a.QPN != b.RemoteQPN || a.RemoteQPN != b.QPN || a.SQPSN != b.RQPSN || a.RQPSN != b.SQPSN ||
		a.PathMTU != b.PathMTU || a.MaxRdAtomic != b.MaxDestRdAtomic || b.MaxRdAtomic != a.MaxDestRdAtomic {
		t.Errorf("the sides disagree:\n%+v\n%+v", a, b)
	}
	if b.MaxRdAtomic != 2 || a.MaxRdAtomic != 16 {
		t.Errorf("Reads outstanding: %d and %d, want 2 and 16", b.MaxRdAtomic, a.MaxRdAtomic)
	}
	if c.RemoteAddr() != l.Addr() || s.LocalAddr() != l.Addr() || c.LocalAddr() != s.RemoteAddr() {
		t.Errorf("addresses: %v to %v, and %v to %v", c.LocalAddr(), c.RemoteAddr(), s.LocalAddr(), s.RemoteAddr())
	}

	buf := make([]byte, 64)
	mr, err := h.pd.RegMR(buf, ib.AccessLocalWrite)
	check(t, err)
	defer func() { check(t, mr.Close()) }()
	_, err = s.QP().PostRecv([]verbs.RecvWR{{WRID: 1, SGL: []verbs.SGE{verbs.SGEOf(mr, 0, 64)}}})
	check(t, err)
	_, err = c.QP().PostSend([]verbs.SendWR{{WRID: 7, Opcode: ib.WRSend, Flags: verbs.SendSignaled | verbs.SendInline, Inline: []byte("ping")}})
	check(t, err)
	for range 2 {
		wc := make([]verbs.WC, 1)
		if _, err := verbs.Drain(h.dev, h.cq, wc, 30*time.Second); err != nil || wc[0].Status != ib.WCSuccess {
			t.Fatalf("%+v, %v", wc[0], err)
		}
	}
	if string(buf[:4]) != "ping" {
		t.Errorf("%q has come", buf[:4])
	}

	if c.Err() != nil || s.Err() != nil {
		t.Errorf("ended by %v and %v before the end", c.Err(), s.Err())
	}
	check(t, c.Close(ctx))
	select {
	case <-s.Done():
	case <-ctx.Done():
		t.Fatal("the server has not noticed the client's leaving")
	}
	c.Disconnect() // does nothing
	if !errors.Is(c.Err(), rdmacm.ErrDisconnected) || !errors.Is(s.Err(), rdmacm.ErrDisconnected) {
		t.Errorf("ended by %v and %v", c.Err(), s.Err())
	}
	for _, c := range []*rdmacm.Conn{c, s} {
		if attr, err := c.QP().Query(); err != nil || attr.State != ib.Err {
			t.Errorf("queue pair %d in %v, %v", c.QP().Num(), attr.State, err)
		}
	}
	check(t, l.Close())
	if err := l.Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := l.Accept(ctx); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("accept on a closed listener: %v", err)
	}
}

// The server parts, over many connections at once; whoever listens on all addresses
// hears of this one's.
func TestManyConnections(t *testing.T) {
	h := open(t)
	ctx := patience(t)
	l, err := rdmacm.Listen(h.dev, netip.MustParseAddrPort("0.0.0.0:7302"))
	check(t, err)
	type made struct{ c, s *rdmacm.Conn }
	var all []made
	for range 8 {
		cqp, sqp := h.qp(), h.qp()
		accepted := make(chan *rdmacm.Conn, 1)
		go func() {
			defer close(accepted)
			r, err := l.Accept(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			c, err := r.Accept(ctx, sqp, rdmacm.DefaultParams())
			if err != nil {
				t.Error(err)
				return
			}
			accepted <- c
		}()
		p := rdmacm.DefaultParams()
		p.LocalAddr = h.addr
		c, err := rdmacm.Dial(ctx, h.dev, netip.AddrPortFrom(h.addr, 7302), cqp, p)
		check(t, err)
		s := <-accepted
		if s == nil {
			t.FailNow()
		}
		all = append(all, made{c, s})
	}
	check(t, l.Close()) // connections stay
	for _, m := range all {
		m.s.Disconnect()
	}
	for _, m := range all {
		check(t, m.c.Close(ctx))
		check(t, m.s.Close(ctx))
	}
}

func TestRefusals(t *testing.T) {
	h := open(t)
	ctx := patience(t)
	l := h.listen(7303)
	if _, err := rdmacm.Listen(h.dev, netip.AddrPortFrom(h.addr, 7303)); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a second listener: %v", err)
	}
	go func() {
		r, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		if err := r.Reject(make([]byte, rdmacm.RejectPrivateBytes+1)); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("rejected with too much to say: %v", err)
		}
		if err := r.Reject([]byte("not today")); err != nil {
			t.Error(err)
		}
		if err := r.Reject(nil); !errors.Is(err, verbs.ErrState) {
			t.Errorf("rejected twice: %v", err)
		}
		if _, err := r.Accept(ctx, nil, rdmacm.DefaultParams()); !errors.Is(err, verbs.ErrState) {
			t.Errorf("accepted after it was rejected: %v", err)
		}
	}()
	var rej *rdmacm.RejectError
	_, err := rdmacm.Dial(ctx, h.dev, l.Addr(), h.qp(), rdmacm.DefaultParams())
	if !errors.As(err, &rej) || rej.Reason != roce.RejConsumer || prefix(rej.Private) != "not today" {
		t.Errorf("the application said no: %v", err)
	}
	_, err = rdmacm.Dial(ctx, h.dev, netip.AddrPortFrom(h.addr, 1), h.qp(), rdmacm.DefaultParams())
	if !errors.As(err, &rej) || rej.Reason != roce.RejInvalidServiceID {
		t.Errorf("nothing listens: %v", err)
	}
	// A request that waits when the listener closes is refused.
	refused := make(chan error, 1)
	qp := h.qp()
	go func() {
		_, err := rdmacm.Dial(ctx, h.dev, l.Addr(), qp, rdmacm.DefaultParams())
		refused <- err
	}()
	time.Sleep(50 * time.Millisecond) //nolint:forbidigo // the kernel does not say that a request waits; without one, nobody listens
	check(t, l.Close())
	if err := <-refused; !errors.As(err, &rej) {
		t.Errorf("the listener is closed: %v", err)
	}
}

// Whoever gives up does so at once, and his peer learns of it.
func TestCancel(t *testing.T) {
	h := open(t)
	ctx := patience(t)
	l := h.listen(7304)
	defer func() { check(t, l.Close()) }()
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := rdmacm.Dial(short, h.dev, l.Addr(), h.qp(), rdmacm.DefaultParams())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %v", err)
	}
	t.Logf("given up after %v", time.Since(start))
	r, err := l.Accept(ctx)
	check(t, err)
	accepting, cancel2 := context.WithTimeout(ctx, 5*time.Second)
	defer cancel2()
	_, err = r.Accept(accepting, h.qp(), rdmacm.DefaultParams())
	if rej := (*rdmacm.RejectError)(nil); !errors.Is(err, verbs.ErrState) && !errors.As(err, &rej) {
		t.Errorf("who had given up was accepted: %v", err)
	}
	t.Log(err)
	// An address of the network that nobody has.
	nobody := h.addr.As4()
	nobody[3] = 250
	short, cancel3 := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel3()
	start = time.Now()
	_, err = rdmacm.Dial(short, h.dev, netip.AddrPortFrom(netip.AddrFrom4(nobody), 1), h.qp(), rdmacm.DefaultParams())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody has the address: %v", err)
	}
	t.Logf("given up after %v", time.Since(start))
	done, cancel4 := context.WithCancel(ctx)
	cancel4()
	if _, err := l.Accept(done); !errors.Is(err, context.Canceled) {
		t.Errorf("accept with a context that is done: %v", err)
	}
}

func TestBadCalls(t *testing.T) {
	h := open(t)
	ctx := patience(t)
	with := func(f func(*rdmacm.Params)) rdmacm.Params {
		p := rdmacm.DefaultParams()
		f(&p)
		return p
	}
	for _, c := range []struct {
		to   string
		p    rdmacm.Params
		says string
	}{
		{h.addr.String() + ":1", with(func(p *rdmacm.Params) { p.Private = make([]byte, rdmacm.DialPrivateBytes+1) }), "room for 56"},
		{h.addr.String() + ":1", with(func(p *rdmacm.Params) { p.SL = 3 }), "service level"},
		{h.addr.String() + ":1", with(func(p *rdmacm.Params) { p.LocalAddr = netip.MustParseAddr("::1") }), "IP version"},
		{h.addr.String() + ":1", with(func(p *rdmacm.Params) { p.LocalAddr = netip.MustParseAddr("10.1.2.3") }), "resolve_addr"},
		{"203.0.113.1:1", with(func(*rdmacm.Params) {}), "resolve_addr"}, // no way there
	} {
		_, err := rdmacm.Dial(ctx, h.dev, netip.MustParseAddrPort(c.to), h.qp(), c.p)
		t.Log(err)
		var op *verbs.OpError
		if !errors.As(err, &op) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("dial %s: %v, want it to say %q", c.to, err, c.says)
		}
	}
	if _, err := rdmacm.Listen(h.dev, netip.MustParseAddrPort("10.1.2.3:1")); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("listen on a foreign address: %v", err)
	}
	l := h.listen(7305)
	p := with(func(p *rdmacm.Params) { p.PathMTU = 256 })
	qp, served := h.qp(), make(chan error, 1)
	go func() {
		r, err := l.Accept(ctx)
		if err == nil {
			_, err = r.Accept(ctx, qp, rdmacm.DefaultParams())
		}
		served <- err
	}()
	if _, err := rdmacm.Dial(ctx, h.dev, l.Addr(), h.qp(), p); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "MTU") {
		t.Errorf("a path MTU of 256: %v", err)
	}
	if err := <-served; err == nil {
		t.Error("the server is connected to who had given up")
	}
	check(t, l.Close())
}

// Without a kernel that knows rdma_cm the error says what is missing.
func TestNoKernel(t *testing.T) {
	if _, err := os.Stat("/dev/infiniband/rdma_cm"); err == nil {
		t.Skip("this machine's kernel has rdma_cm")
	}
	dev, err := verbs.Open("sim:lab/h0")
	check(t, err)
	addr := netip.MustParseAddrPort("192.0.2.1:7174")
	_, listen := manager{}.Listen(dev, addr)
	pd, err := dev.AllocPD()
	check(t, err)
	cq, err := dev.CreateCQ(verbs.CQInitAttr{CQE: 1})
	check(t, err)
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
	check(t, err)
	_, dial := manager{}.Dial(patience(t), dev, addr, qp, rdmacm.DefaultParams())
	for _, err := range []error{listen, dial} {
		if !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "modprobe rdma_ucm") {
			t.Errorf("%v: want it to name the module", err)
		}
	}
	if channels.current != nil {
		t.Error("a channel is left")
	}
}

func TestManages(t *testing.T) {
	dev, err := verbs.Open("sim:lab/h0")
	check(t, err)
	if rdmacm.Supported(dev) || (manager{}).Manages(dev) {
		t.Error("it takes a device of the model for its own")
	}
	if !rdmacm.Supported(&ibverbs.Device{}) {
		t.Error("it does not know a device of libibverbs")
	}
}
