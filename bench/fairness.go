package bench

import (
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// fairness compares, window by window, the rates of endless flows with the rates they
// would have if they shared the network fairly: Jain's index, and the distance from
// the max-min fair rates. A flow counts in a window if it was under way in all of
// it. Flows that end are left out: a flow with nothing more to send needs no share.
type fairness struct {
	capacity []float64 // payload bytes of each link in a window, in full packets
	links    []fabric.LinkID

	// Of the current window, an entry for each flow.
	labels     []int
	got, fair  []float64
	paths      [][]int
	ofLabel    []float64 // of one label
	fairOfThat []float64
}

// labelFairness is a label's state.
type labelFairness struct {
	jain, distance       stats.Float // in the last window
	jainSum, distanceSum float64
	windows              int
}

func (m *measurement) newFairness() *fairness {
	topo := m.sim.net.Topology()
	mtu := m.sim.sys.NIC.MTU
	f := &fairness{capacity: make([]float64, topo.Links())}
	for i := range f.capacity {
		l := topo.Link(fabric.LinkID(i))
		payload := float64(mtu) / float64(m.sim.built.DataFrame(mtu)+l.Framing.Bytes())
		f.capacity[i] = float64(l.Rate) / 8 * m.spec.Window.Seconds() * payload
	}
	return f
}

// fairShares takes stock of the window that ends now.
func (m *measurement) fairShares(now units.Time) error {
	s := m.fairness
	s.labels, s.got, s.paths = s.labels[:0], s.got[:0], s.paths[:0]
	for _, f := range m.sim.active {
		if !f.tally.started || f.Size > 0 {
			continue
		}
		m.look(f)
		if f.tally.windowed && f.Stop >= now {
			s.labels = append(s.labels, f.Label)
			s.got = append(s.got, float64(f.delivered.Payload-f.tally.atWindow))
			s.paths = append(s.paths, m.path(f))
		}
		f.tally.windowed, f.tally.atWindow = true, f.delivered.Payload
	}
	fair, err := fabric.FairRates(s.capacity, s.paths)
	if err != nil {
		return err
	}
	s.fair = fair
	all := len(m.labels) - 1
	for i := range m.labels {
		s.ofLabel, s.fairOfThat = s.ofLabel[:0], s.fairOfThat[:0]
		for j, label := range s.labels {
			if label == i || i == all {
				s.ofLabel, s.fairOfThat = append(s.ofLabel, s.got[j]), append(s.fairOfThat, s.fair[j])
			}
		}
		m.labels[i].fairness.add(stats.Jain(s.ofLabel), stats.Float(fabric.Unfairness(s.ofLabel, s.fairOfThat)), m.warm && now-m.spec.Window >= m.warmup)
	}
	for at, i := range m.shown {
		m.jain.row[at], m.distance.row[at] = m.labels[i].fairness.jain, m.labels[i].fairness.distance
	}
	return nil
}

// path returns the links that a flow's data take.
func (m *measurement) path(f *flow) []int {
	if f.tally.path == nil {
		m.fairness.links = m.sim.net.Path(m.fairness.links[:0], f.Src, f.Dst, f.flowHash())
		for _, l := range m.fairness.links {
			f.tally.path = append(f.tally.path, int(l))
		}
	}
	return f.tally.path
}

func (f *labelFairness) add(jain, distance stats.Float, counts bool) {
	f.jain, f.distance = jain, distance
	if counts && distance.Measured() && jain.Measured() {
		f.jainSum += float64(jain)
		f.distanceSum += float64(distance)
		f.windows++
	}
}

// means returns the means over the windows after the warm-up.
func (f *labelFairness) means() (jain, distance stats.Float) {
	if f.windows == 0 {
		return stats.Unmeasured, stats.Unmeasured
	}
	return stats.Float(f.jainSum / float64(f.windows)), stats.Float(f.distanceSum / float64(f.windows))
}
