package check

import (
	"math/big"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

func (c *checker) tableDecl(d *ast.TableDecl) {
	saved := c.ctx
	c.ctx = context{kind: ctxTable}
	defer func() { c.ctx = saved }()
	prefix := ""
	if c.cur != nil {
		prefix = c.cur.ControlName
	}
	d.ControlName = joinName(prefix, d.LocalName())
	var kts []types.Type
	for _, k := range d.Keys {
		kts = append(kts, c.key1(k))
	}
	if !d.HasActions {
		c.errorf(d.P, "the table %s has no actions: add actions = { ... }", d.Name)
	}
	seen := map[*ast.ActionDecl]bool{}
	for _, a := range d.Actions {
		c.actionRef(d, a)
		if a.Decl != nil && seen[a.Decl] {
			c.errorf(a.P, "the action %s is in the list twice", a.Name)
		}
		seen[a.Decl] = true
	}
	c.defaultAction(d)
	c.priorities(d)
	c.entries(d, kts)
	for _, p := range d.Props {
		c.property(d, p)
	}
	c.computedPriorities(d)
	c.declare(d)
}

func (c *checker) entries(d *ast.TableDecl, keys []types.Type) {
	if len(d.Keys) == 0 && len(d.Entries) > 0 {
		c.errorf(d.Entries[0].P, "the table %s has entries and no key: remove them, or give it a key", d.Name)
		return
	}
	for _, e := range d.Entries {
		c.entry(d, e, keys)
	}
}

func (c *checker) property(d *ast.TableDecl, p *ast.Property) {
	p.X = c.expr(p.X, nil)
	if p.Name != "size" || p.X.Type() == types.Invalid {
		return
	}
	if v := p.X.Const(); !types.IsInteger(p.X.Type()) || !known(p.X) || isInt(v) && v.Int.Sign() < 0 {
		c.errorf(p.X.Pos(), "the size of table %s is a number of 0 or more that is known when the program is compiled", d.Name)
	}
}

// priorities checks which entries may have a priority (specification, 14.2.1.4).
func (c *checker) priorities(d *ast.TableDecl) {
	ordered := false
	for _, k := range d.Keys {
		ordered = ordered || k.MatchKind != "exact" && k.MatchKind != "lpm"
	}
	for i, e := range d.Entries {
		if e.Priority == nil {
			continue
		}
		switch {
		case !ordered:
			c.errorf(e.P, "the keys of table %s are matched exactly or by prefix: its entries have no priority", d.Name)
		case d.ConstEntries:
			c.errorf(e.P, "const entries have no priority: they are in the order of their priorities")
		case d.Entries[0].Priority == nil:
			c.errorf(e.P, "entry %d has a priority and the first has none: give the first one, too", i+1)
		default:
			continue
		}
		return
	}
}

// computedPriorities checks the properties about priorities, and demands that those which
// the entries without one get from those in front of them are not negative.
func (c *checker) computedPriorities(d *ast.TableDecl) {
	delta := big.NewInt(-1)
	if p := d.Prop("priority_delta"); p != nil {
		v := p.X.Const()
		if !isInt(v) || v.Int.Sign() <= 0 {
			if p.X.Type() != types.Invalid {
				c.errorf(p.P, "priority_delta is a positive number that is known when the program is compiled")
			}
			return
		}
		delta.Neg(v.Int)
	}
	if p := d.Prop("largest_priority_wins"); p != nil {
		v := p.X.Const()
		if !isKind(v, ast.BoolValue) {
			if p.X.Type() != types.Invalid {
				c.errorf(p.P, "largest_priority_wins is true or false")
			}
			return
		}
		if !v.Bool {
			delta.Neg(delta)
		}
	}
	if len(d.Entries) == 0 || d.Entries[0].Priority == nil {
		return
	}
	at := new(big.Int)
	for _, e := range d.Entries {
		if e.Priority == nil {
			at.Add(at, delta)
		} else if v := e.Priority.Const(); isInt(v) {
			at.Set(v.Int)
		} else {
			return
		}
		if at.Sign() < 0 {
			c.errorf(e.P, "the priority of this entry is %s: give the entries in front larger ones", at)
			return
		}
	}
}

func (c *checker) key1(k *ast.Key) types.Type {
	k.X = c.value(k.X, nil)
	if k.X.Type() != types.Invalid && k.Annotations.Find("name") == nil && !named(k.X) {
		c.errorf(k.X.Pos(), "a key that is an expression needs a name for the control plane: add @name(\"...\")")
	}
	if strings.HasSuffix(k.Name, ".isValid()") {
		k.Name = strings.TrimSuffix(k.Name, "isValid()") + "$valid$"
	}
	if !c.kinds[k.MatchKind] {
		c.errorf(k.MatchKindP, "no match_kind is called %s%s", k.MatchKind, suggest(k.MatchKind, c.prog.MatchKinds))
	}
	t := k.X.Type()
	if t == types.Invalid {
		return t
	}
	if _, ok := types.Underlying(t).(*types.Varbit); ok {
		return t
	}
	if t == types.Integer {
		c.errorf(k.X.Pos(), "a key has a known width: cast it")
		return types.Invalid
	}
	if !selectable(t) || isTuple(t) {
		c.errorf(k.X.Pos(), "a key of type %s: it is a number, bool, enum or error", t)
		return types.Invalid
	}
	return t
}

// named reports whether the control plane has a name for a key of itself: a variable, field, element, slice or
// masked one of them, or a header's validity.
func named(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident, *ast.IntLit:
		return true
	case *ast.Member:
		return named(e.X)
	case *ast.Index:
		return named(e.X) && named(e.I)
	case *ast.Slice:
		return named(e.X)
	case *ast.Binary:
		return e.Op == ast.OpAnd && named(e.X) && named(e.Y)
	case *ast.Cast:
		return e.Implicit && named(e.X)
	case *ast.Call:
		return e.Kind == ast.CallIsValid && named(e.Recv)
	}
	return false
}

func isTuple(t types.Type) bool {
	_, ok := types.Underlying(t).(*types.Tuple)
	return ok
}

// findAction looks an action up; nil after an error.
func (c *checker) findAction(p ast.Pos, name string, absolute bool) *ast.ActionDecl {
	ds := c.find(name, absolute)
	if len(ds) == 0 {
		c.errorf(p, "no action is called %s here: declare it before the table", name)
		return nil
	}
	if a, ok := ds[0].(*ast.ActionDecl); ok {
		return a
	}
	c.errorf(p, "%s is no action", name)
	return nil
}

func (c *checker) actionRef(d *ast.TableDecl, a *ast.ActionRef) {
	a.Decl = c.findAction(a.P, a.Name, a.Absolute)
	if a.Decl == nil {
		c.checkArgs(a.Args)
		return
	}
	a.Bound = c.bindAction(a.P, a.Decl, a.Args, true)
}

// bindAction binds an action's arguments. With open, action data may be left to
// the control plane.
func (c *checker) bindAction(p ast.Pos, d *ast.ActionDecl, as []*ast.Arg, open bool) []*ast.BoundArg {
	ps := d.Params
	if open {
		ps = make([]*ast.Param, len(d.Params))
		for i, q := range d.Params {
			x := *q
			x.Optional = x.Optional || q.Dir == types.None
			if q.Dir == types.None {
				x.Default = nil
			}
			ps[i] = &x
		}
	}
	bound := c.bindPlain(p, "action "+d.Name, ps, as)
	for i, b := range bound {
		if i >= len(d.Params) {
			break
		}
		b.Param = d.Params[i]
		if open && b.Dir == types.None {
			if b.Expr != nil {
				c.errorf(b.Expr.Pos(), "the action data %s of %s comes from the control plane: give it no argument in the list of actions", b.Param.Name, d.Name)
			}
			b.Omitted = false
		}
	}
	return bound
}

// actionCall checks default_action or an entry's action.
func (c *checker) actionCall(d *ast.TableDecl, a *ast.ActionCall, what string) {
	a.Decl = c.findAction(a.P, a.Name, a.Absolute)
	if a.Decl == nil {
		c.checkArgs(a.Args)
		return
	}
	for _, r := range d.Actions {
		if r.Decl == a.Decl {
			a.Ref = r
		}
	}
	if a.Ref == nil {
		c.errorf(a.P, "the action %s is not in the list of table %s: add it to actions", a.Name, d.Name)
		c.checkArgs(a.Args)
		return
	}
	a.Bound = c.bindCall(a)
	for i, b := range a.Bound {
		if b.Expr == nil || b.Expr.Type() == types.Invalid {
			continue
		}
		if b.Dir == types.None {
			if !known(b.Expr) {
				c.errorf(b.Expr.Pos(), "the action data %s of %s must be known when the program is compiled", b.Param.Name, what)
			}
			continue
		}
		if i < len(a.Ref.Bound) && a.Ref.Bound[i].Expr != nil && !sameExpr(b.Expr, a.Ref.Bound[i].Expr) {
			c.errorf(b.Expr.Pos(), "the argument for %s differs from that in the list of actions: write the same", b.Param.Name)
		}
	}
}

// bindCall binds the arguments of an action's call: those of all parameters, or
// of the action data only, where the list of actions has the others.
func (c *checker) bindCall(a *ast.ActionCall) []*ast.BoundArg {
	data := slices.DeleteFunc(slices.Clone(a.Decl.Params), func(p *ast.Param) bool { return p.Dir != types.None })
	onlyData := len(a.Args) == len(data) && (len(data) == 0 || len(data) != len(a.Decl.Params))
	if !onlyData {
		return c.bindPlain(a.P, "action "+a.Name, a.Decl.Params, a.Args)
	}
	given := c.bindPlain(a.P, "action "+a.Name, data, a.Args)
	var bound []*ast.BoundArg
	for i, p := range a.Decl.Params {
		switch {
		case p.Dir != types.None && i < len(a.Ref.Bound):
			bound = append(bound, a.Ref.Bound[i])
		case len(given) > 0:
			bound, given = append(bound, given[0]), given[1:]
		}
	}
	return bound
}

func (c *checker) defaultAction(d *ast.TableDecl) {
	if d.Default != nil {
		c.actionCall(d, d.Default, "default_action")
		if d.Default.Ref != nil && d.Default.Ref.TableOnly {
			c.errorf(d.Default.P, "the action %s is @tableonly", d.Default.Name)
		}
		return
	}
	ds := c.global.names["NoAction"]
	if len(ds) == 0 {
		return
	}
	a, ok := ds[0].(*ast.ActionDecl)
	if !ok || len(a.Params) > 0 {
		return
	}
	d.Default = &ast.ActionCall{At: d.At, Name: "NoAction", Absolute: true, Decl: a, Implied: true}
	for _, r := range d.Actions {
		if r.Decl == a {
			d.Default.Ref = r
		}
	}
}

func (c *checker) entry(d *ast.TableDecl, e *ast.Entry, kts []types.Type) {
	if e.Priority != nil {
		e.Priority = c.exprTo(e.Priority, types.Integer, "a priority")
		if e.Priority.Type() == types.Integer && !known(e.Priority) {
			c.errorf(e.Priority.Pos(), "a priority must be known when the program is compiled")
		}
	}
	for _, t := range kts {
		if t == types.Invalid {
			return
		}
	}
	c.keySet(e.Keys, kts)
	if len(e.Keys.Elems) == len(d.Keys) {
		for i, x := range e.Keys.Elems {
			c.entryKey(d.Keys[i], x)
		}
	}
	c.actionCall(d, e.Action, "an entry")
	if e.Action.Ref != nil && e.Action.Ref.DefaultOnly {
		c.errorf(e.Action.P, "the action %s is @defaultonly", e.Action.Name)
	}
}

// entryKey checks an entry's set against its key's match_kind.
func (c *checker) entryKey(k *ast.Key, x ast.Expr) {
	if x.Type() == types.Invalid {
		return
	}
	if want := c.keyWants(k, x); want != "" {
		c.errorf(x.Pos(), "the key %s is matched %s: the entry gives %s for it", k.Name, k.MatchKind, want)
		return
	}
	switch x := x.(type) {
	case *ast.DontCare:
	case *ast.Mask:
		if k.MatchKind == "lpm" {
			c.prefixMask(x)
		}
		c.knownKeys(x, x.X, x.Y)
	case *ast.Range:
		c.knownKeys(x, x.Lo, x.Hi)
		if lo, hi := x.Lo.Const(), x.Hi.Const(); isInt(lo) && isInt(hi) && lo.Int.Cmp(hi.Int) > 0 {
			c.errorf(x.Pos(), "the range begins behind its end")
		}
	default:
		c.knownKeys(x, x)
	}
}

func (c *checker) knownKeys(of ast.Expr, parts ...ast.Expr) {
	for _, p := range parts {
		if !known(p) {
			c.errorf(of.Pos(), "an entry's keys must be known when the program is compiled")
			return
		}
	}
}

// keyWants names the set that an entry must give for the key k instead of x; "" if x is one.
func (c *checker) keyWants(k *ast.Key, x ast.Expr) string {
	switch x.(type) {
	case *ast.DontCare:
		if k.MatchKind == "exact" {
			return "a value"
		}
	case *ast.Mask:
		switch k.MatchKind {
		case "exact", "optional":
			return "a value"
		case "range":
			return "a value or a .. b"
		}
	case *ast.Range:
		switch {
		case k.MatchKind == "ternary" || k.MatchKind == "lpm":
			return "a value or a &&& mask"
		case k.MatchKind != "range" && c.standardKind(k.MatchKind):
			return "a value"
		}
	}
	return ""
}

func (c *checker) standardKind(k string) bool {
	switch k {
	case "exact", "ternary", "lpm", "optional", "selector":
		return true
	}
	return false
}

// prefixMask demands that a mask has its ones in front.
func (c *checker) prefixMask(m *ast.Mask) {
	v := m.Y.Const()
	st, ok := m.T.(*types.Set)
	if !isInt(v) || !ok {
		return
	}
	w, _ := types.Width(st.Elem)
	zero := false
	for i := w - 1; i >= 0; i-- {
		if v.Int.Bit(i) == 0 {
			zero = true
		} else if zero {
			c.errorf(m.Y.Pos(), "the mask of a longest-prefix match has its ones in front: %#x has not", v.Int)
			return
		}
	}
}
