package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"regexp"
	"strings"
)

// typeWriter writes the declarations of the requested types, each after the types that it
// contains.
type typeWriter struct {
	g       *generator
	state   map[string]int // of a C type's name: 1 begun, 2 written
	text    strings.Builder
	pending []func() // types that others only point to
	pkg     *types.Package
	copiers strings.Builder // functions on slices
}

func (w *typeWriter) init(g *generator) {
	w.g, w.state = g, map[string]int{}
}

// flush writes the types that are only pointed to.
func (w *typeWriter) flush() {
	for len(w.pending) > 0 {
		next := w.pending[0]
		w.pending = w.pending[1:]
		next()
	}
}

var basics = map[types.BasicKind]string{
	types.Bool: "bool", types.Int: "int64_t", types.Int8: "int8_t", types.Int16: "int16_t", types.Int32: "int32_t", types.Int64: "int64_t",
	types.Uint: "uint64_t", types.Uint8: "uint8_t", types.Uint16: "uint16_t", types.Uint32: "uint32_t", types.Uint64: "uint64_t",
	types.Float64: "double", types.String: "const char *", types.UntypedBool: "bool", types.UntypedInt: "int64_t", types.UntypedFloat: "double",
}

// ctype returns a type as C writes it, or "" for what C has not, which it refuses. The
// type is written before what is written next.
func (g *generator) ctype(in string, at ast.Node, t types.Type) string {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		if c, ok := basics[t.Kind()]; ok {
			return c
		}
	case *types.Named:
		if isError(t) {
			return "int"
		}
		if g.ifaces[t.Obj()] {
			return "struct sluice_" + snake(g.iface.Name()) + " *"
		}
		if g.opaque[t.Obj()] {
			return "void *"
		}
		return g.types.named(in, at, t, false)
	case *types.Pointer:
		if n, ok := types.Unalias(t.Elem()).(*types.Named); ok && !g.ifaces[n.Obj()] {
			if c := g.types.named(in, at, n, true); c != "" {
				return c + " *"
			}
			return ""
		}
		if b, ok := t.Elem().(*types.Basic); ok && basics[b.Kind()] != "" && b.Kind() != types.String {
			return basics[b.Kind()] + " *"
		}
		if a, ok := t.Elem().Underlying().(*types.Array); ok {
			// A pointer to the first of them: lengths are known.
			if c := g.ctype(in, at, a.Elem()); c != "" {
				return pointerTo(c)
			}
			return ""
		}
	case *types.Slice:
		return g.types.slice(in, at, t)
	}
	g.refuse(in, at.Pos(), "the type %s", types.TypeString(t, types.RelativeTo(nil)))
	return ""
}

func pointerTo(c string) string {
	if strings.HasSuffix(c, "*") {
		return c + "*"
	}
	return c + " *"
}

// declare returns a declaration of a variable or field.
func (g *generator) declare(in string, at ast.Node, t types.Type, name string) string {
	if a, ok := types.Unalias(t).Underlying().(*types.Array); ok {
		return g.declare(in, at, a.Elem(), fmt.Sprintf("%s[%d]", name, a.Len()))
	}
	c := g.ctype(in, at, t)
	if strings.HasSuffix(c, "*") {
		return c + name
	}
	return c + " " + name
}

// sliceName is the C type of a slice.
func (w *typeWriter) slice(in string, at ast.Node, t *types.Slice) string {
	elem := w.g.ctype(in, at, t.Elem())
	if elem == "" {
		return ""
	}
	base := strings.TrimPrefix(strings.TrimPrefix(elem, "struct "), "sluice_")
	base = strings.TrimSuffix(strings.ReplaceAll(base, " *", "_pointer"), "_t")
	c := "sluice_" + base + "_slice"
	if w.state[c] == 0 {
		w.state[c] = 2
		fmt.Fprintf(&w.text, "/* Memory of the caller: len elements at at, of cap. */\nstruct %s {\n\t%sat;\n\tint64_t len, cap;\n};\n\n", c, strings.TrimSuffix(pointerTo(elem), " "))
	}
	return "struct " + c
}

// named is the C type of a declared one. Of one that is only pointed to the
// declaration can wait.
func (w *typeWriter) named(in string, at ast.Node, t *types.Named, pointed bool) string {
	obj := t.Obj()
	if obj.Pkg() == nil || w.g.outside(obj.Pkg()) {
		w.g.refuse(in, at.Pos(), "the type %s, whose package is not among those of the specification", types.TypeString(t, nil))
		return ""
	}
	if t.TypeArgs().Len() > 0 {
		w.g.refuse(in, at.Pos(), "the type %s, which is generic", types.TypeString(t, nil))
		return ""
	}
	c := w.g.typeName(obj)
	if other := w.g.typeNames[c]; other != nil && other != obj {
		w.g.refuse(in, at.Pos(), "the types %s and %s, both %s in C: rename one", other.Name(), obj.Name(), c)
		return ""
	}
	w.g.typeNames[c] = obj
	switch u := t.Underlying().(type) {
	case *types.Struct:
		switch {
		case pointed && w.state[c] == 0:
			w.pending = append(w.pending, func() { w.structure(c, obj) })
		case w.state[c] == 0:
			w.structure(c, obj)
		}
		return "struct " + c
	case *types.Basic:
		under, ok := basics[u.Kind()]
		if !ok {
			break
		}
		if w.state[c] == 0 {
			w.state[c] = 2
			d := w.g.p.decls[obj]
			w.section(obj.Pkg())
			w.doc(obj.Name(), c, docOf(d))
			fmt.Fprintf(&w.text, "typedef %s %s;\n\n", under, c)
		}
		return c
	}
	w.g.refuse(in, at.Pos(), "the type %s", types.TypeString(t, nil))
	return ""
}

// docOf is the comment of a type's declaration.
func docOf(d decl) *ast.CommentGroup {
	if s, ok := d.spec.(*ast.TypeSpec); ok && s.Doc != nil {
		return s.Doc
	}
	if d.group != nil && len(d.group.Specs) == 1 {
		return d.group.Doc
	}
	return nil
}

// section begins the types of another package.
func (w *typeWriter) section(pkg *types.Package) {
	if w.pkg == pkg {
		return
	}
	w.pkg = pkg
	fmt.Fprintf(&w.text, "/* Package %s. */\n\n", w.g.pkgs[pkg].Path)
}

// structure writes a struct type, fields with their comments.
func (w *typeWriter) structure(c string, obj *types.TypeName) {
	if w.state[c] != 0 {
		return
	}
	w.state[c] = 1
	d := w.g.p.decls[obj]
	spec := d.spec.(*ast.TypeSpec)
	st, ok := spec.Type.(*ast.StructType)
	if !ok {
		w.g.refuse("type "+obj.Name(), spec.Pos(), "a struct type by the name of another")
		return
	}
	in := "type " + obj.Pkg().Name() + "." + obj.Name()
	if len(st.Fields.List) == 0 {
		w.g.refuse(in, spec.Pos(), "a struct without fields")
	}
	var body strings.Builder
	seen := map[string]bool{}
	previous := 0
	for _, f := range st.Fields.List {
		t := w.g.p.info.TypeOf(f.Type)
		line := w.g.p.fset.Position(f.Pos()).Line
		if f.Doc != nil {
			line = w.g.p.fset.Position(f.Doc.Pos()).Line
		}
		if previous > 0 && line > previous+1 {
			body.WriteByte('\n')
		}
		previous = w.g.p.fset.Position(f.End()).Line
		w.g.comment(&body, "\t", f.Doc)
		var names []string
		if len(f.Names) == 0 {
			names = []string{fieldName(embeddedName(t))}
		}
		for _, n := range f.Names {
			names = append(names, fieldName(n.Name))
		}
		for i, n := range names {
			if seen[n] {
				w.g.refuse(in, f.Pos(), "two fields are %s in C", n)
			}
			seen[n] = true
			fmt.Fprintf(&body, "\t%s;", w.g.declare(in, f.Type, t, n))
			if i == 0 && f.Comment != nil {
				body.WriteByte(' ')
				body.WriteString(w.g.cComment(strings.TrimSpace(f.Comment.List[0].Text)))
			}
			body.WriteByte('\n')
		}
	}
	w.section(obj.Pkg())
	w.doc(obj.Name(), c, docOf(d))
	fmt.Fprintf(&w.text, "struct %s {\n%s};\n\n", c, body.String())
	w.state[c] = 2
}

func embeddedName(t types.Type) string {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return n.Obj().Name()
	}
	return "embedded"
}

func fieldName(s string) string {
	if s == "_" {
		return "unused"
	}
	return name(s)
}

// doc writes the comment of a declaration; its name is C's.
func (w *typeWriter) doc(from, to string, doc *ast.CommentGroup) {
	w.g.docComment(&w.text, from, to, doc)
}

func (g *generator) docComment(b *strings.Builder, from, to string, doc *ast.CommentGroup) {
	if doc == nil {
		return
	}
	for i, c := range doc.List {
		text := c.Text
		if strings.HasPrefix(text, "//go:") || strings.HasPrefix(text, "//nolint") {
			continue
		}
		if i == 0 {
			if rest, ok := strings.CutPrefix(text, "// "+from+" "); ok {
				text = "// " + to + " " + rest
			}
		}
		b.WriteString(g.cComment(text) + "\n")
	}
}

func (g *generator) comment(b *strings.Builder, indent string, doc *ast.CommentGroup) {
	if doc == nil {
		return
	}
	for _, c := range doc.List {
		if strings.HasPrefix(c.Text, "//nolint") {
			continue
		}
		b.WriteString(indent + g.cComment(c.Text) + "\n")
	}
}

// cComment is a line of comment for C: variables and fields have their C names in it,
// and it ends with the line.
func (g *generator) cComment(text string) string {
	if g.words == nil {
		g.words = map[string]string{}
		for _, obj := range g.p.info.Defs {
			if v, ok := obj.(*types.Var); ok && camel.MatchString(v.Name()) {
				g.words[v.Name()] = name(v.Name())
			}
		}
	}
	text = word.ReplaceAllStringFunc(text, func(w string) string { return cmp.Or(g.words[w], w) })
	if strings.HasSuffix(text, "\\") {
		return text + "."
	}
	return text
}

var (
	word  = regexp.MustCompile(`[A-Za-z]+`)
	camel = regexp.MustCompile(`[a-z][A-Z]|[A-Z]{2}[a-z]|^[A-Z]{2}[a-z]`)
)

// resultName is the C name of a result that has none in Go.
func resultName(res *types.Tuple, i int) string {
	t := res.At(i).Type()
	switch {
	case isError(t):
		return "err"
	case i == res.Len()-1 && basicOf(t).Info()&types.IsBoolean != 0:
		return "ok"
	case i == 0:
		return "value"
	}
	return fmt.Sprintf("r%d", i)
}

// results returns the type that a function returns, and the names of its fields if it
// is made for several results.
func (g *generator) results(f *types.Func) (c string, fields []string) {
	res := f.Signature().Results()
	d := g.p.decls[f].fn
	switch res.Len() {
	case 0:
		return "void", nil
	case 1:
		return g.ctype(g.label(f), d.Type.Results, res.At(0).Type()), nil
	}
	tag := g.funcName(f) + "_result"
	for i := range res.Len() {
		n := name(res.At(i).Name())
		if n == "" || n == "_" {
			n = resultName(res, i)
		}
		fields = append(fields, n)
	}
	if g.types.state[tag] == 0 {
		g.types.state[tag] = 2
		var b strings.Builder
		for i, n := range fields {
			fmt.Fprintf(&b, "\t%s;\n", g.declare(g.label(f), d.Type.Results, res.At(i).Type(), n))
		}
		g.types.section(f.Pkg())
		fmt.Fprintf(&g.types.text, "// What %s returns.\nstruct %s {\n%s};\n\n", g.funcName(f), tag, b.String())
	}
	return "struct " + tag, fields
}
