package run

import (
	"slices"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
)

// A hashInput gathers values bit by bit, as they would stand in a packet, for hashes and checksums.
type hashInput struct{ parts []act }

// hashBits appends the n low bits of v.
func (m *machine) hashBits(v uint64, n int) {
	m.hashRoom(n)
	writeBits(m.hbuf, m.hpos, n, v)
	m.hpos += n
}

func (m *machine) hashWide(v []uint64, n int) {
	m.hashRoom(n)
	writeWide(m.hbuf, m.hpos, n, v)
	m.hpos += n
}

func (m *machine) hashRoom(n int) {
	m.hbuf = zeroed(m.hbuf, (m.hpos+n+7)/8)
}

// add appends an expression: of a list its elements, of a struct its fields, of a header these if it is valid.
func (h *hashInput) add(c *compiler, e ast.Expr) {
	switch x := e.(type) {
	case *ast.List:
		for _, y := range x.Elems {
			h.add(c, y)
		}
		return
	case *ast.StructLit:
		h.fields(c, x)
		return
	case *ast.Cast:
		if _, ok := scalarWidth(x.Type()); !ok {
			h.add(c, x.X)
			return
		}
	}
	t := e.Type()
	if w, ok := scalarWidth(t); ok && w <= 64 {
		v := c.num(e)
		h.parts = append(h.parts, func(m *machine) { m.hashBits(v(m), w) })
		return
	}
	pre, p := c.ref(e)
	if pre != nil {
		h.parts = append(h.parts, pre)
	}
	if p.slice {
		tmp := c.temp(t)
		h.parts = append(h.parts, c.copyTo(tmp, p))
		p = tmp
	}
	h.place(c, e, p)
}

// fields appends those of a struct expression: in the order of the struct, where all are given.
func (h *hashInput) fields(c *compiler, x *ast.StructLit) {
	fs := slices.Clone(x.Fields)
	if s, ok := types.Underlying(x.Type()).(*types.Struct); ok && len(s.Fields) == len(fs) {
		slices.SortStableFunc(fs, func(a, b *ast.FieldInit) int { return a.Index - b.Index })
	}
	for _, f := range fs {
		h.add(c, f.Value)
	}
}

func (h *hashInput) place(c *compiler, at ast.Node, p place) {
	if w, ok := scalarWidth(p.t); ok {
		n := wordsOf(w)
		h.parts = append(h.parts, func(m *machine) {
			a := p.at(m)
			m.hashWide(m.w[a:a+n], w)
		})
		return
	}
	switch u := types.Underlying(p.t).(type) {
	case *types.Varbit:
		n := size(u)
		h.parts = append(h.parts, func(m *machine) {
			a := p.at(m)
			m.hashWide(m.w[a+1:a+n], int(m.w[a]))
		})
	case *types.Struct:
		var in hashInput
		for i, f := range u.Fields {
			in.place(c, at, p.add(fieldAt(u, i), f.Type))
		}
		if u.Kind != types.Header {
			h.parts = append(h.parts, in.parts...)
			return
		}
		h.parts = append(h.parts, func(m *machine) {
			if m.w[p.at(m)] != 0 {
				for _, a := range in.parts {
					a(m)
				}
			}
		})
	case *types.Tuple:
		n := 0
		for _, e := range u.Elems {
			h.place(c, at, p.add(n, e))
			n += size(e)
		}
	case *types.Stack:
		for i := range u.Size {
			h.place(c, at, p.add(1+i*size(u.Elem), u.Elem))
		}
	default:
		c.failf(at, "not supported: hash of %s", p.t)
	}
}

// fill puts the input into m.hbuf.
func (h *hashInput) fill(m *machine) {
	m.hbuf, m.hpos = m.hbuf[:0], 0
	for _, a := range h.parts {
		a(m)
	}
}

func (h *hashInput) hash(m *machine, p *profile) uint64 {
	h.fill(m)
	return p.algo(m, m.hbuf)
}

// algorithm is a hash algorithm by the name that v1model or TNA gives it, nil if there is none.
func algorithm(name string) func(*machine, []byte) uint64 {
	of := func(f func([]byte) uint64) func(*machine, []byte) uint64 {
		return func(_ *machine, b []byte) uint64 { return f(b) }
	}
	switch name {
	case "crc8", "CRC8":
		return of(crc8.sum)
	case "crc16", "crc16_custom", "CRC16":
		return of(crc16ARC.sum)
	case "crc32", "crc32_custom", "CRC32":
		return of(crc32ISO.sum)
	case "crc64", "CRC64":
		return of(crc64.sum)
	case "csum16", "CSUM16":
		return of(csum16)
	case "xor16", "XOR16":
		return of(xor16)
	case "identity", "IDENTITY":
		return of(identity)
	case "random", "RANDOM":
		return func(m *machine, _ []byte) uint64 { return m.rng.next() }
	}
	return nil
}
