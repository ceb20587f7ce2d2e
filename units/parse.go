package units

import (
	"errors"
	"fmt"
	"math"
	"math/big"
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
		return 0, &MissingUnitError{What: what, Text: s, Unit: example}
	}
	unit, ok := scale(suffix)
	if !ok {
		return 0, fmt.Errorf("%q: unknown unit %q of %s, expected for example %s%s", s, suffix, what, number, example)
	}
	v = math.Round(v * unit)
	if math.Abs(v) < 1<<50 { // the number and the product are each off by 2^-53 at most
		return int64(v), nil
	}
	if n, ok := exactly(number, unit); ok && math.Abs(v) < 1<<64 {
		return n, nil
	}
	return 0, fmt.Errorf("%q is too large for a %s", s, what)
}

// MissingUnitError says that a number has no unit.
type MissingUnitError struct {
	What string // "time", "rate", "size"
	Text string // what was to be read
	Unit string // one that is usual, such as "us"
}

func (e *MissingUnitError) Error() string {
	return fmt.Sprintf("%s %q: unit missing, for example %s%s", e.What, e.Text, strings.TrimSpace(e.Text), e.Unit)
}

// SuggestUnit gives an error about a missing unit the one to suggest where the number
// stands. Other errors it returns as they are.
func SuggestUnit(err error, unit string) error {
	if bare := (*MissingUnitError)(nil); errors.As(err, &bare) {
		return &MissingUnitError{What: bare.What, Text: bare.Text, Unit: unit}
	}
	return err
}

// exactly rounds number units to the nearest integer where a float64 has too few
// digits for that, so that what is printed reads back as the same. The number is
// one that strconv.ParseFloat takes.
func exactly(number string, unit float64) (int64, bool) {
	const digits = 256 // bits: all that 64 need, before and behind the point
	f, _, err := big.ParseFloat(number, 10, digits, big.ToNearestEven)
	if err != nil {
		return 0, false
	}
	half := big.NewFloat(math.Copysign(0.5, float64(f.Sign())))
	n, _ := f.Add(f.Mul(f, big.NewFloat(unit)), half).Int(nil)
	return n.Int64(), n.IsInt64() && n.Int64() != math.MinInt64
}
