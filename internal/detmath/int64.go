package detmath

import "math"

// Int64 returns the integer part of x: the nearest integer of the type if x is out of
// range, and 0 for NaN. A conversion leaves both to the machine.
func Int64(x float64) int64 {
	// Every machine has one of the two ends, or 0, for what is out of range, and 0
	// for NaN if neither end. No number in range gives the upper end: it is no double.
	n := int64(x)
	if n^n>>63 == math.MaxInt64 {
		switch {
		case x > 0:
			return math.MaxInt64
		case x < 0:
			return math.MinInt64
		}
		return 0
	}
	return n
}

// InRange is Int64 of a number that is known to be in range, without the check.
func InRange(x float64) int64 { return int64(x) }
