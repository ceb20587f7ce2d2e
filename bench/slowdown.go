package bench

// slowdowns returns the distributions of slowdown over all sizes: of each label's
// flows, if there are several labels, and of all.
func (m *measurement) slowdowns() []Distribution {
	var all []Distribution
	for i := range m.labels {
		l := &m.labels[i]
		if i < len(m.labels)-1 && len(m.labels) == 2 {
			continue // the same flows as all
		}
		whole := NewRecorder()
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
			d.Values[j] /= Float(slowdownUnit.Microseconds())
		}
		all = append(all, d)
	}
	return all
}
