package core_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// told counts what an engine is told, and lowers its rate at timeouts.
type told struct {
	cc.Fixed
	acks, timeouts int
}

func (e *told) OnAck(*cc.Ack) cc.Control { e.acks++; return e.Keep }

func (e *told) OnTimeout(units.Time) cc.Control {
	e.timeouts++
	e.Keep.Rate /= 2
	return e.Keep
}

// A segment's round trip that lasted for a retransmission timeout, in which nothing of its
// queue pair was acknowledged, is no measure of the network's queues: the engine is told of
// the timeout, once for all segments that were outstanding, and of no round trip.
func TestRoundTripsOfTimeouts(t *testing.T) {
	const ms = units.Millisecond
	type segment struct {
		posted, done units.Time
		early        uint8 // the device's count of shorter timers that have run out
	}
	for name, c := range map[string]struct {
		timeout        uint8 // 8 is 1.048576 ms
		segments       []segment
		acks, timeouts int
	}{
		"below the timeout":          {8, []segment{{0, ms, 0}, {ms, 2 * ms, 0}}, 2, 0},
		"no timer":                   {0, []segment{{0, 5 * ms, 0}, {5 * ms, 10 * ms, 0}}, 2, 0},
		"one":                        {8, []segment{{0, 2 * ms, 0}, {2 * ms, 3 * ms, 0}}, 1, 1},
		"all that were outstanding":  {8, []segment{{0, 2 * ms, 0}, {0, 2 * ms, 0}, {ms, 2*ms + 1, 0}, {2 * ms, 3 * ms, 0}}, 1, 1},
		"a long queue that moves":    {8, []segment{{0, ms, 0}, {0, 2 * ms, 0}, {0, 3 * ms, 0}, {0, 4 * ms, 0}}, 4, 0},
		"a queue that stands still":  {8, []segment{{0, ms, 0}, {0, 3 * ms, 0}, {0, 3 * ms, 0}}, 1, 1},
		"idle in between":            {8, []segment{{0, ms, 0}, {9 * ms, 10 * ms, 0}}, 2, 0},
		"never two without a sample": {8, []segment{{0, 2 * ms, 0}, {2 * ms, 4 * ms, 0}, {4 * ms, 6 * ms, 0}, {6 * ms, 8 * ms, 0}}, 2, 2},
		"a shorter timer":            {14, []segment{{0, 2 * ms, 1}, {2 * ms, 3 * ms, 1}}, 1, 1},
		"a shorter timer, many":      {14, []segment{{0, 2 * ms, 1}, {0, 2 * ms, 1}, {2 * ms, 2*ms + 1, 1}}, 1, 1},
		"a shorter timer, then none": {0, []segment{{0, 2 * ms, 3}, {2 * ms, 9 * ms, 3}, {9 * ms, 10 * ms, 3}}, 2, 1},
		"one a segment":              {14, []segment{{0, 2 * ms, 1}, {2 * ms, 4 * ms, 2}, {4 * ms, 6 * ms, 3}}, 1, 2},
	} {
		k, err := core.New(core.Config{Batch: 4, BaseRTT: 20 * units.Microsecond}, nil)
		if err != nil {
			t.Fatal(err)
		}
		q := &core.QP{}
		if err := k.Add(q, &core.QPConfig{
			Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}, Segment: 4096, Depth: 8, Limit: units.MiB, Line: line, MTU: 1024,
		}); err != nil {
			t.Fatal(err)
		}
		e := &told{Fixed: cc.Fixed{Keep: cc.Control{Rate: line, Window: cc.Unlimited}}}
		q.SetTimeout(c.timeout)
		q.Start(0, e, line, units.MiB, 0)
		q.Resume(0)
		cuts := 0
		for len(c.segments) > 0 {
			// Those that were posted by when the first of them is done.
			var batch []segment
			for len(c.segments) > 0 && (len(batch) == 0 || c.segments[0].posted < batch[0].done) {
				batch, c.segments = append(batch, c.segments[0]), c.segments[1:]
			}
			var wrids []uint64
			for _, s := range batch {
				if !q.Accept(&verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Length: 64}}}) {
					t.Fatal("a full queue")
				}
				q.Offer(s.posted)
				wrids = append(wrids, release(t, k, s.posted+1)...)
			}
			if len(wrids) != len(batch) {
				t.Fatalf("%s: %d posted of %d", name, len(wrids), len(batch))
			}
			for i, s := range batch {
				wc := &verbs.WC{WRID: wrids[i], Opcode: ib.WCRDMAWrite}
				x := core.Sample{Retransmits: s.early}
				if _, ok := q.Complete(wc, &x.Segment); !ok {
					t.Fatal("not a segment of the queue pair's")
				}
				k.Measure(s.done, q, wc, &x)
				if x.Marks&core.Cut != 0 {
					cuts++
				}
				if x.RTT < s.done-s.posted-2 {
					t.Errorf("%s: a round trip of %v, expected %v", name, x.RTT, s.done-s.posted)
				}
			}
		}
		if e.acks != c.acks || e.timeouts != c.timeouts || cuts != c.timeouts {
			t.Errorf("%s: %d acknowledgements, %d timeouts and %d cuts, expected %d and %d", name, e.acks, e.timeouts, cuts, c.acks, c.timeouts)
		}
	}
}

// release takes what is due, and returns the WRIDs.
func release(t *testing.T, k *core.Core, now units.Time) (wrids []uint64) {
	t.Helper()
	k.Due(now)
	var b core.Batch
	for i, ok := k.Next(0, &b); ok; i, ok = k.Next(i, &b) {
		for _, wr := range b.WRs {
			wrids = append(wrids, wr.WRID)
		}
		k.Posted(now, &b, len(b.WRs), core.Refusal{})
	}
	return wrids
}
