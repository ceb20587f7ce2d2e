package run

import (
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// A compiler turns the checked tree into closures over a machine. Everything that is
// called is compiled anew at each call with variables of its own: there is no recursion
// in P4, so all of them have fixed places.
type compiler struct {
	prog  *Program
	words int // of memory given out so far
	env   map[ast.Decl]place
	objs  map[ast.Decl]int      // extern objects that a parameter without value refers to
	insts map[*ast.Instance]int // extern instances' objects

	tables   map[*ast.TableDecl]*tableCode
	inParser bool
	ret      place // where a function's return value goes
	nodes    int   // compiled so far
	trash    int   // words that out-of-range indices read and write
	trashLen int
	depth    int
	tableIdx map[*ast.TableDecl]int
	arch     extArch
	reads    map[string]bool         // "struct.field" that was referred to, while not nil
	directs  map[int]*directRegister // by the object's index

	checkOnly bool     // nothing will run
	own       []string // externs of the program's own that have a warning
}

// extArch compiles what only one architecture has.
type extArch interface {
	// function compiles a call of an extern function, method that of an extern object's.
	// They give nil if they do not know it. A value goes to dst; dst.t is nil if it is not wanted.
	function(c *compiler, call *ast.Call, dst place) op
	method(c *compiler, call *ast.Call, obj int, dst place) op
	// compile makes the blocks of the architecture.
	compile(c *compiler, p *ast.Program) architecture
	// object says how to make the state of an extern object.
	object(c *compiler, in *ast.Instance) objectDef
}

// maxNodes bounds the code of one program.
const maxNodes = 4 << 20

// A compileError carries an error out of the compiler.
type compileError struct{ err error }

func (c *compiler) failf(n ast.Node, format string, args ...any) {
	panic(compileError{fmt.Errorf("%s: %s", n.Pos(), fmt.Sprintf(format, args...))})
}

func (c *compiler) check(n ast.Node, err error) {
	if err != nil {
		c.failf(n, "%v", err)
	}
}

// alloc gives out n words.
func (c *compiler) alloc(n int) int {
	at := c.words
	c.words += n
	return at
}

func (c *compiler) temp(t types.Type) place { return place{t: t, off: c.alloc(size(t))} }

func (c *compiler) step(n ast.Node) {
	if c.nodes++; c.nodes > maxNodes {
		c.failf(n, "not supported: with every call put in place the program has more than %d nodes", maxNodes)
	}
}

// A place locates a value: word off, or off plus what dyn gives; of a slice also
// the bits. union is the header union around a member of one.
type place struct {
	t     types.Type
	off   int
	dyn   func(*machine) int
	slice bool
	lo, w int // of a slice: lowest bit and width, in a value of whole bits
	whole int
	plus  num // of x[lo+:w] with lo not constant
	union *unionPlace
}

type unionPlace struct {
	off  int
	dyn  func(*machine) int
	t    *types.Struct
	self int // index of the member
}

func (p place) at(m *machine) int {
	if p.dyn != nil {
		return p.off + p.dyn(m)
	}
	return p.off
}

// add moves on by n words to a part of type t.
func (p place) add(n int, t types.Type) place {
	return place{t: t, off: p.off + n, dyn: p.dyn}
}

// hasCall reports whether an expression calls something whose effects come in between.
func hasCall(e ast.Expr) bool {
	if e == nil || e.Const() != nil {
		return false
	}
	if call, ok := e.(*ast.Call); ok {
		switch call.Kind {
		case ast.CallIsValid, ast.CallMinSize, ast.CallStaticAssert:
			return hasCall(call.Recv)
		}
		return true
	}
	return slices.ContainsFunc(ast.Parts(e), hasCall)
}

// mayReject reports whether the evaluation of an expression may send a parser to reject.
func mayReject(e ast.Expr) bool {
	if m, ok := e.(*ast.Member); ok && (m.Sel == ast.SelNext || m.Sel == ast.SelLast) {
		return true
	}
	return hasCall(e) || slices.ContainsFunc(ast.Parts(e), mayReject)
}

// ref is the place of an expression; if it is no l-value, pre puts its value there.
func (c *compiler) ref(e ast.Expr) (pre act, p place) {
	if e.Const() != nil && e.Const().Kind != ast.InstanceValue {
		return c.valueAt(e, e)
	}
	switch x := e.(type) {
	case *ast.Ident:
		if pl, ok := c.env[x.Decl]; ok {
			return nil, pl
		}
		if d, ok := x.Decl.(*ast.ConstDecl); ok {
			return c.valueAt(e, d.X)
		}
		c.failf(x, "not supported: %s here", x.Name)
	case *ast.Member:
		switch x.Sel {
		case ast.SelField:
			return c.refField(x)
		case ast.SelNext, ast.SelLast:
			return c.refNext(x)
		case ast.SelLastIndex:
			return c.refLastIndex(x)
		}
	case *ast.Index:
		return c.refIndex(x)
	case *ast.Slice:
		return c.refSlice(x)
	case *ast.Cast:
		return c.refCast(x)
	}
	return c.valueAt(e, e)
}

// refCast is the place of what is cast, where both types lie in words alike.
func (c *compiler) refCast(e *ast.Cast) (act, place) {
	if size(e.Type()) == size(e.X.Type()) && sameRep(e.Type(), e.X.Type()) {
		if pre, p := c.ref(e.X); !p.slice {
			p.t = e.Type()
			return pre, p
		}
	}
	return c.valueAt(e, e)
}

// valueAt is a place of the type of e that holds the value of x.
func (c *compiler) valueAt(e, x ast.Expr) (act, place) {
	p := c.temp(e.Type())
	return c.store(x, p), p
}

func (c *compiler) refField(e *ast.Member) (act, place) {
	pre, base := c.ref(e.X)
	s, ok := types.Underlying(base.t).(*types.Struct)
	if !ok {
		c.failf(e, "not supported: member %s of %s", e.Name, base.t)
	}
	p := base.add(fieldAt(s, e.Index), s.Fields[e.Index].Type)
	if c.reads != nil {
		c.reads[s.Name+"."+e.Name] = true
	}
	if s.Kind == types.Union {
		p.union = &unionPlace{off: base.off, dyn: base.dyn, t: s, self: e.Index}
	}
	return pre, p
}

// refNext is the element of a stack that next or last names.
func (c *compiler) refNext(e *ast.Member) (act, place) {
	pre, base := c.ref(e.X)
	st := types.Underlying(base.t).(*types.Stack)
	n, elem := uint64(st.Size), size(st.Elem)
	trash := c.trashFor(elem)
	last := e.Sel == ast.SelLast
	return pre, place{t: st.Elem, dyn: func(m *machine) int {
		at := base.at(m)
		i := m.w[at]
		if last {
			i--
		}
		if i >= n {
			m.fail(m.codes.stack)
			clear(m.w[trash : trash+elem])
			return trash
		}
		return at + 1 + int(i)*elem
	}}
}

func (c *compiler) refLastIndex(e *ast.Member) (act, place) {
	pre, base := c.ref(e.X)
	p := c.temp(e.Type())
	return func(m *machine) {
		if pre != nil {
			pre(m)
		}
		m.w[p.off] = (m.w[base.at(m)] - 1) & 0xffffffff
	}, p
}

// refIndex is an element of a stack or a tuple.
func (c *compiler) refIndex(e *ast.Index) (act, place) {
	pre, base := c.ref(e.X)
	if t, ok := types.Underlying(base.t).(*types.Tuple); ok {
		i := int(e.I.Const().Int.Int64())
		at := 0
		for _, x := range t.Elems[:i] {
			at += size(x)
		}
		return pre, base.add(at, t.Elems[i])
	}
	t, ok := types.Underlying(base.t).(*types.Stack)
	if !ok {
		return c.valueAt(e, e)
	}
	elem := size(t.Elem)
	if v := e.I.Const(); v != nil {
		if !v.Int.IsInt64() || v.Int.Sign() < 0 || v.Int.Int64() >= int64(t.Size) {
			c.failf(e, "index %v is outside of a stack of %d", v.Int, t.Size)
		}
		return pre, base.add(1+int(v.Int.Int64())*elem, t.Elem)
	}
	idx := c.num(e.I)
	n := uint64(t.Size)
	trash := c.trashFor(elem)
	return pre, place{t: t.Elem, dyn: func(m *machine) int {
		i := idx(m)
		if i >= n {
			clear(m.w[trash : trash+elem])
			return trash
		}
		return base.at(m) + 1 + int(i)*elem
	}}
}

func (c *compiler) refSlice(e *ast.Slice) (act, place) {
	pre, base := c.ref(e.X)
	w, ok := scalarWidth(e.X.Type())
	if !ok {
		c.failf(e, "not supported: slice of %s", e.X.Type())
	}
	p := base
	p.t, p.slice, p.whole = e.Type(), true, w
	p.lo, p.w = e.LoN, e.HiN-e.LoN+1
	if base.slice { // of a slice
		p.whole = base.whole
		p.lo += base.lo
		if base.plus != nil {
			p.lo, p.plus = 0, further(base.plus, uint64(e.LoN), uint64(base.whole))
		}
	}
	if e.Plus && e.Lo.Const() == nil {
		if base.slice {
			c.failf(e, "not supported: slice of a slice with a variable bound")
		}
		p.lo, p.w = 0, e.HiN+1
		p.plus = c.num(e.Lo)
	}
	return pre, p
}

// further returns where the bits from lo on of a slice begin, which itself begins at plus, in a value of whole bits. Beyond the value
// it stays there.
func further(plus num, lo, whole uint64) num {
	if lo == 0 {
		return plus
	}
	return func(m *machine) uint64 {
		if at := plus(m); at < whole {
			return at + lo
		}
		return whole
	}
}

// sameRep reports whether a value of either type lies in memory as one of the other would.
func sameRep(a, b types.Type) bool {
	wa, oka := scalarWidth(a)
	wb, okb := scalarWidth(b)
	if oka != okb {
		return false
	}
	if oka {
		return wa == wb
	}
	return types.Equal(types.Underlying(a), types.Underlying(b))
}

func (c *compiler) trashFor(n int) int {
	if n > c.trashLen {
		c.trash, c.trashLen = c.alloc(n), n
	}
	return c.trash
}

// freeze fixes a place's address now, so that it stays the same when what its index depends on changes.
func (c *compiler) freeze(p place) (act, place) {
	if p.dyn == nil && p.plus == nil {
		return nil, p
	}
	var as []act
	q := p
	if p.dyn != nil {
		slot := c.alloc(1)
		dyn := p.dyn
		as = append(as, func(m *machine) { m.w[slot] = uint64(dyn(m)) })
		q.dyn = func(m *machine) int { return int(m.w[slot]) }
		if p.union != nil { // around the place, by the same index
			u := *p.union
			u.dyn, q.union = q.dyn, &u
		}
	}
	if p.plus != nil {
		slot := c.alloc(1)
		plus := p.plus
		as = append(as, func(m *machine) { m.w[slot] = plus(m) })
		q.plus = func(m *machine) uint64 { return m.w[slot] }
	}
	return acts(as), q
}

// load reads a scalar of up to 64 bits.
func (c *compiler) load(p place) num {
	off, dyn := p.off, p.dyn
	if p.slice {
		lo, w := uint(p.lo), mask64(p.w)
		if p.whole <= 64 {
			switch {
			case p.plus != nil:
				plus, whole := p.plus, uint64(p.whole)
				return func(m *machine) uint64 {
					s := plus(m)
					if s >= whole {
						return 0
					}
					return m.w[p.at(m)] >> s & w
				}
			case dyn == nil:
				return func(m *machine) uint64 { return m.w[off] >> lo & w }
			default:
				return func(m *machine) uint64 { return m.w[off+dyn(m)] >> lo & w }
			}
		}
		n := wordsOf(p.whole)
		return func(m *machine) uint64 {
			at := p.at(m)
			low := p.lo
			if p.plus != nil {
				low = int(min(p.plus(m), uint64(p.whole)))
			}
			var d [1]uint64
			wideSlice(d[:], m.w[at:at+n], low, p.w)
			return d[0]
		}
	}
	if dyn == nil {
		return func(m *machine) uint64 { return m.w[off] }
	}
	return func(m *machine) uint64 { return m.w[off+dyn(m)] }
}

// copyTo copies the value at src to dst, of the same type and no more than one of them a slice.
func (c *compiler) copyTo(dst, src place) act {
	if w, ok := scalarWidth(src.t); ok && w <= 64 {
		return c.put(dst, c.load(src))
	}
	n := size(src.t)
	if src.slice {
		w := p64(src)
		if dst.slice {
			tmp := c.temp(src.t)
			return acts([]act{c.copyTo(tmp, src), c.copyTo(dst, tmp)})
		}
		return func(m *machine) {
			d, s := dst.at(m), src.at(m)
			wideSlice(m.w[d:d+n], m.w[s:s+w], sliceLow(m, src), src.w)
		}
	}
	if dst.slice {
		whole := wordsOf(dst.whole)
		return func(m *machine) {
			d, s := dst.at(m), src.at(m)
			low := sliceLow(m, dst)
			putBits(m.w[d:d+whole], m.w[s:s+n], low, min(dst.w, dst.whole-low))
		}
	}
	// The whole of a header may change which member of a union is valid.
	var after act
	if dst.union != nil {
		after = c.unionAfter(dst)
	}
	do, so := dst.off, src.off
	var cp act
	if dst.dyn == nil && src.dyn == nil {
		switch {
		case do == so && after != nil:
			return after
		case do == so:
			return func(*machine) {}
		}
		if n == 2 {
			cp = func(m *machine) { m.w[do], m.w[do+1] = m.w[so], m.w[so+1] }
		} else {
			cp = func(m *machine) { copy(m.w[do:do+n], m.w[so:so+n]) }
		}
	} else {
		cp = func(m *machine) {
			d, s := dst.at(m), src.at(m)
			copy(m.w[d:d+n], m.w[s:s+n])
		}
	}
	if after != nil {
		return acts([]act{cp, after})
	}
	return cp
}

func p64(p place) int { return wordsOf(p.whole) }

func sliceLow(m *machine, p place) int {
	if p.plus != nil {
		return int(min(p.plus(m), uint64(p.whole)))
	}
	return p.lo
}

// unionAfter makes the other members of a union invalid when dst, a member, was made valid, or
// invalid (specification, 8.20).
func (c *compiler) unionAfter(dst place) act {
	u := dst.union
	var others []int
	for i := range u.t.Fields {
		if i != u.self {
			others = append(others, fieldAt(u.t, i))
		}
	}
	return func(m *machine) {
		base := u.off
		if u.dyn != nil {
			base += u.dyn(m)
		}
		for _, o := range others {
			m.w[base+o] = 0
		}
	}
}

// put stores a number of up to 64 bits, already within the width of dst.
func (c *compiler) put(dst place, v num) act {
	off, dyn := dst.off, dst.dyn
	if !dst.slice {
		if dyn == nil {
			return func(m *machine) { m.w[off] = v(m) }
		}
		return func(m *machine) {
			x := v(m)
			m.w[off+dyn(m)] = x
		}
	}
	if dst.whole <= 64 && dst.plus == nil {
		lo := uint(dst.lo)
		mask := mask64(dst.w) << lo
		return func(m *machine) {
			x := v(m)
			at := dst.at(m)
			m.w[at] = m.w[at]&^mask | x<<lo&mask
		}
	}
	n := wordsOf(dst.whole)
	return func(m *machine) {
		d := [1]uint64{v(m)}
		at := dst.at(m)
		low := sliceLow(m, dst)
		putBits(m.w[at:at+n], d[:], low, min(dst.w, dst.whole-low))
	}
}
