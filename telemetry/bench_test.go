package telemetry

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

func BenchmarkDelayTag(b *testing.B) {
	for _, form := range []DelayForm{Wide, Compact, Value} {
		f := DefaultDelayFormat(form)
		b.Run(form.String(), func(b *testing.B) {
			var tag [WideBytes]byte
			var sum units.Time
			for b.Loop() {
				f.Put(tag[:], DelayTag{Code: f.Quantise(3 * units.Microsecond)})
				t, _ := f.Parse(tag[:])
				sum += f.Delay(t.Code)
			}
			if sum == 0 {
				b.Fatal("no delay")
			}
		})
		b.Run(form.String()+"/quantised", func(b *testing.B) {
			var sum units.Time
			for b.Loop() {
				sum += f.Quantised(3 * units.Microsecond)
			}
			if sum == 0 {
				b.Fatal("no delay")
			}
		})
	}
}
