package stats

import "github.com/sluice-rdma/sluice/units"

// Ratios collects ratios such as slowdowns as a Recorder collects times: three significant digits
// from a millionth to a million. Make one with NewRatios. It is not safe for concurrent use.
type Ratios struct{ scaled *Recorder }

// unitRatio is what a ratio of 1 is recorded as.
const unitRatio = units.Millisecond

// NewRatios returns an empty Ratios.
func NewRatios() *Ratios { return &Ratios{NewRecorder()} }

// Record adds a ratio. A negative one counts as zero.
func (r *Ratios) Record(ratio float64) { r.scaled.Record(units.Time(ratio * float64(unitRatio))) }

// Merge adds all that other has recorded.
func (r *Ratios) Merge(other *Ratios) { r.scaled.Merge(other.scaled) }

// Count returns how many ratios were recorded.
func (r *Ratios) Count() uint64 { return r.scaled.Count() }

// Percentile returns the ratio that p percent of those recorded do not exceed; 0 if nothing was
// recorded.
func (r *Ratios) Percentile(p float64) Float {
	return Float(float64(r.scaled.Percentile(p)) / float64(unitRatio))
}

// Distribution returns the recorded distribution at some fifty percentiles, denser towards both ends.
func (r *Ratios) Distribution(kind, name string) Distribution {
	d := r.scaled.Distribution(kind, name)
	d.Unit = ""
	for i := range d.Values {
		d.Values[i] /= Float(unitRatio.Microseconds())
	}
	return d
}
