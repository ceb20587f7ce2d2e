package units

import (
	"math"
	"testing"
)

// Whatever a user writes is a quantity or an error. What is printed reads back as
// the same, to the precision of the float64 that is read.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"400Gbps", "10 Mbit/s", "0", "-0", "never", "1.5us", "3µs", "9KiB", "1e3kB", "1e-3TiB", "9223372036854775807ps",
		"1e400s", "-5ns", "+.5ms", "5", "..", "1e", "1e+", "e5us", "0x10B", "1_0B", "\u2212" + "1us", "1us ", "\xffus",
	} {
		f.Add(s)
	}
	near := func(t *testing.T, s string, a, b int64) {
		t.Helper()
		if math.Abs(float64(a)-float64(b)) > math.Abs(float64(a))*0x1p-52 {
			t.Errorf("%q is %d, and what is printed of it %d", s, a, b)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := ParseTime(s); err == nil {
			again, err := ParseTime(v.String())
			if err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			near(t, s, int64(v), int64(again))
		}
		if v, err := ParseRate(s); err == nil {
			again, err := ParseRate(v.String())
			if err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			near(t, s, int64(v), int64(again))
		}
		if v, err := ParseBytes(s); err == nil {
			again, err := ParseBytes(v.String())
			if err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			near(t, s, int64(v), int64(again))
		}
	})
}
