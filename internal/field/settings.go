package field

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Setting is one field of a configuration, as its tags describe it:
//
//	yaml    its key in scenarios; without one its key is the name of its Flag, or the field's
//	range   the values that it takes, an Interval
//	zero    what 0 stands for, which it takes then beside its range: "the line rate"
//	minus   what -1 stands for, in the same way
//	of      what a number counts: "packets"
//	least   the key of another setting of its type that it is no less than, where neither is a 0
//	        that stands for something
//	one     the words that it takes, with blanks between
//	why     what a range follows from, or where it leads
//	eg      an example
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

// Check returns an *Error of the first setting that is out of its range, or nil. Rules across
// settings, but for Least, are the caller's.
func (s *Settings[T]) Check(c *T) error {
	v := reflect.ValueOf(c).Elem()
	for i := range s.all {
		if want := s.all[i].fault(v); want != "" {
			return &Error{Of: s.of, Key: s.all[i].Key, Value: v.Field(s.all[i].index).Interface(), Want: want}
		}
	}
	return nil
}

// fault says what the setting has to be, if in config it is not.
func (s *Setting) fault(config reflect.Value) string {
	v := config.Field(s.index)
	switch {
	case s.Zero != "" && v.IsZero():
		return ""
	case !s.takes(v):
		return s.Want
	}
	if s.Least != "" {
		if least := config.Field(s.least); compare(v, least) < 0 {
			return fmt.Sprintf("choose at least %s, %v", s.Least, least.Interface())
		}
	}
	return ""
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
		Zero: f.Tag.Get("zero"), Minus: f.Tag.Get("minus"), Least: f.Tag.Get("least"),
	}
}

func (s *Setting) read(tag reflect.StructTag) error {
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
	r, err := parseInterval(text, s.Type)
	if err != nil {
		return err
	}
	s.Range = &r
	s.Takes = r.words(what(s.Type), tag.Get("of"))
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
	if why := tag.Get("why"); why != "" {
		s.Want += "; " + why
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
