package field

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Parse sets the settings that texts has keys of, each to its last text, as in the options of a
// device's name. It takes what is in a setting's range. For what 0 stands for, a setting is left
// out. A bool is on or off. One tag is for texts alone:
//
//	unit    "%" for a share that is written in percent: "0.1%"
func (s *Settings[T]) Parse(c *T, texts map[string][]string) error {
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		v, one := find(reflect.ValueOf(c).Elem(), s.all, key)
		err := fmt.Errorf("unknown option, expected %s", strings.Join(keys(nil, s.all), ", "))
		if one != nil {
			err = one.parse(v, texts[key][len(texts[key])-1])
		}
		if err != nil {
			return fmt.Errorf("option %s: %w", key, err)
		}
	}
	return nil
}

// keys appends the keys of settings.
func keys(all []string, settings []Setting) []string {
	for i := range settings {
		switch s := &settings[i]; {
		case s.Key == inline:
			all = keys(all, s.inner)
		case s.Key != "-" && s.inner == nil:
			all = append(all, s.Key)
		}
	}
	return all
}

// find returns the setting of a key and its value in config, or nil.
func find(config reflect.Value, settings []Setting, key string) (reflect.Value, *Setting) {
	for i := range settings {
		s := &settings[i]
		switch {
		case s.Key == inline:
			if v, one := find(config.Field(s.index), s.inner, key); one != nil {
				return v, one
			}
		case s.Key == key && key != "-" && s.inner == nil:
			return config.Field(s.index), s
		}
	}
	return reflect.Value{}, nil
}

// parse sets a setting to what a text says.
func (s *Setting) parse(to reflect.Value, text string) error {
	v := reflect.New(to.Type()).Elem()
	if to.Kind() == reflect.Pointer {
		v = reflect.New(to.Type().Elem()).Elem()
	}
	err := s.plainly(v, text)
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok && err == nil {
		if err := u.UnmarshalText([]byte(text)); err != nil {
			return err // it knows the units
		}
	}
	given := *s
	given.Zero = "" // it is left out
	if err != nil || given.refuses(v) {
		return fmt.Errorf("%q: choose %s", text, s.given())
	}
	if to.Kind() == reflect.Pointer {
		v = v.Addr()
	}
	to.Set(v)
	return nil
}

var errNone = errors.New("no such value")

// plainly sets a value of a plain type to what a text says.
func (s *Setting) plainly(v reflect.Value, text string) error {
	if _, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return nil
	}
	var err error
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		if v.SetBool(text == "on"); text != "on" && text != "off" {
			err = errNone
		}
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(text, 0, v.Type().Bits())
		v.SetInt(n)
	case v.CanUint():
		var n uint64
		n, err = strconv.ParseUint(text, 0, v.Type().Bits())
		v.SetUint(n)
	case v.CanFloat():
		number, percent := strings.CutSuffix(text, "%")
		var f float64
		if f, err = strconv.ParseFloat(number, 64); percent != s.percent {
			err = errNone
		}
		if percent {
			f /= 100
		}
		v.SetFloat(f)
	default:
		err = errNone
	}
	return err
}

// given says in words which texts Parse takes.
func (s *Setting) given() string {
	t := s.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	takes := strings.TrimSuffix(s.Takes, ", or 0 for "+s.Zero)
	low, high := reflect.Value{}, reflect.Value{}
	if s.Range != nil {
		low, high = reflect.ValueOf(s.Range.Low), reflect.ValueOf(s.Range.High)
	}
	switch {
	case s.percent && low.IsValid() && high.IsValid():
		takes = fmt.Sprintf("%v%% to %v%%", 100*low.Float(), 100*high.Float())
	case takes != "":
	case t.Kind() == reflect.Bool:
		takes = "on or off"
	case t.Kind() == reflect.Float64:
		takes = "a number"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		takes = fmt.Sprintf("a whole number of %d bits", t.Bits())
	default:
		takes = "nothing: it is not given as text"
	}
	if s.eg != "" {
		takes += ", such as " + s.eg
	}
	return takes
}
