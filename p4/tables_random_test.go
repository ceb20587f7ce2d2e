package p4

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"
)

// Tables with entries of the program (14.2.1.4): the entry that the specification's rules of priorities choose is the one whose action
// runs, whatever kinds of keys there are and whether the least or the greatest number wins.

// A keySet is an entry's set for one key.
type keySet struct {
	text   string
	holds  func(v uint64) bool
	prefix int // of lpm
}

func drawKeySet(t *rapid.T, kind string, width int) keySet {
	most := uint64(1)<<width - 1
	// Few values, so that packets hit.
	number := func(name string) uint64 {
		return rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64Range(most-1, most)).Draw(t, name)
	}
	v := number("value")
	exact := keySet{fmt.Sprintf("%#x", v), func(x uint64) bool { return x == v }, width}
	if kind == "exact" {
		return exact
	}
	switch rapid.IntRange(0, 3).Draw(t, "set") {
	case 0:
		return exact
	case 1:
		return keySet{"_", func(uint64) bool { return true }, 0}
	}
	switch kind {
	case "ternary":
		mask := rapid.Uint64Range(0, most).Draw(t, "mask")
		return keySet{fmt.Sprintf("%#x &&& %#x", v, mask), func(x uint64) bool { return x&mask == v&mask }, 0}
	case "lpm":
		n := rapid.IntRange(0, width).Draw(t, "prefix")
		mask := most << (width - n) & most
		return keySet{fmt.Sprintf("%#x &&& %#x", v, mask), func(x uint64) bool { return x&mask == v&mask }, bits.OnesCount64(mask)}
	case "range":
		hi := min(v+rapid.Uint64Range(0, 4).Draw(t, "more"), most)
		return keySet{fmt.Sprintf("%#x .. %#x", v, hi), func(x uint64) bool { return v <= x && x <= hi }, 0}
	}
	return exact
}

// An entryModel is an entry with its priority; data is what its action sets.
type entryModel struct {
	sets []keySet
	prio int
	data int
}

func (e entryModel) holds(keys []uint64) bool {
	for i, s := range e.sets {
		if !s.holds(keys[i]) {
			return false
		}
	}
	return true
}

// priorities gives entries theirs by the rules of 14.2.1.4.1; given are those that the program states, or -1.
func priorities(es []entryModel, given []int, greatest bool, delta int) {
	for i := range es {
		switch {
		case given[i] >= 0:
			es[i].prio = given[i]
		case i == 0 && greatest:
			es[i].prio = (len(es)-1)*delta + 1
		case i == 0:
			es[i].prio = 1
		case greatest:
			es[i].prio = es[i-1].prio - delta
		default:
			es[i].prio = es[i-1].prio + delta
		}
	}
}

func TestRandomEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := []struct {
			name  string
			width int
		}{{"hdr.h.a", 8}, {"hdr.h.c", 16}, {"hdr.h.d[3:0]", 4}}
		var keys []string
		var kinds []string
		ordered, lpm := false, -1
		for i, f := range fields[:rapid.IntRange(1, 3).Draw(t, "keys")] {
			choice := []string{"exact", "ternary", "range", "optional"}
			if lpm < 0 {
				choice = append(choice, "lpm", "lpm")
			}
			kind := rapid.SampledFrom(choice).Draw(t, "kind")
			if kind == "lpm" {
				lpm = i
			}
			ordered = ordered || kind != "exact" && kind != "lpm"
			kinds, keys = append(kinds, kind), append(keys, f.name+": "+kind+";")
		}
		greatest, delta := true, 1
		props := ""
		if ordered && rapid.Bool().Draw(t, "least") {
			greatest = false
			props += " largest_priority_wins = false;"
		}
		if ordered && rapid.Bool().Draw(t, "with a delta") {
			delta = rapid.IntRange(1, 5).Draw(t, "delta")
			props += fmt.Sprintf(" priority_delta = %d;", delta)
		}
		var all []entryModel
		var given []int
		var lines []string
		seen := map[string]bool{}
		stated := ordered && rapid.Bool().Draw(t, "priorities") // the first has one where any has
		for n := range rapid.IntRange(1, 8).Draw(t, "entries") {
			e := entryModel{data: n + 1}
			var texts []string
			for i, k := range kinds {
				s := drawKeySet(t, k, fields[i].width)
				e.sets, texts = append(e.sets, s), append(texts, s.text)
			}
			key := strings.Join(texts, ", ")
			if seen[key] {
				continue
			}
			seen[key] = true
			prio, text := -1, ""
			if stated && (n == 0 || rapid.Bool().Draw(t, "with a priority")) {
				prio = rapid.IntRange(1, 60).Draw(t, "priority")
				text = fmt.Sprintf("priority = %d: ", prio)
			}
			all, given = append(all, e), append(given, prio)
			lines = append(lines, fmt.Sprintf("%s(%s): set(%d);", text, key, e.data))
		}
		priorities(all, given, greatest, delta)
		if len(all) == 0 || all[0].prio < 0 || lowest(all) < 0 {
			t.Skip("a priority below 0 is none")
		}
		table := "key = { " + strings.Join(keys, " ") + " } actions = { set; } default_action = set(0xff);" + props + " entries = { " + strings.Join(lines, " ") + " }"
		text := v1Text("", tableActions+"table t { "+table+" }", "t.apply();")
		prog, err := LoadFS(fstest.MapFS{"p.p4": {Data: []byte(text)}}, "p.p4", Options{})
		if err != nil {
			// The same values under another mask are one entry.
			if strings.Contains(err.Error(), "has this entry already") {
				return
			}
			t.Fatalf("%v: %s", err, table)
		}
		pl := prog.New()
		for range 12 {
			a := rapid.OneOf(rapid.Uint64Range(0, 5), rapid.Uint64Range(0xfc, 0xff)).Draw(t, "a")
			c := rapid.OneOf(rapid.Uint64Range(0, 5), rapid.Uint64Range(0xfffc, 0xffff)).Draw(t, "c")
			d := rapid.Uint64Range(0, 15).Draw(t, "d")
			best := -1
			for i, e := range all {
				if !e.holds([]uint64{a, c, d}) {
					continue
				}
				switch {
				case best < 0,
					ordered && greatest && e.prio > all[best].prio,
					ordered && !greatest && e.prio < all[best].prio,
					!ordered && lpm >= 0 && e.sets[lpm].prefix > all[best].sets[lpm].prefix:
					best = i
				}
			}
			want := 0xff
			if best >= 0 {
				want = all[best].data
			}
			var v Verdict
			frame := append([]byte{byte(a), 0, byte(c >> 8), byte(c), 0, 0, 0, byte(d)}, "123456789"...)
			pl.Process(frame, &Intrinsic{}, &v)
			if len(v.Sent) != 1 || int(v.Sent[0].Data[1]) != want {
				t.Fatalf("%s\nkeys %#x, %#x, %#x: %+v left, expected entry %d", table, a, c, d, v.Sent, want)
			}
		}
	})
}

func lowest(es []entryModel) int {
	least := es[0].prio
	for _, e := range es {
		least = min(least, e.prio)
	}
	return least
}
