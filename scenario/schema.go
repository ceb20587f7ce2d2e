package scenario

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"github.com/sluice-rdma/sluice/cc"
	setting "github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Section is a mapping of the schema: where it stands and its keys.
type Section struct {
	// Path is its place: "fabric.pfc", "systems[]", "fabric.switches.NAME";
	// empty for the top.
	Path string
	// Kind says for which value of the key kind its keys are there beside those
	// of the section without one.
	Kind string
	// Type is the Go type that holds it.
	Type reflect.Type
	Keys []Key
}

// Key is a key of the schema.
type Key struct {
	Name     string
	Field    string       // of the section's Type
	In       reflect.Type // the type that declares it: Type, or one inlined in it
	Value    string       // what it takes: "time", "whole number", "list of mappings"
	Takes    string       // of these which, in words: "1 to 64 flows"; empty where its type says it
	Default  string       // as YAML; empty if there is none
	Required bool
	Example  string // as YAML; empty for what has a section of its own
	// Apart is its example in a second item of a list, with other keys than those
	// that have the first one; empty for most.
	Apart string
}

// Schema returns all that a scenario may say, in the order of the types.
func Schema() []Section {
	s := Default()
	s.Topology.Shape, s.Systems, s.Workloads = nil, nil, nil
	s.Fabric.Failures = []Failure{{Both: true}}
	s.Fabric.Switches = map[string]Switch{"NAME": {}}
	return sections(nil, "", "", reflect.ValueOf(s).Elem())
}

// EngineSchema returns the keys that an engine takes as config.
func EngineSchema(s cc.Scheme) Section {
	return sections(nil, "config", s.Name, reflect.ValueOf(s.DefaultConfig()).Elem())[0]
}

func sections(all []Section, path, kind string, v reflect.Value) []Section {
	at := len(all)
	all = append(all, Section{Path: path, Kind: kind, Type: v.Type()})
	described, err := setting.Describe(v.Type())
	if err != nil {
		panic(fmt.Sprintf("%s: %v", path, err)) // a tag of the program's own
	}
	for _, t := range ruled[v.Type()] {
		more, err := setting.Describe(t)
		if err != nil {
			panic(fmt.Sprintf("%v: %v", t, err))
		}
		described = append(described, more...)
	}
	var keys []Key
	for i := range v.NumField() {
		field := v.Type().Field(i)
		tag := field.Tag.Get("yaml")
		if tag == ",inline" {
			keys = append(keys, sections(nil, path, kind, v.Field(i))[0].Keys...)
			continue
		}
		if tag == "" || tag == "-" || tag == ",variant" {
			continue
		}
		k := Key{Name: tag, Field: field.Name, In: v.Type(), Required: field.Tag.Get("req") != "", Example: field.Tag.Get("eg"), Apart: field.Tag.Get("apart"), Takes: takes(described, tag)}
		inner, innerPath := v.Field(i), tree.Join(path, tag)
		k.Value, k.Default = describe(inner)
		if field.Tag.Get("plain") != "" {
			k.Value, k.Default = "whole number", fmt.Sprint(inner.Int())
		}
		if inPreset(v.Type()) && k.Example == "" && isLeaf(inner) {
			k.Example = k.Default
		}
		switch {
		case isLeaf(inner):
		case inner.Type() == reflect.TypeFor[With]():
			c, err := nicmodel.Preset(Default().NIC.Preset)
			if err != nil {
				panic(err) // it is part of the program
			}
			all = sections(all, innerPath, "", reflect.ValueOf(&c).Elem())
		case inner.Kind() == reflect.Struct:
			all = sections(all, innerPath, "", inner)
		case inner.Kind() == reflect.Slice:
			if one := element(inner); !isLeaf(one) {
				all = sections(all, innerPath+"[]", "", one)
			}
		case inner.Kind() == reflect.Map && inner.Len() > 0:
			one := reflect.New(inner.Type().Elem()).Elem()
			all = sections(all, innerPath+".NAME", "", one)
		}
		keys = append(keys, k)
	}
	all[at].Keys = keys
	if vr, ok := v.Addr().Interface().(tree.Variant); ok {
		for _, kind := range vr.VariantKinds() {
			one := reflect.ValueOf(vr.VariantOf(kind)).Elem()
			switch list := one.Addr().Interface().(type) {
			case *workload.FlowList:
				list.Flows = []workload.FlowSpec{{Connections: 1, Count: 1}}
			case *Graph:
				list.Links = []GraphLink{{Count: 1}}
			}
			all = sections(all, path, kind, one)
		}
	}
	return all
}

// ruled has the types whose settings the ranges of a type's keys are, where it does not have
// them itself: its own values are put into theirs.
var ruled = map[reflect.Type][]reflect.Type{
	reflect.TypeFor[Fabric]():   {reflect.TypeFor[fabric.Config](), reflect.TypeFor[fabric.SwitchConfig](), reflect.TypeFor[fabric.Class]()},
	reflect.TypeFor[Switch]():   {reflect.TypeFor[fabric.SwitchConfig]()},
	reflect.TypeFor[Class]():    {reflect.TypeFor[fabric.Class](), reflect.TypeFor[fabric.ECN]()},
	reflect.TypeFor[ECN]():      {reflect.TypeFor[fabric.ECN]()},
	reflect.TypeFor[EIN]():      {reflect.TypeFor[fabric.Notice]()},
	reflect.TypeFor[PFC]():      {reflect.TypeFor[fabric.PFC]()},
	reflect.TypeFor[Circuits](): {reflect.TypeFor[fabric.CircuitConfig]()},
	reflect.TypeFor[Fault]():    {reflect.TypeFor[fabric.Fault]()},
	reflect.TypeFor[Failure]():  {reflect.TypeFor[fabric.Failure]()},
	reflect.TypeFor[Host]():     {reflect.TypeFor[des.CoreConfig]()},
}

// takes returns what the settings say in words of a key's values.
func takes(settings []setting.Setting, key string) string {
	for _, s := range settings {
		if s.Key == key && s.Takes != "" {
			return s.Takes
		}
	}
	return ""
}

// element is the first element of a list, whose values are the defaults; of an empty list it is the zero value.
func element(list reflect.Value) reflect.Value {
	if list.Len() > 0 {
		return reflect.Indirect(list.Index(0))
	}
	t := list.Type().Elem()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return reflect.New(t).Elem()
}

// inPreset reports whether a type is of parameters of NICs. They have no examples of
// their own but the values of the default preset.
func inPreset(t reflect.Type) bool {
	return strings.HasPrefix(t.PkgPath(), reflect.TypeFor[nicmodel.NIC]().PkgPath()) // it, or a package below it
}

// isLeaf reports whether a value is written as one word or list of words.
func isLeaf(v reflect.Value) bool {
	switch v.Interface().(type) {
	case encoding.TextMarshaler, workload.HostSet, Raw, []string, map[string]units.Rate:
		return true
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map:
		return false
	}
	return true
}

// describe returns the form of a value of that type, and its default.
func describe(v reflect.Value) (what, text string) {
	switch x := v.Interface().(type) {
	case units.Time:
		return "time", zero(x == 0, x)
	case units.Rate:
		return "rate", zero(x == 0, x)
	case units.Bytes:
		return "size", zero(x == 0, x)
	case *units.Time:
		return "time", ""
	case *units.Bytes:
		return "size", ""
	case *int:
		return "whole number", ""
	case *bool:
		return "true or false", ""
	case *float64:
		return "number", ""
	case *string:
		return "text", ""
	case workload.FlowSize:
		return "size or unlimited", ""
	case workload.Sizes:
		return "word, size, file or points", ""
	case workload.Operation:
		return "word", x.String()
	case workload.HostSet:
		if x.EncodeNode() == nil {
			return "hosts", ""
		}
		return "hosts", fmt.Sprint(x.EncodeNode())
	case Raw:
		return "mapping", ""
	case []string:
		return "list", ""
	case []int:
		return "list of whole numbers", ""
	case []units.Bytes:
		return "list of sizes", ""
	case map[string]units.Rate:
		return "rates by name", ""
	case nicmodel.Clock:
		return "clock rate", x.String()
	case encoding.TextMarshaler:
		if text, err := x.MarshalText(); err == nil {
			return "word", string(text)
		}
	}
	switch v.Kind() {
	case reflect.String:
		return "text", v.String()
	case reflect.Bool:
		return "true or false", fmt.Sprint(v.Bool())
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "whole number", fmt.Sprint(v.Interface())
	case reflect.Float64:
		return "number", fmt.Sprint(v.Interface())
	case reflect.Slice:
		return "list of mappings", ""
	case reflect.Map:
		return "mappings by name", ""
	}
	return "mapping", ""
}

func zero(is bool, x fmt.Stringer) string {
	if is {
		return "0"
	}
	return x.String()
}

// Title returns a section's name in prose: "topology with kind star".
func (s *Section) Title() string {
	name := strings.TrimSuffix(s.Path, "[]")
	if name == "" {
		name = "the top"
	}
	if s.Kind != "" {
		return name + ", kind " + s.Kind
	}
	return name
}
