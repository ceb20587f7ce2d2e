package calibration

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// A calibrator whose host clock is set back maps as one whose clock is not.
func TestSettingTheClockBackChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.SampledFrom([]int{32, 48, 63, 64}).Draw(t, "bits")
		cfg := DefaultConfig(bits, 1e9)
		still, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		moved, _ := New(cfg)
		now, behind := units.Time(0), units.Time(0)
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			now += units.Time(rapid.SampledFrom([]int64{1e6, 1e9, 1e11, 5e12}).Draw(t, "step"))
			width := units.Time(rapid.Int64Range(1, 3000).Draw(t, "width")) * units.Nanosecond
			ticks := uint64((now+width/2)/units.Nanosecond) << (64 - bits) >> (64 - bits)
			x := Sample{HostBefore: now, NIC: ticks, HostAfter: now + width}
			want := still.Add(x)
			x.HostBefore, x.HostAfter = now-behind, now+width-behind
			if got := moved.Add(x); got != want {
				t.Fatalf("Add: %v, expected %v", got, want)
			}
			if rapid.IntRange(0, 4).Draw(t, "set back") == 0 {
				by := rapid.SampledFrom([]units.Time{1, units.Second, 1 << 55, now - behind}).Draw(t, "by")
				moved.SetBack(by)
				behind += by
			}
			a, b := still.Status(now), moved.Status(now-behind)
			if a != b || still.NextSample() != moved.NextSample()+behind {
				t.Fatalf("status %+v, next %v; expected %+v, %v", b, moved.NextSample()+behind, a, still.NextSample())
			}
			m, ok := still.ToHost(ticks + 1000)
			got, ok2 := moved.ToHost(ticks + 1000)
			got.Host += behind
			if ok != ok2 || ok && got != m {
				t.Fatalf("ToHost: %+v, %v; expected %+v, %v", got, ok2, m, ok)
			}
		}
	})
}
