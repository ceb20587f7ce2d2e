package stats

// Ratios collects ratios such as slowdowns as a Recorder collects times: three significant digits
// from a millionth to a million. Make one with NewRatios. It is not safe for concurrent use.
type Ratios struct{ h *Histogram }

// unitRatio is what a ratio of 1 is recorded as.
const unitRatio = 1e9

// NewRatios returns an empty Ratios.
func NewRatios() *Ratios { return &Ratios{NewHistogram(unitRatio/1e6, unitRatio*1e6)} }

// Record adds a ratio. A negative one counts as zero.
func (r *Ratios) Record(ratio float64) { r.h.Record(max(int64(ratio*unitRatio), 0), 1) }

// Merge adds all that other has recorded.
func (r *Ratios) Merge(other *Ratios) { r.h.Merge(other.h) }

// Count returns how many ratios were recorded.
func (r *Ratios) Count() uint64 { return r.h.Count() }

// Percentile returns the ratio that p percent of those recorded do not exceed; 0 if nothing was
// recorded.
func (r *Ratios) Percentile(p float64) Float { return Float(float64(r.h.Percentile(p)) / unitRatio) }

// Distribution returns the recorded distribution at some fifty percentiles, denser towards both ends.
func (r *Ratios) Distribution(kind, name string) Distribution {
	if r.Count() == 0 {
		return Distribution{Kind: kind, Name: name}
	}
	return NewDistribution(kind, name, "", func(percent float64) Float {
		// In two steps, whose rounding published results have.
		return Float(float64(r.h.Percentile(percent))/1e6) / 1e3
	})
}
