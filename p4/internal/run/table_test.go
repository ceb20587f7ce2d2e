package run

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// Look-up finds what trying every entry finds.
func TestLookup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &tableDef{profile: -1, TableInfo: TableInfo{Name: "t", Actions: []ActionInfo{{Name: "a", Params: []ParamInfo{{"n", 16}}}}}}
		lpm := false
		for range rapid.IntRange(1, 3).Draw(t, "keys") {
			k := KeyInfo{Name: "k", Width: rapid.SampledFrom([]int{3, 4, 70}).Draw(t, "width")}
			kinds := []MatchKind{Exact, Ternary, Range, Optional}
			if !lpm {
				kinds = append(kinds, LPM, LPM)
			}
			k.Kind = rapid.SampledFrom(kinds).Draw(t, "kind")
			lpm = lpm || k.Kind == LPM
			d.ordered = d.ordered || k.Kind == Ternary || k.Kind == Range || k.Kind == Optional
			d.Keys = append(d.Keys, k)
			d.keyWords = append(d.keyWords, d.words)
			d.words += wordsOf(k.Width)
		}
		d.lowFirst = rapid.Bool().Draw(t, "low first")
		pl := &Pipeline{prog: &Program{tables: []*tableDef{d}}}
		pl.m.tables = []*tableState{newTableState(d)}
		type want struct {
			keys []Match
			prio int
			n    int
		}
		var all []want
		number := func(name string, width int) *big.Int {
			return big.NewInt(int64(rapid.IntRange(0, 1<<min(width, 5)-1).Draw(t, name)))
		}
		ones := func(width int) *big.Int {
			return new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(width)), big.NewInt(1))
		}
		for n := range rapid.IntRange(0, 12).Draw(t, "entries") {
			w := want{n: n, prio: rapid.IntRange(0, 3).Draw(t, "prio")}
			for _, k := range d.Keys {
				m := Match{Value: number("value", k.Width)}
				switch k.Kind {
				case Ternary:
					m.Mask = number("mask", k.Width)
				case LPM:
					rest := rapid.IntRange(0, min(k.Width, 5)).Draw(t, "rest")
					m.Mask = new(big.Int).AndNot(ones(k.Width), ones(rest))
				case Optional:
					if rapid.Bool().Draw(t, "any") {
						m.Mask = new(big.Int)
					}
				case Range:
					m.High = new(big.Int).Add(m.Value, number("more", 2))
					if m.High.Cmp(ones(k.Width)) > 0 {
						m.High = ones(k.Width)
					}
				}
				w.keys = append(w.keys, m)
			}
			e := Entry{Keys: w.keys, Priority: w.prio, Action: Action{"a", []*big.Int{big.NewInt(int64(n))}}}
			if err := pl.AddEntry("t", e); err == nil {
				all = append(all, w)
			}
		}
		for range 20 {
			key := make([]uint64, d.words)
			var vals []*big.Int
			for i, k := range d.Keys {
				v := number("key", k.Width)
				vals = append(vals, v)
				setWords(key[d.keyWords[i]:d.keyWords[i]+wordsOf(k.Width)], v)
			}
			best, bestPrefix := -1, -1
			for i, w := range all {
				ok, prefix := true, 0
				for j, m := range w.keys {
					switch {
					case m.High != nil:
						ok = ok && vals[j].Cmp(m.Value) >= 0 && vals[j].Cmp(m.High) <= 0
					case m.Mask != nil:
						ok = ok && new(big.Int).And(new(big.Int).Xor(vals[j], m.Value), m.Mask).Sign() == 0
						if d.Keys[j].Kind == LPM {
							for b := range d.Keys[j].Width {
								prefix += int(m.Mask.Bit(b))
							}
						}
					default:
						ok = ok && vals[j].Cmp(m.Value) == 0
					}
				}
				if !ok {
					continue
				}
				better := best < 0
				if !better && d.ordered {
					better = w.prio > all[best].prio
					if d.lowFirst {
						better = w.prio < all[best].prio
					}
				} else if !better {
					better = prefix > bestPrefix
				}
				if better {
					best, bestPrefix = i, prefix
				}
			}
			got := -1
			if e := pl.m.tables[0].lookup(key); e != nil {
				got = int(e.data[0])
			}
			wanted := -1
			if best >= 0 {
				wanted = all[best].n
			}
			if got != wanted {
				t.Fatalf("keys %v of %v: entry %d, want %d", vals, d.Keys, got, wanted)
			}
		}
	})
}

func TestBadEntries(t *testing.T) {
	d := &tableDef{profile: -1, words: 4, keyWords: []int{0, 1, 2, 3}, ordered: true, TableInfo: TableInfo{Name: "c.t",
		Keys:    []KeyInfo{{Name: "a", Kind: Exact, Width: 8}, {Name: "b", Kind: LPM, Width: 8}, {Name: "c", Kind: Range, Width: 8}, {Name: "d", Kind: Optional, Width: 8}},
		Actions: []ActionInfo{{Name: "c.set", Params: []ParamInfo{{"x", 4}}}, {Name: "c.dflt", defaultOnly: true}, {Name: "c.entry", entriesOnly: true}}}}
	pl := &Pipeline{prog: &Program{tables: []*tableDef{d}}}
	pl.m.tables = []*tableState{newTableState(d)}
	n := big.NewInt
	good := func() Entry {
		return Entry{Keys: []Match{{Value: n(1)}, {Value: n(0xf0), Mask: n(0xf0)}, {Value: n(1), High: n(9)}, {Value: n(0), Mask: n(0)}}, Action: Action{"set", []*big.Int{n(3)}}}
	}
	if err := pl.AddEntry("t", good()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Entry)
		want   string
	}{
		{func(*Entry) {}, "table c.t has this entry already"},
		{func(e *Entry) { e.Keys = e.Keys[:3] }, "table c.t has 4 keys, the entry 3"},
		{func(e *Entry) { e.Keys[0].Value = n(256) }, "table c.t: key a: value 256 does not fit 8 bits"},
		{func(e *Entry) { e.Keys[0].Value = n(-1) }, "table c.t: key a: value -1 does not fit 8 bits"},
		{func(e *Entry) { e.Keys[0].Value = nil }, "table c.t: key a: value missing"},
		{func(e *Entry) { e.Keys[0].Mask = n(1) }, "table c.t: key a: an exact key takes no mask"},
		{func(e *Entry) { e.Keys[0].High = n(3) }, "table c.t: key a: a key of kind exact takes no range"},
		{func(e *Entry) { e.Keys[1].Mask = n(0x0f) }, "table c.t: key b: mask 0xf is no prefix"},
		{func(e *Entry) { e.Keys[2].High = n(0) }, "table c.t: key c: range 1..0 is empty"},
		{func(e *Entry) { e.Keys[3].Mask = n(3) }, "table c.t: key d: an optional key is a value or any, not a mask"},
		{func(e *Entry) { e.Action.Name = "no" }, `table c.t: unknown action "no": there is c.set, c.dflt, c.entry`},
		{func(e *Entry) { e.Action.Args = nil }, "table c.t: action c.set takes 1 arguments, 0 given"},
		{func(e *Entry) { e.Action.Args[0] = n(16) }, "table c.t: action c.set: x: value 16 does not fit 4 bits"},
		{func(e *Entry) { e.Action = Action{Name: "dflt"} }, "table c.t: action c.dflt is for the default only"},
		{func(e *Entry) { e.Member = 1 }, "table c.t has no action profile"},
	} {
		e := good()
		c.change(&e)
		if err := pl.AddEntry("c.t", e); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if err := pl.SetDefault("t", Action{Name: "entry"}); err == nil {
		t.Error("a default of an action for entries only")
	}
	if err := pl.AddEntry("u", good()); err == nil || err.Error() != `unknown table "u": there is c.t` {
		t.Errorf("got %v", err)
	}
}
