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
	f := DefaultINTFormat()
	for _, c := range []struct {
		name string
		hop  Hop
		want HopRecord
	}{
		{"each field", Hop{Rate: 100 * units.Gbps, Time: 0x123456 * units.Nanosecond, TxBytes: 0x54321 * 128, QLen: 0xabcd * 80}, 0x2_123456_54321_abcd},
		{"rounded down", Hop{Rate: 25 * units.Gbps, Time: 1999, TxBytes: 255, QLen: 159}, 0x0_000001_00001_0001},
		{"wrapped", Hop{Rate: 25 * units.Gbps, Time: HopTimeWrap + 5*units.Nanosecond, TxBytes: HopTxWrap + 256, QLen: HopQMax + 80}, 0x0_000005_00002_ffff},
		{"no code for the rate", Hop{Rate: 26 * units.Gbps}, 0xf_000000_00000_0000},
		{"negative queue", Hop{Rate: 10 * units.Gbps, QLen: -1}, 0x7_000000_00000_0000},
	} {
		if got := f.Record(c.hop); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
	r := HopRecord(0x2_123456_54321_abcd)
	if r.RateCode() != 2 || r.Timestamp() != 0x123456 || r.TxBytes() != 0x54321 || r.QLen() != 0xabcd {
		t.Errorf("%#x has %d, %#x, %#x, %#x", r, r.RateCode(), r.Timestamp(), r.TxBytes(), r.QLen())
	}
}

func TestINTBytes(t *testing.T) {
	payload := []byte{0x0a, 0, 0xff, 0xff}
	b := make([]byte, 64)
	end := PutINT(b, 4791)
	end += copy(b[end:], payload)
	end = PushHop(b, end, 0x1111111111111111)
	end = PushHop(b, end, 0x2222222222222222)
	want, err := hex.DecodeString(strings.ReplaceAll("440412b7 2222222222222222 1111111111111111 0a00ffff", " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b[:end], want) {
		t.Fatalf("%x, want %x", b[:end], want)
	}
	v, rest, err := ParseINT(b[:end])
	if err != nil || !bytes.Equal(rest, payload) || v.Hops() != 2 || v.Port() != 4791 || v.Overflow() || v.Reflected() {
		t.Fatalf("%x, %x, %v", v, rest, err)
	}
	if v.Hop(0) != 0x1111111111111111 || v.Hop(1) != 0x2222222222222222 {
		t.Errorf("hops %#x and %#x", v.Hop(0), v.Hop(1))
	}
	if got := PerHop.WireBytes(v.Hops()); int(got) != len(v) {
		t.Errorf("the models charge %d bytes for %d", got, len(v))
	}

	back := make([]byte, 64)
	n := v.PutReflected(back, 4791)
	n += copy(back[n:], payload)
	if back[0] != 0x45 || PushHop(back, n, 3) != n {
		t.Errorf("a switch added to what is reflected: %x", back[:n])
	}
	r, rest, err := ParseINT(back[:n])
	if err != nil || !r.Reflected() || !bytes.Equal(rest, payload) || r.Hop(1) != v.Hop(1) {
		t.Errorf("%x, %x, %v", r, rest, err)
	}
}

func TestPushHopKeepsTheFirstHopsAndMarksWhatIsMissing(t *testing.T) {
	b := make([]byte, 128)
	end := PutINT(b, 4791)
	for i := range MaxHops + 2 {
		end = PushHop(b, end, HopRecord(i))
	}
	v, _, err := ParseINT(b[:end])
	if err != nil || v.Hops() != MaxHops || !v.Overflow() {
		t.Fatalf("%d hops, overflow %v, %v", v.Hops(), v.Overflow(), err)
	}
	for i := range MaxHops {
		if v.Hop(i) != HopRecord(i) {
			t.Errorf("hop %d is that of switch %d", i, v.Hop(i))
		}
	}
}

func TestParseINTRefuses(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		want      error
	}{
		{"nothing", "", ErrNoINT},
		{"short shim", "440012", ErrNoINT},
		{"INT-MD", "140012b7", ErrNoINT},
		{"no port", "480012b7", ErrNoINT},
		{"odd length", "440112b7", ErrNoINT},
		{"too many hops", "441212b7", ErrNoINT},
		{"short records", "440212b700112233445566", ErrShortINT},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ParseINT(b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestValidateINTFormat(t *testing.T) {
	f := DefaultINTFormat()
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
	if f.RateCode(0) != NoRate {
		t.Error("a rate of 0 has a code")
	}
}

// oneHop returns the records of one hop as they arrive.
func oneHop(f *INTFormat, h Hop) INT {
	b := make([]byte, PerHopBaseBytes+PerHopBytes)
	n := PutINT(b, 4791)
	PushHop(b, n, f.Record(h))
	return INT(b)
}

func TestHopReaderUndoesTheWraps(t *testing.T) {
	f := DefaultINTFormat()
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
	f := DefaultINTFormat()
	const ms, us = units.Millisecond, units.Microsecond
	read := func(r *HopReader, h Hop, now units.Time) (Hop, bool) {
		var s Stack
		ok := r.Read(&f, oneHop(&f, h), now, &s)
		return s.Hops[0], ok
	}
	base := Hop{Rate: 100 * units.Gbps, Time: 20 * ms, TxBytes: HopTxWrap - 256}
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
	two := make([]byte, PerHopBaseBytes+2*PerHopBytes)
	PushHop(two, PushHop(two, PutINT(two, 1), f.Record(base)), f.Record(base))
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
	wide, f := DefaultDelayFormat(Wide), DefaultINTFormat()
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
		PushHop(b, PutINT(b, 4791), f.Record(Hop{Rate: 100 * units.Gbps}))
		v, _, _ := ParseINT(b[:12])
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
	format := DefaultINTFormat()
	var r HopReader
	f.Fuzz(func(t *testing.T, b []byte, now int64) {
		v, rest, err := ParseINT(b)
		room := make([]byte, len(b)+PerHopBytes)
		copy(room, b)
		end := PushHop(room, len(b), 0x0123456789abcdef)
		if err != nil {
			if end != len(b) || !bytes.Equal(room[:end], b) {
				t.Fatalf("%x became %x", b, room[:end])
			}
			return
		}
		if len(v)+len(rest) != len(b) || int(PerHop.WireBytes(v.Hops())) != len(v) {
			t.Fatalf("%d and %d bytes of %d", len(v), len(rest), len(b))
		}
		w, rest2, err := ParseINT(room[:end])
		if err != nil || !bytes.Equal(rest, rest2) {
			t.Fatalf("%x: %v", room[:end], err)
		}
		if end > len(b) && (w.Hops() != v.Hops()+1 || w.Hop(w.Hops()-1) != 0x0123456789abcdef) {
			t.Fatalf("%x", w)
		}
		var s Stack
		r.Read(&format, w, units.Time(now), &s)
	})
}
