package run

import (
	"math/big"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

func (a *v1model) object(c *compiler, in *ast.Instance) objectDef {
	x, ok := in.Type.(*types.Extern)
	if !ok {
		return objectDef{}
	}
	name := in.ControlName
	kind := func(i int) string {
		if i < len(in.Args) && in.Args[i] != nil {
			return in.Args[i].Member
		}
		return ""
	}
	switch x.Name {
	case "register":
		if len(in.TypeArgs) < 1 {
			return objectDef{}
		}
		return c.newRegister(in, in.TypeArgs[0], c.sizeArg(in, 0), nil)
	case "counter":
		return newCounter(name, c.sizeArg(in, 0))
	case "direct_counter":
		return newCounter(name, 0)
	case "meter":
		return newMeter(name, c.sizeArg(in, 0), kind(1) == "packets")
	case "direct_meter":
		return newMeter(name, 0, kind(0) == "packets")
	case "action_profile":
		return newProfile(name, nil)
	case "action_selector":
		return newProfile(name, algorithm(kind(0)))
	}
	// Checksum16, and an object that is not known, which does no harm while none of its methods is called.
	return objectDef{name: name, make: func() object { return struct{}{} }}
}

func newProfile(name string, algo func(*machine, []byte) uint64) objectDef {
	return objectDef{name: name, make: func() object {
		return &profile{name: name, algo: algo, members: map[uint32]*member{}, groups: map[uint32]*group{}}
	}}
}

func (a *v1model) method(c *compiler, e *ast.Call, obj int, dst place) op {
	x := types.Underlying(e.Recv.Type()).(*types.Extern)
	arg := func(i int) ast.Expr { return e.Bound[i].Expr }
	switch x.Name + "." + e.Func.Name {
	case "register.read":
		idx := c.num(arg(1))
		return c.outArg(arg(0), func(to place) act {
			n := size(to.t)
			return func(m *machine) {
				i := idx(m)
				at := to.at(m)
				m.objects[obj].(*Register).load(m.w[at:at+n], i)
			}
		})
	case "register.write":
		idx := c.num(arg(0))
		tmp := c.temp(e.Bound[1].Type)
		st := c.store(arg(1), tmp)
		n := size(tmp.t)
		return func(m *machine) ctl {
			i := idx(m)
			st(m)
			m.objects[obj].(*Register).store(i, m.w[tmp.off:tmp.off+n])
			return goOn
		}
	case "counter.count":
		idx := c.num(arg(0))
		return func(m *machine) ctl {
			m.objects[obj].(*Counter).count(idx(m), uint64(m.length))
			return goOn
		}
	case "direct_counter.count":
		return func(*machine) ctl { return goOn } // the table counts its hits
	case "meter.execute_meter":
		idx := c.num(arg(0))
		return c.outArg(arg(1), func(to place) act {
			return c.number(to, func(m *machine) uint64 { return m.objects[obj].(*Meter).execute(idx(m), m.now, m.length) })
		})
	case "direct_meter.read":
		return c.outArg(arg(0), func(to place) act {
			return c.number(to, func(m *machine) uint64 {
				mt := m.objects[obj].(*Meter)
				if m.cur == nil {
					return green
				}
				return m.cur.meter.execute(mt.direct, m.now, mt.tokens(m.length))
			})
		})
	case "Checksum16.get":
		var in hashInput
		in.add(c, arg(0))
		if dst.t == nil {
			return seq(nil)
		}
		return plain(c.put(dst, func(m *machine) uint64 {
			in.fill(m)
			return csum16(m.hbuf)
		}))
	}
	return nil
}

// outArg lets f fill a temporary and copies that to the argument for an out parameter.
func (c *compiler) outArg(e ast.Expr, f func(to place) act) op {
	if _, ok := e.(*ast.DontCare); ok || e == nil {
		return plain(f(c.temp(e.Type())))
	}
	pre, p := c.ref(e)
	if pre == nil && p.dyn == nil && !p.slice && p.union == nil {
		return plain(f(p))
	}
	tmp := c.temp(e.Type())
	as := nonNil(pre)
	fz, q := c.freeze(p)
	as = append(as, nonNil(fz)...)
	as = append(as, f(tmp), c.copyTo(q, tmp))
	return plain(acts(as))
}

// fixWidth stores a number that may be wider than what it goes to.
func fixWidth(t types.Type, v num) num {
	w, ok := scalarWidth(t)
	if !ok || w >= 64 {
		return v
	}
	mask := mask64(w)
	return func(m *machine) uint64 { return v(m) & mask }
}

// number stores v in the number of any width that a place holds.
func (c *compiler) number(to place, v num) act {
	w, ok := scalarWidth(to.t)
	if !ok {
		w = 64
	}
	if w <= 64 {
		return c.put(to, fixWidth(to.t, v))
	}
	n := size(to.t)
	return func(m *machine) {
		x := v(m)
		at := to.at(m)
		clear(m.w[at : at+n])
		m.w[at] = x
	}
}

func (a *v1model) function(c *compiler, e *ast.Call, dst place) op {
	arg := func(i int) ast.Expr { return e.Bound[i].Expr }
	switch e.Func.Name {
	case "mark_to_drop":
		p := a.std
		if len(e.Bound) > 0 {
			_, q := c.ref(arg(0))
			p = q
		}
		f := stdFieldsOf(place{t: p.t})
		return func(m *machine) ctl {
			at := p.at(m)
			m.w[at+f.egressSpec] = v1Drop
			m.w[at+f.mcast] = 0
			return goOn
		}
	case "random":
		return a.random(c, e)
	case "digest":
		return func(m *machine) ctl { m.digests++; return goOn }
	case "hash":
		return a.hash(c, e)
	case "verify_checksum", "verify_checksum_with_payload", "update_checksum", "update_checksum_with_payload":
		return a.checksum(c, e)
	case "clone", "clone3", "clone_preserving_field_list":
		return a.clone(c, e)
	case "resubmit", "resubmit_preserving_field_list":
		l := a.list(c, e)
		return func(m *machine) ctl { m.resubmit = l + 2; return goOn }
	case "recirculate", "recirculate_preserving_field_list":
		l := a.list(c, e)
		return func(m *machine) ctl { m.recirc = l + 2; return goOn }
	case "truncate":
		n := c.num(arg(0))
		return func(m *machine) ctl { m.truncate = int(n(m)); return goOn }
	case "assert", "assume":
		v := c.num(arg(0))
		return func(m *machine) ctl {
			if v(m) == 0 {
				m.asserts++
			}
			return goOn
		}
	case "log_msg":
		return c.logMsg(e)
	}
	return nil
}

func (a *v1model) random(c *compiler, e *ast.Call) op {
	lo, hi := c.num(e.Bound[1].Expr), c.num(e.Bound[2].Expr)
	return c.outArg(e.Bound[0].Expr, func(to place) act {
		return c.number(to, func(m *machine) uint64 {
			l, h := lo(m), hi(m)
			if l > h {
				return l
			}
			return m.rng.between(l, h)
		})
	})
}

func (a *v1model) hash(c *compiler, e *ast.Call) op {
	f := c.algo(e, e.Bound[1].Expr)
	var in hashInput
	in.add(c, e.Bound[3].Expr)
	base, limit := c.num(e.Bound[2].Expr), c.shiftOrNum(ast.OpShl, e.Bound[4].Expr)
	return c.outArg(e.Bound[0].Expr, func(to place) act {
		return c.number(to, func(m *machine) uint64 {
			b, n := base(m), limit(m)
			if n == 0 {
				return b
			}
			in.fill(m)
			return b + f(m, m.hbuf)%n
		})
	})
}

// algo is the hash function that a constant of HashAlgorithm names.
func (c *compiler) algo(at ast.Node, e ast.Expr) func(*machine, []byte) uint64 {
	v := e.Const()
	if v == nil {
		c.failf(at, "not supported: a hash algorithm that is not constant")
	}
	f := algorithm(v.Member)
	if f == nil {
		c.failf(at, "not supported: hash algorithm %s", v.Member)
	}
	return f
}

func (a *v1model) checksum(c *compiler, e *ast.Call) op {
	name := e.Func.Name
	f := c.algo(e, e.Bound[3].Expr)
	cond := c.num(e.Bound[0].Expr)
	var in hashInput
	in.add(c, e.Bound[1].Expr)
	payload := strings.HasSuffix(name, "_with_payload")
	compute := func(m *machine) uint64 {
		in.fill(m)
		if payload && m.pos < m.end {
			rest := m.pkt[m.pos>>3:]
			m.hashRoom(0)
			if m.hpos&7 == 0 {
				m.hbuf = append(m.hbuf[:m.hpos>>3], rest...)
			} else {
				for _, b := range rest {
					m.hashBits(uint64(b), 8)
				}
			}
		}
		return f(m, m.hbuf)
	}
	w, ok := scalarWidth(e.Bound[2].Type)
	if !ok || w > 64 {
		c.failf(e, "not supported: checksum of type %s", e.Bound[2].Type)
	}
	mask := mask64(w)
	if strings.HasPrefix(name, "verify") {
		have := c.num(e.Bound[2].Expr)
		bad := a.f.checksumError
		return func(m *machine) ctl {
			if cond(m) != 0 && have(m) != compute(m)&mask {
				set(m, bad, 1)
			}
			return goOn
		}
	}
	pre, to := c.ref(e.Bound[2].Expr)
	st := c.put(to, func(m *machine) uint64 { return compute(m) & mask })
	return func(m *machine) ctl {
		if pre != nil {
			pre(m)
		}
		if cond(m) != 0 {
			st(m)
		}
		return goOn
	}
}

func (a *v1model) clone(c *compiler, e *ast.Call) op {
	v := e.Bound[0].Expr.Const()
	if v == nil {
		c.failf(e, "not supported: a clone type that is not constant")
	}
	egress := v.Member == "E2E"
	session := c.num(e.Bound[1].Expr)
	list := -1
	if len(e.Bound) > 2 {
		list = a.listArg(c, e, 2)
	}
	return func(m *machine) ctl {
		cl := cloneIntent{egress: egress, session: uint16(session(m)), list: list}
		// BMv2 keeps one clone a packet and pass: the last.
		m.clones = append(m.clones[:0], cl)
		return goOn
	}
}

// list is the index of the field list of a call whose first argument says what is preserved; -1: nothing.
func (a *v1model) list(c *compiler, e *ast.Call) int { return a.listArg(c, e, 0) }

func (a *v1model) listArg(c *compiler, e *ast.Call, i int) int {
	x := e.Bound[i].Expr
	if strings.HasSuffix(e.Func.Name, "_preserving_field_list") {
		v := x.Const()
		if v == nil || !v.Int.IsInt64() {
			c.failf(e, "not supported: a field list that is not constant")
		}
		if j, ok := a.byNumber[int(v.Int.Int64())]; ok {
			return j
		}
		return -1
	}
	// The former functions name the fields themselves.
	spans := c.spansOf(x, nil)
	if len(spans) == 0 {
		return -1
	}
	a.lists = append(a.lists, spans)
	return len(a.lists) - 1
}

// spansOf appends where the l-values of an expression lie.
func (c *compiler) spansOf(x ast.Expr, to []span) []span {
	switch y := x.(type) {
	case *ast.List:
		for _, z := range y.Elems {
			to = c.spansOf(z, to)
		}
		return to
	case *ast.StructLit:
		for _, f := range y.Fields {
			to = c.spansOf(f.Value, to)
		}
		return to
	case *ast.Cast:
		return c.spansOf(y.X, to)
	}
	if x.Const() != nil || !isLvalue(x) {
		return to
	}
	pre, p := c.ref(x)
	if pre != nil || p.dyn != nil {
		c.failf(x, "not supported: a field list with a variable index")
	}
	if p.off < c.prog.state {
		to = append(to, span{p.off, size(p.t)})
	}
	return to
}

// logMsg writes its message with the values in place of {}. It costs nothing while nobody listens.
func (c *compiler) logMsg(e *ast.Call) op {
	v := e.Bound[0].Expr.Const()
	if v == nil {
		c.failf(e, "not supported: a message that is not constant")
	}
	text := v.String
	var values []func(*machine) string
	if len(e.Bound) > 1 {
		if l, ok := e.Bound[1].Expr.(*ast.List); ok {
			for _, x := range l.Elems {
				values = append(values, c.logged(x))
			}
		}
	}
	return func(m *machine) ctl {
		if m.log == nil {
			return goOn
		}
		s := text
		for _, f := range values {
			s = strings.Replace(s, "{}", f(m), 1)
		}
		m.log(s)
		return goOn
	}
}

// logged returns code that formats a value for a message.
func (c *compiler) logged(x ast.Expr) func(*machine) string {
	p := c.temp(x.Type())
	st := c.store(x, p)
	text := c.loggedAt(x, p)
	return func(m *machine) string {
		st(m)
		return text(m)
	}
}

// loggedAt returns code that formats the value at p: a number is decimal, a struct or header
// (name:value,name:value) as in BMv2. An invalid header is "(invalid)"; BMv2 shows its fields as zeros.
func (c *compiler) loggedAt(at ast.Node, p place) func(*machine) string {
	if w, ok := scalarWidth(p.t); ok {
		n, signed := wordsOf(w), isSigned(p.t)
		return func(m *machine) string {
			v := fromWords(m.w[p.off : p.off+n])
			if signed && w > 0 && v.Bit(w-1) != 0 {
				v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(w)))
			}
			return v.String()
		}
	}
	s, ok := types.Underlying(p.t).(*types.Struct)
	if !ok {
		c.failf(at, "not supported: a message with a value of type %s: give its fields", p.t)
	}
	fields := make([]func(*machine) string, len(s.Fields))
	for i, f := range s.Fields {
		fields[i] = c.loggedAt(at, p.add(fieldAt(s, i), f.Type))
	}
	return func(m *machine) string {
		if s.Kind == types.Header && m.w[p.off] == 0 {
			return "(invalid)"
		}
		texts := make([]string, len(fields))
		for i, f := range fields {
			texts[i] = s.Fields[i].Name + ":" + f(m)
		}
		return "(" + strings.Join(texts, ",") + ")"
	}
}
