package reduced_test

import (
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// signals is the mean and the deviation of the largest hop delays of a flow's
// acknowledgements, in microseconds.
type signals struct {
	cc.Engine
	from       units.Time
	n          int
	sum, power float64
}

func (s *signals) OnAck(a *cc.Ack) cc.Control {
	if a.Now >= s.from {
		d := a.MaxHopDelay.Microseconds()
		s.n, s.sum, s.power = s.n+1, s.sum+d, s.power+d*d
	}
	return s.Engine.OnAck(a)
}

func (s *signals) mean() float64 { return s.sum / float64(s.n) }

func (s *signals) deviation() float64 {
	return math.Sqrt(max(s.power/float64(s.n)-s.mean()*s.mean(), 0))
}

// docs/engines/poseidon.md: a flow over two hops of the same share takes the larger of
// two delays, which is more than either if they swing, and they swing if acknowledgements
// wait among data. The rates follow from the means of the signals by equation 3.
func TestTiesAndNoise(t *testing.T) {
	const warm, span = 10 * units.Millisecond, 10 * units.Millisecond
	for _, among := range []bool{false, true} {
		scheme, err := cc.Lookup("poseidon")
		if err != nil {
			t.Fatal(err)
		}
		var seen []*signals
		of := scheme.New
		scheme.New = func(config any, env cc.Env) (cc.Engine, error) {
			e, err := of(config, env)
			seen = append(seen, &signals{Engine: e, from: warm})
			return seen[len(seen)-1], err
		}
		p := newTies(100*units.Gbps, 245*units.Nanosecond)
		n := newNetwork(t, scheme, p.topo, 100*units.Gbps, nil)
		n.acksAmongData = among
		for _, ends := range p.flows {
			n.add(ends[0], ends[1], 0)
		}
		n.engine.RunUntil(warm)
		before := make([]units.Bytes, len(n.flows))
		for i, f := range n.flows {
			before[i] = n.delivered(f)
		}
		n.engine.RunUntil(warm + span)
		// Of the flows over both hops, then of those over one.
		var rate, mean, deviation [2]float64
		for i, f := range n.flows {
			kind := i % 4 / 2
			rate[kind] += float64(units.RateOf(n.delivered(f)-before[i], span)) / 4e9
			mean[kind] += seen[i].mean() / 4
			deviation[kind] += seen[i].deviation() / 4
		}
		t.Logf("among %v: rates %.1f Gbps, signals %.2f us, deviations %.2f us", among, rate, mean, deviation)
		if !among {
			if math.Abs(rate[0]/rate[1]-1) > 0.03 || deviation[0] > 0.5 || deviation[1] > 0.5 {
				t.Errorf("acknowledgements before data: rates %v, deviations %v", rate, deviation)
			}
			continue
		}
		if deviation[0] < 2 || deviation[1] < 2 {
			t.Errorf("acknowledgements among data: the signals deviate by %v us", deviation)
		}
		targets := 40 * math.Log(rate[1]/rate[0]) / math.Log(10_000)
		if off := mean[0] - mean[1]; off < 1 || math.Abs(off/targets-1) > 0.25 {
			t.Errorf("flows over both hops see %.2f us more, their targets are %.2f us more", off, targets)
		}
	}
}
