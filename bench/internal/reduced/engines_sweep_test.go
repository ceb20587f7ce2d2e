package reduced_test

import (
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// cell is a place of the sweep: that many flows to one host over links of that
// rate, and a round trip of propagation, of whose data packets that share is lost.
type cell struct {
	rate  units.Rate
	rtt   units.Time
	flows int
	loss  float64
}

func (c cell) String() string {
	return fmt.Sprintf("%v, %v, %d flows, loss %v", c.rate, c.rtt, c.flows, c.loss)
}

// aftermath is the course of the flow that is left when the others have ended.
type aftermath struct {
	Share         float64    // of the link, in the last quarter
	Before, After units.Rate // what its engine allowed when congestion was over, and in the end
	Failed        int        // flows that the transport gave up
	Unfinished    int        // flows that did not end in the time they were given
}

// stuck reports whether the flow has not found out of where congestion left it.
func (a aftermath) stuck() bool { return a.Share < 0.5 && a.After <= a.Before }

const (
	// senders is the number of hosts the flows come from at most.
	senders = 16
	// patience bounds the time that the others may take, in multiples of that with equal shares.
	patience = 100
)

// play has flows of one size, which together take congested, and one without end
// share the link. When the others have ended so has the loss, and the last may
// grow. packets bounds how many the link carries in each part, unless that were
// less than ten rounds.
func (c cell) play(t testing.TB, s cc.Scheme, packets int) aftermath {
	topo := fabric.Star(min(c.flows, senders)+1, fabric.Link{Rate: c.rate, Delay: c.rtt / 4})
	packet := c.rate.Serialize(netMTU)
	bounded := func(want, least units.Time) units.Time {
		return max(min(want, units.Time(packets)*packet), least)
	}
	round := c.rtt + units.Time(c.flows)*packet
	congested := bounded(50*round, 10*round)
	n := newNetwork(t, s, topo, c.rate, func(f *fabric.Config) {
		f.Switch.Latency = 0
		if c.loss > 0 {
			f.Failures = []fabric.Failure{{Link: "tor0->h0", To: congested, Loss: c.loss}}
		}
	})
	size := c.rate.BytesIn(congested) / units.Bytes(c.flows)
	for i := range c.flows {
		of := size
		if i == 0 {
			of = 0
		}
		n.add(1+i%min(c.flows, senders), 0, of)
	}
	left := n.flows[0]
	end := congested
	for n.engine.RunUntil(end); n.ended < c.flows-1 && end < patience*congested && n.fleet.Stats().TxPackets < 40*uint64(packets); {
		end += congested / 4
		n.engine.RunUntil(end)
	}
	// If the flow's last packet was lost its timer has to run out.
	end += n.timeout
	n.engine.RunUntil(end)
	before := left.engine.allows(n.base)
	rest := bounded(200*n.base, 10*n.base)
	n.engine.RunUntil(end + rest*3/4)
	at := n.delivered(left)
	n.engine.RunUntil(end + rest)
	got := units.RateOf(n.delivered(left)-at, rest/4)
	capacity, _ := n.capacities()
	return aftermath{
		Share: float64(got) / capacity[0], Before: before, After: left.engine.allows(n.base),
		Failed: n.failed, Unfinished: c.flows - 1 - n.ended,
	}
}

// own says why a scheme can't fare well in a cell with its paper's parameters, if
// it can't.
func (c cell) own(s cc.Scheme) string {
	if s.Name == "timely" && c.rtt >= 500*units.Microsecond {
		return "t_high, 500us, is not above the round trip with empty queues"
	}
	return ""
}

// Whatever the link, the round trip, the number of flows and the loss, every
// engine's answers are within bounds and finite, all flows live, and when
// congestion ends the flow that is left does not stay where it was. SLUICE_LARGE
// asks for the whole range.
func TestSweep(t *testing.T) {
	cells, packets := []cell{
		{units.Gbps, units.Microsecond, 100, 0.01},
		{10 * units.Gbps, 100 * units.Microsecond, 10, 0},
		{25 * units.Gbps, 10 * units.Microsecond, 200, 0.001},
		{100 * units.Gbps, 500 * units.Microsecond, 1, 0},
		{800 * units.Gbps, units.Microsecond, 20, 0},
		{800 * units.Gbps, 20 * units.Microsecond, 50, 0.001},
	}, 5_000
	if large() {
		cells, packets = nil, 60_000
		for _, rate := range []units.Rate{1, 10, 100, 800} {
			for _, rtt := range []units.Time{1, 10, 100, 500} {
				for _, flows := range []int{1, 10, 100, 1000} {
					for _, loss := range []float64{0, 0.001, 0.01} {
						cells = append(cells, cell{rate * units.Gbps, rtt * units.Microsecond, flows, loss})
					}
				}
			}
		}
	}
	schemes := netSchemes()
	for i, s := range schemes {
		t.Run(s.Name, func(t *testing.T) {
			full, slow, excused := 0, 0, 0
			for j, c := range cells {
				a, ok := kept(t, fmt.Sprintf("%v, %d packets", c, packets), i*len(cells)+j, len(schemes)*len(cells), func() aftermath { return c.play(t, s, packets) })
				if !ok {
					continue
				}
				if why := c.own(s); why != "" && a.Failed == 0 {
					excused++
					continue
				}
				switch {
				case a.Failed > 0:
					t.Errorf("%v: the transport gave up %d flows", c, a.Failed)
				case a.Unfinished > 0:
					t.Errorf("%v: %d flows have not ended after %d times as long as equal shares take", c, a.Unfinished, patience)
				case a.stuck():
					t.Errorf("%v: the flow that is left has %.4f of the link; it was allowed %v, and is allowed %v", c, a.Share, a.Before, a.After)
				case a.Share >= 0.5:
					full++
				default:
					slow++
					t.Logf("%v: %.4f of the link, from %v to %v", c, a.Share, a.Before, a.After)
				}
			}
			t.Logf("%d cells: in %d the flow that is left has half of the link or more in the end, in %d it is on its way; %d are beyond the scheme's parameters",
				len(cells), full, slow, excused)
		})
	}
}
