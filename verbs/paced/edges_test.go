package paced_test

import (
	"errors"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Of what was posted before a RESET nothing more is sent, at whatever segment it stood.
func TestAResetForgetsWhatWasNotSent(t *testing.T) {
	cfg := steered(&fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}})
	p := newBench(t, cfg, nil)
	q, peer := p.connect(defaultCap())
	p.post(q, p.write(1, 40_000), p.write(2, 40_000), p.write(3, 40_000))
	p.run(140 * us) // two of nine segments have left
	if err := q.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{QPN: peer.Num()}, verbs.DefaultRC()); err != nil {
		t.Fatal(err)
	}
	p.posts = nil
	p.post(q, p.write(4, 100))
	p.run(units.Never)
	if len(p.posts) != 1 || p.posts[0].len != 100 {
		t.Errorf("%d segments left after the reset, expected one of 100 bytes: %+v", len(p.posts), p.posts)
	}
	if wcs := p.poll(p.cq); len(wcs) != 1 || wcs[0].WRID != 4 {
		t.Errorf("completions %+v, expected that of request 4", wcs)
	}
}

// A thread that makes progress need not look for segments that a RESET has forgotten.
func TestARestAfterAReset(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 100))
	if at := p.shim.Rest(50*us, nil).Time(); at != p.w.Now()+50*us {
		t.Errorf("with a segment at the NIC it rests until %v", at)
	}
	if err := q.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if at := p.shim.Rest(50*us, nil).Time(); at != units.Never {
		t.Errorf("after the reset it rests until %v", at)
	}
	p.run(units.Never)
}

// The provider's completion queues keep a place for the request that wakes a sleeper.
func TestAQueueFullOfSegmentsTakesAKick(t *testing.T) {
	cfg := uncalibrated()
	cfg.MaxOutstanding = 2048 * cfg.Segment
	p := newBench(t, cfg, nil)
	half := defaultCap()
	half.MaxSendWR = 2048
	p.connect(half)
	one := p.a.CQs
	p.connect(half)
	if p.a.CQs != one+1 {
		t.Errorf("%d completion queues of the provider, expected %d: one of 4096 places has none left for a kick", p.a.CQs, one+1)
	}
}

func TestNegativeSizesAreRefused(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	for name, c := range map[string]verbs.QPCap{
		"requests": {MaxSendWR: -1}, "SGEs": {MaxSendWR: 1, MaxSendSGE: -1}, "inline data": {MaxSendWR: 1, MaxInlineData: -1},
	} {
		if _, err := p.pdA.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: p.cq, RecvCQ: p.cq, Cap: c}); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: error %v, expected %v", name, err, verbs.ErrInvalid)
		}
	}
}

// Either completion queue may be another shim's by mistake.
func TestAnotherShimsQueueIsRefused(t *testing.T) {
	p, other := newBench(t, uncalibrated(), nil), newBench(t, uncalibrated(), nil)
	for name, a := range map[string]verbs.QPInitAttr{
		"send": {Type: ib.RC, SendCQ: other.cq, RecvCQ: p.cq, Cap: defaultCap()}, "receive": {Type: ib.RC, SendCQ: p.cq, RecvCQ: other.cq, Cap: defaultCap()},
	} {
		if _, err := p.pdA.CreateQP(a); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("the %s queue: error %v, expected %v", name, err, verbs.ErrInvalid)
		}
	}
}
