package workload

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

func TestDistributionsAreDistributions(t *testing.T) {
	for _, d := range Distributions() {
		first, last := d.points[0], d.points[len(d.points)-1]
		if first.share != 0 || last.share != d.whole {
			t.Errorf("%s goes from %v to %v, not from 0 to %v", d.Name, first.share, last.share, d.whole)
		}
		for i := 1; i < len(d.points); i++ {
			if a, b := d.points[i-1], d.points[i]; b.size <= a.size || b.share < a.share {
				t.Errorf("%s: point %v follows %v", d.Name, b, a)
			}
		}
		if d.Summary == "" || d.Source == "" {
			t.Errorf("%s says not what it is or where it comes from", d.Name)
		}
	}
}

// Figures that the sources state, or that follow from their points by hand.
func TestDistributionFigures(t *testing.T) {
	shares := []struct {
		name  string
		size  units.Bytes
		share float64
	}{
		{"websearch", 80_000, 0.53},
		{"websearch", 2_000, 0},
		{"websearch", 15_000, 0.175}, // half-way between 10 KB and 20 KB
		{"websearch", 30_000_000, 1},
		{"hadoop", 1000, 0.60},
		{"datamining", 10_000, 0.80},
		{"google-rpc", 256, 0.497901},
		{"alistorage", 8000, 0.6921},
	}
	for _, c := range shares {
		d, err := lookupDistribution(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.share(c.size); math.Abs(got-c.share) > 1e-9 {
			t.Errorf("%s: %v of the flows have at most %v; want %v", c.name, got, c.size, c.share)
		}
	}
	// 1.71 MB is the mean that papers quote for web search.
	d, _ := lookupDistribution("websearch")
	if got := d.Mean(); got != 1711222.5 {
		t.Errorf("websearch has a mean of %v", got)
	}
}

func TestQuantileInvertsShare(t *testing.T) {
	for _, d := range Distributions() {
		t.Run(d.Name, rapid.MakeCheck(func(t *rapid.T) {
			u := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "u")
			v := rapid.Float64Range(u, math.Nextafter(1, 0)).Draw(t, "v")
			n, m := d.quantile(u), d.quantile(v)
			if n > m {
				t.Fatalf("quantile %v is %v, quantile %v is %v", u, n, v, m)
			}
			if n < 1 || float64(n) > d.points[len(d.points)-1].size {
				t.Fatalf("quantile %v is %v", u, n)
			}
			// A size is rounded to a byte, so u lies between its neighbours' shares.
			if low, high := d.share(n-1), d.share(n+1); u < low-1e-12 || u > high+1e-12 {
				t.Fatalf("quantile %v is %v, but from %v to %v of the flows are as small", u, n, low, high)
			}
		}))
	}
}

func TestSampledMean(t *testing.T) {
	const n = 200_000
	for _, d := range Distributions() {
		stream := des.NewStream(1, "sizes/"+d.Name)
		var sum, squares float64
		for range n {
			x := float64(d.quantile(stream.Float64()))
			sum += x
			squares += x * x
		}
		mean := sum / n
		deviation := math.Sqrt((squares/n - mean*mean) / n)
		if math.Abs(mean-d.Mean()) > 4*deviation {
			t.Errorf("%s: %d draws have a mean of %.0f +- %.0f; the distribution has %.0f", d.Name, n, mean, deviation, d.Mean())
		}
	}
}

func TestFixedSize(t *testing.T) {
	var s Sizes
	if err := s.UnmarshalText([]byte("128KiB")); err != nil {
		t.Fatal(err)
	}
	d := s.distribution()
	if d.Mean() != 131072 || d.quantile(0) != 131072 || d.quantile(0.999) != 131072 {
		t.Errorf("mean %v, quantiles %v, %v", d.Mean(), d.quantile(0), d.quantile(0.999))
	}
}

func TestSizeRange(t *testing.T) {
	var s Sizes
	if err := s.UnmarshalText([]byte("8KB..32KB")); err != nil {
		t.Fatal(err)
	}
	d := s.distribution()
	if d.Mean() != 20_000 || d.quantile(0) != 8000 || d.quantile(0.5) != 20_000 || d.largest() != 32_000 {
		t.Errorf("mean %v, quantiles %v, %v, largest %v", d.Mean(), d.quantile(0), d.quantile(0.5), d.largest())
	}
	if text, err := s.MarshalText(); err != nil || string(text) != "8KB..32KB" {
		t.Errorf("written as %s: %v", text, err)
	}
	for text, want := range map[string]string{
		"32KB..8KB": "ends before it begins", "8KB..32": "unit missing", "0B..8KB": "is no size of a flow", "8KB..": "",
	} {
		if err := s.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
