package bench

import (
	"reflect"
	"strings"
)

// metric is a figure of a result by its name in the JSON.
type metric struct {
	name  string
	value Float
}

// metricsOf lists the numbers of a Flows, Network, System, Label or Link in the
// order of its fields.
func metricsOf(v any) []metric { return appendMetrics(nil, reflect.Indirect(reflect.ValueOf(v))) }

func appendMetrics(ms []metric, v reflect.Value) []metric {
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		if field.Anonymous {
			ms = appendMetrics(ms, f)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case f.CanFloat():
			ms = append(ms, metric{name, Float(f.Float())})
		case f.CanInt():
			ms = append(ms, metric{name, Float(f.Int())})
		case f.CanUint():
			ms = append(ms, metric{name, Float(f.Uint())})
		}
	}
	return ms
}

// metricOf returns the figure of that name.
func metricOf(v any, name string) (Float, bool) {
	for _, m := range metricsOf(v) {
		if m.name == name {
			return m.value, true
		}
	}
	return Unmeasured, false
}

func metricNames(v any) []string {
	var names []string
	for _, m := range metricsOf(v) {
		names = append(names, m.name)
	}
	return names
}
