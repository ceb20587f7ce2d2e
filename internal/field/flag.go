package field

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rdma/sluice/units"
)

// Flag is the flag by which a command takes a setting. More tags of the field describe it:
//
//	flag     its name, and after a comma its letter: "size,s"
//	default  the value without the flag, and others of some cases: "1000, of write_bw 5000"
//	unit     what a bare number counts, where one with its unit is taken too: "s", "B"
//	help     one sentence; <WORD> in it stands for the value
//
// A flag takes what is in the setting's range. For what 0 stands for, it is left out. A bool
// with the tag one has the first of two words for false, the second for true.
type Flag struct {
	Setting
	Name, Letter string
	Default      string // in words, empty without one
	Help         string
	Given        string // the values in words, less the 0 that stands for something

	unit string
	path []int
}

// Flags reads the flags of a configuration's type, those of embedded structs included, from the
// tags of its fields. It panics where a tag is wrong.
func Flags(config reflect.Type) []Flag {
	var all []Flag
	for _, field := range reflect.VisibleFields(config) {
		name := field.Tag.Get("flag")
		if name == "" {
			continue
		}
		f := Flag{
			Setting: describe(&field), Default: field.Tag.Get("default"), Help: field.Tag.Get("help"),
			unit: field.Tag.Get("unit"), path: field.Index,
		}
		f.Name, f.Letter, _ = strings.Cut(name, ",")
		if err := f.read(field.Tag); err != nil {
			panic(f.Name + ": " + err.Error())
		}
		f.Given = strings.TrimSuffix(f.Takes, ", or 0 for "+f.Zero)
		for i, part := range strings.Split(f.Default, ", of ") {
			if i > 0 {
				part = part[strings.LastIndex(part, " ")+1:]
			}
			if _, err := f.parse(part); err != nil && part != "" {
				panic(fmt.Sprintf("%s: default %q: %v", f.Name, f.Default, err))
			}
		}
		all = append(all, f)
	}
	return all
}

// Fill sets the fields of *config that have a default to it, in the cases that hold.
func Fill(config any, cases ...string) {
	v := reflect.ValueOf(config).Elem()
	for _, f := range Flags(v.Type()) {
		parts := strings.Split(f.Default, ", of ")
		text := parts[0]
		for _, part := range parts[1:] {
			if i := strings.LastIndex(part, " "); slices.Contains(cases, part[:i]) {
				text = part[i+1:]
			}
		}
		if value, err := f.parse(text); err == nil && text != "" {
			f.Of(v).Set(value)
		}
	}
}

// Of is the flag's field in a configuration.
func (f *Flag) Of(config reflect.Value) reflect.Value { return config.FieldByIndex(f.path) }

// Set sets the flag's field in a configuration to what text says.
func (f *Flag) Set(config reflect.Value, text string) error {
	want := "choose " + f.Given
	if f.Given != f.Takes {
		want += "; leave it out for " + f.Zero
	}
	v, err := f.parse(text)
	switch {
	case err != nil && (f.Given == "" || f.unit != "" || f.Kind() == "duration"): // of units, err says more
		return err
	case err != nil, !f.takes(v):
		return &Error{Of: "flags", Key: "--" + f.Name, Value: text, Want: want}
	}
	f.Of(config).Set(v)
	return nil
}

// Text is the flag's value in a configuration, as Set takes it.
func (f *Flag) Text(config reflect.Value) string { return f.text(f.Of(config)) }

// Otherwise says in words what holds without the flag, where its value does not say it.
func (f *Flag) Otherwise() string {
	switch {
	case strings.Contains(f.Default, ", of "):
		return f.Default
	case f.Default == "-1":
		return f.Minus
	case f.Default == "":
		return f.Zero
	}
	return ""
}

// Kind names what the flag takes: "int", "bool", "duration", "string" and so on; "time" and
// "size" where a bare number has a unit.
func (f *Flag) Kind() string {
	switch {
	case f.unit == "s":
		return "time"
	case f.unit == "B":
		return "size"
	case f.Type == reflect.TypeFor[time.Duration]():
		return "duration"
	case f.Words != nil && !reflect.New(f.Type).Elem().CanInt(), f.Type.PkgPath() != "" && f.Words == nil:
		return "string"
	}
	return f.Type.Kind().String()
}

func (f *Flag) parse(text string) (reflect.Value, error) {
	if f.Words != nil {
		i := slices.IndexFunc(f.Words, func(w string) bool { return strings.EqualFold(w, text) })
		if i < 0 {
			return reflect.Value{}, fmt.Errorf("%s", f.Want)
		}
		return f.word(i)
	}
	_, err := strconv.Atoi(text)
	switch bare := err == nil; {
	case f.unit == "s":
		if bare {
			text += "s"
		}
		t, err := units.ParseTime(text)
		return reflect.ValueOf(t.Duration()), err
	case f.unit == "B" && !bare:
		b, err := units.ParseBytes(text)
		return reflect.ValueOf(int(b)), err
	}
	v := reflect.New(f.Type).Elem()
	switch named := f.Type.PkgPath() != ""; {
	case v.Kind() == reflect.String:
		v.SetString(text)
		return v, nil
	case !named && v.CanInt():
		n, err := strconv.ParseInt(text, 0, f.Type.Bits())
		v.SetInt(n)
		return v, err
	case !named && v.CanUint():
		n, err := strconv.ParseUint(text, 0, f.Type.Bits())
		v.SetUint(n)
		return v, err
	}
	end, err := parseEnd(text, f.Type)
	return reflect.ValueOf(end), err
}

// word is the value that a word stands for: in an enumeration it is the one with that name.
func (f *Flag) word(i int) (reflect.Value, error) {
	v := reflect.New(f.Type).Elem()
	switch {
	case v.Kind() == reflect.Bool:
		v.SetBool(i == 1)
	case v.CanUint():
		for n := uint64(0); f.text(v) != f.Words[i]; n++ {
			if v.OverflowUint(n) {
				return v, fmt.Errorf("%v has no value %q", f.Type, f.Words[i])
			}
			v.SetUint(n)
		}
	case v.Kind() == reflect.String:
		v.SetString(f.Words[i])
	default:
		end, err := parseEnd(f.Words[i], f.Type)
		return reflect.ValueOf(end), err
	}
	return v, nil
}

// text is a value as a flag is given it.
func (s *Setting) text(v reflect.Value) string {
	if s.Words != nil && v.Kind() == reflect.Bool {
		if v.Bool() {
			return s.Words[1]
		}
		return s.Words[0]
	}
	return word(v)
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
