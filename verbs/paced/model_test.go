package paced_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
)

// end is one end of a connection on a shim over the model.
type end struct {
	dev  *paced.Shim
	ch   verbs.CompChannel // nil if it polls
	cq   verbs.CQ
	qp   verbs.QP
	buf  []byte
	mr   verbs.MR
	self verbs.Endpoint
}

func newEnd(t *testing.T, dev *paced.Shim, sleeps bool) *end {
	t.Helper()
	e := &end{dev: dev, buf: make([]byte, 1<<20)}
	pd := must(dev.AllocPD())(t)
	if sleeps {
		e.ch = must(dev.CreateCompChannel())(t)
	}
	e.cq = must(dev.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: e.ch, Timestamps: true}))(t)
	e.qp = must(pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: e.cq, RecvCQ: e.cq, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 1}}))(t)
	e.mr = must(pd.RegMR(e.buf, ib.AccessLocalWrite|ib.AccessRemoteRead|ib.AccessRemoteWrite))(t)
	e.self = verbs.Endpoint{GID: must(dev.GID(1, 0))(t), QPN: e.qp.Num(), PSN: 99}
	return e
}

// next waits for a completion, by polling or asleep.
func (e *end) next() (verbs.WC, error) {
	var wc [1]verbs.WC
	for {
		if e.ch != nil {
			if err := e.cq.ReqNotify(false); err != nil {
				return wc[0], err
			}
		}
		n, err := e.cq.Poll(wc[:])
		if err != nil || n == 1 {
			if err == nil && wc[0].Status != ib.WCSuccess {
				err = &verbs.StatusError{WC: wc[0]}
			}
			return wc[0], err
		}
		if e.ch != nil {
			if _, err := e.ch.Wait(context.Background(), time.Second); err != nil {
				return wc[0], err
			}
		}
	}
}

// played numbers the networks of one process, which last.
var played int

// Four programs on two shims over the model: one writes and one reads, one of
// each pair polls and one sleeps, all at the same time, and always in the same
// way.
func TestProgramsOnTheModel(t *testing.T) {
	play := func(t *testing.T, network string) string {
		c := paced.DefaultConfig()
		c.Scheme = "timely"
		samples := 0
		c.Observe = func(_ *paced.QP, a *cc.Ack, _ cc.Control) {
			if samples++; a.NetRTT <= 0 || a.NetRTT > 100*units.Microsecond {
				t.Errorf("a round trip of %v", a.NetRTT)
			}
		}
		var shims [2]*paced.Shim
		for i := range shims {
			dev := must(verbs.Open(fmt.Sprintf("sim:%s/h%d", network, i)))(t)
			shims[i] = must(paced.Wrap(dev, c))(t)
		}
		var programs []func() error
		trace := make([]string, 4)
		for k := range 2 { // 0: a writes by polling; 1: a reads asleep
			a, b := newEnd(t, shims[0], k == 1), newEnd(t, shims[1], k == 0)
			if err := verbs.ConnectRC(a.qp, a.self, b.self, verbs.DefaultRC()); err != nil {
				t.Fatal(err)
			}
			if err := verbs.ConnectRC(b.qp, b.self, a.self, verbs.DefaultRC()); err != nil {
				t.Fatal(err)
			}
			fill(a.buf, byte(k))
			fill(b.buf, byte(k+7))
			const n = 300_000
			active := func() error {
				for i := range 3 {
					wr := verbs.SendWR{WRID: uint64(i), Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(a.mr, i*n, 1000), verbs.SGEOf(a.mr, i*n+1000, n-1000)}, RemoteAddr: b.mr.Addr() + uint64(i*n), RKey: b.mr.RKey()}
					if wr.Opcode = ib.WRRDMARead; k == 0 {
						wr.Opcode = ib.WRRDMAWrite
					}
					if _, err := a.qp.PostSend([]verbs.SendWR{wr}); err != nil {
						return err
					}
				}
				for range 3 {
					wc, err := a.next()
					if err != nil {
						return err
					}
					trace[2*k] += fmt.Sprintf("%v: %d, %d bytes\n", shims[0].NowPrecise(), wc.WRID, wc.ByteLen)
				}
				if !bytes.Equal(a.buf[:3*n], b.buf[:3*n]) {
					return fmt.Errorf("pair %d: other bytes", k)
				}
				// Tell the peer.
				_, err := a.qp.PostSend([]verbs.SendWR{{WRID: 9, Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(a.mr, 0, 8)}}})
				if err == nil {
					_, err = a.next()
				}
				return err
			}
			passive := func() error {
				if _, err := b.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(b.mr, 1_000_000, 100)}}}); err != nil {
					return err
				}
				wc, err := b.next()
				trace[2*k+1] += fmt.Sprintf("%v: %d bytes\n", shims[1].NowPrecise(), wc.ByteLen)
				return err
			}
			programs = append(programs, active, passive)
		}
		if err := verbs.Run(shims[0], programs...); err != nil {
			t.Fatal(err)
		}
		s := shims[0].Stats()
		if s.Messages != 8 || s.Failed != 0 || s.Stray != 0 || s.Segments != 2*3*19+2 || samples != int(s.Segments) {
			t.Errorf("%d samples, %+v", samples, s)
		}
		if s.NICTime != s.Samples {
			t.Errorf("%d of %d completion times are the NIC's", s.NICTime, s.Samples)
		}
		return fmt.Sprint(trace)
	}
	played++
	first := play(t, fmt.Sprint("paced-a", played))
	if second := play(t, fmt.Sprint("paced-b", played)); first != second {
		t.Errorf("two runs differ:\n%s\n%s", first, second)
	}
}
