package field

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// inline is the key of a configuration whose keys stand among those of the one around it.
const inline = ",inline"

// inside returns the type of the configuration in a field: its own, or that of what it points
// to or holds several of. It is nil of all else.
func inside(f reflect.StructField) reflect.Type {
	key := f.Tag.Get("yaml")
	if !f.IsExported() || key == "" || key == "-" || key == ",variant" {
		return nil
	}
	t := f.Type
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || unmarshals(t) {
		return nil
	}
	return t
}

// faults appends an *Error of each setting that is out of its range in config, and in the
// configurations inside it: "pcie.tags", "functions[1].min_tx_rate", "switches.tor0.buffer".
func faults(errs []error, of, below string, config reflect.Value, settings []Setting) []error {
	for i := range settings {
		s := &settings[i]
		if value, want := s.fault(config); want != "" {
			missing := s.required && config.Field(s.index).IsZero()
			errs = append(errs, &Error{Of: of, Key: below + s.Key, Value: value, Want: want, Missing: missing})
		}
		if s.inner != nil {
			errs = s.inside(errs, of, below, config.Field(s.index))
		}
	}
	return errs
}

// inside appends the faults of the configurations in v, which is of the setting's type.
func (s *Setting) inside(errs []error, of, below string, v reflect.Value) []error {
	key := below + s.Key
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			errs = s.inside(errs, of, below, v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			errs = faults(errs, of, key+"["+strconv.Itoa(i)+"].", reflect.Indirect(v.Index(i)), s.inner)
		}
	case reflect.Map:
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			errs = faults(errs, of, key+"."+name.String()+".", reflect.Indirect(v.MapIndex(name)), s.inner)
		}
	default:
		if key += "."; s.Key == inline {
			key = below
		}
		errs = faults(errs, of, key, v, s.inner)
	}
	return errs
}

// list is what a setting asks of a list: how many it holds, and each of them.
type list struct {
	most int // 0 is no bound
	of   string
	each Setting
}

func (s *Setting) readList(tag reflect.StructTag) error {
	l := list{of: cmp.Or(tag.Get("of"), "of them"), each: Setting{Type: s.Type.Elem()}}
	if text := tag.Get("most"); text != "" {
		n, err := strconv.Atoi(power(text))
		if err != nil {
			return err
		}
		l.most, s.list = n, &l
	}
	if tag.Get("range") != "" || tag.Get("one") != "" {
		s.list = &l
		if err := l.each.read(tag); err != nil {
			return err
		}
		s.Takes = "each " + l.each.Takes
	}
	if l.most > 0 {
		s.Takes = strings.TrimPrefix(fmt.Sprintf("%s, at most %d %s", s.Takes, l.most, l.of), ", ")
	}
	return nil
}

func (l *list) fault(v reflect.Value) (value any, want string) {
	for i := range v.Len() {
		if e := v.Index(i); l.each.refuses(e) {
			return l.each.shown(e), l.each.Want
		}
	}
	if l.most > 0 && v.Len() > l.most {
		return v.Len(), fmt.Sprintf("choose at most %d %s", l.most, l.of)
	}
	return nil, ""
}

// refuses reports whether a value is none that the setting takes.
func (s *Setting) refuses(v reflect.Value) bool {
	return (s.Zero == "" || !v.IsZero()) && !s.takes(v)
}

// shown is a value as errors show it.
func (s *Setting) shown(v reflect.Value) any {
	if s.plain {
		return v.Int()
	}
	return v.Interface()
}
