package results

import (
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"iter"
	"reflect"
	"strings"
)

// figure is a figure of a result by its name in the JSON.
type figure struct {
	name  string
	value stats.Float
}

// figuresOf lists the numbers of a Flows, Network, System, Label or Link in the
// order of its fields.
func figuresOf(v any) []figure { return appendFigures(nil, reflect.Indirect(reflect.ValueOf(v))) }

func appendFigures(ms []figure, v reflect.Value) []figure {
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		if field.Anonymous {
			ms = appendFigures(ms, f)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case f.CanFloat():
			ms = append(ms, figure{name, stats.Float(f.Float())})
		case f.CanInt():
			ms = append(ms, figure{name, stats.Float(f.Int())})
		case f.CanUint():
			ms = append(ms, figure{name, stats.Float(f.Uint())})
		}
	}
	return ms
}

// FigureOf returns the figure of a Flows, Network, System, Label, Priority or Link by its
// name in the JSON.
func FigureOf(v any, name string) (stats.Float, bool) {
	for _, m := range figuresOf(v) {
		if m.name == name {
			return m.value, true
		}
	}
	return stats.Unmeasured, false
}

// Figures are the figures of a Flows, Network, System, Label, Priority or Link by their
// names in the JSON, in its order.
func Figures(v any) iter.Seq2[string, stats.Float] {
	return func(yield func(string, stats.Float) bool) {
		for _, m := range figuresOf(v) {
			if !yield(m.name, m.value) {
				return
			}
		}
	}
}

// FigureNames are the names of v's figures in the JSON, in its order.
func FigureNames(v any) []string {
	var names []string
	for _, m := range figuresOf(v) {
		names = append(names, m.name)
	}
	return names
}
