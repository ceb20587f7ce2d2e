package detmath

import (
	"math"
	"testing"
)

// What Go leaves to the machine is the same everywhere.
func TestInt64(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want int64
	}{
		{0, 0}, {math.Copysign(0, -1), 0}, {1.9, 1}, {-1.9, -1}, {0x1p62, 1 << 62}, {0x1p63 - 1024, math.MaxInt64 - 1023},
		{0x1p63, math.MaxInt64}, {1e300, math.MaxInt64}, {math.Inf(1), math.MaxInt64},
		{-0x1p63, math.MinInt64}, {-0x1p63 - 2048, math.MinInt64}, {math.Inf(-1), math.MinInt64}, {math.NaN(), 0},
	} {
		if got := Int64(c.x); got != c.want {
			t.Errorf("Int64(%v): expected %d, got %d", c.x, c.want, got)
		}
	}
}
