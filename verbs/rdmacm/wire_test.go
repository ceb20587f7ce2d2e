package rdmacm_test

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
)

// filter is a device whose outgoing management datagrams a test may drop or double.
type filter struct {
	verbs.Device
	mads verbs.MADDevice

	mu      sync.Mutex
	copies  func(a roce.Attribute, n int) int // n counts those of an attribute from 1
	sent    map[roce.Attribute]int
	handled bool
}

func newFilter(dev verbs.Device, copies func(roce.Attribute, int) int) *filter {
	return &filter{Device: dev, mads: dev.(verbs.MADDevice), copies: copies, sent: map[roce.Attribute]int{}}
}

func (f *filter) HandleMAD(h func(netip.Addr, netip.AddrPort, uint32, []byte)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handled = h != nil
	f.mads.HandleMAD(h)
}

func (f *filter) SendMAD(to verbs.AddressVector, qpn uint32, mad []byte) error {
	f.mu.Lock()
	a := roce.MAD(mad).Attribute()
	f.sent[a]++
	n := f.copies(a, f.sent[a])
	f.mu.Unlock()
	for range n {
		if err := f.mads.SendMAD(to, qpn, mad); err != nil {
			return err
		}
	}
	return nil
}

func (f *filter) count(a roce.Attribute) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent[a]
}

func (f *filter) quiet() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.handled
}

// TestLostAndDoubled: the first REQ is lost, the RTU too, and all else comes twice.
// The server learns of the connection by the first packet.
func TestLostAndDoubled(t *testing.T) {
	server, client := newHost(t, serverDev), newHost(t, clientDev)
	ctx := patience(t)
	sdev := newFilter(server.dev, func(roce.Attribute, int) int { return 2 })
	cdev := newFilter(client.dev, func(a roce.Attribute, n int) int {
		if a == roce.AttrREQ && n == 1 || a == roce.AttrRTU {
			return 0
		}
		return 2
	})
	l, err := rdmacm.Listen(sdev, at)
	if err != nil {
		t.Fatal(err)
	}
	sqp, cqp := server.qp(), client.qp()
	accepted := make(chan *rdmacm.Conn, 1)
	request := make(chan *rdmacm.Request, 1)
	go func() {
		defer close(accepted)
		r, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		request <- r
		c, err := r.Accept(ctx, sqp, rdmacm.DefaultParams())
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- c
	}()
	c, err := rdmacm.Dial(ctx, cdev, at, cqp, rdmacm.DefaultParams())
	if err != nil {
		t.Fatal(err)
	}
	(<-request).Established()
	s := <-accepted
	if s == nil {
		t.FailNow()
	}
	if err := errors.Join(s.Close(ctx), l.Close()); err != nil {
		t.Error(err)
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
		t.Fatal("the client has not noticed the server's leaving")
	}
	s.Disconnect() // once more does nothing
	if n := cdev.count(roce.AttrREQ); n != 2 {
		t.Errorf("%d REQs", n)
	}
	// Once TimeWait is over both devices are left alone.
	for !cdev.quiet() || !sdev.quiet() {
		if ctx.Err() != nil {
			t.Fatal("a device without connections is still watched")
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // until both are quiet
	}
}

// TestListenerCloses: a request that nobody has taken is refused.
func TestListenerCloses(t *testing.T) {
	server, client := newHost(t, serverDev), newHost(t, clientDev)
	ctx := patience(t)
	sdev := newFilter(server.dev, func(roce.Attribute, int) int { return 1 })
	l, err := rdmacm.Listen(sdev, at)
	if err != nil {
		t.Fatal(err)
	}
	// Each message is sent twice. The server answers the second request with an MRA, and
	// has the first in its queue then.
	cdev := newFilter(client.dev, func(roce.Attribute, int) int { return 2 })
	qp := client.qp()
	failed := make(chan error, 1)
	go func() {
		_, err := rdmacm.Dial(ctx, cdev, at, qp, rdmacm.DefaultParams())
		failed <- err
	}()
	for sdev.count(roce.AttrMRA) == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond) //nolint:forbidigo // until the request waits
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	var rej *rdmacm.RejectError
	if err := <-failed; !errors.As(err, &rej) || rej.Reason != roce.RejInvalidServiceID {
		t.Errorf("dial returned %v", err)
	}
}

// TestPaced: one end has a queue pair of the shim.
func TestPaced(t *testing.T) {
	dev, err := verbs.Open(clientDev)
	if err != nil {
		t.Fatal(err)
	}
	shim, err := paced.Wrap(dev, paced.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shim.Close(); err != nil {
			t.Error(err)
		}
	})
	if !rdmacm.Supported(shim) {
		t.Error("the shim hides what the device can do")
	}
	pd, err := shim.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := shim.CreateCQ(verbs.CQInitAttr{CQE: 16})
	if err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(verbs.QPInitAttr{
		Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	meet(t, newHost(t, serverDev), shim, qp)
	if err := errors.Join(qp.Close(), cq.Close(), pd.Close()); err != nil {
		t.Error(err)
	}
}

// TestAlone: both ends are on one device.
func TestAlone(t *testing.T) {
	h := newHost(t, serverDev)
	meet(t, h, h.dev, h.qp())
}

// meet connects qp of a device to a listener on the server, and parts at both ends
// at once.
func meet(t *testing.T, server *host, client verbs.Device, qp verbs.QP) {
	t.Helper()
	ctx := patience(t)
	l, err := rdmacm.Listen(server.dev, at)
	if err != nil {
		t.Fatal(err)
	}
	sqp := server.qp()
	accepted := make(chan *rdmacm.Conn, 1)
	go func() {
		defer close(accepted)
		r, err := l.Accept(ctx)
		if err == nil {
			var c *rdmacm.Conn
			if c, err = r.Accept(ctx, sqp, rdmacm.DefaultParams()); err == nil {
				accepted <- c
			}
		}
		if err != nil {
			t.Error(err)
		}
	}()
	c, err := rdmacm.Dial(ctx, client, at, qp, rdmacm.DefaultParams())
	if err != nil {
		t.Fatal(err)
	}
	s := <-accepted
	if s == nil {
		t.FailNow()
	}
	if c.QP() != qp || s.QP() != sqp || c.RemoteAddr() != at || c.LocalAddr() != s.RemoteAddr() {
		t.Errorf("client from %v to %v, server to %v", c.LocalAddr(), c.RemoteAddr(), s.RemoteAddr())
	}
	c.Disconnect()
	s.Disconnect()
	if err := errors.Join(c.Close(ctx), s.Close(ctx), l.Close()); err != nil {
		t.Error(err)
	}
}
