package bench

import (
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/units"
)

// seriesTable is the series of a kind: a row a step. Rows go at once to the
// callback that requested them; each series keeps a bounded number of values for
// the result.
type seriesTable struct {
	kind, unit string
	step       units.Time
	// late holds rows back until there is something measured in one: not every
	// scenario has flows without end.
	late   bool
	names  []string
	traces []trace
	row    []stats.Float
	// For kinds whose steps have a mean and a most, else nil.
	peaks []trace
	max   []stats.Float
}

// seriesPoints bounds the points of a series in a result, and seriesTotal those of
// all series of a system, as far as each has leastPoints.
const (
	seriesPoints = 1 << 14
	seriesTotal  = 1 << 20
	leastPoints  = 1 << 10
)

// newSeries makes the tables. limit is the most points of a series; 0 keeps none.
func (m *measurement) newSeries(keep bool) {
	var labels, links []string
	for i := range m.labels {
		if i < len(m.labels)-1 && len(m.labels) == 2 {
			continue // the same flows as all
		}
		m.shown = append(m.shown, i)
		labels = append(labels, m.labels[i].name)
	}
	for i := range m.links {
		links = append(links, m.links[i].name)
	}
	limit := 0
	if keep {
		limit = min(max(seriesTotal/(6*len(labels)+3*len(links)+2*len(m.spec.Switches)), leastPoints), seriesPoints) &^ 1
	}
	table := func(kind, unit string, step units.Time, names []string, largest bool) *seriesTable {
		t := &seriesTable{kind: kind, unit: unit, step: step, names: names, row: make([]stats.Float, len(names))}
		for range names {
			t.traces = append(t.traces, trace{limit: limit, largest: largest, stride: 1})
		}
		return t
	}
	banded := func(kind string, names []string) *seriesTable {
		t := table(kind, "B", m.spec.Sample, names, false)
		t.max, t.peaks = make([]stats.Float, len(names)), table(kind, "B", m.spec.Sample, names, true).traces
		return t
	}
	sample, window := m.spec.Sample, m.spec.Window
	m.rate, m.wire = table(results.SeriesRate, "Gbps", sample, labels, false), table(results.SeriesWire, "Gbps", sample, labels, false)
	m.rtt, m.underWay = table(results.SeriesRTT, "us", sample, labels, false), table(results.SeriesFlows, "", sample, labels, true)
	m.jain, m.distance = table(results.SeriesJain, "", window, labels, false), table(results.SeriesMaxMin, "", window, labels, false)
	m.jain.late, m.distance.late = true, true
	m.queue, m.busy = banded(results.SeriesQueue, links), table(results.SeriesBusy, "", window, links, false)
	m.buffer = banded(results.SeriesBuffer, m.spec.Switches)
}

// endRow takes the row of a table as that of now.
func (m *measurement) endRow(t *seriesTable, now units.Time) {
	if len(t.names) == 0 {
		return
	}
	for i, v := range t.row {
		t.traces[i].add(v)
	}
	for i, v := range t.max {
		t.peaks[i].add(v)
	}
	if m.rows == nil {
		return
	}
	if t.late {
		if !slices.ContainsFunc(t.row, stats.Float.Measured) {
			return
		}
		t.late = false
	}
	r := &m.seriesRow
	r.Kind, r.Unit, r.AtUs, r.Names, r.Values = t.kind, t.unit, stats.Float(now.Microseconds()), t.names, t.row
	r.Max = t.max
	if err := m.rows(r); err != nil {
		m.sim.fail(fmt.Errorf("series: %w", err))
	}
}

// series hands over what is kept.
func (m *measurement) series(out *results.System) {
	put := func(t *seriesTable, i int) {
		x := &t.traces[i]
		if len(x.values) == 0 {
			return
		}
		step := stats.Float((t.step * units.Time(x.stride)).Microseconds())
		s := results.Series{Kind: t.kind, Name: t.names[i], Unit: t.unit, StartUs: step, StepUs: step, Values: x.values}
		if x.stride > 1 {
			s.Thinned = x.stride
		}
		if t.peaks != nil {
			s.Max = t.peaks[i].values
		}
		out.Series = append(out.Series, s)
	}
	for i := range m.shown {
		for _, t := range []*seriesTable{m.rate, m.wire, m.rtt, m.underWay} {
			put(t, i)
		}
		if slices.ContainsFunc(m.distance.traces[i].values, stats.Float.Measured) {
			put(m.jain, i)
			put(m.distance, i)
		}
	}
	for i := range m.links {
		put(m.queue, i)
		put(m.busy, i)
	}
	for i := range m.spec.Switches {
		put(m.buffer, i)
	}
}

// trace is the values of a series, no more than a limit. Where there would be more,
// two are merged into one, and from then on each value covers twice as many steps.
type trace struct {
	limit   int
	largest bool // of two, the larger; else their mean
	values  []stats.Float
	stride  int // steps that a value is of

	sum  stats.Float // of the value that is not complete
	n    int         // measured steps of it
	seen int         // all
}

func (t *trace) add(v stats.Float) {
	if t.limit == 0 {
		return
	}
	if v.Measured() {
		if t.largest {
			t.sum = max(t.sum, v)
		} else {
			t.sum += v
		}
		t.n++
	}
	if t.seen++; t.seen < t.stride {
		return
	}
	if len(t.values) == t.limit {
		t.halve()
		if t.seen < t.stride {
			return
		}
	}
	t.values = append(t.values, t.value())
	t.sum, t.n, t.seen = 0, 0, 0
}

// value is that of the steps seen.
func (t *trace) value() stats.Float {
	switch {
	case t.n == 0:
		return stats.Unmeasured
	case t.largest:
		return t.sum
	}
	return t.sum / stats.Float(t.n)
}

// halve makes one value of each two.
func (t *trace) halve() {
	half := t.values[:0]
	for i := 0; i+1 < len(t.values); i += 2 {
		a, b := t.values[i], t.values[i+1]
		switch {
		case !a.Measured():
			a = b
		case !b.Measured():
		case t.largest:
			a = max(a, b)
		default:
			a = (a + b) / 2
		}
		half = append(half, a)
	}
	t.values, t.stride = half, 2*t.stride
}
