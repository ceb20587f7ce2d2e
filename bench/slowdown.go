package bench

import "github.com/sluice-rdma/sluice/bench/internal/stats"

// slowdowns returns the distributions of slowdown over all sizes: of each label's
// flows, if there are several labels, and of all.
func (m *measurement) slowdowns() []stats.Distribution {
	var all []stats.Distribution
	for i := range m.labels {
		l := &m.labels[i]
		if i < len(m.labels)-1 && len(m.labels) == 2 {
			continue // the same flows as all
		}
		whole := stats.NewRatios()
		for _, r := range l.slow {
			if r != nil {
				whole.Merge(r)
			}
		}
		if whole.Count() == 0 {
			continue
		}
		all = append(all, whole.Distribution("slowdown", l.name))
	}
	return all
}
