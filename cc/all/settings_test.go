package all_test

import (
	"reflect"
	"testing"
)

// settings returns the names that the fields of a configuration have in
// scenarios.
func settings(t *testing.T, config any) (names []string) {
	for f := range reflect.TypeOf(config).Elem().Fields() {
		if f.Tag.Get("eg") == "" {
			t.Errorf("%v.%s has no example: give it the tag eg, and run go generate ./scenario", reflect.TypeOf(config).Elem(), f.Name)
		}
		names = append(names, f.Tag.Get("yaml"))
	}
	return names
}
