package paced_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// clockCounter counts readings of the device's clock.
type clockCounter struct {
	*nullDevice
	n int
}

func (d *clockCounter) NowPrecise() units.Time {
	d.n++
	return d.nullDevice.NowPrecise()
}

// A request behind a segment that waits for its time is posted without a reading of the
// clock, eight times in a row; the ninth post sends what is due, and so does a poll.
func TestPostsBehindAWaitingSegmentReadNoClock(t *testing.T) {
	dev := &clockCounter{nullDevice: &nullDevice{}}
	c := paced.DefaultConfig()
	c.Engine = func(cc.Env) (cc.Engine, error) {
		return &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}, quiet: true}, nil
	}
	shim := must(paced.Wrap(dev, c))(t)
	pd := must(shim.AllocPD())(t)
	cq := must(shim.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
	q := must(pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 64, MaxSendSGE: 1}}))(t)
	if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
		t.Fatal(err)
	}
	wr := []verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Addr: 4096, Length: 16 << 10, LKey: 1}}}}
	post := func() (readings int) {
		t.Helper()
		before := dev.n
		if _, err := q.PostSend(wr); err != nil {
			t.Fatal(err)
		}
		return dev.n - before
	}
	for range 2 { // the first leaves, the second waits
		if post() == 0 {
			t.Fatal("no reading of the clock for a segment that may leave")
		}
	}
	for round := range 2 {
		dev.time += units.Second
		before := shim.Stats().Segments
		for i := range 8 {
			if n := post(); n != 0 {
				t.Fatalf("round %d, post %d: %d readings of the clock, expected none", round, i, n)
			}
		}
		if n := shim.Stats().Segments; n != before {
			t.Fatalf("round %d: %d segments left without a reading of the clock", round, n-before)
		}
		if round == 0 {
			if n := post(); n == 0 {
				t.Fatal("nine posts in a row without a reading of the clock")
			}
		} else if _, err := cq.Poll(make([]verbs.WC, 1)); err != nil {
			t.Fatal(err)
		}
		if n := shim.Stats().Segments; n == before {
			t.Fatalf("round %d: nothing left that was due", round)
		}
		if round == 0 { // a poll begins anew
			_, _ = cq.Poll(make([]verbs.WC, 1))
		}
	}
}
