package rdmacm_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
)

// host is a device with what a queue pair needs.
type host struct {
	t   testing.TB
	dev verbs.Device
	pd  verbs.PD
	cq  verbs.CQ
}

func newHost(t testing.TB, name string) *host {
	t.Helper()
	dev, err := verbs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(verbs.CQInitAttr{CQE: 64})
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t, dev, pd, cq}
	t.Cleanup(func() {
		if err := errors.Join(cq.Close(), pd.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *host) qp() verbs.QP {
	h.t.Helper()
	qp, err := h.pd.CreateQP(verbs.QPInitAttr{
		Type: ib.RC, SendCQ: h.cq, RecvCQ: h.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 64},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = qp.Close() })
	return qp
}

func (h *host) mr(n int) (verbs.MR, []byte) {
	h.t.Helper()
	buf := make([]byte, n)
	mr, err := h.pd.RegMR(buf, ib.AccessLocalWrite|ib.AccessRemoteRead|ib.AccessRemoteWrite)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = mr.Close() })
	return mr, buf
}

func (h *host) one() verbs.WC {
	h.t.Helper()
	wc := make([]verbs.WC, 1)
	if _, err := verbs.Drain(h.dev, h.cq, wc, 5*time.Second); err != nil {
		var s *verbs.StatusError
		if !errors.As(err, &s) {
			h.t.Fatal(err)
		}
	}
	return wc[0]
}

func patience(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// prefix cuts the zeros off that private data come with.
func prefix(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }

const (
	serverDev = "soft:127.0.77.2"
	clientDev = "soft:127.0.77.3"
)

var at = netip.MustParseAddrPort("127.0.77.2:7174")

func TestConnectTalkDisconnect(t *testing.T) {
	server, client := newHost(t, serverDev), newHost(t, clientDev)
	ctx := patience(t)
	l, err := rdmacm.Listen(server.dev, at)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan *rdmacm.Conn, 1)
	sqp := server.qp()
	smr, sbuf := server.mr(64)
	go func() {
		defer close(accepted)
		req, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		if prefix(req.Private()) != "hello" || req.RemoteAddr().Addr().String() != "127.0.77.3" || req.LocalAddr() != at {
			t.Errorf("request with %q from %v to %v", prefix(req.Private()), req.RemoteAddr(), req.LocalAddr())
		}
		p := rdmacm.DefaultParams()
		if err := rdmacm.Init(sqp, p); err != nil {
			t.Error(err)
		}
		if _, err := sqp.PostRecv([]verbs.RecvWR{{WRID: 1, SGL: []verbs.SGE{verbs.SGEOf(smr, 0, 64)}}}); err != nil {
			t.Error(err)
		}
		p.InitiatorDepth, p.Private = 3, []byte("welcome")
		c, err := req.Accept(ctx, sqp, p)
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- c
	}()
	p := rdmacm.DefaultParams()
	p.ResponderResources, p.Private = 2, []byte("hello")
	cqp := client.qp()
	c, err := rdmacm.Dial(ctx, client.dev, at, cqp, p)
	if err != nil {
		t.Fatal(err)
	}
	s := <-accepted
	if s == nil {
		t.FailNow()
	}
	if got := prefix(c.Private()); got != "welcome" {
		t.Errorf("the reply has %q", got)
	}
	a, b := c.Parameters(), s.Parameters()
	if a.QPN != cqp.Num() || a.QPN != b.RemoteQPN || a.RemoteQPN != b.QPN || a.SQPSN != b.RQPSN || a.RQPSN != b.SQPSN ||
		a.PathMTU != b.PathMTU || a.MaxRdAtomic != b.MaxDestRdAtomic || b.MaxRdAtomic != a.MaxDestRdAtomic {
		t.Errorf("the sides disagree:\n%+v\n%+v", a, b)
	}
	if b.MaxRdAtomic != 2 || a.MaxRdAtomic != 16 {
		t.Errorf("Reads outstanding: %d and %d, want 2 and 16", b.MaxRdAtomic, a.MaxRdAtomic)
	}

	if _, err := cqp.PostSend([]verbs.SendWR{{WRID: 7, Opcode: ib.WRSend, Flags: verbs.SendSignaled | verbs.SendInline, Inline: []byte("ping")}}); err != nil {
		t.Fatal(err)
	}
	if wc := server.one(); wc.Status != ib.WCSuccess || string(sbuf[:wc.ByteLen]) != "ping" {
		t.Errorf("received %+v, %q", wc, sbuf[:4])
	}
	if wc := client.one(); wc.WRID != 7 || wc.Status != ib.WCSuccess {
		t.Errorf("sent %+v", wc)
	}

	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-s.Done():
	case <-ctx.Done():
		t.Fatal("the server has not noticed the client's leaving")
	}
	if !errors.Is(c.Err(), rdmacm.ErrDisconnected) || !errors.Is(s.Err(), rdmacm.ErrDisconnected) {
		t.Errorf("ended by %v and %v", c.Err(), s.Err())
	}
	for _, qp := range []verbs.QP{cqp, sqp} {
		if attr, err := qp.Query(); err != nil || attr.State != ib.Err {
			t.Errorf("queue pair %d in %v, %v", qp.Num(), attr.State, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	server, client := newHost(t, serverDev), newHost(t, clientDev)
	ctx := patience(t)
	l, err := rdmacm.Listen(server.dev, netip.MustParseAddrPort("0.0.0.0:7175"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rdmacm.Listen(server.dev, netip.MustParseAddrPort("127.0.77.2:7175")); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a second listener: %v", err)
	}
	go func() {
		req, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		if err := req.Reject([]byte("not today")); err != nil {
			t.Error(err)
		}
		if err := req.Reject(nil); !errors.Is(err, verbs.ErrState) {
			t.Errorf("rejected twice: %v", err)
		}
	}()
	var rej *rdmacm.RejectError
	_, err = rdmacm.Dial(ctx, client.dev, netip.MustParseAddrPort("127.0.77.2:7175"), client.qp(), rdmacm.DefaultParams())
	if !errors.As(err, &rej) || rej.Reason != roce.RejConsumer || prefix(rej.Private) != "not today" {
		t.Errorf("the application said no: %v", err)
	}
	_, err = rdmacm.Dial(ctx, client.dev, netip.MustParseAddrPort("127.0.77.2:1"), client.qp(), rdmacm.DefaultParams())
	if !errors.As(err, &rej) || rej.Reason != roce.RejInvalidServiceID {
		t.Errorf("nothing listens: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(ctx); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("accept on a closed listener: %v", err)
	}
	_, err = rdmacm.Dial(ctx, client.dev, netip.MustParseAddrPort("127.0.77.2:7175"), client.qp(), rdmacm.DefaultParams())
	if !errors.As(err, &rej) || rej.Reason != roce.RejInvalidServiceID {
		t.Errorf("the listener is closed: %v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	client := newHost(t, clientDev)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := rdmacm.Dial(ctx, client.dev, netip.MustParseAddrPort("127.0.77.9:7174"), client.qp(), rdmacm.DefaultParams())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial returned %v", err)
	}
}

func TestBadCalls(t *testing.T) {
	client := newHost(t, clientDev)
	long := rdmacm.DefaultParams()
	long.Private = make([]byte, rdmacm.DialPrivateBytes+1)
	six := rdmacm.DefaultParams()
	foreign := rdmacm.DefaultParams()
	foreign.LocalAddr = netip.MustParseAddr("10.1.2.3")
	for _, c := range []struct {
		to   string
		p    rdmacm.Params
		says string
	}{
		{"127.0.77.2:1", long, "room for 56"},
		{"[::1]:1", six, "IP version"},
		{"127.0.77.2:1", foreign, "LocalAddr must be one of its own"},
	} {
		_, err := rdmacm.Dial(t.Context(), client.dev, netip.MustParseAddrPort(c.to), client.qp(), c.p)
		if !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("dial %s: %v, want it to say %q", c.to, err, c.says)
		}
	}
	if _, err := rdmacm.Listen(client.dev, netip.MustParseAddrPort("10.1.2.3:1")); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("listen on a foreign address: %v", err)
	}
	sim, err := verbs.Open("sim:lab/h0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rdmacm.Listen(sim, netip.MustParseAddrPort("0.0.0.0:1")); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("listen on a device without management datagrams: %v", err)
	}
}
