package simverbs_test

import (
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// An event takes longer than the completion that it is for, and moderation holds it
// back while the completion can be polled.
func TestCompletionEventsTakeTime(t *testing.T) {
	for _, c := range []struct {
		attr     verbs.CQAttr
		sends    int
		min, max time.Duration // from the first completion to the event
	}{
		{verbs.CQAttr{}, 1, time.Nanosecond, time.Microsecond},
		{verbs.CQAttr{Count: 3}, 3, time.Nanosecond, 20 * time.Microsecond},
		{verbs.CQAttr{Count: 3, Period: 50}, 1, 50 * time.Microsecond, 51 * time.Microsecond},
		{verbs.CQAttr{Period: 100}, 3, 100 * time.Microsecond, 101 * time.Microsecond},
	} {
		a, b := open(t, "sim:events/h0"), open(t, "sim:events/h1")
		channel, err := a.dev.CreateCompChannel()
		if err != nil {
			t.Fatal(err)
		}
		cq, err := a.dev.CreateCQ(verbs.CQInitAttr{CQE: 16, Channel: channel})
		if err != nil {
			t.Fatal(err)
		}
		qp, err := a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 1}})
		if err != nil {
			t.Fatal(err)
		}
		me := verbs.Endpoint{GID: a.me.GID, QPN: qp.Num()}
		for _, x := range []struct {
			qp       verbs.QP
			from, to verbs.Endpoint
		}{{qp, me, b.me}, {b.qp, b.me, me}} {
			if err := verbs.ConnectRC(x.qp, x.from, x.to, verbs.DefaultRC()); err != nil {
				t.Fatal(err)
			}
		}
		if err := cq.(verbs.ModifiableCQ).Modify(c.attr); err != nil {
			t.Fatal(err)
		}
		var seen, told time.Duration
		err = verbs.Run(a.dev,
			func() error {
				if err := cq.ReqNotify(false); err != nil {
					return err
				}
				for range c.sends {
					if _, err := qp.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled}}); err != nil {
						return err
					}
				}
				var wc [1]verbs.WC
				for n := 0; n == 0; {
					var err error
					if n, err = cq.Poll(wc[:]); err != nil {
						return err
					}
				}
				seen = a.dev.Now()
				return nil
			},
			func() error {
				_, err := channel.Wait(t.Context(), time.Second)
				told = a.dev.Now()
				return err
			})
		if err != nil {
			t.Fatal(err)
		}
		// A turn of the polling loop takes 100 ns.
		if d := told - seen + 100*time.Nanosecond; d < c.min || d > c.max {
			t.Errorf("%+v, %d completions: the event %v after the first, want %v to %v", c.attr, c.sends, d, c.min, c.max)
		}
	}
}
