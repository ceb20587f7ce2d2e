package stats

// Distribution is the cumulative distribution of a measured value: the share
// Share[i] of the samples, or of the time, is at or below Values[i].
type Distribution struct {
	Kind   string  `json:"kind"` // what was measured: "rtt", "fct", "slowdown"
	Name   string  `json:"name"` // of what: a label, a range of sizes, a link
	Unit   string  `json:"unit"`
	Values []Float `json:"values"`
	Share  []Float `json:"share"`
}

// Distribution returns the recorded distribution in microseconds at some fifty
// percentiles, denser towards both ends.
func (r *Recorder) Distribution(kind, name string) Distribution {
	if r.Count() == 0 {
		return Distribution{Kind: kind, Name: name, Unit: "us"}
	}
	return NewDistribution(kind, name, "us", r.PercentileUs)
}

// NewDistribution returns a distribution at some fifty percentiles, denser towards both
// ends; at gives the value at each, from 0 to 100.
func NewDistribution(kind, name, unit string, at func(percent float64) Float) Distribution {
	d := Distribution{Kind: kind, Name: name, Unit: unit}
	for _, p := range distributionPercentiles {
		d.Values = append(d.Values, at(p))
		d.Share = append(d.Share, Float(p/100))
	}
	return d
}

var distributionPercentiles = func() []float64 {
	ps := []float64{0, 0.1, 0.5, 1}
	for p := 2.5; p < 99; p += 2.5 {
		ps = append(ps, p)
	}
	return append(ps, 98, 98.5, 99, 99.5, 99.9, 99.99, 100)
}()
