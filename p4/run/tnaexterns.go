package run

import (
	mathbits "math/bits"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// tnaHash is a Hash object: what it computes of the bits in m.hbuf.
type tnaHash struct {
	f func(*machine) uint64
}

// identityLow is the last 64 bits as a number.
func identityLow(m *machine) uint64 {
	n := min(m.hpos, 64)
	return readBits(m.hbuf, m.hpos-n, n)
}

func xorOf(width int) func(*machine) uint64 {
	return func(m *machine) uint64 {
		var v uint64
		for at := 0; at < m.hpos; at += width {
			n := min(width, m.hpos-at)
			v ^= readBits(m.hbuf, at, n) << uint(width-n)
		}
		return v
	}
}

func (a *tna) object(c *compiler, in *ast.Instance) objectDef {
	x, ok := in.Type.(*types.Extern)
	if !ok {
		return objectDef{}
	}
	name := in.ControlName
	nothing := objectDef{name: name, make: func() object { return struct{}{} }}
	member := func(i int) string {
		if i < len(in.Args) && in.Args[i] != nil {
			return in.Args[i].Member
		}
		return ""
	}
	at := ast.At{P: in.At}
	cell := func(i int) types.Type {
		if i >= len(x.TypeArgs) {
			c.failf(at, "not supported: %s without its type arguments", x.Name)
		}
		if x.TypeArgs[i] == types.DontCare {
			c.failf(at, "not supported: %s of _", x.Name)
		}
		return x.TypeArgs[i]
	}
	first := func(i int) []uint64 {
		if i >= len(in.Args) || in.Args[i] == nil {
			return nil
		}
		w, err := constWords(cell(0), in.Args[i])
		c.check(at, err)
		return w
	}
	switch x.Name {
	case "Register":
		return c.newRegister(in, cell(0), c.sizeArg(in, 0), first(1))
	case "DirectRegister":
		r := &directRegister{at: -1, first: first(0)}
		if r.first == nil {
			r.first = make([]uint64, size(cell(0)))
		}
		c.directs[len(c.prog.objects)] = r
		return nothing
	case "RegisterParam":
		return c.newRegister(in, cell(0), 1, first(0))
	case "Checksum", "ParserCounter":
		a.sums[len(c.prog.objects)] = c.alloc(1)
		return nothing
	case "Counter":
		return newCounter(name, c.sizeArg(in, 0))
	case "DirectCounter":
		return newCounter(name, 0)
	case "Meter":
		return newMeter(name, c.sizeArg(in, 0), member(1) == "PACKETS")
	case "DirectMeter":
		return newMeter(name, 0, member(0) == "PACKETS")
	case "Lpf":
		return newFilter(name, c.sizeArg(in, 0))
	case "DirectLpf":
		return newFilter(name, 0)
	case "Wred":
		return newWred(name, c.sizeArg(in, 0), c.constArg(in, 1), c.constArg(in, 2))
	case "DirectWred":
		return newWred(name, 0, c.constArg(in, 0), c.constArg(in, 1))
	case "Hash":
		h := a.hash(c, in)
		return objectDef{name: name, make: func() object { return h }}
	case "ActionProfile":
		return newProfile(name, nil)
	case "ActionSelector":
		var h *tnaHash
		for _, v := range in.Args {
			if v != nil && v.Kind == ast.InstanceValue && v.Instance != nil && v.Instance.Extern != nil && v.Instance.Extern.Name == "Hash" {
				h = a.hash(c, v.Instance)
			}
		}
		if h == nil {
			c.failf(at, "not supported: ActionSelector without a Hash")
		}
		return newProfile(name, func(m *machine, _ []byte) uint64 { return h.f(m) })
	}
	// What has no state of its own, and an object that is not known, which does no harm while none of its methods is called.
	return nothing
}

func (a *tna) hash(c *compiler, in *ast.Instance) *tnaHash {
	at := ast.At{P: in.At}
	if len(in.Args) == 0 || in.Args[0] == nil {
		c.failf(at, "not supported: Hash without an algorithm")
	}
	of := func(f func([]byte) uint64) *tnaHash {
		return &tnaHash{func(m *machine) uint64 { return f(m.hbuf) }}
	}
	if len(in.Args) > 1 && in.Args[1] != nil && in.Args[1].Instance != nil {
		p := in.Args[1].Instance
		t, ok := p.Type.(*types.Extern)
		if !ok || len(p.Args) < 6 || len(t.TypeArgs) != 1 {
			c.failf(at, "not supported: this polynomial of a Hash")
		}
		w, ok := scalarWidth(t.TypeArgs[0])
		if !ok || w > 64 {
			c.failf(at, "not supported: a CRC of type %s", t.TypeArgs[0])
		}
		n := func(i int) uint64 {
			if p.Args[i] == nil || p.Args[i].Int == nil {
				return 0
			}
			var d [1]uint64
			setWords(d[:], p.Args[i].Int)
			return d[0] & mask64(w)
		}
		reversed := p.Args[1] != nil && p.Args[1].Bool
		return of(newCRC(crc{width: w, poly: n(0), reversed: reversed, out: reversed, init: n(4), xor: n(5)}).sum)
	}
	switch m := in.Args[0].Member; m {
	case "IDENTITY":
		return &tnaHash{identityLow}
	case "RANDOM":
		return &tnaHash{func(m *machine) uint64 { return m.rng.next() }}
	case "XOR8":
		return &tnaHash{xorOf(8)}
	case "XOR16":
		return &tnaHash{xorOf(16)}
	case "XOR32":
		return &tnaHash{xorOf(32)}
	case "CRC8":
		return of(crc8.sum)
	case "CRC16":
		return of(crc16ARC.sum)
	case "CRC32":
		return of(crc32ISO.sum)
	case "CRC64":
		return of(crc64.sum)
	default:
		c.failf(at, "not supported: hash algorithm %s without a polynomial", m)
	}
	return nil
}

// result stores a call's value, or evaluates it for its effect.
func (c *compiler) result(dst place, v num) op {
	if dst.t == nil {
		return func(m *machine) ctl { v(m); return goOn }
	}
	return plain(c.number(dst, v))
}

func (a *tna) method(c *compiler, e *ast.Call, obj int, dst place) op {
	x := types.Underlying(e.Recv.Type()).(*types.Extern)
	arg := func(i int) ast.Expr {
		if i >= len(e.Bound) {
			return nil
		}
		return e.Bound[i].Expr
	}
	named := func(param string) ast.Expr {
		for _, b := range e.Bound {
			if b.Param.Name == param {
				return b.Expr
			}
		}
		return nil
	}
	switch x.Name + "." + e.Func.Name {
	case "Register.read":
		idx := c.num(arg(0))
		if dst.t == nil {
			return seq(nil)
		}
		n := size(dst.t)
		return func(m *machine) ctl {
			i := idx(m)
			at := dst.at(m)
			m.objects[obj].(*Register).load(m.w[at:at+n], i)
			return goOn
		}
	case "RegisterParam.read":
		if dst.t == nil {
			return seq(nil)
		}
		n := size(dst.t)
		return func(m *machine) ctl {
			at := dst.at(m)
			m.objects[obj].(*Register).load(m.w[at:at+n], 0)
			return goOn
		}
	case "Register.write":
		if dst.t != nil {
			c.failf(e, "not supported: what Register.write gives")
		}
		idx := c.num(arg(0))
		tmp := c.temp(e.Bound[1].Type)
		st := c.store(arg(1), tmp)
		return func(m *machine) ctl {
			i := idx(m)
			st(m)
			m.objects[obj].(*Register).store(i, m.w[tmp.off:])
			return goOn
		}
	case "RegisterAction.execute", "RegisterAction2.execute", "RegisterAction3.execute", "RegisterAction4.execute",
		"DirectRegisterAction.execute", "DirectRegisterAction2.execute", "DirectRegisterAction3.execute", "DirectRegisterAction4.execute":
		return a.execute(c, e, dst)
	case "DirectRegister.read":
		if dst.t == nil {
			return seq(nil)
		}
		r, n := c.directs[obj], size(dst.t)
		return func(m *machine) ctl {
			at := dst.at(m)
			r.load(m, m.w[at:at+n])
			return goOn
		}
	case "DirectRegister.write":
		if dst.t != nil {
			c.failf(e, "not supported: what DirectRegister.write gives")
		}
		tmp := c.temp(e.Bound[0].Type)
		r, st := c.directs[obj], c.store(arg(0), tmp)
		return func(m *machine) ctl {
			st(m)
			copy(r.cell(m), m.w[tmp.off:])
			return goOn
		}
	case "ParserPriority.set":
		return seq(nil)
	case "Counter.count":
		idx := c.num(arg(0))
		less := c.optional(arg(1))
		return func(m *machine) ctl {
			m.objects[obj].(*Counter).count(idx(m), uint64(len(m.pkt))-less(m))
			return goOn
		}
	case "DirectCounter.count":
		less := c.optional(arg(0))
		return func(m *machine) ctl {
			if m.cur != nil {
				m.cur.packets++
				m.cur.bytes += uint64(len(m.pkt)) - less(m)
			}
			return goOn
		}
	case "Meter.execute":
		idx := c.num(arg(0))
		less := c.optional(named("adjust_byte_count"))
		return c.result(dst, func(m *machine) uint64 {
			return tnaColor(m.objects[obj].(*Meter).execute(idx(m), m.now, len(m.pkt)-int(less(m))))
		})
	case "DirectMeter.execute":
		less := c.optional(named("adjust_byte_count"))
		return c.result(dst, func(m *machine) uint64 {
			mt := m.objects[obj].(*Meter)
			if m.cur == nil {
				return green
			}
			return tnaColor(m.cur.meter.execute(mt.direct, m.now, mt.tokens(len(m.pkt)-int(less(m)))))
		})
	case "Lpf.execute", "DirectLpf.execute":
		val, cell := c.num(arg(0)), cellOf[LowPass](c, arg(1))
		return c.result(dst, func(m *machine) uint64 {
			v, f := val(m), m.objects[obj].(*Filter)
			a, s := cell(m, &f.cells)
			if s == nil {
				return v
			}
			return s.execute(a, m.now, v)
		})
	case "Wred.execute", "DirectWred.execute":
		val, cell := c.num(arg(0)), cellOf[EarlyDrop](c, arg(1))
		return c.result(dst, func(m *machine) uint64 {
			v, w := val(m), m.objects[obj].(*Wred)
			if a, s := cell(m, &w.cells); s != nil && s.drops(a, m.now, v, m.rng.next()) {
				return w.drop
			}
			return w.keep
		})
	case "Hash.get":
		var in hashInput
		in.add(c, arg(0))
		return c.result(dst, func(m *machine) uint64 {
			in.fill(m)
			return m.objects[obj].(*tnaHash).f(m)
		})
	case "Random.get":
		return c.result(dst, func(m *machine) uint64 { return m.rng.next() })
	case "Digest.pack":
		return func(m *machine) ctl { m.digests++; return goOn }
	case "Mirror.emit":
		session := c.num(arg(0))
		emit := c.emitApart(e, arg(1))
		return func(m *machine) ctl {
			s := uint16(session(m))
			m.clones = append(m.clones[:0], cloneIntent{session: s, list: -1})
			m.mdata = emit(m, m.mdata)
			return goOn
		}
	case "Resubmit.emit":
		emit := c.emitApart(e, arg(0))
		return func(m *machine) ctl {
			m.resubmit = 1
			m.rdata = emit(m, m.rdata)
			return goOn
		}
	}
	if at, ok := a.sums[obj]; ok {
		return a.sum(c, e, x.Name, at, dst)
	}
	return nil
}

func tnaColor(v uint64) uint64 {
	if v == red {
		return 3
	}
	return v
}

// optional is an argument that may be left out, then 0.
func (c *compiler) optional(e ast.Expr) num {
	if e == nil {
		return func(*machine) uint64 { return 0 }
	}
	if w, ok := scalarWidth(e.Type()); !ok || w > 64 {
		return func(*machine) uint64 { return 0 }
	}
	return c.num(e)
}

// emitApart emits a header to a buffer of its own.
func (c *compiler) emitApart(e *ast.Call, x ast.Expr) func(*machine, []byte) []byte {
	if x == nil {
		return func(_ *machine, b []byte) []byte { return b[:0] }
	}
	pre, p := c.ref(x)
	var es []emit
	if s, ok := types.Underlying(p.t).(*types.Struct); ok && s.Kind == types.PlainStruct {
		// A struct of numbers is written as a header would be.
		w := wire{varWord: -1}
		if err := w.add(s, 0); err == nil {
			w.packed = pack(w.fixed)
			n := size(s)
			return func(m *machine, b []byte) []byte {
				if pre != nil {
					pre(m)
				}
				b = b[:0]
				for range (w.bits + 7) / 8 {
					b = append(b, 0)
				}
				at := p.at(m)
				writeFields(m.w[at:at+n], w.packed, b, 0)
				return b
			}
		}
	}
	c.emits(e, &es, 0, p.t)
	return func(m *machine, b []byte) []byte {
		if pre != nil {
			pre(m)
		}
		out, pos := m.out, m.outPos
		m.out, m.outPos = b[:0], 0
		base := p.at(m)
		for i := range es {
			es[i].run(m, base)
		}
		b = m.out
		m.out, m.outPos = out, pos
		return b
	}
}

// execute puts a register action's apply in place: its first parameter is the cell, its second the result.
func (a *tna) execute(c *compiler, e *ast.Call, dst place) op {
	in := c.instanceValue(e.Recv)
	if in == nil || len(in.Args) == 0 || in.Args[0] == nil || in.Args[0].Instance == nil {
		c.failf(e, "not supported: which register this acts on is not known")
	}
	reg := c.objectOf(in.Args[0].Instance, e)
	var body *ast.FunctionDecl
	for _, m := range in.Methods {
		if m.Name == "apply" {
			body = m
		}
	}
	if body == nil || len(body.Params) == 0 {
		c.failf(e, "%s has no apply", in.ControlName)
	}
	direct, more := c.directs[reg], e.Bound
	var idx num
	if direct == nil {
		if e.Bound[0].Expr == nil {
			c.failf(e, "not supported: %s without an index", e.Func.Name)
		}
		idx, more = c.num(e.Bound[0].Expr), e.Bound[1:]
	}
	cell := c.temp(body.Params[0].T)
	c.env[body.Params[0]] = cell
	// The results: the first is the call's value, the others go to its further arguments.
	var clears, outs []act
	for i, p := range body.Params[1:] {
		rv := c.temp(p.T)
		c.env[p] = rv
		clears = append(clears, c.zero(rv))
		switch {
		case i == 0:
			if dst.t != nil {
				rv.t = dst.t
				outs = append(outs, c.copyTo(dst, rv))
			}
		case i <= len(more) && more[i-1].Expr != nil:
			if _, ok := more[i-1].Expr.(*ast.DontCare); ok {
				break
			}
			pre, to := c.ref(more[i-1].Expr)
			if pre != nil {
				outs = append(outs, pre)
			}
			rv.t = to.t
			outs = append(outs, c.copyTo(to, rv))
		}
	}
	run := c.block(body.Body)
	n := size(cell.t)
	zero, out := acts(clears), acts(outs)
	if direct != nil {
		return func(m *machine) ctl {
			direct.load(m, m.w[cell.off:cell.off+n])
			if zero != nil {
				zero(m)
			}
			run(m)
			copy(direct.cell(m), m.w[cell.off:])
			if out != nil {
				out(m)
			}
			return goOn
		}
	}
	return func(m *machine) ctl {
		r := m.objects[reg].(*Register)
		i := idx(m)
		r.load(m.w[cell.off:cell.off+n], i)
		if zero != nil {
			zero(m)
		}
		run(m)
		r.store(i, m.w[cell.off:cell.off+n])
		if out != nil {
			out(m)
		}
		return goOn
	}
}

// sum compiles the methods of Checksum and ParserCounter, whose state is word at.
func (a *tna) sum(c *compiler, e *ast.Call, kind string, at int, dst place) op {
	arg := func(i int) ast.Expr {
		if i >= len(e.Bound) {
			return nil
		}
		return e.Bound[i].Expr
	}
	if kind == "ParserCounter" {
		switch e.Func.Name {
		case "set":
			return c.counterSet(e, at)
		case "increment":
			v := c.num(arg(0))
			return func(m *machine) ctl { m.w[at] = (m.w[at] + v(m)) & 0xff; return goOn }
		case "decrement":
			v := c.num(arg(0))
			return func(m *machine) ctl { m.w[at] = (m.w[at] - v(m)) & 0xff; return goOn }
		case "is_zero":
			return c.result(dst, func(m *machine) uint64 { return b2u(m.w[at] == 0) })
		case "is_negative":
			return c.result(dst, func(m *machine) uint64 { return m.w[at] >> 7 & 1 })
		}
		return nil
	}
	switch e.Func.Name {
	case "add", "subtract":
		var in hashInput
		in.add(c, arg(0))
		if e.Func.Name == "subtract" {
			return func(m *machine) ctl {
				in.fill(m)
				m.w[at] = fold(m.w[at] + (0xffff ^ fold(onesSum(0, m.hbuf))))
				return goOn
			}
		}
		return func(m *machine) ctl {
			in.fill(m)
			m.w[at] = fold(onesSum(m.w[at], m.hbuf))
			return goOn
		}
	case "subtract_all_and_deposit":
		pre, to := c.ref(arg(0))
		if pre != nil || to.dyn != nil || !c.inParser {
			c.failf(e, "not supported: subtract_all_and_deposit here")
		}
		r := residual{begin: c.alloc(1), sum: at, put: c.put(to, func(m *machine) uint64 { return ^m.w[at] & 0xffff })}
		a.residuals = append(a.residuals, r)
		return func(m *machine) ctl { m.w[r.begin] = uint64(m.pos) + 1; return goOn }
	case "verify":
		return c.result(dst, func(m *machine) uint64 { return b2u(m.w[at] != 0xffff) })
	case "get":
		return c.result(dst, func(m *machine) uint64 { return ^m.w[at] & 0xffff })
	case "update":
		var in hashInput
		in.add(c, arg(0))
		ones := c.optional(arg(1))
		return c.result(dst, func(m *machine) uint64 {
			in.fill(m)
			v := csum16(m.hbuf)
			if v == 0 && ones(m) != 0 {
				v = 0xffff
			}
			return v
		})
	}
	return nil
}

// counterSet is ParserCounter.set: of a number, or of a field that is rotated right within a byte, masked and added to.
// Tofino 1 gives the mask by its last bit, Tofino 2 as it is.
func (c *compiler) counterSet(e *ast.Call, at int) op {
	v := c.num(e.Bound[0].Expr)
	if len(e.Bound) < 5 {
		return func(m *machine) ctl { m.w[at] = v(m) & 0xff; return goOn }
	}
	most, turn, mask, add := c.num(e.Bound[1].Expr), c.num(e.Bound[2].Expr), c.num(e.Bound[3].Expr), c.num(e.Bound[4].Expr)
	lastBit := false
	if w, _ := scalarWidth(e.Bound[3].Type); w == 3 {
		lastBit = true
	}
	return func(m *machine) ctl {
		x := v(m)
		if x > most(m) {
			m.fail(m.codes.counter)
			return doReject
		}
		k := mask(m)
		if lastBit {
			k = 2<<k - 1
		}
		m.w[at] = (uint64(mathbits.RotateLeft8(uint8(x), -int(turn(m)&7)))&k + add(m)) & 0xff
		return goOn
	}
}

func (a *tna) function(c *compiler, e *ast.Call, dst place) op {
	switch e.Func.Name {
	case "sizeInBits", "sizeInBytes":
		n, ok := types.Width(e.Bound[0].Expr.Type())
		if !ok {
			c.failf(e, "not supported: %s of %s", e.Func.Name, e.Bound[0].Expr.Type())
		}
		if e.Func.Name == "sizeInBytes" {
			n = (n + 7) / 8
		}
		return c.result(dst, func(*machine) uint64 { return uint64(n) })
	case "invalidate":
		return c.invalidate(e.Bound[0].Expr)
	case "min", "max":
		w, ok := scalarWidth(e.Type())
		if !ok || w > 64 {
			c.failf(e, "not supported: %s of %s", e.Func.Name, e.Type())
		}
		x, y := c.num(e.Bound[0].Expr), c.num(e.Bound[1].Expr)
		signed, least := isSigned(e.Type()), e.Func.Name == "min"
		return c.result(dst, func(m *machine) uint64 {
			a, b := x(m), y(m)
			less := a < b
			if signed {
				less = sign64(a, w) < sign64(b, w)
			}
			if less == least {
				return a
			}
			return b
		})
	case "port_metadata_unpack":
		if dst.t == nil {
			dst = c.temp(e.Type())
		}
		z, bits := c.zero(dst), 8*a.portData
		return func(m *machine) ctl {
			if m.end-m.pos < bits {
				m.fail(m.codes.tooShort)
				return doReject
			}
			m.pos += bits
			z(m)
			return goOn
		}
	}
	return nil
}

// invalidate takes back what was written: a header is not valid afterwards, and a field is as before it was written.
func (c *compiler) invalidate(x ast.Expr) op {
	pre, p := c.ref(x)
	undo := c.zero(p)
	if f, ok := x.(*ast.Member); ok && f.Name == "ucast_egress_port" {
		undo = c.put(p, func(*machine) uint64 { return tnaNoPort })
	}
	return func(m *machine) ctl {
		if pre != nil {
			pre(m)
		}
		undo(m)
		return goOn
	}
}
