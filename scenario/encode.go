package scenario

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/goccy/go-yaml"
)

// YAML writes the scenario with every default filled in. Read back, it is the
// same scenario.
func (s *Scenario) YAML() ([]byte, error) {
	return yaml.MarshalWithOptions(structYAML(reflect.ValueOf(s).Elem()), yaml.IndentSequence(true), yaml.UseLiteralStyleIfMultiline(true))
}

// structYAML returns a struct's keys and values as the YAML encoder takes them.
func structYAML(v reflect.Value) yaml.MapSlice {
	m := yaml.MapSlice{}
	for _, k := range keysOf(v) {
		if value := valueYAML(k.value); value != nil {
			m = append(m, yaml.MapItem{Key: k.name, Value: value})
		}
	}
	return m
}

// valueYAML returns nil for what is left out: empty collections, and limits and
// overrides that are not there.
func valueYAML(v reflect.Value) any {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}
	switch x := v.Interface().(type) {
	case Raw:
		return x.n.toYAML()
	case HostSet:
		return x.yaml()
	case With:
		return x.yaml()
	case *System:
		return x.yaml()
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		if err != nil {
			panic(fmt.Sprintf("scenario: %v", err)) // quantities always print
		}
		return string(text)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return valueYAML(v.Elem())
	case reflect.Struct:
		return structYAML(v)
	case reflect.Slice:
		if v.Len() == 0 {
			return nil
		}
		var items []any
		for i := range v.Len() {
			items = append(items, valueYAML(v.Index(i)))
		}
		return items
	case reflect.Map:
		if v.Len() == 0 {
			return nil
		}
		m := yaml.MapSlice{}
		byName := v.Interface()
		for _, key := range slices.Sorted(maps.Keys(stringKeys(byName))) {
			m = append(m, yaml.MapItem{Key: key, Value: valueYAML(v.MapIndex(reflect.ValueOf(key)))})
		}
		return m
	}
	return v.Interface()
}

func stringKeys(m any) map[string]bool {
	keys := map[string]bool{}
	for _, k := range reflect.ValueOf(m).MapKeys() {
		keys[k.String()] = true
	}
	return keys
}

func (h HostSet) yaml() any {
	switch {
	case h.All:
		return "all"
	case h.Count > 0:
		return h.Count
	case len(h.Names) == 0:
		return nil
	}
	return h.Names
}

func (s *System) yaml() any {
	m := yaml.MapSlice{{Key: "name", Value: s.Name}, {Key: "engine", Value: s.Engine}}
	if config := structYAML(reflect.ValueOf(s.EngineConfig).Elem()); len(config) > 0 {
		m = append(m, yaml.MapItem{Key: "config", Value: config})
	}
	if s.Override.n != nil {
		m = append(m, yaml.MapItem{Key: "override", Value: s.Override.n.toYAML()})
	}
	return m
}
