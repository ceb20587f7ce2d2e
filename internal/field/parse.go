package field

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rdma/sluice/units"
)

// Parse sets the settings that texts has keys of, each to its last text, as in the options of a
// device's name. It takes what is in a setting's range. For what 0 stands for, a setting is left
// out. Words are read in any case. A bool with the tag one has the first of two words for false,
// the second for true; without it, it is off or on. One tag is for texts alone:
//
//	unit    "%" for a share that is written in percent: "0.1%"; what a bare number counts where
//	        one with its unit is taken too: "s", "B"
func (s *Settings[T]) Parse(c *T, texts map[string][]string) error {
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		to, one := find(reflect.ValueOf(c).Elem(), s.all, key)
		if one == nil {
			return fmt.Errorf("option %s: unknown option, expected %s", key, strings.Join(s.Keys(), ", "))
		}
		text := texts[key][len(texts[key])-1]
		v, err := one.parse(text)
		var fault *Error
		switch {
		case errors.As(err, &fault):
			return fmt.Errorf("option %s: %q: %s", key, text, fault.Want)
		case err != nil:
			return fmt.Errorf("option %s: %w", key, err)
		case to.Kind() == reflect.Pointer:
			to.Set(reflect.New(to.Type().Elem()))
			to = to.Elem()
		}
		to.Set(v)
	}
	return nil
}

// Keys are the keys of settings that Parse takes.
func (s *Settings[T]) Keys() []string { return keys(nil, s.all) }

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

// parse is the value that a text stands for, of the setting's type or of the one that it points
// to. What has units says itself what is wrong with a text; else it is an *Error.
func (s *Setting) parse(text string) (v reflect.Value, err error) {
	t := s.pointed()
	switch words := s.words(); {
	case words != nil:
		i := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, text) })
		if i < 0 {
			err = errNone
			break
		}
		if v, err = s.meant(words[i], i); err != nil {
			return v, err
		}
	case s.united():
		if v, err = s.parseUnit(text); err != nil {
			return v, err
		}
	case s.unit == "%":
		number, percent := strings.CutSuffix(text, "%")
		if v, err = parseText(number, t); !percent {
			err = errNone
		}
		v.SetFloat(v.Float() / 100)
	default:
		v, err = parseText(text, t)
	}
	if err != nil || !s.takes(v) {
		err = &Error{Of: "settings", Key: s.Key, Value: text, Want: "choose " + s.given()}
	}
	return v, err
}

var errNone = errors.New("no such value")

// words are the words that texts have for the setting's values, nil if it takes others.
func (s *Setting) words() []string {
	if s.Words == nil && s.pointed().Kind() == reflect.Bool {
		return []string{"off", "on"}
	}
	return s.Words
}

// pointed is the type of the setting's value: its own, or that of what it points to.
func (s *Setting) pointed() reflect.Type {
	if s.Type.Kind() == reflect.Pointer {
		return s.Type.Elem()
	}
	return s.Type
}

// meant is the value that a word stands for, the i-th of the setting's: in an enumeration it is
// the one with that name.
func (s *Setting) meant(word string, i int) (reflect.Value, error) {
	v := reflect.New(s.pointed()).Elem()
	switch {
	case v.Kind() == reflect.Bool:
		v.SetBool(i == 1)
	case v.CanUint():
		for n := uint64(0); s.text(v) != word; n++ {
			if v.OverflowUint(n) {
				return v, fmt.Errorf("%v has no value %q", s.Type, word)
			}
			v.SetUint(n)
		}
	default:
		return parseText(word, v.Type())
	}
	return v, nil
}

// united reports whether the setting's values have units.
func (s *Setting) united() bool {
	t := s.pointed()
	return s.unit == "s" || s.unit == "B" || t == reflect.TypeFor[time.Duration]() || unmarshals(t)
}

func (s *Setting) parseUnit(text string) (reflect.Value, error) {
	_, err := strconv.Atoi(text)
	switch bare := err == nil; {
	case s.unit == "s":
		if bare {
			text += "s"
		}
		t, err := units.ParseTime(text)
		return reflect.ValueOf(t.Duration()), err
	case s.unit == "B" && !bare:
		b, err := units.ParseBytes(text)
		return reflect.ValueOf(int(b)), err
	}
	return parseText(text, s.pointed())
}

// given says in words which texts Parse takes.
func (s *Setting) given() string {
	takes := strings.TrimSuffix(s.Takes, ", or 0 for "+s.Zero)
	switch {
	case s.unit == "%" && s.Range != nil && s.Range.closed():
		takes = fmt.Sprintf("%v%% to %v%%", 100*reflect.ValueOf(s.Range.Low).Float(), 100*reflect.ValueOf(s.Range.High).Float())
	case takes == "":
		takes = anything(s.pointed())
	}
	if s.eg != "" {
		takes += ", such as " + s.eg
	}
	if s.Takes != "" && s.Zero != "" {
		takes += "; leave it out for " + s.Zero
	}
	if s.why != "" {
		takes += "; " + s.why
	}
	return takes
}

// anything says in words which texts stand for values of a type.
func anything(t reflect.Type) string {
	switch v := reflect.New(t).Elem(); {
	case v.Kind() == reflect.Bool:
		return "on or off"
	case v.CanFloat():
		return "a number"
	case v.CanUint():
		return fmt.Sprintf("0 to %d", uint64(math.MaxUint64)>>(64-t.Bits()))
	case v.CanInt():
		return "a whole number"
	}
	return "nothing: it is not given as text"
}

// text is a value as texts have it.
func (s *Setting) text(v reflect.Value) string {
	switch {
	case s.Words != nil && v.Kind() == reflect.Bool && v.Bool():
		return s.Words[1]
	case s.Words != nil && v.Kind() == reflect.Bool:
		return s.Words[0]
	case v.Kind() == reflect.String:
		return v.String()
	}
	return fmt.Sprint(v.Interface())
}

// takes reports whether a value is among those that the setting takes, beside a 0 that stands
// for something.
func (s *Setting) takes(v reflect.Value) bool {
	switch {
	case s.Words != nil:
		return slices.Contains(s.Words, s.text(v))
	case s.Range == nil, s.Minus != "" && v.CanInt() && v.Int() == -1:
		return true
	}
	return s.Range.holds(v) && (!s.power || v.Int()&(v.Int()-1) == 0)
}
