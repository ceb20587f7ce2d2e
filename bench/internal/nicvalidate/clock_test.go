package nicvalidate

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/units"
	"pgregory.net/rapid"
)

// What docs/calibration.md states of its synthetic clocks, "Measured": the largest of the
// 99th percentiles and of the maxima of the errors.
const (
	statedErrorP99 = 631 * units.Nanosecond
	statedErrorMax = 818 * units.Nanosecond
)

// checkClock holds the model's clock against what docs/calibration.md states of errors and
// bounds.
func checkClock(t *testing.T, all []*RoundTrips) {
	t.Helper()
	for _, r := range all {
		if n := r.Outside(); n > 0 || r.Refused > 0 || r.Wraps != 1 || len(r.Errors) < 500 {
			t.Errorf("%+v: of %d round trips %d are outside their bound and %d were refused, across %d wraps", r.Case, len(r.Errors), n, r.Refused, r.Wraps)
			continue
		}
		errors := slices.Sorted(slices.Values(r.Errors))
		p99, most := percentile(errors, 99), errors[len(errors)-1]
		if p99 > statedErrorP99 || most > statedErrorMax {
			t.Errorf("%+v: errors of %v at the 99th percentile and %v at most; %v and %v are stated", r.Case, p99, most, statedErrorP99, statedErrorMax)
		}
		// On an idle link reading takes as long there as back: a tick is what is left.
		if tick := units.FromSeconds(1 / r.Hz); !r.Case.Loaded && most > 2*tick {
			t.Errorf("%+v: an error of %v on an idle link, with ticks of %v", r.Case, most, tick)
		}
		// Or the case would be the idle one.
		if first, last := slices.Min(r.Brackets), slices.Max(r.Brackets); r.Case.Loaded && last < 2*first {
			t.Errorf("%+v: readings took %v to %v", r.Case, first, last)
		}
	}
}

// However far a counter is off, and wherever it stands, no round trip is outside its bound.
func TestRoundTripsWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, err := preset(rapid.SampledFrom([]string{"cx3", "cx5", "cx6dx"}).Draw(t, "preset"))
		if err != nil {
			t.Fatal(err)
		}
		cfg.PCIe = slower(cfg.PCIe)
		cfg.Framing = 0 // that of the lab's link
		cfg.Counter.PPB = rapid.Int64Range(-100_000, 100_000).Draw(t, "ppb")
		cfg.Counter.Bits = rapid.IntRange(32, 46).Draw(t, "bits")
		const run = 12 * time.Millisecond
		wrap := untilWrap(cfg.Counter)
		cfg.Counter.Phase = max(0, wrap-units.Time(rapid.Int64Range(0, int64(wrap)).Draw(t, "before the wrap")))
		if rapid.Bool().Draw(t, "wraps") {
			cfg.Counter.Phase = wrap - units.FromDuration(run)*units.Time(rapid.IntRange(1, 9).Draw(t, "when"))/10
		}
		r, err := roundTrips(cfg, rapid.IntRange(0, 19).Draw(t, "loaded") == 0, run)
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Outside(); n > 0 || r.Refused > 0 || len(r.Errors) < 5 {
			t.Fatalf("of %d round trips %d are outside their bound and %d were refused", len(r.Errors), n, r.Refused)
		}
	})
}
