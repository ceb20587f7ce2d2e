package run

import (
	"cmp"
	"fmt"
	"math/big"
	"math/bits"
	"slices"
)

// A MatchKind says how a table's key is compared.
type MatchKind uint8

// The match kinds of core.p4, v1model and TNA.
const (
	Exact MatchKind = iota
	LPM
	Ternary
	Range
	Optional
	Selector // no part of the match: input of an action selector's hash
)

func (k MatchKind) String() string {
	return [...]string{"exact", "lpm", "ternary", "range", "optional", "selector"}[k]
}

// A KeyInfo describes one key of a table.
type KeyInfo struct {
	Name  string // as the program writes it, or its @name
	Kind  MatchKind
	Width int // bits

	signed bool // int<N>: ranges are by its order
}

// A ParamInfo is one parameter of an action that the control plane gives.
type ParamInfo struct {
	Name  string
	Width int // bits
}

// An ActionInfo is an action that a table may run.
type ActionInfo struct {
	Name   string // full, dotted
	Params []ParamInfo
	// The action is for the default only, or for entries only.
	defaultOnly, entriesOnly bool
}

// A TableInfo describes a table to the control plane.
type TableInfo struct {
	Name    string // full, dotted
	Keys    []KeyInfo
	Actions []ActionInfo
}

// A Match is an entry's condition on one key. Mask and High are nil where the kind has none.
type Match struct {
	Value *big.Int
	Mask  *big.Int // ternary, lpm, optional (0: any); nil: all bits
	High  *big.Int // range: the last value
}

// An Action names an action and gives its arguments in order.
type Action struct {
	Name string
	Args []*big.Int
}

// An Entry is a table's entry as the control plane writes it.
type Entry struct {
	Keys []Match
	// Priority orders entries of tables with ternary, range or optional keys: the greatest wins, or
	// the least if the program says so. Of equal ones the earlier wins.
	Priority int
	Action   Action
	// Member and Group refer to an action profile's member or an action selector's group in
	// place of Action, if not 0.
	Member, Group uint32
}

// tableDef is a table as compiled: what does not change.
type tableDef struct {
	TableInfo
	keyWords   []int // first word of each key within the key, selectors not counted
	words      int   // of the whole key
	ordered    bool  // a ternary, range or optional key: entries are tried in order
	constant   []staticEntry
	def        staticAction
	profile    int // extern's index, -1 none
	selectKeys bool
	direct     bool // counts its hits
	// The entries, or the default action, are the program's own.
	constEntries, constDefault bool
	// What the direct registers of an entry hold at the beginning.
	registers []uint64
	// Of entries that match, the one with the least priority number wins; else that with the greatest.
	lowFirst bool
}

type staticAction struct {
	action int // index in Actions, -1: none
	data   []uint64
}

type staticEntry struct {
	value, mask []uint64 // mask: of a range the last value
	prio        int
	act         staticAction
}

// An entry is an entry in a pipeline.
type entry struct {
	action int32
	data   []uint64
	member *member
	group  *group
	prio   int
	seq    int // order of addition
	value  []uint64
	mask   []uint64
	// direct counter, meter and filter
	packets, bytes uint64
	meter          meterState
	average        average
	registers      []uint64
}

// tableState is a table's entries in one pipeline.
type tableState struct {
	def     *tableDef
	entries []*entry // in order of search if def.ordered, else of addition
	tuples  []*tuple // of tables without ordered keys: longest prefix first
	dflt    entry
	seq     int
}

// A tuple is the entries with one mask, in an open-addressed table of their masked keys.
type tuple struct {
	mask  []uint64
	ones  int
	slots []*entry // power of two, nil is free
	n     int
}

func hashWords(k, mask []uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for i, x := range k {
		hi, lo := bits.Mul64(h^x&mask[i], 0xd6e8feb86659fd93)
		h = hi ^ lo
	}
	return h
}

func (t *tuple) find(k []uint64) *entry {
	m := uint64(len(t.slots) - 1)
	for i := hashWords(k, t.mask) & m; ; i = (i + 1) & m {
		e := t.slots[i]
		if e == nil {
			return nil
		}
		same := true
		for j, v := range e.value {
			if v != k[j]&t.mask[j] {
				same = false
				break
			}
		}
		if same {
			return e
		}
	}
}

func (t *tuple) put(e *entry) {
	if 2*(t.n+1) > len(t.slots) {
		old := t.slots
		t.slots = make([]*entry, max(8, 2*len(old)))
		t.n = 0
		for _, o := range old {
			if o != nil {
				t.put(o)
			}
		}
	}
	m := uint64(len(t.slots) - 1)
	i := hashWords(e.value, t.mask) & m
	for t.slots[i] != nil {
		i = (i + 1) & m
	}
	t.slots[i] = e
	t.n++
}

func newTableState(d *tableDef) *tableState {
	s := &tableState{def: d}
	s.reset()
	return s
}

// reset drops all entries but the program's own.
func (s *tableState) reset() {
	d := s.def
	s.entries, s.tuples, s.seq = nil, nil, 0
	s.dflt = entry{action: int32(d.def.action), data: d.def.data, registers: slices.Clone(d.registers)}
	for i := range d.constant {
		c := &d.constant[i]
		s.insert(&entry{action: int32(c.act.action), data: c.act.data, prio: c.prio, value: c.value, mask: c.mask})
	}
}

// insert adds e; its value is within its mask.
func (s *tableState) insert(e *entry) {
	e.seq = s.seq
	e.registers = slices.Clone(s.def.registers)
	s.seq++
	if s.def.ordered {
		i, _ := slices.BinarySearchFunc(s.entries, e, s.compare)
		s.entries = slices.Insert(s.entries, i, e)
		return
	}
	s.entries = append(s.entries, e)
	for _, t := range s.tuples {
		if slices.Equal(t.mask, e.mask) {
			if t.find(e.value) == nil { // of equal entries of a program the first counts
				t.put(e)
			}
			return
		}
	}
	t := &tuple{mask: e.mask}
	for _, w := range e.mask {
		t.ones += bits.OnesCount64(w)
	}
	t.put(e)
	s.tuples = append(s.tuples, t)
	slices.SortStableFunc(s.tuples, func(a, b *tuple) int { return cmp.Compare(b.ones, a.ones) })
}

func (s *tableState) compare(a, b *entry) int {
	if a.prio != b.prio {
		if s.def.lowFirst {
			return cmp.Compare(a.prio, b.prio)
		}
		return cmp.Compare(b.prio, a.prio)
	}
	return cmp.Compare(a.seq, b.seq)
}

// lookup is the entry that matches k, or nil.
func (s *tableState) lookup(k []uint64) *entry {
	if !s.def.ordered {
		for _, t := range s.tuples {
			if e := t.find(k); e != nil {
				return e
			}
		}
		return nil
	}
	for _, e := range s.entries {
		if s.matches(e, k) {
			return e
		}
	}
	return nil
}

func (s *tableState) matches(e *entry, k []uint64) bool {
	d := s.def
	for i := range d.keyWords {
		at, n := d.keyWords[i], wordsOf(d.Keys[i].Width)
		if d.Keys[i].Kind == Range {
			if !d.Keys[i].within(k[at:at+n], e.value[at:at+n], e.mask[at:at+n]) {
				return false
			}
			continue
		}
		for j := at; j < at+n; j++ {
			if k[j]&e.mask[j] != e.value[j] {
				return false
			}
		}
	}
	return true
}

// toWords puts v, at least 0 and below 2^width, into words.
func toWords(d []uint64, v *big.Int, width int) error {
	if v == nil {
		return fmt.Errorf("value missing")
	}
	if v.Sign() < 0 || v.BitLen() > width {
		return fmt.Errorf("value %v does not fit %d bits", v, width)
	}
	setWords(d, v)
	return nil
}

// setWords puts the low bits of v, two's complement if negative, into d.
func setWords(d []uint64, v *big.Int) {
	clear(d)
	if v.Sign() < 0 {
		m := new(big.Int).Lsh(big.NewInt(1), uint(64*len(d)))
		v = m.Add(m, v)
	}
	var word, low big.Int
	low.SetUint64(^uint64(0))
	for i := range d {
		word.Rsh(v, uint(64*i))
		d[i] = word.And(&word, &low).Uint64()
	}
}

// within reports whether v is from lo to hi.
func (k *KeyInfo) within(v, lo, hi []uint64) bool {
	return cmpSign(lo, v, k.Width, k.signed) <= 0 && cmpSign(v, hi, k.Width, k.signed) <= 0
}

// matchWords gives the words of one key's match: value and mask, or first and last value.
func (d *tableDef) matchWords(i int, m Match, value, mask []uint64) error {
	k := &d.Keys[i]
	words := k.maskWords
	if k.Kind == Range {
		words = k.rangeWords
	}
	if err := words(m, value, mask); err != nil {
		return fmt.Errorf("key %s: %w", k.Name, err)
	}
	return nil
}

// rangeWords gives the first and the last value of a range's match.
func (k *KeyInfo) rangeWords(m Match, first, last []uint64) error {
	if m.High == nil && m.Mask != nil && m.Mask.Sign() == 0 { // any
		clear(first)
		ones(last, k.Width)
		if k.signed {
			top := uint64(1) << uint((k.Width-1)%64)
			first[len(first)-1] |= top
			last[len(last)-1] &^= top
		}
		return nil
	}
	high := m.High
	if high == nil {
		high = m.Value
	}
	if err := toWords(first, m.Value, k.Width); err != nil {
		return err
	}
	if err := toWords(last, high, k.Width); err != nil {
		return err
	}
	if cmpSign(first, last, k.Width, k.signed) > 0 {
		return fmt.Errorf("range %v..%v is empty", m.Value, high)
	}
	return nil
}

// maskWords gives the value and the mask of a match of another kind than a range.
func (k *KeyInfo) maskWords(m Match, value, mask []uint64) error {
	if err := toWords(value, m.Value, k.Width); err != nil {
		return err
	}
	if m.High != nil {
		return fmt.Errorf("a key of kind %s takes no range", k.Kind)
	}
	all := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(k.Width)), big.NewInt(1))
	full := m.Mask
	if full == nil {
		full = all
	}
	if err := toWords(mask, full, k.Width); err != nil {
		return fmt.Errorf("mask: %w", err)
	}
	if err := k.takesMask(full, all); err != nil {
		return err
	}
	for j := range value {
		value[j] &= mask[j]
	}
	return nil
}

// takesMask says why a key of this kind takes no such mask, where all has the ones of the key's width.
func (k *KeyInfo) takesMask(mask, all *big.Int) error {
	switch k.Kind {
	case Exact:
		if mask.Cmp(all) != 0 {
			return fmt.Errorf("an exact key takes no mask")
		}
	case Optional:
		if mask.Cmp(all) != 0 && mask.Sign() != 0 {
			return fmt.Errorf("an optional key is a value or any, not a mask")
		}
	case LPM:
		inv := new(big.Int).Sub(all, mask) // 2^n-1 for a prefix
		if inv.And(inv, new(big.Int).Add(inv, big.NewInt(1))).Sign() != 0 {
			return fmt.Errorf("mask %#x is no prefix", mask)
		}
	}
	return nil
}

// action checks an action and its arguments. A name may leave out leading parts.
func (d *tableDef) action(a Action, entry bool) (staticAction, error) {
	i, err := find("action", a.Name, len(d.Actions), func(i int) string { return d.Actions[i].Name })
	if err != nil {
		return staticAction{}, fmt.Errorf("table %s: %w", d.Name, err)
	}
	info := d.Actions[i]
	if entry && info.defaultOnly {
		return staticAction{}, fmt.Errorf("table %s: action %s is for the default only", d.Name, info.Name)
	}
	if !entry && info.entriesOnly {
		return staticAction{}, fmt.Errorf("table %s: action %s is for entries only", d.Name, info.Name)
	}
	if len(a.Args) != len(info.Params) {
		return staticAction{}, fmt.Errorf("table %s: action %s takes %d arguments, %d given", d.Name, info.Name, len(info.Params), len(a.Args))
	}
	var data []uint64
	for j, p := range info.Params {
		w := make([]uint64, wordsOf(p.Width))
		if err := toWords(w, a.Args[j], p.Width); err != nil {
			return staticAction{}, fmt.Errorf("table %s: action %s: %s: %w", d.Name, info.Name, p.Name, err)
		}
		data = append(data, w...)
	}
	return staticAction{action: i, data: data}, nil
}

// Action finds an action of the table by name, whose leading parts may be left out.
func (t TableInfo) Action(name string) (ActionInfo, error) {
	i, err := find("action", name, len(t.Actions), func(i int) string { return t.Actions[i].Name })
	if err != nil {
		return ActionInfo{}, fmt.Errorf("table %s: %w", t.Name, err)
	}
	return t.Actions[i], nil
}
