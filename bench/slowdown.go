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
		whole := stats.NewRecorder()
		for _, r := range l.slow {
			if r != nil {
				whole.Merge(r)
			}
		}
		if whole.Count() == 0 {
			continue
		}
		d := whole.Distribution("slowdown", l.name)
		d.Unit = ""
		for j := range d.Values {
			d.Values[j] /= stats.Float(slowdownUnit.Microseconds())
		}
		all = append(all, d)
	}
	return all
}
