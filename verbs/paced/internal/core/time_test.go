package core_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// The NIC's clock may turn out to be ahead of what it was taken for: then a segment
// completes, by the corrected calibration, before the one that completed earlier. An
// engine's time stands still meanwhile.
func TestAnEnginesTimeDoesNotRunBackwards(t *testing.T) {
	const us = units.Microsecond
	clock, err := completions.NewClock(64, 1e9, units.Second)
	if err != nil {
		t.Fatal(err)
	}
	for at := units.Time(0); at < units.Millisecond; at += 20 * us { // a tick is a nanosecond
		clock.Add(at, uint64(at/units.Nanosecond), at+units.Nanosecond)
	}
	c, err := core.New(core.Config{Batch: 4, BaseRTT: 20 * us}, clock)
	if err != nil {
		t.Fatal(err)
	}
	var q core.QP
	if err := c.Add(&q, &core.QPConfig{
		Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}, Segment: segment, Depth: depth, Limit: limit, Line: line, MTU: 1024,
	}); err != nil {
		t.Fatal(err)
	}
	q.Start(0, cc.Fixed{Keep: cc.Control{Rate: line, Window: cc.Unlimited}}, line, limit, 0)
	q.Resume(0)
	var x core.Sample
	x.Stamped = true
	var last units.Time
	for i, at := range []units.Time{1000 * us, 1040 * us, 1015 * us, 1039 * us, 1041 * us} {
		wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Length: 100}}}
		if !q.Accept(&wr) {
			t.Fatal("no room")
		}
		q.Offer(900 * us)
		var b core.Batch
		for next, ok := c.Next(0, &b); ok; next, ok = c.Next(next, &b) {
			c.Posted(900*us, &b, len(b.WRs), core.Refusal{})
		}
		wc := verbs.WC{WRID: uint64(i), Timestamp: uint64(at / units.Nanosecond)}
		if _, ok := q.Complete(&wc, &x.Segment); !ok {
			t.Fatalf("segment %d is unknown", i)
		}
		c.Measure(1100*us, &q, &wc, &x)
		if x.Marks&core.ByNIC == 0 {
			t.Fatalf("segment %d was not measured by the NIC's clock", i)
		}
		if by := x.Ack.Now - max(at, last); by < -units.Nanosecond || by > units.Nanosecond {
			t.Errorf("segment %d completed at %v, the one before at %v; the engine's time is %v", i, at, last, x.Ack.Now)
		}
		last = x.Ack.Now
	}
}
