package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rdma/sluice/internal/quantile"
)

// maxLines is the most series of a plot that are drawn as lines of their own,
// besides summaries. More series are shown by their spread.
const maxLines = 24

// spread brings the series of a plot to common times, at most n. If more than maxLines of
// them are not summaries, it replaces these by three: the least, the median and the
// greatest of their values at each time. The greatest has a band up to the largest of the
// mosts, if there are any.
func spread(series []Series, n int) ([]Series, aligned) {
	a := thin(series, n)
	var kept, many []int
	for i, s := range series {
		if s.Summary {
			kept = append(kept, i)
		} else {
			many = append(many, i)
		}
	}
	if len(many) <= maxLines {
		return series, a
	}
	out, to := []Series{}, aligned{t: a.t}
	for _, i := range kept {
		out = append(out, series[i])
		to.v, to.max = append(to.v, a.v[i]), append(to.max, a.max[i])
	}
	least, median, greatest := make([]float64, len(a.t)), make([]float64, len(a.t)), make([]float64, len(a.t))
	var most []float64
	at := make([]float64, 0, len(many))
	for j := range a.t {
		at = at[:0]
		for _, i := range many {
			if finite(a.v[i][j]) {
				at = append(at, a.v[i][j])
			}
		}
		for _, i := range many {
			if a.max[i] == nil {
				continue
			}
			if most == nil {
				most = slices.Repeat([]float64{math.NaN()}, len(a.t))
			}
			if more(a.max[i][j], most[j]) {
				most[j] = a.max[i][j]
			}
		}
		least[j], median[j], greatest[j] = math.NaN(), math.NaN(), math.NaN()
		if len(at) > 0 {
			slices.Sort(at)
			least[j], median[j], greatest[j] = at[0], quantile.Of(at, 0.5), at[len(at)-1]
		}
	}
	for i, v := range [][]float64{greatest, median, least} {
		name := [...]string{"greatest", "median", "least"}[i]
		out = append(out, Series{Label: fmt.Sprintf("%s of %d", name, len(many)), T: a.t, V: v})
		to.v, to.max = append(to.v, v), append(to.max, nil)
	}
	to.max[len(kept)] = most
	return out, to
}
