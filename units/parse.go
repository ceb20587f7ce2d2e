package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parse reads a decimal number and its unit; scale says what a unit is worth.
func parse(s, what, example string, scale func(suffix string) (float64, bool)) (int64, error) {
	text := strings.TrimSpace(s)
	i := 0
	for i < len(text) {
		c := text[i]
		exponent := (c == 'e' || c == 'E') && i+1 < len(text) && (text[i+1] >= '0' && text[i+1] <= '9' || text[i+1] == '-' || text[i+1] == '+')
		if exponent {
			i += 2
			continue
		}
		if c != '.' && c != '-' && c != '+' && (c < '0' || c > '9') {
			break
		}
		i++
	}
	number, suffix := text[:i], strings.TrimSpace(text[i:])
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a %s: write a number and a unit, such as 5%s", s, what, example)
	}
	if suffix == "" {
		if v == 0 {
			return 0, nil
		}
		return 0, fmt.Errorf("%q has no unit: write %s%s if that is the %s meant", s, number, example, what)
	}
	unit, ok := scale(suffix)
	if !ok {
		return 0, fmt.Errorf("%q has the unit %q, which is no unit of %s: write for example %s%s", s, suffix, what, number, example)
	}
	v = math.Round(v * unit)
	if math.Abs(v) >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is too large for a %s", s, what)
	}
	return int64(v), nil
}
