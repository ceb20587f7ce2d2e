package telemetry

import (
	"bytes"
	"math/bits"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/units"
	"pgregory.net/rapid"
)

// drawLayout draws a layout of per-hop INT, of fields anywhere.
func drawLayout(t *rapid.T) intLayout {
	l := intLayout{
		name: "drawn", shim: rapid.SampledFrom([]int{4, 8}).Draw(t, "shim"), record: rapid.SampledFrom([]int{8, 16}).Draw(t, "record"),
		most: rapid.Uint8Range(1, MaxHops).Draw(t, "most"), latestFirst: rapid.Bool().Draw(t, "latest first"),
		counts:   1 << rapid.IntRange(0, 3).Draw(t, "counts"),
		timeUnit: units.Time(rapid.Int64Range(1, 1<<20).Draw(t, "time unit")),
		txUnit:   units.Bytes(rapid.Int64Range(1, 4096).Draw(t, "tx unit")), queueUnit: units.Bytes(rapid.Int64Range(1, 4096).Draw(t, "queue unit")),
	}
	place := func(top int, fields []*bitField, widths []int) {
		at := 0
		for _, i := range rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range fields {
				yield(i)
			}
		})).Draw(t, "order") {
			if at/64 != (at+widths[i]-1)/64 {
				at = 64
			}
			*fields[i] = field(uint8(at), uint8(widths[i]))
			at += widths[i]
		}
		if at > top {
			t.Fatalf("%d bits of %d", at, top)
		}
	}
	place(8*l.shim, []*bitField{&l.kind, &l.overflow, &l.reflected, &l.count, &l.port}, []int{5, rapid.IntRange(0, 1).Draw(t, "overflow"), 1, 8, 16})
	l.is = rapid.Uint64Range(0, l.kind.most).Draw(t, "is")
	width := func(name string, most int) int { return rapid.IntRange(2, most).Draw(t, name) }
	place(8*l.record, []*bitField{&l.rate, &l.time, &l.tx, &l.queue}, []int{width("rate", 5), width("time", 23), width("tx", 20), width("queue", 16)})
	return l
}

// Whatever a row says: what a switch pushes is read, in path order, and what a record holds of
// a hop is within the units of its fields.
func TestAnyLayout(t *testing.T) {
	form, u := intLayouts[INT64], intUnits[INT64]
	t.Cleanup(func() { intLayouts[INT64], intUnits[INT64] = form, u })
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		intLayouts[INT64] = l
		intUnits[INT64].time, intUnits[INT64].tx, intUnits[INT64].queue = newUnit(uint64(l.timeUnit)), newUnit(uint64(l.txUnit)), newUnit(uint64(l.queueUnit))
		f := DefaultINTFormat(INT64)
		if err := f.Validate(); err != nil {
			t.Fatal(err)
		}
		payload := []byte("behind the records")
		b := make([]byte, MaxINTBytes+64)
		end := f.Form.Put(b, 4791)
		end += copy(b[end:], payload)
		hops := rapid.IntRange(0, MaxHops+2).Draw(t, "hops")
		var pushed []HopRecord
		for i := range hops {
			h := Hop{
				Rate: f.Rates[rapid.IntRange(0, f.Form.codes()-1).Draw(t, "rate")], Time: units.Time(rapid.Int64Range(0, 1<<50).Draw(t, "time")),
				TxBytes: units.Bytes(rapid.Int64Range(0, 1<<50).Draw(t, "tx")), QLen: units.Bytes(rapid.Int64Range(0, 1<<20).Draw(t, "queue")),
			}
			r := f.Record(h)
			got := f.Near(r, h)
			if q := f.Quantised(h); q != got {
				t.Fatalf("%+v is quantised to %+v, and its record reads %+v", h, q, got)
			}
			queue := min(h.QLen/l.queueUnit, units.Bytes(l.queue.most)) * l.queueUnit
			if got.Rate != h.Rate || got.Time != h.Time/l.timeUnit*l.timeUnit || got.TxBytes != h.TxBytes/l.txUnit*l.txUnit || got.QLen != queue {
				t.Fatalf("%+v reads %+v in %+v", h, got, l)
			}
			n := f.Form.Push(b, end, r)
			if full := i >= int(l.most); full != (n == end) {
				t.Fatalf("%d bytes of %d behind %d hops of %d", n, end, i, l.most)
			}
			if end = n; i < int(l.most) {
				pushed = append(pushed, r)
			}
		}
		v, rest, err := f.Form.Parse(b[:end])
		if err != nil || !bytes.Equal(rest, payload) || f.Form.Port(v) != 4791 || f.Form.Reflected(v) || f.Form.Hops(v) != len(pushed) || len(v) != f.Form.Bytes(len(pushed)) {
			t.Fatalf("%x, %q, %v of %d hops in %+v", v, rest, err, len(pushed), l)
		}
		if over := hops > int(l.most) && l.overflow.most > 0; f.Form.Overflow(v) != over {
			t.Fatalf("overflow of %d hops, %d at most: %v", hops, l.most, !over)
		}
		for i, r := range pushed {
			if f.Form.Hop(v, i) != r {
				t.Fatalf("hop %d is %+v, want %+v, of %+v", i, f.Form.Hop(v, i), r, l)
			}
		}
		back := make([]byte, len(v)+l.record)
		if n := f.Form.PutReflected(back, v, 1); n != len(v) || !f.Form.Reflected(back[:n]) || f.Form.Port(back[:n]) != 1 || f.Form.Push(back, n, HopRecord{}) != n {
			t.Fatalf("%x goes back as %x", v, back[:n])
		}
	})
}

// A unit divides as / does, and finds the nearest of what a code can stand for.
func TestUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.OneOf(rapid.Int64Range(1, 1<<40), rapid.Custom(func(t *rapid.T) int64 { return 1 << rapid.IntRange(0, 40).Draw(t, "log") })).Draw(t, "d")
		u := newUnit(uint64(d))
		n := rapid.Int64().Draw(t, "n")
		for _, n := range []int64{n, n / d * d, n/d*d - 1, 1<<63 - 1, -1 << 63} {
			if got := int64(u.into(n)); got != n/d {
				t.Fatalf("%d/%d is %d, want %d", n, d, got, n/d)
			}
		}
		most := uint64(1)<<rapid.IntRange(1, 61-bits.Len64(uint64(d))).Draw(t, "bits") - 1
		truth := rapid.Int64Range(0, 1<<61).Draw(t, "truth")
		code := rapid.Uint64Range(0, most).Draw(t, "code")
		got, wrap := u.nearest(truth, code, most), d*int64(most+1)
		if (got-int64(code)*d)%wrap != 0 || got-truth > wrap/2 || got-truth < -(wrap+1)/2 {
			t.Fatalf("%d of %d times %d is %d, wrapping after %d", code, most, d, got, wrap)
		}
	})
}
