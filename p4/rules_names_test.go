package p4

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/stf"
	"github.com/sluice-rdma/sluice/units"
)

// Names of the control plane (18.3.2): of tables, keys, actions and objects, by instance and by @name.
func TestRulesOfNames(t *testing.T) {
	text := v1Text(`control inner(inout bit<8> x, inout headers hdr) {
    action bump(bit<8> by) { x = x + by; }
    @name("shown") action hidden() { x = 99; }
    @name(".global") action global() { x = 77; }
    table t { key = { x: exact; hdr.h.c[11:4]: ternary; hdr.h.isValid(): exact; hdr.h.d & 0xff: exact @name("low"); } actions = { bump; hidden; global; NoAction; } default_action = NoAction(); }
    @name("renamed") table u { key = { hdr.h.d: lpm @name("dst"); } actions = { bump; } }
    @name(".top") table v { actions = { bump; } default_action = bump(1); }
    register<bit<8>>(1) r;
    apply { t.apply(); u.apply(); v.apply(); r.write(0, x); }
}`, `inner() one; @name("second") inner() two; @name(".third") inner() three;`, "one.apply(hdr.h.a, hdr); two.apply(hdr.h.b, hdr); three.apply(hdr.h.a, hdr);")
	prog := loadText(t, text)
	pl := prog.New()
	var tables, keys, actions []string
	for _, info := range prog.Tables() {
		tables = append(tables, info.Name)
		for _, k := range info.Keys {
			keys = append(keys, k.Name)
		}
		for _, a := range info.Actions {
			actions = append(actions, a.Name)
		}
	}
	slices.Sort(tables)
	if want := []string{"I.one.renamed", "I.one.t", "I.second.renamed", "I.second.t", "third.renamed", "third.t", "top", "top", "top"}; !slices.Equal(tables, want) {
		t.Errorf("tables are %q, expected %q", tables, want)
	}
	for _, want := range []string{"x", "hdr.h.c[11:4]", "hdr.h.$valid$", "low", "dst"} {
		if !slices.Contains(keys, want) {
			t.Errorf("keys are %q, expected %q among them", keys, want)
		}
	}
	for _, want := range []string{"I.one.bump", "I.second.shown", "third.bump", "global", "NoAction"} {
		if !slices.Contains(actions, want) {
			t.Errorf("actions are %q, expected %q among them", actions, want)
		}
	}
	for _, name := range []string{"I.one.r", "second.r", "third.r"} {
		if _, err := pl.Register(name); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct{ line, want string }{
		{"add I.one.t x:1 hdr.h.c.slice:0x12 hdr.h.$valid$:1 low:3 bump(by:5)", ""},
		{"add second.t x:1 hdr.h.c.slice:0x** hdr.h.$valid$:1 low:3 shown()", ""},
		{"add third.t x:1 hdr.h.c.slice:0x12 hdr.h.$valid$:1 low:3 global()", ""},
		{"add renamed dst:0/0 bump(by:1)", "renamed"},
		{"add I.one.renamed dst:0/0 bump(by:1)", ""},
		{"add I.one.u dst:0/0 bump(by:1)", "I.one.u"},
		{"add I.one.t x:1 hdr.h.c.slice:0x12 hdr.h.$valid$:1 bump(by:5)", "low"},
		{"add I.one.t x:1 hdr.h.c.slice:0x12 hdr.h.$valid$:1 low:3 hidden()", "hidden"},
	} {
		err := stf.Configure(pl, "t", []byte(c.line))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.line, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error is %v, expected %q", c.line, err, c.want)
		}
	}
}

// What the control plane may not do to a table, and why.
func TestRulesOfEntries(t *testing.T) {
	pl := loadText(t, v1Text("", tableActions+`
    table exact_ { key = { hdr.h.a: exact; hdr.h.d: exact; } actions = { set; @defaultonly leave; @tableonly NoAction; } default_action = leave(); }
    table lpm_ { key = { hdr.h.d: lpm; } actions = { set; } default_action = set(1); }
    table ternary_ { key = { hdr.h.a: ternary; } actions = { set; wide; } default_action = set(1); }
    table range_ { key = { hdr.h.a: range; (int<8>)hdr.h.b: range @name("s"); } actions = { set; } default_action = set(1); }
    table optional_ { key = { hdr.h.a: optional; } actions = { set; } default_action = set(1); }
    table fixed { key = { hdr.h.a: exact; } actions = { set; } const entries = { 1: set(1); } const default_action = set(2); }`,
		"exact_.apply(); lpm_.apply(); ternary_.apply(); range_.apply(); optional_.apply(); fixed.apply();")).New()
	n := big.NewInt
	set := Action{Name: "set", Args: []*big.Int{n(1)}}
	for _, c := range []struct {
		rule, table string
		keys        []Match
		action      Action
		want        string // "" is right
	}{
		{"exact", "exact_", []Match{{Value: n(1)}, {Value: n(2)}}, set, ""},
		{"the same once more", "exact_", []Match{{Value: n(1)}, {Value: n(2)}}, set, "table I.exact_ has this entry already"},
		{"another", "exact_", []Match{{Value: n(1)}, {Value: n(3)}}, set, ""},
		{"too few keys", "exact_", []Match{{Value: n(1)}}, set, "table I.exact_ has 2 keys, the entry 1"},
		{"a value beyond the width", "exact_", []Match{{Value: n(256)}, {Value: n(2)}}, set, "table I.exact_: key hdr.h.a: value 256 does not fit 8 bits"},
		{"a negative value", "exact_", []Match{{Value: n(-1)}, {Value: n(2)}}, set, "table I.exact_: key hdr.h.a: value -1 does not fit 8 bits"},
		{"no value", "exact_", []Match{{}, {Value: n(2)}}, set, "table I.exact_: key hdr.h.a: value missing"},
		{"a mask for an exact key", "exact_", []Match{{Value: n(1), Mask: n(1)}, {Value: n(2)}}, set, "table I.exact_: key hdr.h.a: an exact key takes no mask"},
		{"a mask of all for an exact key", "exact_", []Match{{Value: n(7), Mask: n(255)}, {Value: n(2)}}, set, ""},
		{"a range for an exact key", "exact_", []Match{{Value: n(1), High: n(2)}, {Value: n(2)}}, set, "table I.exact_: key hdr.h.a: a key of kind exact takes no range"},
		{"an action that is for the default", "exact_", []Match{{Value: n(9)}, {Value: n(2)}}, Action{Name: "leave"}, "table I.exact_: action I.leave is for the default only"},
		{"an action of another table", "exact_", []Match{{Value: n(9)}, {Value: n(2)}}, Action{Name: "wide"}, `unknown action "wide"`},
		{"too few arguments", "exact_", []Match{{Value: n(9)}, {Value: n(2)}}, Action{Name: "set"}, "table I.exact_: action I.set takes 1 arguments, 0 given"},
		{"an argument beyond the width", "exact_", []Match{{Value: n(9)}, {Value: n(2)}}, Action{Name: "set", Args: []*big.Int{n(256)}}, "table I.exact_: action I.set: v: value 256 does not fit 8 bits"},
		{"a prefix", "lpm_", []Match{{Value: n(0x0a000000), Mask: n(0xff000000)}}, set, ""},
		{"a prefix of none", "lpm_", []Match{{Value: n(0), Mask: n(0)}}, set, ""},
		{"a mask that is no prefix", "lpm_", []Match{{Value: n(0), Mask: n(0x00ff0000)}}, set, "table I.lpm_: key hdr.h.d: mask 0xff0000 is no prefix"},
		{"a mask beyond the width", "lpm_", []Match{{Value: n(0), Mask: n(0x1ffffffff)}}, set, "table I.lpm_: key hdr.h.d: mask: value 8589934591 does not fit 32 bits"},
		{"ternary", "ternary_", []Match{{Value: n(0xff), Mask: n(0x0f)}}, set, ""},
		{"the same bits once more", "ternary_", []Match{{Value: n(0x0f), Mask: n(0x0f)}}, set, "table I.ternary_ has this entry already"},
		{"wide data", "ternary_", []Match{{Value: n(1)}}, Action{Name: "wide", Args: []*big.Int{new(big.Int).Lsh(n(1), 71), n(1)}}, ""},
		{"data wider than its parameter", "ternary_", []Match{{Value: n(2)}}, Action{Name: "wide", Args: []*big.Int{new(big.Int).Lsh(n(1), 72), n(1)}}, "does not fit 72 bits"},
		{"a range", "range_", []Match{{Value: n(1), High: n(5)}, {Value: n(0xff), High: n(1)}}, set, ""},
		{"an empty range", "range_", []Match{{Value: n(5), High: n(1)}, {Value: n(0), Mask: n(0)}}, set, "table I.range_: key hdr.h.a: range 5..1 is empty"},
		{"a signed range that is empty", "range_", []Match{{Value: n(1), High: n(5)}, {Value: n(1), High: n(0xff)}}, set, "table I.range_: key s: range 1..255 is empty"},
		{"any value of a range", "range_", []Match{{Value: n(0), Mask: n(0)}, {Value: n(0), Mask: n(0)}}, set, ""},
		{"optional", "optional_", []Match{{Value: n(1)}}, set, ""},
		{"optional, any", "optional_", []Match{{Value: n(0), Mask: n(0)}}, set, ""},
		{"optional with a mask", "optional_", []Match{{Value: n(1), Mask: n(3)}}, set, "table I.optional_: key hdr.h.a: an optional key is a value or any, not a mask"},
		{"entries of the program's own", "fixed", []Match{{Value: n(2)}}, set, "table I.fixed: its entries are the program's own"},
		{"no such table", "none", []Match{{Value: n(2)}}, set, `unknown table "none"`},
	} {
		err := pl.AddEntry(c.table, Entry{Keys: c.keys, Action: c.action})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.rule, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error is %v, expected %q", c.rule, err, c.want)
		}
	}
	for _, c := range []struct {
		table, action, want string
		args                []*big.Int
	}{
		{"exact_", "set", "", []*big.Int{n(3)}},
		{"exact_", "leave", "", nil},
		{"exact_", "NoAction", "action NoAction is for entries only", nil},
		{"exact_", "set", "takes 1 arguments, 0 given", nil},
		{"fixed", "set", "its default action is the program's own", []*big.Int{n(3)}},
	} {
		err := pl.SetDefault(c.table, Action{Name: c.action, Args: c.args})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("default %s of %s: error is %v, expected %q", c.action, c.table, err, c.want)
		}
	}
	if err := pl.AddEntry("ternary_", Entry{Keys: []Match{{Value: n(0x0f), Mask: n(0x0f)}}, Priority: 3, Action: set}); err != nil {
		t.Errorf("the same key with another priority: %v", err)
	}
}

// Of entries with equal priorities the earlier wins; a reset drops all but the program's own, and keeps the default of the program.
func TestRulesOfOrder(t *testing.T) {
	pl := loadText(t, v1Text("", tableActions+"table t { key = { hdr.h.a: ternary; } actions = { set; } default_action = set(0xff); entries = { 0x80 &&& 0x80: set(9); } }", "t.apply();")).New()
	result := func(a byte) byte {
		t.Helper()
		var v Verdict
		pl.Process(append([]byte{a}, make([]byte, 16)...), &Intrinsic{IngressTime: units.Microsecond}, &v)
		if len(v.Sent) != 1 {
			t.Fatalf("%+v left", v)
		}
		return v.Sent[0].Data[1]
	}
	add := func(value, mask int64, prio int, set int64) {
		t.Helper()
		if err := pl.AddEntry("t", Entry{Keys: []Match{{Value: big.NewInt(value), Mask: big.NewInt(mask)}}, Priority: prio, Action: Action{Name: "set", Args: []*big.Int{big.NewInt(set)}}}); err != nil {
			t.Fatal(err)
		}
	}
	add(1, 1, 5, 1)
	add(2, 2, 5, 2)
	add(4, 4, 9, 3)
	add(8, 8, 1, 4)
	for _, c := range []struct{ a, want byte }{{3, 1}, {2, 2}, {7, 3}, {8, 4}, {10, 2}, {12, 3}, {0x10, 0xff}, {0x80, 9}, {0x81, 1}} {
		if got := result(c.a); got != c.want {
			t.Errorf("of %#x: %d, want %d", c.a, got, c.want)
		}
	}
	if err := pl.SetDefault("t", Action{Name: "set", Args: []*big.Int{big.NewInt(7)}}); err != nil {
		t.Fatal(err)
	}
	if got := result(0x10); got != 7 {
		t.Errorf("with a default of the control plane: %d", got)
	}
	pl.Reset()
	for _, c := range []struct{ a, want byte }{{3, 0xff}, {0x80, 9}} {
		if got := result(c.a); got != c.want {
			t.Errorf("after a reset, of %#x: %d, want %d", c.a, got, c.want)
		}
	}
}
