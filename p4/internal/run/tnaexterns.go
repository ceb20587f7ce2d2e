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

// A tnaObject is an extern object's instance while its state is chosen.
type tnaObject struct {
	*compiler
	a  *tna
	in *ast.Instance
	x  *types.Extern
}

// The objects of TNA that have a state of their own.
var tnaObjects = map[string]func(o tnaObject) objectDef{
	"Register": func(o tnaObject) objectDef {
		return o.newRegister(o.in, o.cell(), o.sizeArg(o.in, 0), o.first(1))
	},
	"DirectRegister": tnaObject.directRegister,
	"RegisterParam":  func(o tnaObject) objectDef { return o.newRegister(o.in, o.cell(), 1, o.first(0)) },
	"Checksum":       tnaObject.summing,
	"ParserCounter":  tnaObject.summing,
	"Counter":        func(o tnaObject) objectDef { return newCounter(o.name(), o.sizeArg(o.in, 0)) },
	"DirectCounter":  func(o tnaObject) objectDef { return newCounter(o.name(), 0) },
	"Meter": func(o tnaObject) objectDef {
		return newMeter(o.name(), o.sizeArg(o.in, 0), o.member(1) == "PACKETS")
	},
	"DirectMeter": func(o tnaObject) objectDef { return newMeter(o.name(), 0, o.member(0) == "PACKETS") },
	"Lpf":         func(o tnaObject) objectDef { return newFilter(o.name(), o.sizeArg(o.in, 0)) },
	"DirectLpf":   func(o tnaObject) objectDef { return newFilter(o.name(), 0) },
	"Wred": func(o tnaObject) objectDef {
		return newWred(o.name(), o.sizeArg(o.in, 0), o.constArg(o.in, 1), o.constArg(o.in, 2))
	},
	"DirectWred": func(o tnaObject) objectDef {
		return newWred(o.name(), 0, o.constArg(o.in, 0), o.constArg(o.in, 1))
	},
	"Hash": func(o tnaObject) objectDef {
		h := o.a.hash(o.compiler, o.in)
		return objectDef{name: o.name(), make: func() object { return h }}
	},
	"ActionProfile":  func(o tnaObject) objectDef { return newProfile(o.name(), nil) },
	"ActionSelector": tnaObject.selector,
}

func (a *tna) object(c *compiler, in *ast.Instance) objectDef {
	x, ok := in.Type.(*types.Extern)
	if !ok {
		return objectDef{}
	}
	o := tnaObject{c, a, in, x}
	if f := tnaObjects[x.Name]; f != nil {
		return f(o)
	}
	// What has no state of its own, and an object that is not known, which does no harm while none of its methods is called.
	return o.nothing()
}

func (o tnaObject) name() string { return o.in.ControlName }

func (o tnaObject) nothing() objectDef {
	return objectDef{name: o.name(), make: func() object { return struct{}{} }}
}

// member is the enum's member that is argument i.
func (o tnaObject) member(i int) string {
	if i < len(o.in.Args) && o.in.Args[i] != nil {
		return o.in.Args[i].Member
	}
	return ""
}

// cell returns the type of a register's cells.
func (o tnaObject) cell() types.Type {
	at := ast.At{P: o.in.At}
	if len(o.x.TypeArgs) == 0 {
		o.failf(at, "not supported: %s without its type arguments", o.x.Name)
	}
	if o.x.TypeArgs[0] == types.DontCare {
		o.failf(at, "not supported: %s of _", o.x.Name)
	}
	return o.x.TypeArgs[0]
}

// first is the first value of a register's cells, argument i; nil if it is left out.
func (o tnaObject) first(i int) []uint64 {
	if i >= len(o.in.Args) || o.in.Args[i] == nil {
		return nil
	}
	w, err := constWords(o.cell(), o.in.Args[i])
	o.check(ast.At{P: o.in.At}, err)
	return w
}

func (o tnaObject) directRegister() objectDef {
	r := &directRegister{at: -1, first: o.first(0)}
	if r.first == nil {
		r.first = make([]uint64, size(o.cell()))
	}
	o.directs[len(o.prog.objects)] = r
	return o.nothing()
}

// summing is a Checksum or a ParserCounter, whose state is a word of memory.
func (o tnaObject) summing() objectDef {
	o.a.sums[len(o.prog.objects)] = o.alloc(1)
	return o.nothing()
}

func (o tnaObject) selector() objectDef {
	var h *tnaHash
	for _, v := range o.in.Args {
		if v != nil && v.Kind == ast.InstanceValue && v.Instance != nil && v.Instance.Extern != nil && v.Instance.Extern.Name == "Hash" {
			h = o.a.hash(o.compiler, v.Instance)
		}
	}
	if h == nil {
		o.failf(ast.At{P: o.in.At}, "not supported: ActionSelector without a Hash")
	}
	return newProfile(o.name(), func(m *machine, _ []byte) uint64 { return h.f(m) })
}

// The hash algorithms of TNA beside CUSTOM.
var tnaHashes = map[string]*tnaHash{
	"IDENTITY": {identityLow},
	"RANDOM":   {func(m *machine) uint64 { return m.rng.next() }},
	"XOR8":     {xorOf(8)},
	"XOR16":    {xorOf(16)},
	"XOR32":    {xorOf(32)},
	"CRC8":     hashBytes(crc8.sum),
	"CRC16":    hashBytes(crc16ARC.sum),
	"CRC32":    hashBytes(crc32ISO.sum),
	"CRC64":    hashBytes(crc64.sum),
}

func hashBytes(f func([]byte) uint64) *tnaHash {
	return &tnaHash{func(m *machine) uint64 { return f(m.hbuf) }}
}

func (a *tna) hash(c *compiler, in *ast.Instance) *tnaHash {
	at := ast.At{P: in.At}
	if len(in.Args) == 0 || in.Args[0] == nil {
		c.failf(at, "not supported: Hash without an algorithm")
	}
	if len(in.Args) > 1 && in.Args[1] != nil && in.Args[1].Instance != nil {
		return c.crcOf(at, in.Args[1].Instance)
	}
	h := tnaHashes[in.Args[0].Member]
	if h == nil {
		c.failf(at, "not supported: hash algorithm %s without a polynomial", in.Args[0].Member)
	}
	return h
}

// crcOf is the hash of a CRCPolynomial.
func (c *compiler) crcOf(at ast.Node, p *ast.Instance) *tnaHash {
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
	return hashBytes(newCRC(crc{width: w, poly: n(0), reversed: reversed, out: reversed, init: n(4), xor: n(5)}).sum)
}

// result stores a call's value, or evaluates it for its effect.
func (c *compiler) result(dst place, v num) op {
	if dst.t == nil {
		return func(m *machine) ctl { v(m); return goOn }
	}
	return plain(c.number(dst, v))
}

// A tnaCall is a call of an extern object's method while it is compiled. A value goes to dst; dst.t is nil if it is not wanted.
type tnaCall struct {
	*compiler
	a   *tna
	e   *ast.Call
	obj int
	dst place
}

// The methods of TNA's objects but for those of Checksum and ParserCounter.
var tnaMethods = map[string]func(tnaCall) op{
	"Register.read":        tnaCall.readRegister,
	"RegisterParam.read":   tnaCall.readParam,
	"Register.write":       tnaCall.writeRegister,
	"DirectRegister.read":  tnaCall.readDirect,
	"DirectRegister.write": tnaCall.writeDirect,

	"RegisterAction.execute":        tnaCall.execute,
	"RegisterAction2.execute":       tnaCall.execute,
	"RegisterAction3.execute":       tnaCall.execute,
	"RegisterAction4.execute":       tnaCall.execute,
	"DirectRegisterAction.execute":  tnaCall.execute,
	"DirectRegisterAction2.execute": tnaCall.execute,
	"DirectRegisterAction3.execute": tnaCall.execute,
	"DirectRegisterAction4.execute": tnaCall.execute,

	"Counter.count":       tnaCall.count,
	"DirectCounter.count": tnaCall.countDirect,
	"Meter.execute":       tnaCall.meter,
	"DirectMeter.execute": tnaCall.meterDirect,
	"Lpf.execute":         tnaCall.filter,
	"DirectLpf.execute":   tnaCall.filter,
	"Wred.execute":        tnaCall.wred,
	"DirectWred.execute":  tnaCall.wred,
	"Hash.get":            tnaCall.getHash,
	"Random.get": func(t tnaCall) op {
		return t.result(t.dst, func(m *machine) uint64 { return m.rng.next() })
	},
	"Digest.pack": func(tnaCall) op {
		return func(m *machine) ctl { m.digests++; return goOn }
	},
	"ParserPriority.set": func(tnaCall) op { return seq(nil) },
	"Mirror.emit":        tnaCall.mirror,
	"Resubmit.emit":      tnaCall.resubmit,
}

func (a *tna) method(c *compiler, e *ast.Call, obj int, dst place) op {
	x := types.Underlying(e.Recv.Type()).(*types.Extern)
	t := tnaCall{c, a, e, obj, dst}
	if f := tnaMethods[x.Name+"."+e.Func.Name]; f != nil {
		return f(t)
	}
	at, ok := a.sums[obj]
	switch {
	case ok && x.Name == "ParserCounter":
		return t.parserCounter(at)
	case ok:
		return t.checksum(at)
	}
	return nil
}

// arg is argument i, nil if it is left out.
func (t tnaCall) arg(i int) ast.Expr {
	if i >= len(t.e.Bound) {
		return nil
	}
	return t.e.Bound[i].Expr
}

// named is the argument of a parameter, nil if it is left out.
func (t tnaCall) named(param string) ast.Expr {
	for _, b := range t.e.Bound {
		if b.Param.Name == param {
			return b.Expr
		}
	}
	return nil
}

func (t tnaCall) readRegister() op {
	idx, obj, dst := t.num(t.arg(0)), t.obj, t.dst
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
}

func (t tnaCall) readParam() op {
	obj, dst := t.obj, t.dst
	if dst.t == nil {
		return seq(nil)
	}
	n := size(dst.t)
	return func(m *machine) ctl {
		at := dst.at(m)
		m.objects[obj].(*Register).load(m.w[at:at+n], 0)
		return goOn
	}
}

func (t tnaCall) writeRegister() op {
	if t.dst.t != nil {
		t.failf(t.e, "not supported: what Register.write gives")
	}
	idx, obj := t.num(t.arg(0)), t.obj
	tmp := t.temp(t.e.Bound[1].Type)
	st := t.store(t.arg(1), tmp)
	return func(m *machine) ctl {
		i := idx(m)
		st(m)
		m.objects[obj].(*Register).store(i, m.w[tmp.off:])
		return goOn
	}
}

func (t tnaCall) readDirect() op {
	dst := t.dst
	if dst.t == nil {
		return seq(nil)
	}
	r, n := t.directs[t.obj], size(dst.t)
	return func(m *machine) ctl {
		at := dst.at(m)
		r.load(m, m.w[at:at+n])
		return goOn
	}
}

func (t tnaCall) writeDirect() op {
	if t.dst.t != nil {
		t.failf(t.e, "not supported: what DirectRegister.write gives")
	}
	tmp := t.temp(t.e.Bound[0].Type)
	r, st := t.directs[t.obj], t.store(t.arg(0), tmp)
	return func(m *machine) ctl {
		st(m)
		copy(r.cell(m), m.w[tmp.off:])
		return goOn
	}
}

func (t tnaCall) count() op {
	idx, less, obj := t.num(t.arg(0)), t.optional(t.arg(1)), t.obj
	return func(m *machine) ctl {
		m.objects[obj].(*Counter).count(idx(m), uint64(m.bytes(less(m))))
		return goOn
	}
}

func (t tnaCall) countDirect() op {
	less := t.optional(t.arg(0))
	return func(m *machine) ctl {
		if m.cur != nil {
			m.cur.packets++
			m.cur.bytes += uint64(m.bytes(less(m)))
		}
		return goOn
	}
}

func (t tnaCall) meter() op {
	idx, less, obj := t.num(t.arg(0)), t.optional(t.named("adjust_byte_count")), t.obj
	return t.result(t.dst, func(m *machine) uint64 {
		return tnaColor(m.objects[obj].(*Meter).execute(idx(m), m.now, m.bytes(less(m))))
	})
}

func (t tnaCall) meterDirect() op {
	less, obj := t.optional(t.named("adjust_byte_count")), t.obj
	return t.result(t.dst, func(m *machine) uint64 {
		mt := m.objects[obj].(*Meter)
		if m.cur == nil {
			return green
		}
		return tnaColor(m.cur.meter.execute(mt.direct, m.now, mt.tokens(m.bytes(less(m)))))
	})
}

func (t tnaCall) filter() op {
	val, cell, obj := t.num(t.arg(0)), cellOf[LowPass](t.compiler, t.arg(1)), t.obj
	return t.result(t.dst, func(m *machine) uint64 {
		v, f := val(m), m.objects[obj].(*Filter)
		a, s := cell(m, &f.cells)
		if s == nil {
			return v
		}
		return s.execute(a, m.now, v)
	})
}

func (t tnaCall) wred() op {
	val, cell, obj := t.num(t.arg(0)), cellOf[EarlyDrop](t.compiler, t.arg(1)), t.obj
	return t.result(t.dst, func(m *machine) uint64 {
		v, w := val(m), m.objects[obj].(*Wred)
		if a, s := cell(m, &w.cells); s != nil && s.drops(a, m.now, v, m.rng.next()) {
			return w.drop
		}
		return w.keep
	})
}

func (t tnaCall) getHash() op {
	in, obj := t.input(), t.obj
	return t.result(t.dst, func(m *machine) uint64 {
		in.fill(m)
		return m.objects[obj].(*tnaHash).f(m)
	})
}

func (t tnaCall) mirror() op {
	session := t.num(t.arg(0))
	emit := t.emitApart(t.e, t.arg(1))
	return func(m *machine) ctl {
		s := uint16(session(m))
		m.clones = append(m.clones[:0], cloneIntent{session: s, list: -1})
		m.mdata = emit(m, m.mdata)
		return goOn
	}
}

func (t tnaCall) resubmit() op {
	emit := t.emitApart(t.e, t.arg(0))
	return func(m *machine) ctl {
		m.resubmit = 1
		m.rdata = emit(m, m.rdata)
		return goOn
	}
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
func (t tnaCall) execute() op {
	c, e := t.compiler, t.e
	in := c.instanceValue(e.Recv)
	if in == nil || len(in.Args) == 0 || in.Args[0] == nil || in.Args[0].Instance == nil {
		c.failf(e, "not supported: which register this acts on is not known")
	}
	reg := c.objectOf(in.Args[0].Instance, e)
	body := applyOf(in)
	if body == nil {
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
	clears, outs := t.results(body.Params[1:], more)
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

// applyOf is the body of a register action, nil if it has none.
func applyOf(in *ast.Instance) *ast.FunctionDecl {
	for _, m := range in.Methods {
		if m.Name == "apply" && len(m.Params) > 0 {
			return m
		}
	}
	return nil
}

// results makes places for a register action's results, which begin as zero: the first is the call's value, the others go to
// its further arguments.
func (t tnaCall) results(params []*ast.Param, more []*ast.BoundArg) (clears, outs []act) {
	c := t.compiler
	for i, p := range params {
		rv := c.temp(p.T)
		c.env[p] = rv
		clears = append(clears, c.zero(rv))
		switch {
		case i == 0:
			if t.dst.t != nil {
				rv.t = t.dst.t
				outs = append(outs, c.copyTo(t.dst, rv))
			}
		case i <= len(more) && more[i-1].Expr != nil:
			if _, ok := more[i-1].Expr.(*ast.DontCare); ok {
				break
			}
			pre, to := c.ref(more[i-1].Expr)
			outs = append(outs, nonNil(pre)...)
			rv.t = to.t
			outs = append(outs, c.copyTo(to, rv))
		}
	}
	return clears, outs
}

// parserCounter compiles the methods of ParserCounter, whose state is word at.
func (t tnaCall) parserCounter(at int) op {
	switch t.e.Func.Name {
	case "set":
		return t.counterSet(t.e, at)
	case "increment":
		v := t.num(t.arg(0))
		return func(m *machine) ctl { m.w[at] = (m.w[at] + v(m)) & 0xff; return goOn }
	case "decrement":
		v := t.num(t.arg(0))
		return func(m *machine) ctl { m.w[at] = (m.w[at] - v(m)) & 0xff; return goOn }
	case "is_zero":
		return t.result(t.dst, func(m *machine) uint64 { return b2u(m.w[at] == 0) })
	case "is_negative":
		return t.result(t.dst, func(m *machine) uint64 { return m.w[at] >> 7 & 1 })
	}
	return nil
}

// checksum compiles the methods of Checksum, whose state is word at.
func (t tnaCall) checksum(at int) op {
	switch t.e.Func.Name {
	case "add":
		in := t.input()
		return func(m *machine) ctl {
			in.fill(m)
			m.w[at] = fold(onesSum(m.w[at], m.hbuf))
			return goOn
		}
	case "subtract":
		in := t.input()
		return func(m *machine) ctl {
			in.fill(m)
			m.w[at] = fold(m.w[at] + (0xffff ^ fold(onesSum(0, m.hbuf))))
			return goOn
		}
	case "subtract_all_and_deposit":
		pre, to := t.ref(t.arg(0))
		if pre != nil || to.dyn != nil || !t.inParser {
			t.failf(t.e, "not supported: subtract_all_and_deposit here")
		}
		r := residual{begin: t.alloc(1), sum: at, put: t.put(to, func(m *machine) uint64 { return ^m.w[at] & 0xffff })}
		t.a.residuals = append(t.a.residuals, r)
		return func(m *machine) ctl { m.w[r.begin] = uint64(m.pos) + 1; return goOn }
	case "verify":
		return t.result(t.dst, func(m *machine) uint64 { return b2u(m.w[at] != 0xffff) })
	case "get":
		return t.result(t.dst, func(m *machine) uint64 { return ^m.w[at] & 0xffff })
	case "update":
		in := t.input()
		ones := t.optional(t.arg(1))
		return t.result(t.dst, func(m *machine) uint64 {
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

// input returns the first argument of a hash or a checksum as bytes.
func (t tnaCall) input() *hashInput {
	in := &hashInput{}
	in.add(t.compiler, t.arg(0))
	return in
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
