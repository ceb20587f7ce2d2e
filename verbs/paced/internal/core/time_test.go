package core_test

import (
	"math"
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

// A round trip between two of the NIC's timestamps, across the wrap of its counter.
func TestADepartureBeforeTheWrap(t *testing.T) {
	const us = units.Microsecond
	for _, bits := range []int{24, 32, 48, 63, 64} {
		c, err := core.New(core.Config{Batch: 1, BaseRTT: 20 * us, NICClock: true, ClockBits: bits, CoreClockHz: 1e9}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var q core.QP
		if err := c.Add(&q, &core.QPConfig{
			Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}, Segment: segment, Depth: depth, Limit: limit, Line: line, MTU: 1024,
		}); err != nil {
			t.Fatal(err)
		}
		q.Resume(0)
		wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Length: 1}}}
		q.Accept(&wr)
		q.Offer(0)
		var b core.Batch
		c.Next(0, &b)
		c.Posted(0, &b, 1, core.Refusal{})
		top := uint64(math.MaxUint64) >> (64 - bits)
		wc := verbs.WC{Timestamp: 9_000}
		x := core.Sample{Stamped: true, Departed: true, First: top - 999, Last: top - 999}
		if _, ok := q.Complete(&wc, &x.Segment); !ok {
			t.Fatal("the segment is unknown")
		}
		c.Measure(100*us, &q, &wc, &x)
		if want := 10 * us; x.RTT != want || x.Marks&core.ByDeparture == 0 {
			t.Errorf("%d bits: a round trip of %v, expected %v", bits, x.RTT, want)
		}
	}
}

// The packets of a segment that the host tore apart: the round trip begins as long
// before the last one as all before it take at line rate.
func TestTheLastPacketsDeparture(t *testing.T) {
	const us = units.Microsecond
	clock, err := completions.NewClock(64, 1e9, units.Second)
	if err != nil {
		t.Fatal(err)
	}
	for at := units.Time(0); at < units.Millisecond; at += 20 * us {
		clock.Add(at, uint64(at/units.Nanosecond), at+units.Nanosecond)
	}
	for _, bytes := range []uint32{10 * 1024, 9*1024 + 1} { // ten packets
		q, c := lone(t, clock)
		wc, x := complete(t, c, q, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Length: bytes}}}, 900*us)
		wc.Timestamp = 1_040_000
		x.Stamped, x.Departed, x.First, x.Last = true, true, 1_000_000, 1_020_000
		c.Measure(1100*us, q, wc, x)
		want := 20*us + line.Serialize(9*1024)
		if off := x.RTT - want; x.Marks&core.ByDeparture == 0 || off < -10*units.Nanosecond || off > 10*units.Nanosecond {
			t.Errorf("%d bytes: a round trip of %v, expected %v", bytes, x.RTT, want)
		}
	}
}

// The gap after a segment is that of its size; what is longer than a segment has more,
// what is empty none.
func TestTheGapAfterASegment(t *testing.T) {
	rate := units.Gbps
	gap := rate.Serialize(segment)
	for bytes, want := range map[uint32]units.Time{0: 0, 1: gap, uint32(segment): gap, uint32(segment) + 1: 2 * gap, 3 * uint32(segment): 3 * gap} {
		q, c := lone(t, nil)
		q.Start(0, cc.Fixed{Keep: cc.Control{Rate: rate, Window: cc.Unlimited}}, line, limit, 0)
		complete(t, c, q, verbs.SendWR{Opcode: ib.WRSend, SGL: []verbs.SGE{{Length: bytes}}}, units.Millisecond)
		if want > 0 {
			want += units.Millisecond
		}
		if got := c.GapsEnd(); bytes == 0 && got > units.Millisecond || bytes > 0 && got != want {
			t.Errorf("after %d bytes the gap ends at %v, expected %v", bytes, got, want)
		}
	}
}

// lone returns a queue pair alone in a core.
func lone(t *testing.T, clock *completions.Clock) (*core.QP, *core.Core) {
	t.Helper()
	c, err := core.New(core.Config{Batch: 4, BaseRTT: 20 * units.Microsecond}, clock)
	if err != nil {
		t.Fatal(err)
	}
	q := &core.QP{}
	if err := c.Add(q, &core.QPConfig{
		Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}, Segment: segment, Depth: depth, Limit: limit, Line: line, MTU: 1024,
	}); err != nil {
		t.Fatal(err)
	}
	q.Resume(0)
	return q, c
}

// complete posts a request that is one segment, and completes it.
func complete(t *testing.T, c *core.Core, q *core.QP, wr verbs.SendWR, posted units.Time) (*verbs.WC, *core.Sample) {
	t.Helper()
	if !q.Accept(&wr) {
		t.Fatal("no room")
	}
	q.Offer(posted)
	var b core.Batch
	segments := 0
	for next, ok := c.Next(0, &b); ok; next, ok = c.Next(next, &b) {
		segments += len(b.WRs)
		c.Posted(posted, &b, len(b.WRs), core.Refusal{})
	}
	wc, x := &verbs.WC{}, &core.Sample{}
	if _, ok := q.Complete(wc, &x.Segment); !ok || segments != 1 {
		t.Fatalf("%d segments were posted, expected one", segments)
	}
	return wc, x
}
