package run

import (
	"fmt"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// States a parser may go to besides its own.
const (
	accept = -1
	reject = -2
)

type state struct {
	body op
	next func(*machine) int
}

// parserBody is a parser's locals and states, its parameters bound already. It
// ends with doReject if the packet is rejected; m.err then says why.
func (c *compiler) parserBody(in *ast.Instance) op {
	old := c.inParser
	c.inParser = true
	defer func() { c.inParser = old }()
	var locals []op
	for _, d := range in.Parser.Locals {
		if o := c.local(d); o != nil {
			locals = append(locals, o)
		}
	}
	states := make([]state, len(in.Parser.States))
	index := map[*ast.StateDecl]int{}
	start := reject
	for i, s := range in.Parser.States {
		index[s] = i
		if s.Name == "start" {
			start = i
		}
	}
	for i, s := range in.Parser.States {
		states[i].body = seq(c.stmts(s.Stmts))
		states[i].next = c.transition(s.Transition, index)
	}
	init := seq(locals)
	return func(m *machine) ctl {
		if r := init(m); r != goOn {
			return r
		}
		at := start
		for at >= 0 {
			if !m.turn() {
				m.fail(m.codes.timeout)
				return doReject
			}
			s := &states[at]
			if r := s.body(m); r != goOn {
				return r
			}
			at = s.next(m)
			if m.failed {
				return doReject
			}
		}
		if at == reject {
			m.failed = true
			return doReject
		}
		return goOn
	}
}

func (c *compiler) transition(t *ast.Transition, index map[*ast.StateDecl]int) func(*machine) int {
	to := func(r *ast.StateRef) int { return c.stateIndex(r, index) }
	switch {
	case t == nil || t.Next == nil && t.Select == nil:
		return func(*machine) int { return reject }
	case t.Next != nil:
		n := to(t.Next)
		return func(*machine) int { return n }
	}
	if f := c.selectWord(t.Select, to); f != nil {
		return f
	}
	return c.selectKeys(t.Select, to)
}

// stateIndex is the index of a state of this parser, or accept or reject.
func (c *compiler) stateIndex(r *ast.StateRef, index map[*ast.StateDecl]int) int {
	if r.State != nil {
		if i, ok := index[r.State]; ok {
			return i
		}
		for s, i := range index {
			if s.Name == r.Name {
				return i
			}
		}
		c.failf(r, "state %s is not of this parser", r.Name)
	}
	if r.Name == "accept" {
		return accept
	}
	return reject
}

// selectKeys is a select of any keys and labels: the keys lie in memory.
func (c *compiler) selectKeys(s *ast.Select, to func(*ast.StateRef) int) func(*machine) int {
	keys := make([]place, len(s.Exprs))
	var eval []act
	for i, e := range s.Exprs {
		keys[i] = c.temp(e.Type())
		eval = append(eval, c.store(e, keys[i]))
	}
	type kase struct {
		match []func(*machine) bool
		next  int
	}
	var cases []kase
	for _, cs := range s.Cases {
		cases = append(cases, kase{c.matchers(cs.Keys, keys), to(cs.Next)})
	}
	all := acts(eval)
	return func(m *machine) int {
		if all != nil {
			all(m)
		}
		if m.failed {
			return reject
		}
	next:
		for i := range cases {
			for _, f := range cases[i].match {
				if !f(m) {
					continue next
				}
			}
			return cases[i].next
		}
		m.fail(m.codes.noMatch)
		return reject
	}
}

// selectWord is the common select: one key of up to 64 bits, constant values and masks. Nil if s is another.
func (c *compiler) selectWord(s *ast.Select, to func(*ast.StateRef) int) func(*machine) int {
	if len(s.Exprs) != 1 {
		return nil
	}
	if w, ok := scalarWidth(s.Exprs[0].Type()); !ok || w > 64 {
		return nil
	}
	var values, masks []uint64
	var next []int
	for _, cs := range s.Cases {
		if len(cs.Keys.Elems) != 1 {
			return nil
		}
		v, mask, ok := c.wordLabel(cs.Keys.Elems[0])
		if !ok {
			return nil
		}
		values, masks, next = append(values, v), append(masks, mask), append(next, to(cs.Next))
	}
	x := c.num(s.Exprs[0])
	return func(m *machine) int {
		v := x(m)
		if m.failed {
			return reject
		}
		for i, mask := range masks {
			if v&mask == values[i] {
				return next[i]
			}
		}
		m.fail(m.codes.noMatch)
		return reject
	}
}

// wordLabel is a label of a key of up to 64 bits as a value and its mask; not ok where it is no constant one.
func (c *compiler) wordLabel(k ast.Expr) (value, mask uint64, ok bool) {
	switch e := k.(type) {
	case *ast.DontCare:
		return 0, 0, true
	case *ast.Mask:
		if e.X.Const() == nil || e.Y.Const() == nil {
			return 0, 0, false
		}
		mask = c.num(e.Y)(nil)
		return c.num(e.X)(nil) & mask, mask, true
	}
	v := k.Const()
	if v == nil || v.Kind == ast.SetValue || v.Kind == ast.ListValue {
		return 0, 0, false
	}
	return c.num(k)(nil), ^uint64(0), true
}

// matchers compare keys, which lie in memory, with a label.
func (c *compiler) matchers(ks *ast.KeySet, keys []place) []func(*machine) bool {
	var fs []func(*machine) bool
	if len(ks.Elems) == 1 && len(keys) > 1 {
		switch ks.Elems[0].(type) {
		case *ast.DontCare:
			return nil
		}
		if vs := c.valueSet(ks.Elems[0]); vs >= 0 {
			return []func(*machine) bool{c.inSet(vs, keys)}
		}
		c.failf(ks, "not supported: one label for %d keys", len(keys))
	}
	for i, e := range ks.Elems {
		k := keys[i]
		n := size(k.t)
		switch e := e.(type) {
		case *ast.DontCare:
			continue
		case *ast.Mask:
			x, y := c.temp(k.t), c.temp(k.t)
			ex, ey := c.store(e.X, x), c.store(e.Y, y)
			fs = append(fs, func(m *machine) bool {
				ex(m)
				ey(m)
				for j := range n {
					mask := m.w[y.off+j]
					if m.w[k.off+j]&mask != m.w[x.off+j]&mask {
						return false
					}
				}
				return true
			})
			continue
		case *ast.Range:
			x, y := c.temp(k.t), c.temp(k.t)
			ex, ey := c.store(e.Lo, x), c.store(e.Hi, y)
			w, _ := scalarWidth(k.t)
			signed := isSigned(k.t)
			fs = append(fs, func(m *machine) bool {
				ex(m)
				ey(m)
				v, lo, hi := m.w[k.off:k.off+n], m.w[x.off:x.off+n], m.w[y.off:y.off+n]
				return cmpSign(lo, v, w, signed) <= 0 && cmpSign(v, hi, w, signed) <= 0
			})
			continue
		}
		if vs := c.valueSet(e); vs >= 0 {
			fs = append(fs, c.inSet(vs, keys[i:i+1]))
			continue
		}
		if e.Const() != nil && e.Const().Kind == ast.SetValue {
			c.failf(e, "not supported: a constant set here")
		}
		x := c.temp(k.t)
		ex := c.store(e, x)
		same := sameValue(k.t)
		fs = append(fs, func(m *machine) bool {
			ex(m)
			return same(m.w, k.off, x.off)
		})
	}
	return fs
}

func cmpSign(a, b []uint64, w int, signed bool) int {
	r := wideCmp(a, b)
	if signed && signBit(a, w) != signBit(b, w) {
		r = -r
	}
	return r
}

// valueSet is the object of a parser value set, -1 if e is none.
func (c *compiler) valueSet(e ast.Expr) int {
	id, ok := e.(*ast.Ident)
	if !ok {
		return -1
	}
	d, ok := id.Decl.(*ast.ValueSetDecl)
	if !ok {
		return -1
	}
	if i, ok := c.objs[d]; ok {
		return i
	}
	var widths []int
	for _, t := range types.Flat(d.Elem) {
		w, ok := scalarWidth(t)
		if !ok {
			c.failf(e, "not supported: value_set of %s", d.Elem)
		}
		widths = append(widths, w)
	}
	i := c.addObject(objectDef{name: d.ControlName, make: func() object { return &valueSet{widths: widths} }})
	c.objs[d] = i
	return i
}

// A valueSet holds values and masks, each of the words of all keys.
type valueSet struct {
	widths  []int
	members [][2][]uint64
}

// AddValue adds a member to a parser's value set: a value, with or without a mask, for each of its fields.
func (pl *Pipeline) AddValue(set string, fields ...Match) error {
	vs, err := objectNamed[*valueSet](pl, "value_set", set)
	if err != nil {
		return err
	}
	if len(fields) != len(vs.widths) {
		return fmt.Errorf("value_set %s has %d fields, %d given", set, len(vs.widths), len(fields))
	}
	var m [2][]uint64
	for i, f := range fields {
		n := wordsOf(vs.widths[i])
		v, mask := make([]uint64, n), make([]uint64, n)
		ones(mask, vs.widths[i])
		if err := toWords(v, f.Value, vs.widths[i]); err != nil {
			return fmt.Errorf("value_set %s: %w", set, err)
		}
		if f.Mask != nil {
			if err := toWords(mask, f.Mask, vs.widths[i]); err != nil {
				return fmt.Errorf("value_set %s: mask: %w", set, err)
			}
		}
		m[0], m[1] = append(m[0], v...), append(m[1], mask...)
	}
	vs.members = append(vs.members, m)
	return nil
}

func (c *compiler) inSet(obj int, keys []place) func(*machine) bool {
	var words []int
	for _, k := range keys {
		for j := range size(k.t) {
			words = append(words, k.off+j)
		}
	}
	return func(m *machine) bool {
	next:
		for _, v := range m.objects[obj].(*valueSet).members {
			for j, at := range words {
				if j < len(v[0]) && (m.w[at]^v[0][j])&v[1][j] != 0 {
					continue next
				}
			}
			return true
		}
		return false
	}
}

// packetIn compiles the methods of packet_in.
func (c *compiler) packetIn(e *ast.Call, dst place) op {
	switch e.Func.Name {
	case "extract":
		return c.extract(e)
	case "advance":
		n := c.shiftOrNum(ast.OpShl, e.Bound[0].Expr)
		return func(m *machine) ctl {
			v := n(m)
			if m.failed {
				return doReject
			}
			if v > uint64(m.end-m.pos) {
				m.fail(m.codes.tooShort)
				return doReject
			}
			m.pos += int(v)
			return goOn
		}
	case "length":
		if dst.t == nil {
			return seq(nil)
		}
		return plain(c.put(dst, func(m *machine) uint64 { return uint64(m.end / 8) }))
	case "lookahead":
		return c.lookahead(e, dst)
	}
	c.failf(e, "not supported: packet_in.%s", e.Func.Name)
	return nil
}

func (c *compiler) lookahead(e *ast.Call, dst place) op {
	t := e.Type()
	bits, ok := types.Width(t)
	if !ok {
		c.failf(e, "not supported: lookahead of %s", t)
	}
	if dst.t == nil {
		dst = c.temp(t)
	}
	if dst.slice || dst.dyn != nil {
		c.failf(e, "not supported: lookahead into this place")
	}
	n := size(t)
	off := dst.off
	if w, ok := scalarWidth(t); ok {
		return func(m *machine) ctl {
			if m.end-m.pos < bits {
				m.fail(m.codes.tooShort)
				return doReject
			}
			if w <= 64 {
				m.w[off] = readBits(m.pkt, m.pos, w)
			} else {
				readWide(m.w[off:off+n], m.pkt, m.pos, w)
			}
			return goOn
		}
	}
	var w wire
	w.varWord = -1
	c.check(e, w.add(t, 0))
	w.packed = pack(w.fixed)
	if w.varWord >= 0 {
		c.failf(e, "not supported: lookahead of a type with varbit")
	}
	s, ok := types.Underlying(t).(*types.Struct)
	header := ok && s.Kind == types.Header
	return func(m *machine) ctl {
		if m.end-m.pos < w.bits {
			m.fail(m.codes.tooShort)
			return doReject
		}
		v := m.w[off : off+n]
		if header {
			v[0] = 1
		}
		readFields(v, w.packed, m.pkt, m.pos)
		return goOn
	}
}

func (c *compiler) extract(e *ast.Call) op {
	x := c.extraction(e)
	if x.w.varWord >= 0 {
		if len(e.Bound) < 2 {
			c.failf(e, "%s has a varbit field: extract needs its size as the second argument", x.name)
		}
		return x.variable(c.num(e.Bound[1].Expr))
	}
	if len(e.Bound) > 1 && e.Bound[1].Expr != nil {
		c.failf(e, "%s has no varbit field: extract takes no size", x.name)
	}
	return x.fixed()
}

// An extraction reads a header, or a struct of numbers, from the packet.
type extraction struct {
	name      string
	w         wire
	p         place
	n         int // words
	head      bool
	pre, post act // evaluates the place; makes other members of a union invalid
	next      act // of hs.next: the next index moves on
}

func (c *compiler) extraction(e *ast.Call) *extraction {
	arg := e.Bound[0]
	var pre act
	var p place
	if _, ok := arg.Expr.(*ast.DontCare); ok || arg.Expr == nil {
		p = c.temp(arg.Type) // a header that is not wanted
	} else {
		pre, p = c.ref(arg.Expr)
	}
	h, ok := types.Underlying(p.t).(*types.Struct)
	if !ok || h.Kind == types.Union {
		c.failf(e, "not supported: extract of %s", p.t)
	}
	w, err := wireOf(h)
	c.check(e, err)
	x := &extraction{name: h.Name, w: w, p: p, n: size(p.t), head: h.Kind == types.Header, pre: pre}
	if p.union != nil {
		x.post = c.unionAfter(p)
	}
	// hs.next, and members of the union there.
	st := nextOf(arg.Expr)
	if st == nil {
		return x
	}
	_, base := c.ref(st.X)
	x.next = func(m *machine) { m.w[base.at(m)]++ }
	if p.dyn == nil {
		return x
	}
	fix, p := c.freeze(p)
	x.pre, x.p = acts(append(nonNil(pre), fix)), p
	if p.union != nil {
		x.post = c.unionAfter(p)
	}
	return x
}

// variable reads a header with a varbit of as many bits as given.
func (x *extraction) variable(given num) op {
	w, p, n, pre, post, next := x.w, x.p, x.n, x.pre, x.post, x.next
	vw := wordsOf(w.varMax)
	return func(m *machine) ctl {
		if pre != nil {
			pre(m)
		}
		bits := given(m)
		if m.failed {
			return doReject
		}
		switch {
		case bits%8 != 0:
			m.fail(m.codes.argument)
			return doReject
		case bits > uint64(m.end) || m.end-m.pos < w.bits+int(bits)+w.more:
			m.fail(m.codes.tooShort)
			return doReject
		case bits > uint64(w.varMax):
			m.fail(m.codes.headerTooShort)
			return doReject
		}
		at := p.at(m)
		v := m.w[at : at+n]
		v[0] = 1
		readFields(v, w.packed, m.pkt, m.pos)
		m.pos += w.bits
		v[w.varWord] = bits
		readWide(v[w.varWord+1:w.varWord+1+vw], m.pkt, m.pos, int(bits))
		m.pos += int(bits)
		for i := range w.after {
			f := &w.after[i]
			readWide(v[f.word:f.word+wordsOf(f.width)], m.pkt, m.pos+f.bit, f.width)
		}
		m.pos += w.more
		if next != nil {
			next(m)
		}
		if post != nil {
			post(m)
		}
		return goOn
	}
}

// fixed reads a header of a fixed size.
func (x *extraction) fixed() op {
	w, p, n, pre, post, next, head := x.w, x.p, x.n, x.pre, x.post, x.next, x.head
	if pre == nil && p.dyn == nil && next == nil && post == nil && head {
		off := p.off
		return func(m *machine) ctl {
			if m.end-m.pos < w.bits {
				m.fail(m.codes.tooShort)
				return doReject
			}
			v := m.w[off : off+n]
			v[0] = 1
			readFields(v, w.packed, m.pkt, m.pos)
			m.pos += w.bits
			return goOn
		}
	}
	return func(m *machine) ctl {
		if pre != nil {
			pre(m)
		}
		at := p.at(m)
		if m.failed {
			return doReject
		}
		if m.end-m.pos < w.bits {
			m.fail(m.codes.tooShort)
			return doReject
		}
		v := m.w[at : at+n]
		if head {
			v[0] = 1
		}
		readFields(v, w.packed, m.pkt, m.pos)
		m.pos += w.bits
		if next != nil {
			next(m)
		}
		if post != nil {
			post(m)
		}
		return goOn
	}
}

// nextOf finds hs.next within an l-value.
func nextOf(e ast.Expr) *ast.Member {
	for {
		m, ok := e.(*ast.Member)
		if !ok {
			return nil
		}
		if m.Sel == ast.SelNext {
			return m
		}
		e = m.X
	}
}

// packetOut compiles emit.
func (c *compiler) packetOut(e *ast.Call) op {
	if e.Func.Name != "emit" {
		c.failf(e, "not supported: packet_out.%s", e.Func.Name)
	}
	pre, p := c.ref(e.Bound[0].Expr)
	var emits []emit
	c.emits(e, &emits, 0, p.t)
	if p.dyn == nil {
		for i := range emits {
			emits[i].off += p.off
		}
	}
	return func(m *machine) ctl {
		if pre != nil {
			pre(m)
		}
		base := 0
		if p.dyn != nil {
			base = p.at(m)
		}
		for i := range emits {
			emits[i].run(m, base)
		}
		return goOn
	}
}

type emit struct {
	off, n int
	wire   wire
	always bool // no header but a number
}

// emits lists the headers of t, of which emit writes the valid ones.
func (c *compiler) emits(at ast.Node, out *[]emit, off int, t types.Type) {
	switch u := types.Underlying(t).(type) {
	case *types.Struct:
		if u.Kind == types.Header {
			w, err := wireOf(u)
			c.check(at, err)
			*out = append(*out, emit{off: off, n: size(u), wire: w})
			return
		}
		for i, f := range u.Fields {
			c.emits(at, out, off+fieldAt(u, i), f.Type)
		}
	case *types.Tuple:
		for _, e := range u.Elems {
			c.emits(at, out, off, e)
			off += size(e)
		}
	case *types.Stack:
		for i := range u.Size {
			c.emits(at, out, off+1+i*size(u.Elem), u.Elem)
		}
	default:
		w := wire{varWord: -1}
		c.check(at, w.add(t, 0))
		w.packed = pack(w.fixed)
		*out = append(*out, emit{off: off, n: size(t), wire: w, always: true})
	}
}

// room makes place for n more bits in the output.
func (m *machine) room(n int) {
	m.out = zeroed(m.out, (m.outPos+n+7)/8)
}

// zeroed makes b n bytes long, if it is shorter, with zeros.
func zeroed(b []byte, n int) []byte {
	if n <= len(b) {
		return b
	}
	return append(b, make([]byte, n-len(b))...)
}

func (e *emit) run(m *machine, base int) {
	at := base + e.off
	v := m.w[at : at+e.n]
	if v[0] == 0 && !e.always {
		return
	}
	m.room(e.wire.bits)
	writeFields(v, e.wire.packed, m.out, m.outPos)
	m.outPos += e.wire.bits
	if e.wire.varWord < 0 {
		return
	}
	n := int(v[e.wire.varWord])
	m.room(n + e.wire.more)
	writeWide(m.out, m.outPos, n, v[e.wire.varWord+1:])
	m.outPos += n
	for i := range e.wire.after {
		f := &e.wire.after[i]
		writeWide(m.out, m.outPos+f.bit, f.width, v[f.word:f.word+wordsOf(f.width)])
	}
	m.outPos += e.wire.more
}

// coreFunction compiles core.p4's extern functions, nil if it is another.
func (c *compiler) coreFunction(e *ast.Call, dst place) op {
	switch e.Func.Name {
	case "verify":
		cond, code := c.num(e.Bound[0].Expr), c.num(e.Bound[1].Expr)
		return func(m *machine) ctl {
			if cond(m) != 0 {
				return goOn
			}
			if m.failed {
				return doReject
			}
			m.fail(code(m))
			return doReject
		}
	case "static_assert":
		return seq(nil)
	}
	return nil
}
