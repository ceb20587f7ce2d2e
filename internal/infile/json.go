package infile

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/sluice-rdma/sluice/units"
)

// What a document's objects may come to: an object is {} at least, three bytes with a
// comma, and may become a structure of a thousand. Documents that programs wrote stay below
// density.
const (
	// MaxDepth is how many lists and mappings may lie within each other.
	MaxDepth = 100
	density  = 16             // bytes of structures for each byte of text
	spare    = 16 * units.MiB // of structures, however short the text
)

// JSON decodes a document into what pointer points to, as json.Unmarshal does. It refuses
// one that lies more than 100 deep in itself, or whose objects would take far more memory
// than its text.
func JSON(text []byte, pointer any) error {
	if err := CheckJSON(text, pointer); err != nil {
		return err
	}
	return json.Unmarshal(text, pointer)
}

// CheckJSON says whether JSON would refuse a document for its size or depth. Whether it
// is JSON at all it leaves to the decoder.
func CheckJSON(text []byte, pointer any) error {
	depth, values := 0, 0
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			values++
			if depth++; depth > MaxDepth {
				return fmt.Errorf("more than %d lists and objects lie within each other at byte %d: that is no document of this program", MaxDepth, i)
			}
		case c == '}' || c == ']':
			depth--
		case c == 'n' && i > 0 && text[i-1] != '"': // null may stand for an object
			values++
		}
	}
	most := max(spare, density*units.Bytes(len(text)))
	if need := units.Bytes(values) * largest(reflect.TypeOf(pointer), map[reflect.Type]bool{}); need > most {
		return fmt.Errorf("%d lists and objects in %v of text, almost all of them empty: that is no document of this program", values, units.Bytes(len(text)))
	}
	return nil
}

// largest is the size of the largest value that an object or a list of a document of a
// type may become.
func largest(t reflect.Type, seen map[reflect.Type]bool) units.Bytes {
	if t == nil || seen[t] {
		return 64 // of lists and maps themselves
	}
	seen[t] = true
	size := units.Bytes(64)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		size = max(size, largest(t.Elem(), seen))
	case reflect.Map:
		size = max(size, 400, largest(t.Elem(), seen)) // an empty map's first bucket
	case reflect.Struct:
		size = max(size, units.Bytes(t.Size()))
		for i := range t.NumField() {
			size = max(size, largest(t.Field(i).Type, seen))
		}
	case reflect.Interface:
		size = max(size, 100)
	}
	return size
}
