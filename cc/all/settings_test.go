package all_test

import "reflect"

// settings returns the names that the fields of a configuration have in
// scenarios.
func settings(config any) (names []string) {
	for f := range reflect.TypeOf(config).Elem().Fields() {
		names = append(names, f.Tag.Get("yaml"))
	}
	return names
}
