package enginetest

import (
	"reflect"
	"regexp"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// Tags checks that each field of a configuration has a name of its own in
// scenarios, and a type that carries its unit.
func Tags(t *testing.T, config any) {
	t.Helper()
	allowed := map[reflect.Type]bool{
		reflect.TypeFor[units.Time](): true, reflect.TypeFor[units.Rate](): true, reflect.TypeFor[units.Bytes](): true,
		reflect.TypeFor[float64](): true, reflect.TypeFor[int](): true, reflect.TypeFor[bool](): true,
		reflect.TypeFor[string](): true,
	}
	seen := map[string]bool{}
	for f := range reflect.TypeOf(config).Fields() {
		name := f.Tag.Get("yaml")
		switch {
		case !f.IsExported():
			t.Errorf("%s is not exported: no scenario can set it", f.Name)
		case !snakeCase.MatchString(name):
			t.Errorf("%s has the name %q in scenarios, which is not snake case", f.Name, name)
		case seen[name]:
			t.Errorf("%s is the name of two fields", name)
		case !allowed[f.Type]:
			t.Errorf("%s is a %v", f.Name, f.Type)
		}
		seen[name] = true
	}
}

// Accepts checks that the default configuration is valid, and stays so under
// each of the changes.
func Accepts[C interface{ Validate() error }](t *testing.T, defaults func() C, changes ...func(*C)) {
	t.Helper()
	for i, change := range append(changes, func(*C) {}) {
		c := defaults()
		change(&c)
		if err := c.Validate(); err != nil {
			t.Errorf("change %d is refused: %v", i, err)
		}
	}
}

// Refuses checks that each of the changes makes the default configuration
// invalid, with an error that matches want.
func Refuses[C interface{ Validate() error }](t *testing.T, defaults func() C, want string, changes ...func(*C)) {
	t.Helper()
	for i, change := range changes {
		c := defaults()
		change(&c)
		err := c.Validate()
		if err == nil {
			t.Errorf("%s: change %d is accepted", want, i)
		} else if !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s: change %d is refused with %q", want, i, err)
		}
	}
}
