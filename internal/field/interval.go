package field

import (
	"cmp"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Interval is the range of a number, as a tag writes it: "(0,1]", "[1,)", "[100ns,1s]". A
// round bracket leaves its end out, a missing end is no bound.
type Interval struct {
	Low, High         any // of the field's type; nil for no bound
	OpenLow, OpenHigh bool
	low, high         string // as the tag has them
}

// parseInterval reads an interval of values of type t.
func parseInterval(text string, t reflect.Type) (Interval, error) {
	low, high, ok := strings.Cut(text, ",")
	if !ok || len(low) == 0 || len(high) == 0 || !strings.ContainsAny(low[:1], "[(") || !strings.ContainsAny(high[len(high)-1:], "])") {
		return Interval{}, fmt.Errorf("range %q: expected two ends in brackets, such as (0,1]", text)
	}
	i := Interval{OpenLow: low[0] == '(', OpenHigh: high[len(high)-1] == ')'}
	i.low, i.high = low[1:], high[:len(high)-1]
	var err error
	if i.low != "" {
		i.Low, err = parseEnd(i.low, t)
	}
	if i.high != "" && err == nil {
		i.High, err = parseEnd(i.high, t)
	}
	if err != nil {
		return Interval{}, fmt.Errorf("range %q: %w", text, err)
	}
	return i, nil
}

func parseEnd(text string, t reflect.Type) (any, error) {
	v := reflect.New(t)
	if u, ok := v.Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(text)); err != nil {
			return nil, err
		}
		return v.Elem().Interface(), nil
	}
	var err error
	switch e := v.Elem(); {
	case t == reflect.TypeFor[time.Duration]():
		var d time.Duration
		d, err = time.ParseDuration(text)
		e.SetInt(int64(d))
	case e.CanInt():
		var n int64
		n, err = parseWhole(text)
		e.SetInt(n)
	case e.CanUint():
		var n int64
		n, err = parseWhole(text)
		e.SetUint(uint64(n))
	case e.CanFloat():
		var f float64
		f, err = parseFraction(text)
		e.SetFloat(f)
	default:
		err = fmt.Errorf("%v has no range", t)
	}
	return v.Elem().Interface(), err
}

// parseWhole reads a number such as 4096, or 2^12.
func parseWhole(text string) (int64, error) {
	power, ok := strings.CutPrefix(text, "2^")
	if !ok {
		return strconv.ParseInt(text, 10, 64)
	}
	n, err := strconv.ParseUint(power, 10, 6)
	if err == nil && n > 62 {
		err = fmt.Errorf("%s is more than 2^62", text)
	}
	return 1 << n, err
}

// parseFraction reads a number such as 0.5, 1/1024 or 2^20.
func parseFraction(text string) (float64, error) {
	if strings.HasPrefix(text, "2^") {
		n, err := parseWhole(text)
		return float64(n), err
	}
	over, under, ok := strings.Cut(text, "/")
	if !ok {
		return strconv.ParseFloat(text, 64)
	}
	a, err := strconv.ParseFloat(over, 64)
	b, err2 := strconv.ParseFloat(under, 64)
	return a / b, cmp.Or(err, err2)
}

// holds reports whether v lies within. Not a number lies nowhere.
func (i Interval) holds(v reflect.Value) bool {
	if v.CanFloat() && math.IsNaN(v.Float()) {
		return false
	}
	if i.Low != nil {
		if c := compare(v, reflect.ValueOf(i.Low)); c < 0 || c == 0 && i.OpenLow {
			return false
		}
	}
	if i.High != nil {
		if c := compare(v, reflect.ValueOf(i.High)); c > 0 || c == 0 && i.OpenHigh {
			return false
		}
	}
	return true
}

// compare compares two numbers of one type.
func compare(a, b reflect.Value) int {
	switch {
	case a.CanFloat():
		return cmp.Compare(a.Float(), b.Float())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	}
	return cmp.Compare(a.Int(), b.Int())
}

// closed reports whether it has two ends, both in it.
func (i Interval) closed() bool {
	return i.Low != nil && i.High != nil && !i.OpenLow && !i.OpenHigh
}

// words says what an interval takes; what is one such value ("a span"), of what it counts
// ("packets"), empty if nothing.
func (i Interval) words(what, of string) string {
	zero := i.Low != nil && reflect.ValueOf(i.Low).IsZero()
	counted := ""
	if of != "" {
		what, counted = "a number of "+of, " "+of
	}
	_, noun, _ := strings.Cut(what, " ")
	low, high := end(i.Low, i.low), end(i.High, i.high)
	switch {
	case i.Low == nil && i.High == nil:
		return what
	case i.Low == nil && i.OpenHigh:
		return fmt.Sprintf("%s below %s", what, high)
	case i.Low == nil:
		return fmt.Sprintf("%s up to %s", what, high)
	case i.High == nil && zero && i.OpenLow:
		return "a positive " + noun
	case i.High == nil && i.OpenLow:
		return fmt.Sprintf("%s above %s", what, low)
	case i.High == nil:
		return fmt.Sprintf("%s or more%s", low, counted)
	case i.OpenLow && i.OpenHigh:
		return fmt.Sprintf("%s above %s and below %s", what, low, high)
	case i.OpenLow && zero && noun != "number":
		return fmt.Sprintf("a positive %s up to %s", noun, high)
	case i.OpenLow:
		return fmt.Sprintf("%s above %s and up to %s", what, low, high)
	case i.OpenHigh:
		return fmt.Sprintf("%s from %s to below %s", what, low, high)
	}
	return fmt.Sprintf("%s to %s%s", low, high, counted)
}

// end is an end in words: a fraction as it is written, and all else as errors show values.
func end(v any, written string) string {
	switch v.(type) {
	case float64, time.Duration: // 1us, and not 1µs
		return written
	}
	return fmt.Sprint(v)
}
