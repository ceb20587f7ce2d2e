package field

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Setting is one field of a configuration, as its tags describe it:
//
//	yaml    its key in scenarios; without one its key is the name of its Flag, or the field's
//	range   the values that it takes, an Interval; of a list, each of them
//	power   2 for powers of two in that range
//	zero    what 0 stands for, which it takes then beside its range: "the line rate"
//	minus   what -1 stands for, in the same way
//	of      what a number counts, or what a list holds: "packets"
//	most    how many a list has at most
//	as      what one value is: "a probability"
//	plain   anything for a size that is written as a number of bytes
//	least   the key of another setting of its type that it is no less than, where neither is a 0
//	        that stands for something
//	one     the words that it takes, with blanks between
//	why     what a range follows from, or where it leads
//	eg       an example
//	req     anything for one that has to be given
//
// A field may be a configuration in turn, or a pointer, list or map of such: see inside.
type Setting struct {
	Key, Field string
	Type       reflect.Type
	Range      *Interval // nil if every value is in it
	Zero       string
	Minus      string
	Least      string
	Words      []string
	Takes      string // the values in words: "a positive span, or 0 for the base RTT"; empty if it is any
	Want       string // the same as an Error has it

	index, least int
	list         *list
	power, plain bool
	required     bool
	unit, eg     string // of texts: what it counts, and an example
	why          string
	inner        []Setting // of a configuration in a configuration
}

// Settings are those of a configuration of type T, in the order of its fields.
type Settings[T any] struct {
	of  string
	all []Setting
}

// Of reads the settings of T's fields from their tags. It panics where a tag is wrong. of names
// the configuration in errors: "timely".
func Of[T any](of string) *Settings[T] {
	all, err := read(reflect.TypeFor[T]())
	if err != nil {
		panic(of + ": " + err.Error())
	}
	return &Settings[T]{of: of, all: all}
}

// Describe gives the settings of a configuration's type.
func Describe(t reflect.Type) ([]Setting, error) { return read(t) }

// Faults returns an *Error of each setting that is out of its range in *config, of a type that is
// known as the program runs. It panics where a tag is wrong.
func Faults(config any) []*Error {
	v := reflect.ValueOf(config).Elem()
	settings, found := known.Load(v.Type())
	if !found {
		all, err := read(v.Type())
		if err != nil {
			panic(fmt.Sprintf("%v: %v", v.Type(), err))
		}
		settings, _ = known.LoadOrStore(v.Type(), all)
	}
	var bad []*Error
	for _, err := range faults(nil, "", "", v, settings.([]Setting)) {
		bad = append(bad, err.(*Error)) //nolint:errorlint,forcetypeassert // faults makes no other
	}
	return bad
}

// known has the settings of types that Faults has seen: a scenario lists thousands of flows.
var known sync.Map

// Check returns an *Error of the first setting that is out of its range, or nil. Rules across
// settings, but for Least, are the caller's.
func (s *Settings[T]) Check(c *T) error {
	if errs := s.faults("", c); len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// CheckAll returns an *Error of each setting that is out of its range, joined.
func (s *Settings[T]) CheckAll(c *T) error { return s.CheckBelow("", c) }

// CheckBelow is CheckAll of a configuration whose keys stand behind others: "classes[3].".
func (s *Settings[T]) CheckBelow(below string, c *T) error {
	return errors.Join(s.faults(below, c)...)
}

// Changed lists the settings, less those of configurations inside, that differ from other's.
func (s *Settings[T]) Changed(c, other *T) []string {
	var keys []string
	for i := range s.all {
		at := s.all[i].index
		if !reflect.ValueOf(c).Elem().Field(at).Equal(reflect.ValueOf(other).Elem().Field(at)) {
			keys = append(keys, s.all[i].Key)
		}
	}
	return keys
}

// Holds reports whether the setting of that key is in its range.
func (s *Settings[T]) Holds(c *T, key string) bool {
	bad, _ := Errors(s.CheckAll(c))
	return !slices.ContainsFunc(bad, func(e *Error) bool { return e.Key == key })
}

func (s *Settings[T]) faults(below string, c *T) []error {
	return faults(nil, s.of, below, reflect.ValueOf(c).Elem(), s.all)
}

// fault says what the setting has to be, if in config it is not, and which value is at fault.
func (s *Setting) fault(config reflect.Value) (value any, want string) {
	v := config.Field(s.index)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil, ""
		}
		v = v.Elem()
	}
	if s.list != nil {
		return s.list.fault(v)
	}
	if s.refuses(v) {
		return s.shown(v), s.Want
	}
	if s.Least != "" && (s.Zero == "" || !v.IsZero()) {
		if least := config.Field(s.least); compare(v, least) < 0 {
			return s.shown(v), fmt.Sprintf("choose at least %s, %v", s.Least, least.Interface())
		}
	}
	return nil, ""
}

func read(t reflect.Type) ([]Setting, error) {
	var all []Setting
	for i := range t.NumField() {
		f := t.Field(i)
		s := describe(&f)
		s.index = i
		if err := s.read(f.Tag); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Key, err)
		}
		if t := inside(f); t != nil {
			var err error
			if s.inner, err = read(t); err != nil {
				return nil, fmt.Errorf("%s: %w", s.Key, err)
			}
		}
		all = append(all, s)
	}
	for i := range all {
		if all[i].Least == "" {
			continue
		}
		n := slices.IndexFunc(all, func(s Setting) bool { return s.Key == all[i].Least && s.Type == all[i].Type })
		if n < 0 {
			return nil, fmt.Errorf("%s: no setting of its type is called %q", all[i].Key, all[i].Least)
		}
		all[i].least = all[n].index
	}
	return all, nil
}

// describe is a setting by the tags that need no reading.
func describe(f *reflect.StructField) Setting {
	flag, _, _ := strings.Cut(f.Tag.Get("flag"), ",")
	return Setting{
		Key: cmp.Or(f.Tag.Get("yaml"), flag, f.Name), Field: f.Name, Type: f.Type,
		Zero: f.Tag.Get("zero"), Minus: f.Tag.Get("minus"), Least: f.Tag.Get("least"), required: f.Tag.Get("req") != "",
	}
}

func (s *Setting) read(tag reflect.StructTag) error {
	t := s.pointed()
	if t.Kind() == reflect.Slice {
		return s.readList(tag)
	}
	s.unit, s.eg, s.why = tag.Get("unit"), tag.Get("eg"), tag.Get("why")
	if text := tag.Get("one"); text != "" {
		s.Words = strings.Fields(text)
		n := len(s.Words) - 1
		s.Takes = strings.Join(s.Words[:n], ", ") + " or " + s.Words[n]
		s.Want = "choose " + s.Takes
		return nil
	}
	text := tag.Get("range")
	if text == "" {
		return nil
	}
	if s.plain = tag.Get("plain") != ""; s.plain {
		t = reflect.TypeFor[int64]()
	}
	r, err := parseInterval(text, t)
	if err != nil {
		return err
	}
	s.Range, s.power = &r, tag.Get("power") == "2"
	s.Takes = r.words(cmp.Or(tag.Get("as"), what(t)), tag.Get("of"))
	if as := tag.Get("as"); as != "" && r.closed() {
		s.Takes = as + " from " + s.Takes
	}
	if s.power {
		s.Takes = strings.TrimSuffix("a power of two from "+s.Takes, " or more")
	}
	s.Want = "choose " + s.Takes
	if eg := tag.Get("eg"); eg != "" && eg != "0" {
		s.Want += ", such as " + eg
	}
	if s.Zero != "" {
		zero := ", or 0 for " + s.Zero
		s.Takes += zero
		s.Want += zero
	}
	if s.Minus != "" {
		minus := ", or -1 for " + s.Minus
		s.Takes += minus
		s.Want += minus
	}
	if s.why != "" {
		s.Want += "; " + s.why
	}
	return nil
}

// what calls a value of a type.
func what(t reflect.Type) string {
	switch t.Name() {
	case "Time", "Duration":
		return "a span"
	case "Rate":
		return "a rate"
	case "Bytes":
		return "a size"
	}
	return "a number"
}
