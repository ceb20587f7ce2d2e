package paced_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

// What the peer took to answer is no part of the round trip that the engine is told;
// of a segment that shared another's acknowledgement there is none.
func TestPeersTurnaroundIsTakenOut(t *testing.T) {
	const n = 16 * 1024
	send := func(tells bool) (*fixed, *paced.Shim, *paced.QP) {
		e := &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}}
		segment := 0
		p := newBench(t, steered(e), func(p *bench) {
			p.a.Delay = func(*fakenic.QP, *verbs.SendWR) units.Time {
				segment++
				return units.Time(segment) * 300 * us // as the peer is ever later
			}
			if !tells {
				return
			}
			p.a.Kinds = verbs.ReportsTurnaround
			done := 0
			p.a.Telemetry = func(_ *verbs.WC, r *verbs.Telemetry) bool {
				done++
				*r = verbs.Telemetry{Turnaround: units.Time(done) * 300 * us, HasTurnaround: true}
				switch done {
				case 3:
					*r = verbs.Telemetry{Coalesced: true}
				case 4:
					r.Turnaround = units.Second // more than there is
				}
				return true
			}
		})
		q, _ := p.connect(defaultCap())
		p.post(q, p.write(1, 4*n))
		p.run(units.Never)
		if len(e.acks) != 4 {
			t.Fatalf("%d acknowledgements", len(e.acks))
		}
		return e, p.shim, q
	}
	plain, _, _ := send(false)
	told, shim, q := send(true)
	for i := range told.acks {
		a, b := &told.acks[i], &plain.acks[i]
		var net units.Time
		switch i {
		case 0, 1:
			net = b.NetRTT - units.Time(i+1)*300*us
		}
		if a.NetRTT != net || a.Bytes != n || a.Acked != b.Acked || a.Now != b.Now {
			t.Errorf("segment %d: %+v, without turnarounds %+v", i, a, b)
		}
		wire := line.Serialize(n)
		switch i {
		case 2: // unknown
			if a.RTT != 0 {
				t.Errorf("segment %d has the round trip %v", i, a.RTT)
			}
		default:
			if a.RTT != net+wire {
				t.Errorf("segment %d: round trip %v, %v without the %v that it takes to serialise", i, a.RTT, net, wire)
			}
		}
	}
	if s := shim.Stats(); s.Samples != 4 || s.Turnarounds != 3 || s.Coalesced != 1 {
		t.Errorf("%+v", s)
	}
	var s paced.QPStats
	if q.Stats(&s); s.RTT.Count() != 3 {
		t.Errorf("%d round trips in the histogram", s.RTT.Count())
	}
}
