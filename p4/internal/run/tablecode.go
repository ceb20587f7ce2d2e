package run

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// tableCode applies a table: apply leaves 1 in w[hit] on a hit, and in w[ran] the action's index in the table's list.
type tableCode struct {
	apply    op
	hit, ran int
	ops      []op  // its actions
	data     []int // where the data of each lies
	sel      hashInput
}

// applyResult is t.apply().hit, miss or action_run as a number.
func (c *compiler) applyResult(e *ast.Member) num {
	call, ok := e.X.(*ast.Call)
	if !ok || call.Table == nil {
		c.failf(e, "not supported: %s of an expression other than a table's apply()", e.Name)
	}
	t := c.table(call.Table)
	apply, slot, flip := t.apply, t.hit, uint64(0)
	switch e.Sel {
	case ast.SelMiss:
		flip = 1
	case ast.SelAction:
		slot = t.ran
	}
	return func(m *machine) uint64 {
		if m.exit { // in what the expression evaluated before
			return 0
		}
		apply(m)
		return m.w[slot] ^ flip
	}
}

// table compiles a table's keys and actions, once for each place of its control.
func (c *compiler) table(t *ast.TableDecl) *tableCode {
	if tc, ok := c.tables[t]; ok {
		return tc
	}
	idx, known := c.tableIdx[t]
	if !known {
		idx = len(c.prog.tables)
		c.tableIdx[t] = idx
		c.prog.tables = append(c.prog.tables, c.tableDef(t))
	}
	def := c.prog.tables[idx]
	keyOff := c.alloc(def.words)
	keys, sel := c.tableKeys(t, keyOff)
	tc := &tableCode{hit: c.alloc(1), ran: c.alloc(1), sel: sel}
	c.tables[t] = tc
	tc.ops, tc.data = c.tableActions(t)
	checked := slices.ContainsFunc(t.Keys, func(k *ast.Key) bool { return hasCall(k.X) })
	tc.apply = tc.applies(def, idx, keys, keyOff, checked)
	return tc
}

// applies is the application of table idx, whose keys go to the words from keyOff on; checked if they may end the control.
func (tc *tableCode) applies(def *tableDef, idx int, keys act, keyOff int, checked bool) op {
	n, hit, ran, direct, profile := def.words, tc.hit, tc.ran, def.direct, def.profile
	ops, data := tc.ops, tc.data
	return func(m *machine) ctl {
		if keys != nil {
			keys(m)
			if checked && (m.exit || m.failed) {
				return m.stopped()
			}
		}
		st := m.tables[idx]
		var e *entry
		if n > 0 {
			e = st.lookup(m.w[keyOff : keyOff+n])
		}
		if e != nil {
			m.w[hit] = 1
			if direct {
				e.packets++
				e.bytes += uint64(m.length)
			}
		} else {
			m.w[hit] = 0
			e = &st.dflt
		}
		run, args := int(e.action), e.data
		if profile >= 0 {
			run, args = tc.member(m, profile, e)
		}
		if run < 0 {
			m.w[ran] = uint64(len(ops))
			return goOn
		}
		m.w[ran] = uint64(run)
		if len(args) > 0 {
			copy(m.w[data[run]:], args)
		}
		old := m.cur
		m.cur = e
		r := ops[run](m)
		m.cur = old
		return r
	}
}

// member is the action and data that an entry of a table with an action profile stands for: its own, or those of its member, or of
// the member of its group that the selector chooses.
func (tc *tableCode) member(m *machine, at int, e *entry) (action int, data []uint64) {
	mb := e.member
	if e.group != nil {
		if len(e.group.members) == 0 {
			return -1, nil
		}
		mb = e.group.members[tc.sel.hash(m, m.objects[at].(*profile))%uint64(len(e.group.members))]
	}
	if mb == nil {
		return int(e.action), e.data
	}
	return mb.action, mb.data
}

// tableKeys evaluates a table's keys into the words from at on; sel is what an action selector hashes.
func (c *compiler) tableKeys(t *ast.TableDecl, at int) (keys act, sel hashInput) {
	var eval []act
	for _, k := range t.Keys {
		w, ok := scalarWidth(k.X.Type())
		if !ok {
			c.failf(k, "not supported: key of type %s", k.X.Type())
		}
		if k.MatchKind == "selector" {
			sel.add(c, k.X)
			continue
		}
		eval = append(eval, c.store(k.X, place{t: k.X.Type(), off: at}))
		at += wordsOf(w)
	}
	return acts(eval), sel
}

// tableActions compiles a table's actions, each with room for its data; the last may be an implied NoAction.
func (c *compiler) tableActions(t *ast.TableDecl) (ops []op, data []int) {
	add := func(ref ast.Node, d *ast.ActionDecl, bound []*ast.BoundArg) {
		o, at := c.tableAction(ref, d, bound)
		ops = append(ops, o)
		data = append(data, at)
	}
	for _, a := range t.Actions {
		add(a, a.Decl, a.Bound)
	}
	if t.Default != nil && t.Default.Ref == nil && t.Default.Decl != nil {
		add(t.Default, t.Default.Decl, t.Default.Bound)
	}
	return ops, data
}

// tableAction compiles an action of a table; its data goes to the words from where on it says.
func (c *compiler) tableAction(at ast.Node, d *ast.ActionDecl, bound []*ast.BoundArg) (op, int) {
	n := 0
	for i := range d.Params {
		if isData(d.Params[i]) {
			n += size(bound[i].Type)
		}
	}
	off := c.alloc(n)
	w := off
	rest := make([]*ast.BoundArg, len(bound))
	var ps []*ast.Param
	for i, b := range bound {
		p := d.Params[i]
		ps = append(ps, p)
		if isData(p) {
			c.env[p] = place{t: b.Type, off: w}
			w += size(b.Type)
			nb := *b
			nb.Expr = nil
			rest[i] = &nb
			continue
		}
		rest[i] = b
	}
	return c.call(rest, ps, at, false, func() op { return c.block(d.Body) }), off
}

// isData reports whether the control plane gives a parameter.
func isData(p *ast.Param) bool { return p.Dir == types.None }

var matchKinds = map[string]MatchKind{
	"exact": Exact, "lpm": LPM, "ternary": Ternary, "range": Range, "optional": Optional, "selector": Selector,
	"atcam_partition_index": Exact,
}

// tableDef gathers what does not change of a table.
func (c *compiler) tableDef(t *ast.TableDecl) *tableDef {
	d := &tableDef{profile: -1}
	d.Name = t.ControlName
	d.def = staticAction{action: -1}
	c.keyInfos(t, d)
	for _, a := range t.Actions {
		info := c.actionInfo(a.Decl, a.Bound)
		info.defaultOnly, info.entriesOnly = a.DefaultOnly, a.TableOnly
		d.Actions = append(d.Actions, info)
	}
	if call := t.Default; call != nil && call.Decl != nil {
		if call.Ref == nil {
			info := c.actionInfo(call.Decl, call.Bound)
			info.defaultOnly = true
			d.Actions = append(d.Actions, info)
		}
		d.def = c.staticAction(t, call)
	}
	d.constDefault = t.ConstDefault
	d.constEntries = t.HasEntries && t.ConstEntries
	for _, p := range t.Props {
		c.property(t, d, p)
	}
	c.entries(t, d)
	return d
}

// keyInfos describes a table's keys; those of a selector are no part of the match.
func (c *compiler) keyInfos(t *ast.TableDecl, d *tableDef) {
	lpms := 0
	for _, k := range t.Keys {
		kind, ok := matchKinds[k.MatchKind]
		if !ok {
			c.failf(k, "not supported: match kind %s", k.MatchKind)
		}
		w, ok := scalarWidth(k.X.Type())
		if !ok {
			c.failf(k, "not supported: key of type %s", k.X.Type())
		}
		switch kind {
		case Selector:
			d.selectKeys = true
			continue
		case LPM:
			lpms++
		case Ternary, Range, Optional:
			d.ordered = true
		}
		d.Keys = append(d.Keys, KeyInfo{Name: k.Name, Kind: kind, Width: w, signed: isSigned(k.X.Type())})
		d.keyWords = append(d.keyWords, d.words)
		d.words += wordsOf(w)
	}
	if lpms > 1 && !d.ordered {
		c.failf(t, "not supported: two lpm keys in one table")
	}
}

// actionInfo describes an action and the data that the control plane gives it.
func (c *compiler) actionInfo(decl *ast.ActionDecl, bound []*ast.BoundArg) ActionInfo {
	a := ActionInfo{Name: decl.ControlName}
	for i, p := range decl.Params {
		if !isData(p) {
			continue
		}
		w, ok := scalarWidth(bound[i].Type)
		if !ok {
			c.failf(p, "not supported: action data of type %s", bound[i].Type)
		}
		a.Params = append(a.Params, ParamInfo{Name: p.LocalName(), Width: w})
	}
	return a
}

// profiles are the objects that hold a table's actions.
var profiles = []string{"action_profile", "action_selector", "ActionProfile", "ActionSelector"}

func (c *compiler) property(t *ast.TableDecl, d *tableDef, p *ast.Property) {
	switch p.Name {
	case "largest_priority_wins":
		if v := p.X.Const(); v != nil {
			d.lowFirst = !v.Bool
		}
	case "implementation", "action_profile":
		x, _ := p.X.Type().(*types.Extern)
		switch {
		case x == nil:
			c.failf(p, "not supported: an implementation of type %s", p.X.Type())
		case x.Name == "Alpm" || x.Name == "Atcam": // how the chip stores the table
		case slices.Contains(profiles, x.Name):
			d.profile = c.object(p.X)
		default:
			c.failf(p, "not supported: an implementation by %s", x.Name)
		}
	case "registers":
		if r := c.directs[c.object(p.X)]; r != nil {
			r.at = len(d.registers)
			d.registers = append(d.registers, r.first...)
		}
	case "counters", "psa_direct_counter":
		d.direct = c.autoCount()
	}
}

// autoCount reports whether a direct counter counts without being called.
func (c *compiler) autoCount() bool { return c.prog.arch == "v1model" }

func (c *compiler) staticAction(t *ast.TableDecl, call *ast.ActionCall) staticAction {
	a := staticAction{action: len(t.Actions)}
	for i, r := range t.Actions {
		if call.Ref == r {
			a.action = i
		}
	}
	for i, p := range call.Decl.Params {
		if !isData(p) {
			continue
		}
		b := call.Bound[i]
		if b.Expr == nil || b.Expr.Const() == nil {
			c.failf(call, "not supported: action data that is not constant")
		}
		w, err := constWords(b.Type, b.Expr.Const())
		c.check(call, err)
		a.data = append(a.data, w...)
	}
	return a
}

// entries are the program's own. Without a priority each comes before the next.
func (c *compiler) entries(t *ast.TableDecl, d *tableDef) {
	delta := 1
	if p := t.Prop("priority_delta"); p != nil {
		if v := p.X.Const(); v != nil && v.Int.IsInt64() {
			delta = int(v.Int.Int64())
		}
	}
	// BMv2's annotation: the least wins, and an entry without it has its position.
	annotated := slices.ContainsFunc(t.Entries, func(en *ast.Entry) bool { return en.Annotations.Find("priority") != nil })
	d.lowFirst = d.lowFirst || annotated
	step := -delta
	prio := 1 + (len(t.Entries)-1)*delta
	if d.lowFirst {
		step, prio = delta, 1
	}
	for i, en := range t.Entries {
		if i > 0 {
			prio += step
		}
		if annotated {
			prio = i + 1
		}
		prio = c.priority(en, prio)
		d.constant = append(d.constant, c.entry(t, d, en, prio))
	}
}

// priority is that of an entry, or prio if it has none.
func (c *compiler) priority(en *ast.Entry, prio int) int {
	if en.Priority != nil {
		v := en.Priority.Const()
		if v == nil || !v.Int.IsInt64() {
			c.failf(en, "not supported: priority that is not constant")
		}
		return int(v.Int.Int64())
	}
	if a := en.Annotations.Find("priority"); a != nil {
		n, err := strconv.Atoi(strings.TrimSpace(a.Text))
		if err != nil {
			c.failf(en, "@priority(%s) is no number", a.Text)
		}
		return n
	}
	return prio
}

func (c *compiler) entry(t *ast.TableDecl, d *tableDef, en *ast.Entry, prio int) staticEntry {
	s := staticEntry{prio: prio, act: c.staticAction(t, en.Action)}
	s.value, s.mask = make([]uint64, d.words), make([]uint64, d.words)
	j := 0
	for k, e := range en.Keys.Elems {
		if k < len(t.Keys) && t.Keys[k].MatchKind == "selector" {
			continue
		}
		if j >= len(d.Keys) {
			break
		}
		at, n := d.keyWords[j], wordsOf(d.Keys[j].Width)
		m := c.matchOf(e, d.Keys[j])
		c.check(e, d.matchWords(j, m, s.value[at:at+n], s.mask[at:at+n]))
		j++
	}
	if j != len(d.Keys) {
		c.failf(en, "entry has %d keys, table %s %d", j, d.Name, len(d.Keys))
	}
	return s
}

// matchOf is the match that a set expression of an entry asks for.
func (c *compiler) matchOf(e ast.Expr, k KeyInfo) Match {
	val := func(e ast.Expr) *big.Int {
		v := e.Const()
		if v == nil {
			c.failf(e, "not supported: a key that is not constant")
		}
		w, err := constWords(e.Type(), v)
		if e.Type() == types.Integer {
			w = make([]uint64, wordsOf(k.Width))
			setWords(w, v.Int)
			err = nil
		}
		c.check(e, err)
		return fromWords(w)
	}
	switch e := e.(type) {
	case *ast.DontCare:
		return Match{Value: new(big.Int), Mask: new(big.Int)}
	case *ast.Mask:
		return Match{Value: val(e.X), Mask: val(e.Y)}
	case *ast.Range:
		return Match{Value: val(e.Lo), High: val(e.Hi)}
	}
	return Match{Value: val(e)}
}

func fromWords(w []uint64) *big.Int {
	v := new(big.Int)
	for i := len(w) - 1; i >= 0; i-- {
		v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(w[i]))
	}
	return v
}
