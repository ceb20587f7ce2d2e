package tree

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

// Decoder is a type that reads a node by itself.
type Decoder interface {
	DecodeNode(d *Document, n *Node, path string)
}

// Defaulter is a type of the items of a list, which start with its defaults.
type Defaulter interface {
	SetDefaults()
}

// Variant is a struct, some of whose keys depend on its key "kind".
type Variant interface {
	// VariantKinds lists the values of that key.
	VariantKinds() []string
	// VariantOf returns a pointer to the kind's keys with their defaults, or nil.
	VariantOf(kind string) any
}

// decoder fills Go values from a tree.
type decoder struct {
	*Document
	// example is a value of the key that is being decoded; empty if none is known.
	example string
	// plain says that it is a quantity without its unit.
	plain bool
}

func (d *decoder) decode(n *Node, path string, v reflect.Value) {
	if _, known := d.at[path]; !known {
		d.at[path] = n.Pos
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if _, custom := v.Interface().(Decoder); !custom {
			if _, text := v.Interface().(encoding.TextUnmarshaler); !text {
				d.decode(n, path, v.Elem())
				return
			}
		}
		v = v.Elem()
	}
	if c, ok := v.Addr().Interface().(Decoder); ok {
		c.DecodeNode(d.Document, n, path)
		return
	}
	if n.Kind == Null {
		d.Fail(path, "no value is given: give one, or leave the key out for its default")
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok && !d.plain {
		if d.Want(n, path, Scalar) {
			if err := u.UnmarshalText([]byte(n.Text)); err != nil {
				d.Fail(path, "%v", d.usual(err))
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.decodeStruct(n, path, v)
	case reflect.Slice:
		if d.Want(n, path, Sequence) {
			d.decodeList(n, path, v)
		}
	case reflect.Map:
		if d.Want(n, path, Mapping) {
			d.decodeMap(n, path, v)
		}
	default:
		if d.Want(n, path, Scalar) {
			d.decodeScalar(n, path, v)
		}
	}
}

func (d *decoder) decodeList(n *Node, path string, v reflect.Value) {
	s := reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		if x, ok := s.Index(i).Addr().Interface().(Defaulter); ok {
			x.SetDefaults()
		}
		d.decode(item, fmt.Sprintf("%s[%d]", path, i), s.Index(i))
	}
	v.Set(s)
}

// decodeMap adds to the keys that the map has.
func (d *decoder) decodeMap(n *Node, path string, v reflect.Value) {
	m := reflect.MakeMap(v.Type())
	for _, k := range v.MapKeys() {
		m.SetMapIndex(k, v.MapIndex(k))
	}
	for _, f := range n.Fields {
		item := reflect.New(v.Type().Elem()).Elem()
		d.at[Join(path, f.Key)] = f.Pos
		d.decode(f.Value, Join(path, f.Key), item)
		m.SetMapIndex(reflect.ValueOf(f.Key), item)
	}
	v.Set(m)
}

// usual gives an error about a missing unit the one that is usual for the key.
func (d *decoder) usual(err error) error {
	unit := strings.TrimLeft(d.example, "0123456789.")
	if unit == "" || unit == d.example || strings.ContainsAny(unit, " ,[{") {
		return err // the example has none
	}
	return units.SuggestUnit(err, unit)
}

func (d *decoder) decodeScalar(n *Node, path string, v reflect.Value) {
	var err error
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Text)
	case reflect.Bool:
		switch {
		case n.Text == "true" && !n.Quoted:
			v.SetBool(true)
		case n.Text == "false" && !n.Quoted:
			v.SetBool(false)
		default:
			d.Fail(path, "%q is neither true nor false", n.Text)
		}
	case reflect.Int, reflect.Int64, reflect.Int32:
		var i int64
		if i, err = strconv.ParseInt(n.Text, 10, v.Type().Bits()); err != nil {
			d.Fail(path, "%q is not a whole number (a plain one, without unit)", n.Text)
		}
		v.SetInt(i)
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint8:
		var u uint64
		if u, err = strconv.ParseUint(n.Text, 10, v.Type().Bits()); err != nil {
			d.Fail(path, "%q is not a whole number from 0 to %d", n.Text, uint64(math.MaxUint64)>>(64-v.Type().Bits()))
		}
		v.SetUint(u)
	case reflect.Float64:
		var f float64
		if f, err = strconv.ParseFloat(n.Text, 64); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			d.Fail(path, "%q is not a number (a plain one, without unit)", n.Text)
			return
		}
		v.SetFloat(f)
	default:
		panic(fmt.Sprintf("tree: %s has a type that YAML can not give, %v", path, v.Type()))
	}
}

// keys of a struct: those with a yaml tag, and those of its variant.
type keyed struct {
	name    string
	example string // a value
	plain   bool   // a quantity that is written without its unit
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
			tags := v.Type().Field(i).Tag
			keys = append(keys, keyed{tag, tags.Get("eg"), tags.Get("plain") != "", v.Field(i)})
		}
	}
	return keys
}

func (d *decoder) decodeStruct(n *Node, path string, v reflect.Value) {
	if !d.Want(n, path, Mapping) {
		return
	}
	if vr, ok := v.Addr().Interface().(Variant); ok && !d.chooseVariant(n, path, v, vr) {
		return
	}
	keys := keysOf(v)
	for _, f := range n.Fields {
		known := false
		for _, k := range keys {
			if known = k.name == f.Key; known {
				d.at[Join(path, f.Key)] = f.Pos
				d.example, d.plain = k.example, k.plain
				d.decode(f.Value, Join(path, f.Key), k.value)
				break
			}
		}
		if !known {
			d.unknown(path, f, keys, n.Get("kind"))
		}
	}
}

func (d *decoder) unknown(path string, f Field, keys []keyed, kind *Node) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	here := "here"
	if kind != nil && kind.Kind == Scalar {
		here = "with kind " + kind.Text
	}
	msg := fmt.Sprintf("there is no such key %s: the keys are %s", here, strings.Join(names, ", "))
	if near := spelling.Nearest(f.Key, names); near != "" {
		msg = fmt.Sprintf("there is no such key %s: is %q meant?", here, near)
	} else if len(names) == 0 {
		msg = "there is no such key " + here + ": it takes none"
	}
	d.fail(f.Pos, Join(path, f.Key), msg)
}

// chooseVariant makes the Variant that the node's kind names.
func (d *decoder) chooseVariant(n *Node, path string, v reflect.Value, vr Variant) bool {
	kinds := strings.Join(vr.VariantKinds(), ", ")
	k := n.Get("kind")
	if k == nil {
		d.Fail(path, "the key kind is missing: it is one of %s", kinds)
		return false
	}
	keys := vr.VariantOf(k.Text)
	if k.Kind != Scalar || keys == nil {
		d.at[Join(path, "kind")] = k.Pos
		d.Fail(Join(path, "kind"), "there is no kind %q: it is one of %s", k.Text, kinds)
		return false
	}
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == ",variant" {
			v.Field(i).Set(reflect.ValueOf(keys))
		}
	}
	return true
}
