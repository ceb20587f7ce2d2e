package units

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	times := map[string]Time{
		"1.5us": 1500 * Nanosecond, "640ps": 640, "2 ms": 2 * Millisecond, "0": 0, "10µs": 10 * Microsecond,
		"-3ns": -3 * Nanosecond, "1e3ns": Microsecond, "never": Never,
	}
	for text, want := range times {
		if got, err := ParseTime(text); err != nil || got != want {
			t.Errorf("ParseTime(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	rates := map[string]Rate{"400Gbps": 400 * Gbps, "10 Mbit/s": 10 * Mbps, "2.5gbps": 2500 * Mbps, "1Kb/s": Kbps, "7bps": 7}
	for text, want := range rates {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("ParseRate(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	sizes := map[string]Bytes{"9KiB": 9216, "1.5MB": 1500000, "1500B": 1500, "2 GiB": 2 << 30, "3kB": 3000}
	for text, want := range sizes {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	cases := []struct {
		parse func(string) error
		text  string
		mend  string
	}{
		{func(s string) error { _, err := ParseTime(s); return err }, "100", "100us"},
		{func(s string) error { _, err := ParseTime(s); return err }, "5 min", "unknown unit \"min\" of time"},
		{func(s string) error { _, err := ParseTime(s); return err }, "", "number and a unit"},
		{func(s string) error { _, err := ParseTime(s); return err }, "1e30s", "too large"},
		{func(s string) error { _, err := ParseRate(s); return err }, "400", "400Gbps"},
		{func(s string) error { _, err := ParseRate(s); return err }, "4GiB", "unknown unit \"GiB\" of rate"},
		{func(s string) error { _, err := ParseBytes(s); return err }, "4096", "4096KiB"},
		{func(s string) error { _, err := ParseBytes(s); return err }, "--1B", "number and a unit"},
	}
	for _, c := range cases {
		if err := c.parse(c.text); err == nil || !strings.Contains(err.Error(), c.mend) {
			t.Errorf("%q: error %v does not say %q", c.text, err, c.mend)
		}
	}
}

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Parsing goes through a float64, so only 53 bits survive.
		v := rapid.Int64Range(-1<<52, 1<<52).Draw(t, "v")
		if got, err := ParseTime(Time(v).String()); err != nil || got != Time(v) {
			t.Fatalf("time %d prints %q, reads %d, %v", v, Time(v), got, err)
		}
		if got, err := ParseRate(Rate(v).String()); err != nil || got != Rate(v) {
			t.Fatalf("rate %d prints %q, reads %d, %v", v, Rate(v), got, err)
		}
		if got, err := ParseBytes(Bytes(v).String()); err != nil || got != Bytes(v) {
			t.Fatalf("bytes %d prints %q, reads %d, %v", v, Bytes(v), got, err)
		}
	})
}

func TestSerialize(t *testing.T) {
	if got := (800 * Gbps).Serialize(64); got != 640 {
		t.Errorf("64 bytes at 800 Gbps last %v, want 640ps", got)
	}
	if got := Rate(3).Serialize(1); got != 2666666666667 {
		t.Errorf("one byte at 3 bps lasts %d ps; it must round up", got)
	}
	if Rate(0).Serialize(1) != Never || Rate(1).Serialize(1<<40) != Never {
		t.Error("a rate of zero or an overflow must be Never")
	}
}

func TestSerializeRemAddsUpExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate(rapid.Int64Range(1, int64(2*Tbps)).Draw(t, "rate"))
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 1<<16), 1, 50).Draw(t, "sizes")
		var sum Time
		var rem uint64
		total := new(big.Int)
		for _, n := range sizes {
			var d Time
			d, rem = r.SerializeRem(Bytes(n), rem)
			sum += d
			total.Add(total, big.NewInt(n*8))
		}
		total.Mul(total, big.NewInt(int64(Second)))
		want := new(big.Int).Quo(total, big.NewInt(int64(r)))
		if want.IsInt64() && want.Int64() != int64(sum) {
			t.Fatalf("%d sends at %v took %d ps, want %v", len(sizes), r, sum, want)
		}
	})
}

func TestBytesInAndRateOfInvertSerialize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate(rapid.Int64Range(int64(Kbps), int64(Tbps)).Draw(t, "rate"))
		n := Bytes(rapid.Int64Range(1, 1<<30).Draw(t, "bytes"))
		d := r.Serialize(n)
		if got := r.BytesIn(d); got < n || got > n+r.BytesIn(1)+1 {
			t.Fatalf("%v carries %d bytes in %v, want about %d", r, got, d, n)
		}
		if got := RateOf(n, d); got > r {
			t.Fatalf("%d bytes in %v is %v, more than %v", n, d, got, r)
		}
	})
}

func TestPSN(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := MakePSN(rapid.Uint32().Draw(t, "psn"))
		n := rapid.Int32Range(-1<<23, 1<<23-1).Draw(t, "n")
		if got := p.Add(n).Sub(p); got != n {
			t.Fatalf("%d + %d - %d = %d", p, n, p, got)
		}
		if n < 0 != p.Add(n).Before(p) {
			t.Fatalf("Before disagrees with Sub at %d%+d", p, n)
		}
	})
}
