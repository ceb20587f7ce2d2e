package clocks

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/units"
)

// compareOver watches both clocks of a world for a time, as Watch does.
func compareOver(tb rapid.TB, w *world, span units.Time) Compared {
	nic := &Source{Hz: w.nicHz, Bits: w.nicBits}
	ptp := &Source{Hz: 1e9, Bits: 64}
	cmp := NewComparison(nic, ptp)
	a, err := calibration.New(calibration.DefaultConfig(nic.Bits, nic.Hz))
	if err != nil {
		tb.Fatal(err)
	}
	b, err := calibration.New(calibration.DefaultConfig(ptp.Bits, ptp.Hz))
	if err != nil {
		tb.Fatal(err)
	}
	sample := func(read func() uint64) calibration.Sample {
		before := w.now
		w.pass()
		x := read()
		w.pass()
		return calibration.Sample{HostBefore: before, NIC: x, HostAfter: w.now}
	}
	for end := w.now + span; w.now < end; w.now += 5 * units.Millisecond {
		a.Add(sample(w.nic))
		b.Add(sample(func() uint64 { return uint64(w.ptp()) }))
		cmp.Add(w.now, a, b)
	}
	return cmp.Result()
}

// What is said of rates and offsets holds: the truth is within the bounds.
func TestComparisonBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5)), now: 100 * units.Second,
			nicHz:    rapid.SampledFrom([]float64{156.25e6, 427e6, 1e9}).Draw(t, "Hz"),
			nicBits:  rapid.SampledFrom([]int{30, 41, 48, 64}).Draw(t, "bits"),
			nicPPM:   rapid.Float64Range(-100, 100).Draw(t, "nic ppm"),
			nicStart: rapid.Uint64().Draw(t, "start"),
			ptpPPM:   rapid.Float64Range(-100, 100).Draw(t, "ptp ppm"),
			ptpEpoch: rapid.Int64Range(0, 2e18).Draw(t, "epoch"),
		}
		r := compareOver(t, w, 3*units.Second)
		// b gains (1+p)/1 - (1+n)/1 host seconds a second.
		want := w.ptpPPM - w.nicPPM
		if math.Abs(r.RatePPM-want) > r.RateBoundPPM || math.IsInf(r.RateBoundPPM, 1) {
			t.Errorf("rates differ by %v ppm, give or take %v; in truth by %v", r.RatePPM, r.RateBoundPPM, want)
		}
		if math.Abs(want) > 2*r.RateBoundPPM && r.Verdict != TwoClocks {
			t.Errorf("%v, with rates %v ppm apart", r, want)
		}
		if r.Verdict == OneClock && want != 0 && math.Abs(want) > discern+r.RateBoundPPM {
			t.Errorf("%v, with rates %v ppm apart", r, want)
		}
	})
}

func TestComparisonVerdicts(t *testing.T) {
	base := world{nicHz: 1e9, nicBits: 64, nicPPM: 20, ptpPPM: 20}
	for _, c := range []struct {
		name string
		span units.Time
		with func(*world)
		want Verdict
	}{
		{"the same clock", 10 * units.Second, func(*world) {}, OneClock},
		{"another epoch", 10 * units.Second, func(w *world) { w.ptpEpoch = 1.7e18 }, SameRate},
		{"a millisecond off", 10 * units.Second, func(w *world) { w.ptpEpoch = 1e6 }, SameRate},
		{"an epoch too far to subtract", 10 * units.Second, func(w *world) { w.nicStart = 1 << 63 }, SameRate},
		{"cycles", 10 * units.Second, func(w *world) { w.nicHz = 156.25e6 }, SameRate},
		{"cycles that wrap", 10 * units.Second, func(w *world) { w.nicHz, w.nicBits = 156.25e6, 32 }, SameRate},
		{"steered by 5 ppm", 10 * units.Second, func(w *world) { w.ptpPPM = 25 }, TwoClocks},
		{"too short", 100 * units.Millisecond, func(*world) {}, Undecided},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := base
			w.rng = rand.New(rand.NewPCG(6, 7))
			w.now = 100 * units.Second
			c.with(&w)
			r := compareOver(t, &w, c.span)
			if r.Verdict != c.want {
				t.Errorf("%v, want %v", r, c.want)
			}
			if r.String() == "" || c.want != OneClock && r.Verdict == c.want && c.name == "a millisecond off" && (r.Offset-units.Millisecond).Nanoseconds() > r.OffsetBound.Nanoseconds() {
				t.Errorf("%v: offset %v", r, r.Offset)
			}
		})
	}
	if r := (&Comparison{}).Result(); r.Verdict != Undecided || !math.IsInf(r.RateBoundPPM, 1) {
		t.Errorf("of nothing: %v", r)
	}
}
