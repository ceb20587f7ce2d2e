package detmath

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func ulps(got, want float64) float64 {
	if got == want {
		return 0
	}
	return math.Abs(got-want) / (math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want))
}

func TestAgainstStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-100, 100).Draw(t, "x")
		if u := ulps(Exp(x), math.Exp(x)); u > 3 {
			t.Fatalf("Exp(%v) = %v is %v ulps off", x, Exp(x), u)
		}
		y := rapid.Float64Range(1e-12, 1e15).Draw(t, "y")
		if u := ulps(Log(y), math.Log(y)); u > 3 && math.Abs(Log(y)-math.Log(y)) > 1e-16 {
			t.Fatalf("Log(%v) = %v is %v ulps off", y, Log(y), u)
		}
	})
}

// The bits below were computed on amd64; every platform must reproduce them.
func TestBitsArePinned(t *testing.T) {
	for _, c := range []struct {
		f    func(float64) float64
		x    float64
		bits uint64
	}{
		{Exp, 1, 0x4005bf0a8b14576a}, {Exp, -2.5, 0x3fb50385c094f425}, {Exp, 0.1, 0x3ff1aec7b35a00d4},
		{Exp, 3.75, 0x404542b2d0a266e7}, {Exp, 41, 0x43a1c25c88df6862},
		{Log, 2.5, 0x3fed5240f0e0e078}, {Log, 0.1, 0xc0026bb1bbb55515}, {Log, 3.75, 0x3ff525e973a0564f},
		{Log, 41, 0x400db565458eac4e},
	} {
		if got := math.Float64bits(c.f(c.x)); got != c.bits {
			t.Errorf("f(%v) has bits %#x, want %#x", c.x, got, c.bits)
		}
	}
}

func TestEdges(t *testing.T) {
	if Exp(0) != 1 || Log(1) != 0 || Exp(-1000) != 0 || !math.IsInf(Log(0), -1) || !math.IsNaN(Log(-1)) || math.IsInf(Exp(1e6), 0) {
		t.Error("an edge is wrong")
	}
}

func BenchmarkExp(b *testing.B) {
	s := 0.0
	for i := range b.N {
		s += Exp(float64(i&15) * 0.1)
	}
	_ = s
}

func BenchmarkLog(b *testing.B) {
	s := 0.0
	for i := range b.N {
		s += Log(float64(i&15) + 1.5)
	}
	_ = s
}
