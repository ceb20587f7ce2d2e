package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

func TestRecorderAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(0, int64(900*units.Second)), 1, 300).Draw(t, "times")
		p := rapid.Float64Range(0, 100).Draw(t, "p")
		r := NewRecorder()
		var sum float64
		for _, x := range times {
			r.Record(units.Time(x))
			sum += float64(x)
		}
		slices.Sort(times)
		mean := sum / float64(len(times))
		if got := r.Mean(); math.Abs(float64(got)-mean) > 1+mean*1e-12 {
			t.Fatalf("mean %d, want %.1f", got, mean)
		}
		if got := r.Max(); got != units.Time(times[len(times)-1]) {
			t.Fatalf("max %v, want %v", got, units.Time(times[len(times)-1]))
		}
		// The histogram rounds the rank to the nearest sample.
		rank := p / 100 * float64(len(times))
		low := float64(times[max(int(math.Floor(rank))-1, 0)])
		high := float64(times[min(int(math.Ceil(rank)), len(times)-1)])
		const digits, ns = 1.0 / 1000, float64(units.Nanosecond)
		if got := float64(r.Percentile(p)); got < low*(1-digits)-ns || got > high*(1+digits)+ns {
			t.Fatalf("percentile %v is %.0f, want one from %.0f to %.0f", p, got, low, high)
		}
	})
}

func TestRecorderMergeIsRecordingAll(t *testing.T) {
	a, b, all := NewRecorder(), NewRecorder(), NewRecorder()
	for i := range units.Time(1000) {
		x := i * i * units.Nanosecond
		all.Record(x)
		if i%3 == 0 {
			a.Record(x)
		} else {
			b.Record(x)
		}
	}
	a.Merge(b)
	if a.Count() != all.Count() || a.Mean() != all.Mean() || a.Max() != all.Max() {
		t.Errorf("count %d, mean %v, max %v; want %d, %v, %v", a.Count(), a.Mean(), a.Max(), all.Count(), all.Mean(), all.Max())
	}
	for _, p := range []float64{0, 1, 50, 99, 100} {
		if a.Percentile(p) != all.Percentile(p) {
			t.Errorf("percentile %v is %v, want %v", p, a.Percentile(p), all.Percentile(p))
		}
	}
}

func TestRecorderExtremes(t *testing.T) {
	r := NewRecorder()
	if r.MeanUs().Measured() || r.PercentileUs(50).Measured() || r.Percentile(99) != 0 || len(r.Distribution("rtt", "all").Values) != 0 {
		t.Error("an empty recorder has measured something")
	}
	r.Record(-5)
	r.Record(units.Never) // beyond the histogram, not beyond the sum
	if r.Percentile(0) != 0 || r.Max() != units.Never || r.Mean() != units.Never/2 {
		t.Errorf("least %v, max %v, mean %v", r.Percentile(0), r.Max(), r.Mean())
	}
	// The sum of these does not fit 64 bits.
	for range 10 {
		r.Record(units.Never)
	}
	if want := units.Never / 12 * 11; r.Mean() < want || r.Mean() > want+12 {
		t.Errorf("mean %d, want %d", r.Mean(), want)
	}
}

func TestRecorderDistribution(t *testing.T) {
	r := NewRecorder()
	for i := range units.Time(10_000) {
		r.Record(i * units.Microsecond)
	}
	d := r.Distribution("rtt", "all")
	if len(d.Values) != len(d.Share) || len(d.Values) < 40 || !slices.IsSorted(d.Values) || !slices.IsSorted(d.Share) {
		t.Fatalf("%d values, %d shares", len(d.Values), len(d.Share))
	}
	for i, v := range d.Values {
		if want := 10_000 * float64(d.Share[i]); math.Abs(float64(v)-want) > 1+want/500 {
			t.Errorf("share %v is at %v us, want %v", d.Share[i], v, want)
		}
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	r := NewRecorder()
	x := units.Microsecond
	if n := testing.AllocsPerRun(1000, func() { r.Record(x); x += 17 * units.Nanosecond }); n != 0 {
		t.Errorf("a record takes %v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	r := NewRecorder()
	x := units.Microsecond
	b.ReportAllocs()
	for b.Loop() {
		r.Record(x)
		x = (x + 17*units.Nanosecond) % units.Second
	}
}

func TestJain(t *testing.T) {
	cases := []struct {
		shares []float64
		want   Float
	}{
		{[]float64{3, 3, 3, 3}, 1},
		{[]float64{1, 0, 0, 0}, 0.25},
		{[]float64{1, 2, 3}, 36.0 / 42},
		{[]float64{7}, 1},
	}
	for _, c := range cases {
		if got := Jain(c.shares); math.Abs(float64(got-c.want)) > 1e-15 {
			t.Errorf("Jain(%v) is %v, want %v", c.shares, got, c.want)
		}
	}
	for _, shares := range [][]float64{nil, {0, 0}} {
		if Jain(shares).Measured() {
			t.Errorf("Jain(%v) is measured", shares)
		}
	}
}
