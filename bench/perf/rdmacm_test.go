package perf

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
)

// lateCQ finds nothing at its first poll, and what that missed has come when it returns.
type lateCQ struct {
	verbs.CQ
	missed func()
}

func (c *lateCQ) Poll(wc []verbs.WC) (int, error) {
	if missed := c.missed; missed != nil {
		c.missed = nil
		missed()
		return 0, nil
	}
	return c.CQ.Poll(wc)
}

// TestLastMessageBeforeTheEnd: what the other end sends before it parts is read, however late
// this end looks.
func TestLastMessageBeforeTheEnd(t *testing.T) {
	a, b := soft(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	l, err := rdmacm.Listen(b, netip.MustParseAddrPort("0.0.0.0:18516"))
	if err != nil {
		t.Fatal(err)
	}
	p := Test{Verb: Send}.cmParams(0)
	var from, to *cmLink
	err = bothEnds(a,
		func() (err error) {
			from, err = newCMLink(ctx, a, p, func(ctx context.Context, qp verbs.QP, p rdmacm.Params) (*rdmacm.Conn, error) {
				return rdmacm.Dial(ctx, a, netip.MustParseAddrPort("127.0.0.3:18516"), qp, p)
			})
			return err
		},
		func() (err error) {
			to, err = newCMLink(ctx, b, p, func(ctx context.Context, qp verbs.QP, p rdmacm.Params) (*rdmacm.Conn, error) {
				r, err := l.Accept(ctx)
				if err != nil {
					return nil, err
				}
				return r.Accept(ctx, qp, p)
			})
			return err
		})
	if err != nil {
		t.Fatal(errors.Join(err, l.Close()))
	}
	const last = "the last message"
	cq := to.recvCQ
	to.recvCQ = &lateCQ{CQ: cq, missed: func() {
		_, err := from.Write([]byte(last))
		if err = errors.Join(err, from.Close()); err != nil {
			t.Error(err)
		}
		for !to.Gone() && ctx.Err() == nil {
			verbs.Sleep(b, time.Millisecond)
		}
	}}
	got := make([]byte, cmMessage)
	n, err := to.Read(got)
	if string(got[:n]) != last || err != nil {
		t.Errorf("%q, %v", got[:n], err)
	}
	to.recvCQ = cq
	if err := errors.Join(to.Close(), l.Close()); err != nil {
		t.Error(err)
	}
}
