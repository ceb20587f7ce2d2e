package tree

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/goccy/go-yaml"
)

// Encoder is a type that says by itself what the YAML encoder takes for it: nil if it is
// left out.
type Encoder interface {
	EncodeNode() any
}

// Encode returns the keys and values of the struct that pointer points to as the YAML
// encoder takes them.
func Encode(pointer any) yaml.MapSlice { return encodeStruct(reflect.ValueOf(pointer).Elem()) }

func encodeStruct(v reflect.Value) yaml.MapSlice {
	m := yaml.MapSlice{}
	for _, k := range keysOf(v) {
		value := encode(k.value)
		if k.plain {
			value = k.value.Int()
		}
		if value != nil {
			m = append(m, yaml.MapItem{Key: k.name, Value: value})
		}
	}
	return m
}

// encode returns nil for what is left out: empty collections, and limits and
// overrides that are not there.
func encode(v reflect.Value) any {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}
	switch x := v.Interface().(type) {
	case Encoder:
		return x.EncodeNode()
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		if err != nil {
			panic(fmt.Sprintf("tree: %v", err)) // quantities always print
		}
		return string(text)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return encode(v.Elem())
	case reflect.Struct:
		return encodeStruct(v)
	case reflect.Slice:
		if v.Len() == 0 {
			return nil
		}
		var items []any
		for i := range v.Len() {
			items = append(items, encode(v.Index(i)))
		}
		return items
	case reflect.Map:
		if v.Len() == 0 {
			return nil
		}
		m := yaml.MapSlice{}
		byName := v.Interface()
		for _, key := range slices.Sorted(maps.Keys(stringKeys(byName))) {
			m = append(m, yaml.MapItem{Key: key, Value: encode(v.MapIndex(reflect.ValueOf(key)))})
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
