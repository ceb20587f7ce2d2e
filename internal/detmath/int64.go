package detmath

import "math"

// Int64 returns the integer part of x: the nearest integer of the type if x is out of
// range, and 0 for NaN. A conversion leaves both to the machine.
func Int64(x float64) int64 {
	switch {
	case x >= 1<<63:
		return math.MaxInt64
	case x >= -1<<63:
		return int64(x)
	case x != x:
		return 0
	}
	return math.MinInt64
}
