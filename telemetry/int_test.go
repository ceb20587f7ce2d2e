package telemetry

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/units"
	"pgregory.net/rapid"
)

func TestHopRecord(t *testing.T) {
	f := DefaultINTFormat(INT64)
	for _, c := range []struct {
		name string
		hop  Hop
		want HopRecord
	}{
		{"each field", Hop{Rate: 100 * units.Gbps, Time: 0x123456 * units.Nanosecond, TxBytes: 0x54321 * 128, QLen: 0xabcd * 80}, HopRecord{Low: 0x2_123456_54321_abcd}},
		{"rounded down", Hop{Rate: 25 * units.Gbps, Time: 1999, TxBytes: 255, QLen: 159}, HopRecord{Low: 0x0_000001_00001_0001}},
		{"wrapped", Hop{Rate: 25 * units.Gbps, Time: (units.Nanosecond << 24) + 5*units.Nanosecond, TxBytes: (128 << 20) + 256, QLen: (80 * 0xffff) + 80}, HopRecord{Low: 0x0_000005_00002_ffff}},
		{"no code for the rate", Hop{Rate: 26 * units.Gbps}, HopRecord{Low: 0xf_000000_00000_0000}},
		{"negative queue", Hop{Rate: 10 * units.Gbps, QLen: -1}, HopRecord{Low: 0x7_000000_00000_0000}},
	} {
		if got := f.Record(c.hop); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}

// Each form, two hops and four bytes behind them: at 100 Gbps (code 2), and at 25 Gbps (code 0).
func TestINTBytes(t *testing.T) {
	first := Hop{Rate: 100 * units.Gbps, Time: 0x123456 * units.Nanosecond, TxBytes: 0x54321 * 128, QLen: 0xabcd * 80}
	second := Hop{Rate: 25 * units.Gbps, Time: 0x123457 * units.Nanosecond, TxBytes: 0x100 * 128, QLen: 80}
	rows := []struct {
		form             INTForm
		want, turnedBack string // the latter up to the records
	}{
		// type 4, NPT 1, overflow 0, reflected 0; words; port. rate 4, time 24, txBytes 20, queue 16.
		{INT64, "44 04 12b7  0 123457 00100 0001  2 123456 54321 abcd", "45 04 12b7"},
	}
	if len(rows) != len(intLayouts) {
		t.Errorf("%d forms have bytes here, of %d", len(rows), len(intLayouts))
	}
	payload := []byte{0x0a, 0, 0xff, 0xff}
	for _, c := range rows {
		f := DefaultINTFormat(c.form)
		b := make([]byte, MaxINTBytes)
		end := c.form.Put(b, 4791)
		end += copy(b[end:], payload)
		end = c.form.Push(b, end, f.Record(first))
		end = c.form.Push(b, end, f.Record(second))
		want, turnedBack := unhex(t, c.want+"0a00ffff"), unhex(t, c.turnedBack)
		if !bytes.Equal(b[:end], want) {
			t.Fatalf("%v: %x, want %x", c.form, b[:end], want)
		}
		v, rest, err := c.form.Parse(b[:end])
		if err != nil || !bytes.Equal(rest, payload) || c.form.Hops(v) != 2 || c.form.Port(v) != 4791 || c.form.Overflow(v) || c.form.Reflected(v) {
			t.Fatalf("%v: %x, %x, %v", c.form, v, rest, err)
		}
		for i, h := range []Hop{first, second} {
			if got := f.Near(c.form.Hop(v, i), h); got != h {
				t.Errorf("%v: hop %d is %+v, want %+v", c.form, i, got, h)
			}
		}
		if got := PerHop.WireBytes(c.form, 2); int(got) != len(v) {
			t.Errorf("%v: the models charge %d bytes for %d", c.form, got, len(v))
		}
		back := make([]byte, MaxINTBytes)
		n := c.form.PutReflected(back, v, 4791)
		n += copy(back[n:], payload)
		if !bytes.HasPrefix(back, turnedBack) || c.form.Push(back, n, HopRecord{Low: 3}) != n {
			t.Errorf("%v: a switch added to what is reflected: %x", c.form, back[:n])
		}
		r, rest, err := c.form.Parse(back[:n])
		if err != nil || !c.form.Reflected(r) || !bytes.Equal(rest, payload) || c.form.Hop(r, 1) != c.form.Hop(v, 1) {
			t.Errorf("%v: %x, %x, %v", c.form, r, rest, err)
		}
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPushHopKeepsTheFirstHopsAndMarksWhatIsMissing(t *testing.T) {
	b := make([]byte, 128)
	end := INT64.Put(b, 4791)
	for i := range MaxHops + 2 {
		end = INT64.Push(b, end, HopRecord{Low: uint64(i)})
	}
	v, _, err := INT64.Parse(b[:end])
	if err != nil || INT64.Hops(v) != MaxHops || !INT64.Overflow(v) {
		t.Fatalf("%d hops, overflow %v, %v", INT64.Hops(v), INT64.Overflow(v), err)
	}
	for i := range MaxHops {
		if INT64.Hop(v, i) != (HopRecord{Low: uint64(i)}) {
			t.Errorf("hop %d is that of switch %d", i, INT64.Hop(v, i))
		}
	}
}

func TestParseINTRefuses(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		want      error
	}{
		{"nothing", "", errNoINT},
		{"short shim", "440012", errNoINT},
		{"INT-MD", "140012b7", errNoINT},
		{"no port", "480012b7", errNoINT},
		{"odd length", "440112b7", errNoINT},
		{"too many hops", "441212b7", errNoINT},
		{"short records", "440212b700112233445566", errShortINT},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := INT64.Parse(b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestValidateINTFormat(t *testing.T) {
	f := DefaultINTFormat(INT64)
	if err := f.Validate(); err != nil {
		t.Error(err)
	}
	f.Rates[3] = -1
	if f.Validate() == nil {
		t.Error("a negative rate passes")
	}
	f = INTFormat{}
	if f.Validate() == nil {
		t.Error("port 0 passes")
	}
	if f := (INTFormat{Form: 200, Port: 1}); f.Validate() == nil {
		t.Error("a form that there is not passes")
	}
	if _, ok := f.RateCode(0); ok {
		t.Error("a rate of 0 has a code")
	}
}

// oneHop returns the records of one hop as they arrive.
func oneHop(f *INTFormat, h Hop) INT {
	b := make([]byte, 12)
	n := INT64.Put(b, 4791)
	INT64.Push(b, n, f.Record(h))
	return INT(b)
}

func TestHopReaderUndoesTheWraps(t *testing.T) {
	f := DefaultINTFormat(INT64)
	rapid.Check(t, func(t *rapid.T) {
		var r HopReader
		var s Stack
		rate := 100 * units.Gbps
		skew := units.Time(rapid.Int64Range(-int64(units.Second), int64(units.Second)).Draw(t, "skew"))
		hop := Hop{Rate: rate, Time: 5 * units.Second, TxBytes: 1 << 40}
		first := hop
		for i := range rapid.IntRange(2, 50).Draw(t, "packets") {
			// At most what the port can send before the bytes wrap.
			dt := units.Time(rapid.Int64Range(0, int64(10*units.Millisecond)).Draw(t, "dt"))
			if i == 0 {
				dt = 0
			}
			hop.Time += dt / units.Nanosecond * units.Nanosecond
			hop.TxBytes += rate.BytesIn(dt) / 128 * 128
			delay := units.Time(rapid.Int64Range(0, int64(2*units.Millisecond)).Draw(t, "delay"))
			if ok := r.Read(&f, oneHop(&f, hop), hop.Time+skew+delay, &s); ok != (i > 0) {
				t.Fatalf("packet %d: %v", i, ok)
			}
			if i == 0 {
				first = Hop{Time: hop.Time - s.Hops[0].Time, TxBytes: hop.TxBytes - s.Hops[0].TxBytes}
			}
			want := Hop{Rate: rate, Time: hop.Time - first.Time, TxBytes: hop.TxBytes - first.TxBytes}
			if s.Hops[0] != want {
				t.Fatalf("packet %d: %+v, want %+v", i, s.Hops[0], want)
			}
		}
	})
}

func TestHopReader(t *testing.T) {
	f := DefaultINTFormat(INT64)
	const ms, us = units.Millisecond, units.Microsecond
	read := func(r *HopReader, h Hop, now units.Time) (Hop, bool) {
		var s Stack
		ok := r.Read(&f, oneHop(&f, h), now, &s)
		return s.Hops[0], ok
	}
	base := Hop{Rate: 100 * units.Gbps, Time: 20 * ms, TxBytes: (128 << 20) - 256}
	var r HopReader
	start, ok := read(&r, base, 0)
	if ok {
		t.Error("the first record has nothing to be compared with")
	}

	// A packet that was overtaken: 10 us and 128 bytes before the last.
	old := base
	old.Time, old.TxBytes = base.Time-10*us, base.TxBytes-128
	if got, ok := read(&r, old, 3*us); !ok || got.Time-start.Time != -10*us || got.TxBytes-start.TxBytes != -128 {
		t.Errorf("an older record reads %+v after %+v (%v)", got, start, ok)
	}

	// Idle for 50 ms: three wraps of time, and the bytes can have wrapped as well.
	late := base
	late.Time += 50 * ms
	if got, ok := read(&r, late, 50*ms); ok || got.Time-start.Time != 50*ms {
		t.Errorf("50 ms later reads %v later (%v)", got.Time-start.Time, ok)
	}

	// A rate without a code.
	odd := late
	odd.Rate = 3 * units.Gbps
	if got, ok := read(&r, odd, 50*ms); ok || got.Rate != 0 {
		t.Errorf("a rate without a code reads %v (%v)", got.Rate, ok)
	}

	// A hop that was not in the last packet starts anew.
	var s Stack
	two := make([]byte, 20)
	INT64.Push(two, INT64.Push(two, INT64.Put(two, 1), f.Record(base)), f.Record(base))
	if r.Read(&f, two, 0, &s) || s.N != 2 {
		t.Errorf("%d hops", s.N)
	}
	if !r.Read(&f, two, 0, &s) {
		t.Error("the second time there is something to compare with")
	}
	r.Read(&f, oneHop(&f, base), 0, &s)
	if r.Read(&f, two, 0, &s) {
		t.Error("a hop that came back is compared with what it was before")
	}
}

func TestHotPathsDontAllocate(t *testing.T) {
	wide, f := DefaultDelayFormat(Wide), DefaultINTFormat(INT64)
	frame := wide.Append(nil, plainFrame(1), DelayTag{}, &DelayTag{})
	dst := make([]byte, 0, 256)
	b := make([]byte, 64)
	var r HopReader
	var s Stack
	v := oneHop(&f, Hop{Rate: 100 * units.Gbps})
	if n := testing.AllocsPerRun(100, func() {
		wide.Raise(frame, wide.Quantise(3*units.Microsecond), 0)
		dst = wide.Append(dst[:0], plainFrame1, DelayTag{}, &DelayTag{})
		tags, _ := wide.Find(dst)
		tags.Remove(dst)
		INT64.Push(b, INT64.Put(b, 4791), f.Record(Hop{Rate: 100 * units.Gbps}))
		v, _, _ := INT64.Parse(b[:12])
		r.Read(&f, v, 0, &s)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	_ = v
}

var plainFrame1 = plainFrame(1)

func FuzzINT(f *testing.F) {
	f.Add([]byte{0x44, 2, 0x12, 0xb7, 1, 2, 3, 4, 5, 6, 7, 8, 9}, int64(5))
	f.Add([]byte{0x44, 16, 0x12, 0xb7}, int64(5))
	format := DefaultINTFormat(INT64)
	var r HopReader
	f.Fuzz(func(t *testing.T, b []byte, now int64) {
		v, rest, err := INT64.Parse(b)
		room := make([]byte, len(b)+8)
		copy(room, b)
		end := INT64.Push(room, len(b), HopRecord{Low: 0x0123456789abcdef})
		if err != nil {
			if end != len(b) || !bytes.Equal(room[:end], b) {
				t.Fatalf("%x became %x", b, room[:end])
			}
			return
		}
		if len(v)+len(rest) != len(b) || int(PerHop.WireBytes(INT64, INT64.Hops(v))) != len(v) {
			t.Fatalf("%d and %d bytes of %d", len(v), len(rest), len(b))
		}
		w, rest2, err := INT64.Parse(room[:end])
		if err != nil || !bytes.Equal(rest, rest2) {
			t.Fatalf("%x: %v", room[:end], err)
		}
		if end > len(b) && (INT64.Hops(w) != INT64.Hops(v)+1 || INT64.Hop(w, INT64.Hops(w)-1).Low != 0x0123456789abcdef) {
			t.Fatalf("%x", w)
		}
		var s Stack
		r.Read(&format, w, units.Time(now), &s)
	})
}
