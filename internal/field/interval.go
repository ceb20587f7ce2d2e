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
	v, err := parseText(text, t)
	if k := v.Kind(); err == nil && !unmarshals(t) && (k == reflect.Bool || k == reflect.String) {
		err = fmt.Errorf("%v has no range", t)
	}
	return v.Interface(), err
}

// parseText is the value of type t that a text stands for. A number may be a power of two, 2^12,
// and a fraction 1/1024.
func parseText(text string, t reflect.Type) (v reflect.Value, err error) {
	v = reflect.New(t).Elem()
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return v, u.UnmarshalText([]byte(text))
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		var d time.Duration
		d, err = time.ParseDuration(text)
		v.SetInt(int64(d))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(power(text), 0, t.Bits())
		v.SetInt(n)
	case v.CanUint():
		var n uint64
		n, err = strconv.ParseUint(power(text), 0, t.Bits())
		v.SetUint(n)
	case v.CanFloat():
		var f float64
		f, err = parseFraction(text)
		v.SetFloat(f)
	default:
		err = fmt.Errorf("%v has no range", t)
	}
	return v, err
}

func unmarshals(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// power is 4096 for 2^12, and a text that is no power of two below 2^64 itself.
func power(text string) string {
	if of, ok := strings.CutPrefix(text, "2^"); ok {
		if n, err := strconv.ParseUint(of, 10, 6); err == nil {
			return strconv.FormatUint(1<<n, 10)
		}
	}
	return text
}

// parseFraction reads a number such as 0.5, 1/1024 or 2^20.
func parseFraction(text string) (float64, error) {
	over, under, ok := strings.Cut(power(text), "/")
	if !ok {
		return strconv.ParseFloat(over, 64)
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
	counted := ""
	if of != "" {
		what, counted = "a number of "+of, " "+of
	}
	switch {
	case i.Low == nil && i.High == nil:
		return what
	case i.Low == nil && i.OpenHigh:
		return fmt.Sprintf("%s below %s", what, end(i.High, i.high))
	case i.Low == nil:
		return fmt.Sprintf("%s up to %s", what, end(i.High, i.high))
	case i.High == nil:
		return i.above(what, counted)
	}
	return i.between(what, counted)
}

// positive reports whether it begins above 0, and with which words that is said of what.
func (i Interval) positive(what string) (words string, is bool) {
	_, noun, _ := strings.Cut(what, " ")
	return "a positive " + noun, i.OpenLow && reflect.ValueOf(i.Low).IsZero()
}

func (i Interval) above(what, counted string) string {
	words, positive := i.positive(what)
	switch low := end(i.Low, i.low); {
	case positive:
		return words
	case i.OpenLow:
		return fmt.Sprintf("%s above %s", what, low)
	default:
		return fmt.Sprintf("%s or more%s", low, counted)
	}
}

func (i Interval) between(what, counted string) string {
	words, positive := i.positive(what)
	switch low, high := end(i.Low, i.low), end(i.High, i.high); {
	case i.OpenLow && i.OpenHigh:
		return fmt.Sprintf("%s above %s and below %s", what, low, high)
	case positive && what != "a number":
		return fmt.Sprintf("%s up to %s", words, high)
	case i.OpenLow:
		return fmt.Sprintf("%s above %s and up to %s", what, low, high)
	case i.OpenHigh:
		return fmt.Sprintf("%s from %s to below %s", what, low, high)
	default:
		return fmt.Sprintf("%s to %s%s", low, high, counted)
	}
}

// end is an end in words: a fraction as it is written, and all else as errors show values.
func end(v any, written string) string {
	switch v.(type) {
	case float64, time.Duration: // 1us, and not 1µs
		return written
	}
	return fmt.Sprint(v)
}
