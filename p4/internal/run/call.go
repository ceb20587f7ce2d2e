package run

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/include"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// callNum is a call whose value has up to 64 bits.
func (c *compiler) callNum(e *ast.Call) num {
	switch e.Kind {
	case ast.CallIsValid:
		return c.isValid(e.Recv)
	case ast.CallStaticAssert:
		return func(*machine) uint64 { return 1 }
	}
	dst := c.temp(e.Type())
	o := c.callOp(e, dst)
	off := dst.off
	return func(m *machine) uint64 {
		if m.exit || m.failed { // in what the expression evaluated before
			return 0
		}
		o(m)
		return m.w[off]
	}
}

// callStore is a call whose value goes to dst.
func (c *compiler) callStore(e *ast.Call, dst place) act {
	tmp := c.temp(e.Type())
	o := c.callOp(e, tmp)
	cp := c.copyTo(dst, tmp)
	return func(m *machine) {
		if m.exit || m.failed { // in what the expression evaluated before
			return
		}
		o(m)
		cp(m)
	}
}

func (c *compiler) isValid(recv ast.Expr) num {
	pre, p := c.ref(recv)
	var v num
	switch t := types.Underlying(p.t).(type) {
	case *types.Struct:
		if t.Kind == types.Union {
			var at []int
			for i := range t.Fields {
				at = append(at, fieldAt(t, i))
			}
			v = func(m *machine) uint64 {
				base := p.at(m)
				for _, o := range at {
					if m.w[base+o] != 0 {
						return 1
					}
				}
				return 0
			}
			break
		}
		v = c.load(p)
	default:
		c.failf(recv, "not supported: isValid of %s", p.t)
	}
	if pre == nil {
		return v
	}
	return func(m *machine) uint64 {
		pre(m)
		return v(m)
	}
}

// callOp compiles any call. Its value goes to dst; dst.t is nil if it is not wanted.
func (c *compiler) callOp(e *ast.Call, dst place) op {
	c.step(e)
	switch e.Kind {
	case ast.CallFunc:
		return c.callFunc(e, dst)
	case ast.CallAction:
		return c.call(e.Bound, e.Action.Params, e, false, func() op { return c.block(e.Action.Body) })
	case ast.CallTable:
		return c.table(e.Table).apply
	case ast.CallControl:
		in := c.instanceOf(e)
		return c.call(e.Bound, in.Control.Params, e, true, func() op { return c.controlBody(in) })
	case ast.CallParser:
		in := c.instanceOf(e)
		return c.call(e.Bound, in.Parser.Params, e, true, func() op { return c.parserBody(in) })
	case ast.CallIsValid:
		v := c.isValid(e.Recv)
		if dst.t != nil {
			return plain(c.put(dst, v))
		}
		return func(m *machine) ctl {
			v(m) // an index within may call something
			if m.exit || m.failed {
				return m.stopped()
			}
			return goOn
		}
	case ast.CallStaticAssert, ast.CallMinSize: // constants
		if dst.t == nil {
			return func(*machine) ctl { return goOn }
		}
		return plain(c.put(dst, c.num(e)))
	case ast.CallSetValid, ast.CallSetInvalid:
		return c.setValid(e)
	case ast.CallPushFront, ast.CallPopFront:
		return c.pushPop(e)
	case ast.CallExternFunc, ast.CallMethod, ast.CallAbstract:
		return c.externCall(e, dst)
	}
	c.failf(e, "not supported: this call here")
	return nil
}

// externCall compiles a call of an extern function or method. If an argument calls something, all are evaluated first: an exit
// there leaves the call undone (specification, 12.5).
func (c *compiler) externCall(e *ast.Call, dst place) op {
	var as []act
	if slices.ContainsFunc(e.Bound, func(b *ast.BoundArg) bool { return hasCall(b.Expr) && !isExtern(b.Type) }) {
		n := *e
		n.Bound = slices.Clone(e.Bound)
		for _, i := range argOrder(e, e.Func.Params) {
			q := *e.Bound[i]
			switch {
			case q.Expr == nil || isExtern(q.Type):
			case q.Dir == types.In || q.Dir == types.None:
				q.Expr = c.evaluated(q.Expr, &as)
			case isLvalue(q.Expr) && nextOf(q.Expr) == nil: // where it lies now; extract knows next
				pre, p := c.ref(q.Expr)
				fix, p := c.freeze(p)
				as = append(append(as, nonNil(pre)...), nonNil(fix)...)
				q.Expr = c.named(q.Expr, p)
			}
			n.Bound[i] = &q
		}
		e = &n
	}
	o := c.externOp(e, dst)
	args := acts(as)
	if args == nil {
		return o
	}
	return func(m *machine) ctl {
		args(m)
		if m.exit || m.failed {
			return m.stopped()
		}
		return o(m)
	}
}

// evaluated appends the evaluation of an expression to as, and is what its value is called from then on. A list stays one, as
// some externs go by its elements.
func (c *compiler) evaluated(e ast.Expr, as *[]act) ast.Expr {
	if l, ok := e.(*ast.List); ok && e.Const() == nil {
		n := *l
		n.Elems = make([]ast.Expr, len(l.Elems))
		for i, x := range l.Elems {
			n.Elems[i] = c.evaluated(x, as)
		}
		return &n
	}
	if e.Const() != nil || size(e.Type()) == 0 { // of any width, or without a value
		return e
	}
	p := c.temp(e.Type())
	*as = append(*as, c.store(e, p))
	return c.named(e, p)
}

// named is an expression for what lies at p, in place of e.
func (c *compiler) named(e ast.Expr, p place) ast.Expr {
	d := &ast.VarDecl{T: e.Type()}
	c.env[d] = p
	id := &ast.Ident{Decl: d}
	id.P, id.T = e.Pos(), e.Type()
	return id
}

func (c *compiler) externOp(e *ast.Call, dst place) op {
	if e.Kind == ast.CallExternFunc {
		return c.externFunc(e, dst)
	}
	x, ok := types.Underlying(e.Recv.Type()).(*types.Extern)
	if !ok {
		c.failf(e, "not supported: this call here")
	}
	return c.externMethod(e, x, dst)
}

func (c *compiler) externFunc(e *ast.Call, dst place) op {
	if o := c.coreFunction(e, dst); o != nil {
		return o
	}
	if o := c.arch.function(c, e, dst); o != nil {
		return o
	}
	if !c.ownExtern(e, e.Func.Pos(), e.Func.Name) {
		c.failf(e, "not supported: extern function %s", e.Func.Name)
	}
	return seq(nil)
}

func (c *compiler) externMethod(e *ast.Call, x *types.Extern, dst place) op {
	switch x.Name {
	case "packet_in":
		return c.packetIn(e, dst)
	case "packet_out":
		return c.packetOut(e)
	}
	if o := c.arch.method(c, e, c.object(e.Recv), dst); o != nil {
		return o
	}
	if !c.ownExtern(e, e.Func.Pos(), x.Name) {
		c.failf(e, "not supported: method %s of %s", e.Func.Name, x.Name)
	}
	return seq(nil)
}

// ownExtern reports whether an extern that is not run here, declared at decl, may stand in the program:
// while it is only checked, the program's own externs get a warning.
func (c *compiler) ownExtern(call ast.Node, decl ast.Pos, name string) bool {
	if !c.checkOnly {
		return false
	}
	if _, err := include.Builtin(path.Base(strings.Trim(decl.File, "<>"))); err == nil {
		return false
	}
	if !slices.Contains(c.own, name) {
		c.own = append(c.own, name)
		c.prog.warnings = append(c.prog.warnings, fmt.Sprintf("%s: warning: %s is an extern of the program's own: "+
			"Sluice does not run it; p4 test, p4 run and fabric.program refuse the program", call.Pos(), name))
	}
	return true
}

func (c *compiler) setValid(e *ast.Call) op {
	pre, p := c.ref(e.Recv)
	v := b2u(e.Kind == ast.CallSetValid)
	checked := hasCall(e.Recv)
	after := act(nil)
	if p.union != nil || checked {
		fix, q := c.freeze(p)
		pre, p = acts(append(nonNil(pre), nonNil(fix)...)), q
	}
	if p.union != nil {
		after = c.unionAfter(p)
	}
	off, dyn := p.off, p.dyn
	if pre == nil && after == nil && dyn == nil {
		return func(m *machine) ctl { m.w[off] = v; return goOn }
	}
	return func(m *machine) ctl {
		if pre != nil {
			pre(m)
		}
		if checked && (m.exit || m.failed) {
			return m.stopped()
		}
		m.w[p.at(m)] = v
		if after != nil {
			after(m)
		}
		return goOn
	}
}

func plain(a act) op {
	return func(m *machine) ctl {
		a(m)
		return goOn
	}
}

// instanceOf is the parser or control that a call applies.
func (c *compiler) instanceOf(e *ast.Call) *ast.Instance {
	if e.Instance != nil {
		return e.Instance
	}
	if in := c.instanceValue(e.Recv); in != nil {
		return in
	}
	c.failf(e, "not supported: which instance is applied is not known")
	return nil
}

func (c *compiler) instanceValue(e ast.Expr) *ast.Instance {
	if v := e.Const(); v != nil && v.Kind == ast.InstanceValue {
		return v.Instance
	}
	if id, ok := e.(*ast.Ident); ok {
		switch d := id.Decl.(type) {
		case *ast.Instantiation:
			return d.Instance
		case *ast.Param:
			if d.Bound != nil && d.Bound.Kind == ast.InstanceValue {
				return d.Bound.Instance
			}
		}
	}
	if call, ok := e.(*ast.Call); ok && call.Kind == ast.CallNew {
		return call.Instance
	}
	return nil
}

// object is the index of the extern object that an expression names.
func (c *compiler) object(e ast.Expr) int {
	if id, ok := e.(*ast.Ident); ok {
		if i, ok := c.objs[id.Decl]; ok {
			return i
		}
	}
	in := c.instanceValue(e)
	if in == nil {
		c.failf(e, "not supported: which object this is is not known")
	}
	return c.objectOf(in, e)
}

func (c *compiler) objectOf(in *ast.Instance, at ast.Node) int {
	i, ok := c.insts[in]
	if !ok {
		c.failf(at, "not supported: object %s is outside of the program's instances", in.ControlName)
	}
	return i
}

func (c *compiler) callFunc(e *ast.Call, dst place) op {
	old := c.ret
	defer func() { c.ret = old }()
	ret := place{}
	if e.Func.Return != nil && size(e.Func.Return) > 0 {
		ret = c.temp(e.Func.Return)
	}
	o := c.call(e.Bound, e.Func.Params, e, true, func() op {
		c.ret = ret
		b := c.block(e.Func.Body)
		c.ret = old
		if ret.t == nil {
			return b
		}
		z := c.zero(ret)
		return func(m *machine) ctl { z(m); return b(m) }
	})
	if dst.t == nil || ret.t == nil {
		return o
	}
	cp := c.copyTo(dst, ret)
	return func(m *machine) ctl {
		r := o(m)
		cp(m)
		return r
	}
}

// call binds params to arguments around the body that compile gives: in is copied in, out begins
// as zero (headers invalid) and is copied out, inout both, in the order of the
// parameters; copying out happens on return and exit as well. With byRef, for callees
// that see nothing of their caller but the parameters, an argument that overlaps no
// other is bound in place instead.
func (c *compiler) call(bound []*ast.BoundArg, params []*ast.Param, at ast.Node, byRef bool, compile func() op) op {
	if c.depth++; c.depth > 200 {
		c.failf(at, "not supported: calls nested more than 200 deep")
	}
	defer func() { c.depth-- }()
	args := arguments{at: make([]place, len(bound))}
	refs := make([]place, len(bound))
	if byRef {
		refs = c.inPlace(bound)
	}
	for _, i := range argOrder(at, params) {
		b := bound[i]
		if b.Expr == nil || isExtern(b.Type) {
			continue
		}
		args.call = args.call || hasCall(b.Expr)
		if b.Type == types.Integer {
			x := c.widened(b.Expr)
			args.at[i] = c.temp(x.Type())
			args.before = append(args.before, c.store(x, args.at[i]))
			continue
		}
		if refs[i].t == nil {
			args.at[i] = c.temp(b.Type)
			c.copyArg(&args, b, args.at[i])
			continue
		}
		args.at[i] = refs[i]
		args.at[i].t = b.Type
		if b.Dir == types.Out {
			args.zeros = append(args.zeros, c.zero(args.at[i]))
		}
	}
	body := c.withParams(bound, params, args.at, compile)
	return args.around(body)
}

// arguments holds the code before and after the body of a call.
type arguments struct {
	at            []place // where each parameter lies; t is nil for a parameter without a place
	before, after []act
	zeros         []act // of out parameters in place: when all other arguments are read
	call          bool  // an argument calls something, which may exit
}

// inPlace finds the arguments that parameters may stand for; the others' places have no type.
func (c *compiler) inPlace(bound []*ast.BoundArg) []place {
	refs := make([]place, len(bound))
	for i, b := range bound {
		if b.Expr == nil || !isLvalue(b.Expr) || isExtern(b.Type) || b.Type == types.Integer {
			continue
		}
		if pre, p := c.ref(b.Expr); pre == nil && p.dyn == nil && !p.slice && p.union == nil && size(p.t) == size(b.Type) {
			refs[i] = p
		}
	}
	out := make([]place, len(bound))
	for i := range refs {
		if refs[i].t != nil && alone(bound, refs, i) {
			out[i] = refs[i]
		}
	}
	return out
}

// alone reports whether no other argument touches what argument i is.
func alone(bound []*ast.BoundArg, refs []place, i int) bool {
	for j, b := range bound {
		switch {
		case i == j || b.Expr == nil:
		case refs[j].t != nil:
			x, y := refs[i], refs[j]
			overlap := x.off < y.off+size(y.t) && y.off < x.off+size(x.t)
			if overlap && (bound[i].Dir != types.In || b.Dir != types.In) {
				return false
			}
		case b.Dir != types.In && b.Dir != types.None || hasCall(b.Expr): // what it may reach is not known
			return false
		}
	}
	return true
}

// copyArg copies an argument to a parameter's place and back, as its direction says.
func (c *compiler) copyArg(args *arguments, b *ast.BoundArg, slot place) {
	if b.Dir != types.Out && b.Dir != types.InOut {
		args.before = append(args.before, c.store(b.Expr, slot))
		return
	}
	if _, ignored := b.Expr.(*ast.DontCare); !ignored {
		pre, p := c.ref(b.Expr)
		fix, p := c.freeze(p)
		args.before = append(args.before, nonNil(pre)...)
		args.before = append(args.before, nonNil(fix)...)
		if b.Dir == types.InOut {
			args.before = append(args.before, c.copyTo(slot, p))
		}
		args.after = append(args.after, c.copyTo(p, slot))
	}
	if b.Dir == types.Out {
		args.before = append(args.before, c.zero(slot))
	}
}

// withParams compiles a body in which the parameters have places.
func (c *compiler) withParams(bound []*ast.BoundArg, params []*ast.Param, at []place, compile func() op) op {
	for i, b := range bound {
		d := ast.Decl(params[i])
		if isExtern(b.Type) {
			if b.Expr != nil {
				c.alias(params[i], b)
			}
			continue
		}
		if at[i].t == nil {
			continue
		}
		old, ok := c.env[d]
		c.env[d] = at[i]
		defer func() {
			if ok {
				c.env[d] = old
			} else {
				delete(c.env, d)
			}
		}()
	}
	return compile()
}

// around puts reading and copying out around a body. A return ends there.
func (a *arguments) around(body op) op {
	pre, post, calls := acts(append(a.before, a.zeros...)), acts(a.after), a.call
	return func(m *machine) ctl {
		if pre != nil {
			pre(m)
			if calls && (m.exit || m.failed) {
				return m.stopped()
			}
		}
		r := body(m)
		if post != nil {
			post(m)
		}
		if r == doReturn {
			return goOn
		}
		return r
	}
}

// argOrder is the order in which a call's arguments are evaluated and copied out: as they are
// written (specification, 6.8), then the omitted ones.
func argOrder(at ast.Node, params []*ast.Param) []int {
	var args []*ast.Arg
	switch c := at.(type) {
	case *ast.Call:
		args = c.Args
	case *ast.ActionRef:
		args = c.Args
	}
	order := make([]int, 0, len(params))
	for i, a := range args {
		if a.Name != "" {
			i = slices.IndexFunc(params, func(p *ast.Param) bool { return p.Name == a.Name })
		}
		if i >= 0 && i < len(params) && !slices.Contains(order, i) {
			order = append(order, i)
		}
	}
	for i := range params {
		if !slices.Contains(order, i) {
			order = append(order, i)
		}
	}
	return order
}

func isExtern(t types.Type) bool {
	_, ok := types.Underlying(t).(*types.Extern)
	return ok
}

// alias lets a parameter stand for an extern object. Packets are known by their type.
func (c *compiler) alias(p *ast.Param, b *ast.BoundArg) {
	x := types.Underlying(b.Type).(*types.Extern)
	if x.Name == "packet_in" || x.Name == "packet_out" {
		return
	}
	c.objs[p] = c.object(b.Expr)
}

// stopped returns how a statement ends if its expression ran into an exit or a parser's
// error.
func (m *machine) stopped() ctl {
	if m.exit {
		return doExit
	}
	return doReject
}

// pushPop shifts a stack's elements up or down by a constant; the new ones are invalid.
func (c *compiler) pushPop(e *ast.Call) op {
	pre, p := c.ref(e.Recv)
	st, ok := types.Underlying(p.t).(*types.Stack)
	if !ok {
		c.failf(e, "not supported: %s on %s", e.Func.Name, p.t)
	}
	v := e.Bound[0].Expr.Const()
	if v == nil || !v.Int.IsInt64() || v.Int.Sign() < 0 {
		c.failf(e, "the count must be a constant of 0 or more")
	}
	n := int(min(v.Int.Int64(), int64(st.Size)))
	elem := size(st.Elem)
	push := e.Kind == ast.CallPushFront
	total := st.Size * elem
	return func(m *machine) ctl {
		if pre != nil {
			pre(m)
		}
		at := p.at(m)
		w := m.w[at+1 : at+1+total]
		if push {
			copy(w[n*elem:], w[:total-n*elem])
			clear(w[:n*elem])
			m.w[at] = min(m.w[at]+uint64(n), uint64(st.Size))
		} else {
			copy(w, w[n*elem:])
			clear(w[total-n*elem:])
			m.w[at] -= min(m.w[at], uint64(n))
		}
		return goOn
	}
}
