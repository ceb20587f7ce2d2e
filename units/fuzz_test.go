package units

import "testing"

// Whatever a user writes is a quantity or an error. What is printed reads back as
// the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"400Gbps", "10 Mbit/s", "0", "-0", "never", "1.5us", "3µs", "9KiB", "1e3kB", "1e-3TiB", "9223372036854775807ps",
		"9223372036854775007ps", "-9223372036854775807bps", "9223372036854775808B", "9007199254740993ps", "9005199254740993ps", "1e400s", "-5ns", "+.5ms", "5", "..", "1e", "1e+", "e5us", "0x10B", "1_0B", "\u2212" + "1us", "1us ", "\xffus",
	} {
		f.Add(s)
	}
	same := func(t *testing.T, s string, a, b int64) {
		t.Helper()
		if a != b {
			t.Errorf("%q is %d, and what is printed of it %d", s, a, b)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := ParseTime(s); err == nil {
			again, err := ParseTime(v.String())
			if err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			same(t, s, int64(v), int64(again))
		}
		if v, err := ParseRate(s); err == nil {
			again, err := ParseRate(v.String())
			if err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			same(t, s, int64(v), int64(again))
		}
		if v, err := ParseBytes(s); err == nil {
			again, err := ParseBytes(v.String())
			if err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			same(t, s, int64(v), int64(again))
		}
	})
}
