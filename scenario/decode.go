package scenario

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/internal/spelling"
	"github.com/sluice-rdma/sluice/units"
)

// decoder fills Go values from a tree, strictly, and remembers where each key
// was written, so that what is found wrong later can still be pointed at.
type decoder struct {
	at   map[string]Pos
	file Pos // where the whole begins
	// example is a value of the key that is being decoded; empty if none is known.
	example string
	errs    Errors
	// memory is what a simulation may take; 0 for no limit.
	memory units.Bytes
}

// nodeDecoder is a type that reads a node by itself.
type nodeDecoder interface {
	decodeNode(d *decoder, n *node, path string)
}

// variant is a struct, some of whose keys depend on its key "kind".
type variant interface {
	// variantOf returns a pointer to the kind's keys with their defaults, or nil.
	variantOf(kind string) any
	variantKinds() []string
}

// fail notes that the value at path is wrong.
func (d *decoder) fail(path, format string, args ...any) {
	d.errs = append(d.errs, &Error{Pos: d.pos(path), Key: path, Msg: fmt.Sprintf(format, args...)})
}

// pos is where path was written, or what contains it.
func (d *decoder) pos(path string) Pos {
	for path != "" {
		if p, ok := d.at[path]; ok {
			return p
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return d.file
}

// given reports whether the scenario says anything about path itself.
func (d *decoder) given(path string) bool {
	_, ok := d.at[path]
	return ok
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (d *decoder) decode(n *node, path string, v reflect.Value) {
	if !d.given(path) {
		d.at[path] = n.pos
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if _, custom := v.Interface().(nodeDecoder); !custom {
			if _, text := v.Interface().(encoding.TextUnmarshaler); !text {
				d.decode(n, path, v.Elem())
				return
			}
		}
		v = v.Elem()
	}
	if c, ok := v.Addr().Interface().(nodeDecoder); ok {
		c.decodeNode(d, n, path)
		return
	}
	if n.kind == nullNode {
		d.fail(path, "no value is given: give one, or leave the key out for its default")
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if d.want(n, path, scalarNode) {
			if err := u.UnmarshalText([]byte(n.text)); err != nil {
				d.fail(path, "%v", d.usual(err))
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.decodeStruct(n, path, v)
	case reflect.Slice:
		if !d.want(n, path, sequenceNode) {
			return
		}
		s := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
		for i, item := range n.items {
			d.decode(item, fmt.Sprintf("%s[%d]", path, i), s.Index(i))
		}
		v.Set(s)
	case reflect.Map:
		if !d.want(n, path, mappingNode) {
			return
		}
		m := reflect.MakeMap(v.Type())
		for _, k := range v.MapKeys() {
			m.SetMapIndex(k, v.MapIndex(k))
		}
		for _, f := range n.fields {
			item := reflect.New(v.Type().Elem()).Elem()
			d.at[join(path, f.key)] = f.pos
			d.decode(f.value, join(path, f.key), item)
			m.SetMapIndex(reflect.ValueOf(f.key), item)
		}
		v.Set(m)
	default:
		if d.want(n, path, scalarNode) {
			d.decodeScalar(n, path, v)
		}
	}
}

// usual gives an error about a missing unit the one that is usual for the key.
func (d *decoder) usual(err error) error {
	unit := strings.TrimLeft(d.example, "0123456789.")
	if unit == "" || unit == d.example || strings.ContainsAny(unit, " ,[{") {
		return err // the example has none
	}
	return units.SuggestUnit(err, unit)
}

// decodeInto is decode for what pointer points to.
func (d *decoder) decodeInto(n *node, path string, pointer any) {
	d.decode(n, path, reflect.ValueOf(pointer).Elem())
}

func (d *decoder) want(n *node, path string, kind nodeKind) bool {
	if n.kind != kind {
		d.fail(path, "here stands %v where %v belongs", n.kind, kind)
		return false
	}
	return true
}

func (d *decoder) decodeScalar(n *node, path string, v reflect.Value) {
	var err error
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.text)
	case reflect.Bool:
		switch {
		case n.text == "true" && !n.quoted:
			v.SetBool(true)
		case n.text == "false" && !n.quoted:
			v.SetBool(false)
		default:
			d.fail(path, "%q is neither true nor false", n.text)
		}
	case reflect.Int, reflect.Int64, reflect.Int32:
		var i int64
		if i, err = strconv.ParseInt(n.text, 10, v.Type().Bits()); err != nil {
			d.fail(path, "%q is not a whole number (a plain one, without unit)", n.text)
		}
		v.SetInt(i)
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint8:
		var u uint64
		if u, err = strconv.ParseUint(n.text, 10, v.Type().Bits()); err != nil {
			d.fail(path, "%q is not a whole number from 0 to %d", n.text, uint64(math.MaxUint64)>>(64-v.Type().Bits()))
		}
		v.SetUint(u)
	case reflect.Float64:
		var f float64
		if f, err = strconv.ParseFloat(n.text, 64); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			d.fail(path, "%q is not a number (a plain one, without unit)", n.text)
			return
		}
		v.SetFloat(f)
	default:
		panic(fmt.Sprintf("scenario: %s has a type that no scenario can give, %v", path, v.Type()))
	}
}

// keys of a struct: those with a yaml tag, and those of its variant.
type keyed struct {
	name    string
	example string // a value
	value   reflect.Value
}

func keysOf(v reflect.Value) (keys []keyed) {
	for i := range v.NumField() {
		switch tag := v.Type().Field(i).Tag.Get("yaml"); tag {
		case "", "-":
		case ",variant":
			if f := v.Field(i); !f.IsNil() {
				keys = append(keys, keysOf(f.Elem().Elem())...)
			}
		case ",inline":
			keys = append(keys, keysOf(v.Field(i))...)
		default:
			keys = append(keys, keyed{tag, v.Type().Field(i).Tag.Get("eg"), v.Field(i)})
		}
	}
	return keys
}

func (d *decoder) decodeStruct(n *node, path string, v reflect.Value) {
	if !d.want(n, path, mappingNode) {
		return
	}
	if vr, ok := v.Addr().Interface().(variant); ok && !d.chooseVariant(n, path, v, vr) {
		return
	}
	keys := keysOf(v)
	for _, f := range n.fields {
		known := false
		for _, k := range keys {
			if known = k.name == f.key; known {
				d.at[join(path, f.key)] = f.pos
				d.example = k.example
				d.decode(f.value, join(path, f.key), k.value)
				break
			}
		}
		if !known {
			d.unknown(path, f, keys, n.get("kind"))
		}
	}
}

func (d *decoder) unknown(path string, f field, keys []keyed, kind *node) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	here := "here"
	if kind != nil && kind.kind == scalarNode {
		here = "with kind " + kind.text
	}
	msg := fmt.Sprintf("there is no such key %s: the keys are %s", here, strings.Join(names, ", "))
	if near := spelling.Nearest(f.key, names); near != "" {
		msg = fmt.Sprintf("there is no such key %s: is %q meant?", here, near)
	} else if len(names) == 0 {
		msg = "there is no such key " + here + ": it takes none"
	}
	d.errs = append(d.errs, &Error{Pos: f.pos, Key: join(path, f.key), Msg: msg})
}

// chooseVariant makes the variant that the node's kind names.
func (d *decoder) chooseVariant(n *node, path string, v reflect.Value, vr variant) bool {
	kinds := strings.Join(vr.variantKinds(), ", ")
	k := n.get("kind")
	if k == nil {
		d.fail(path, "the key kind is missing: it is one of %s", kinds)
		return false
	}
	keys := vr.variantOf(k.text)
	if k.kind != scalarNode || keys == nil {
		d.at[join(path, "kind")] = k.pos
		d.fail(join(path, "kind"), "there is no kind %q: it is one of %s", k.text, kinds)
		return false
	}
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == ",variant" {
			v.Field(i).Set(reflect.ValueOf(keys))
		}
	}
	return true
}

// Raw is a part of a scenario that is read later, when it is known what it
// means.
type Raw struct{ n *node }

func (r *Raw) decodeNode(_ *decoder, n *node, _ string) { r.n = n }

// HostSet is a choice of hosts: a number of them, a list, or all.
type HostSet struct {
	All   bool
	Count int      // the first so many; 0 if All or Names
	Names []string // names such as "h3" and ranges such as "h0..h9"
}

func (h *HostSet) decodeNode(d *decoder, n *node, path string) {
	switch {
	case n.kind == sequenceNode:
		*h = HostSet{}
		d.decode(n, path, reflect.ValueOf(&h.Names).Elem())
		if len(h.Names) == 0 {
			d.fail(path, "the list is empty: name hosts, or write all")
		}
	case n.kind == scalarNode && n.text == "all":
		*h = HostSet{All: true}
	case n.kind == scalarNode:
		c, err := strconv.Atoi(n.text)
		if err != nil || c < 1 {
			d.fail(path, "%q is no choice of hosts: write a number of hosts, a list such as [h0..h3, h7], or all", n.text)
			return
		}
		*h = HostSet{Count: c}
	default:
		d.fail(path, "here stands %v: write a number of hosts, a list such as [h0..h3, h7], or all", n.kind)
	}
}
