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

// BenchmarkINT is what a switch, a model and a sender do with a packet's records.
func BenchmarkINT(b *testing.B) {
	f := DefaultINTFormat(INT64)
	hop := Hop{Rate: 100 * units.Gbps, Time: 20 * units.Millisecond, TxBytes: 300 << 20, QLen: 123 * CellBytes}
	var buf [MaxINTBytes + 64]byte
	b.Run("push", func(b *testing.B) {
		for b.Loop() {
			end := f.Form.Put(buf[:], 4791) + 64
			for range 5 {
				end = f.Form.Push(buf[:], end, f.Record(hop))
			}
		}
	})
	end := f.Form.Put(buf[:], 4791)
	for range 5 {
		end = f.Form.Push(buf[:], end, f.Record(hop))
	}
	b.Run("read", func(b *testing.B) {
		var r HopReader
		var s Stack
		for b.Loop() {
			v, _, _ := f.Form.Parse(buf[:end])
			r.Read(&f, v, hop.Time, &s)
		}
	})
	b.Run("near", func(b *testing.B) {
		h := hop
		for b.Loop() {
			h = f.Near(f.Record(h), h)
		}
		if h.Rate != hop.Rate {
			b.Fatal(h)
		}
	})
	b.Run("quantised", func(b *testing.B) {
		h := hop
		for b.Loop() {
			h = f.Quantised(h)
		}
		if h.Rate != hop.Rate {
			b.Fatal(h)
		}
	})
}
