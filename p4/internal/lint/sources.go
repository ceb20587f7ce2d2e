package lint

import (
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// group is the statements so far that the compiler makes one action of.
type group struct {
	writes []write
}

// write is an assignment to bits of a header, counted from the header's first.
type write struct {
	header, field string
	from, to      int // bits, to excluded
	fixed         bool
	at            ast.Pos
	path          string
}

func (g *group) end() { g.writes = g.writes[:0] }

// add puts an assignment into the group, and warns if a byte of a header then has a
// constant and a field for its sources: an operation of the chip takes a constant and a
// field, but then it can't shift the field to its place.
func (w *walker) add(lhs ast.Expr, v value) {
	if w.action == nil && w.dependsOnGroup(v) {
		w.group.end()
	}
	n := write{path: pathOf(lhs), fixed: v.fixed, at: lhs.Pos()}
	n.header, n.field, n.from, n.to = bitsOf(lhs)
	for _, o := range w.group.writes {
		if n.header == "" || o.header != n.header || o.fixed == n.fixed || o.field == n.field || n.from/8 > (o.to-1)/8 || o.from/8 > (n.to-1)/8 {
			continue
		}
		constant, field := n, o
		if o.fixed {
			constant, field = o, n
		}
		w.warn(n.at, "%s.%s and %s.%s share a byte, and one action would write the one from a constant, the other from a field: too many sources for the byte (%s is written in line %s); write one of them in an action of its own, as under an if of its own",
			constant.header, constant.field, field.header, field.field, o.field, line(o.at))
		break
	}
	w.group.writes = append(w.group.writes, n)
}

func (w *walker) dependsOnGroup(v value) bool {
	for _, o := range w.group.writes {
		if readsFrom(v, o.path) {
			return true
		}
	}
	return false
}

// bitsOf returns the place of an expression in its header; header is "" if it is not a
// header's field.
func bitsOf(e ast.Expr) (header, field string, from, to int) {
	slice := func(from, to int) (int, int) { return from, to }
	if s, ok := e.(*ast.Slice); ok && s.LoN >= 0 {
		e = s.X
		slice = func(from, to int) (int, int) { return to - s.HiN - 1, to - s.LoN }
	}
	m, ok := e.(*ast.Member)
	if !ok || m.Sel != ast.SelField {
		return "", "", 0, 0
	}
	st, ok := m.X.Type().(*types.Struct)
	if !ok || st.Kind != types.Header {
		return "", "", 0, 0
	}
	for i, f := range st.Fields {
		n, ok := types.Width(f.Type)
		if !ok {
			return "", "", 0, 0
		}
		if i == m.Index {
			from, to := slice(from, from+n)
			return pathOf(m.X), f.Name, from, to
		}
		from += n
	}
	return "", "", 0, 0
}

// pathOf is the text of an l-value: hdr.hops[0].rate; "" if it has none.
func pathOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.Member:
		if p := pathOf(e.X); p != "" {
			return p + "." + e.Name
		}
	case *ast.Index:
		p := pathOf(e.X)
		if v := e.I.Const(); p != "" && v != nil && v.Int != nil {
			return p + "[" + v.Int.String() + "]"
		}
		return p
	case *ast.Slice:
		return pathOf(e.X)
	case *ast.Cast:
		return pathOf(e.X)
	}
	return ""
}

// line is a line's number, with its file if a program has several.
func line(p ast.Pos) string {
	return strconv.Itoa(p.Line) + " of " + p.File[strings.LastIndexByte(p.File, '/')+1:]
}
