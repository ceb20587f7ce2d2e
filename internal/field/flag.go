package field

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Flag is the flag by which a command takes a setting. More tags of the field describe it:
//
//	flag     its name, and after a comma its letter: "size,s"
//	default  the value without the flag, and others of some cases: "1000, of write_bw 5000"
//	help     one sentence; <WORD> in it stands for the value
//
// Its value is a text, which Set reads as Parse does; a bool without words is a flag without one.
type Flag struct {
	Setting
	Name, Letter string
	Default      string // in words, empty without one
	Help         string
	Given        string // the values in words, less the 0 that stands for something

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
			Setting: describe(&field), Default: field.Tag.Get("default"), Help: field.Tag.Get("help"), path: field.Index,
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
	v, err := f.parse(text)
	var fault *Error
	if errors.As(err, &fault) {
		fault.Of, fault.Key = "flags", "--"+f.Name
	}
	if err == nil {
		f.Of(config).Set(v)
	}
	return err
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
