package scenario

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Pos is where something was written: a line of a file, or an override.
type Pos struct {
	File string
	Line int
	Set  string // the override's text, "nic.mtu=4096"; empty for a file
}

func (p Pos) String() string {
	switch {
	case p.Set != "":
		return "--set " + p.Set
	case p.Line == 0:
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Error is what is wrong with one key of a scenario.
type Error struct {
	Pos Pos
	Key string // such as "systems[0].config.t_low"; empty for the whole
	Msg string // what is wrong, and the mend
}

func (e *Error) Error() string {
	if e.Key == "" {
		return e.Pos.String() + ": " + e.Msg
	}
	return e.Pos.String() + ": " + e.Key + ": " + e.Msg
}

// Errors is all that is wrong with a scenario, at least one thing, in the order
// in which it was found.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// node is a YAML value with its position: scalars as their text, aliases and
// merge keys resolved. Overrides, inheritance and parameters are edits of this
// tree, so that whatever they bring is decoded as strictly as a file.
type node struct {
	kind   nodeKind
	text   string // of a scalar
	quoted bool   // the scalar is a string whatever it looks like
	fields []field
	items  []*node
	pos    Pos
}

type field struct {
	key   string
	pos   Pos
	value *node
}

type nodeKind uint8

const (
	nullNode nodeKind = iota
	scalarNode
	mappingNode
	sequenceNode
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "a single value", "a mapping (key: value)", "a list"}[k]
}

// get returns the value of a key, or nil.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for i := range n.fields {
		if n.fields[i].key == key {
			return n.fields[i].value
		}
	}
	return nil
}

// set gives a key a value; take removes it and returns it.
func (n *node) set(key string, pos Pos, value *node) {
	for i := range n.fields {
		if n.fields[i].key == key {
			n.fields[i].pos, n.fields[i].value = pos, value
			return
		}
	}
	n.fields = append(n.fields, field{key, pos, value})
}

func (n *node) take(key string) *node {
	for i := range n.fields {
		if n.fields[i].key == key {
			v := n.fields[i].value
			n.fields = append(n.fields[:i:i], n.fields[i+1:]...)
			return v
		}
	}
	return nil
}

// clone copies the tree.
func (n *node) clone() *node {
	if n == nil {
		return nil
	}
	c := *n
	c.fields = make([]field, len(n.fields))
	for i, f := range n.fields {
		c.fields[i] = field{f.key, f.pos, f.value.clone()}
	}
	c.items = make([]*node, len(n.items))
	for i, item := range n.items {
		c.items[i] = item.clone()
	}
	return &c
}

// parseYAML reads one document. at is the position's file or override.
func parseYAML(at Pos, src []byte) (*node, error) {
	file, err := parser.ParseBytes(src, 0)
	if err != nil {
		return nil, syntaxError(at, err)
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.CommentGroupType {
			continue
		}
		if body != nil {
			return nil, &Error{Pos: atLine(at, doc.Body), Msg: "a second document begins here: put one scenario in a file"}
		}
		body = doc.Body
	}
	if body == nil {
		return &node{kind: nullNode, pos: at}, nil
	}
	r := treeReader{at: at, anchors: map[string]*node{}}
	n := r.read(body)
	if r.err != nil {
		return nil, r.err
	}
	return n, nil
}

// syntaxError keeps the first line of the YAML parser's message: the rest is an
// excerpt of the source.
func syntaxError(at Pos, err error) error {
	var e yaml.Error
	if errors.As(err, &e) {
		if tk := e.GetToken(); tk != nil && tk.Position != nil && at.Set == "" {
			at.Line = tk.Position.Line
		}
		return &Error{Pos: at, Msg: "not YAML: " + e.GetMessage()}
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return &Error{Pos: at, Msg: "not YAML: " + first}
}

func atLine(at Pos, n ast.Node) Pos {
	if tk := n.GetToken(); tk != nil && tk.Position != nil && at.Set == "" {
		at.Line = tk.Position.Line
	}
	return at
}

type treeReader struct {
	at      Pos
	anchors map[string]*node
	nodes   int    // read so far, copies of aliases included
	path    string // of what is read
	err     error
}

// maxNodes bounds a scenario: aliases of aliases could make it grow without end.
const maxNodes = 1 << 20

// count adds a tree to the nodes read, and reports whether there is room for it.
func (r *treeReader) count(n *node) bool {
	if r.nodes++; r.nodes > maxNodes {
		return false
	}
	for _, f := range n.fields {
		if !r.count(f.value) {
			return false
		}
	}
	for _, item := range n.items {
		if !r.count(item) {
			return false
		}
	}
	return true
}

func (r *treeReader) fail(n ast.Node, format string, args ...any) *node {
	if r.err == nil {
		r.err = &Error{Pos: atLine(r.at, n), Key: r.path, Msg: fmt.Sprintf(format, args...)}
	}
	return &node{pos: atLine(r.at, n)}
}

func (r *treeReader) read(n ast.Node) *node {
	pos := atLine(r.at, n)
	switch n := n.(type) {
	case nil:
		return &node{pos: r.at}
	case *ast.NullNode:
		return &node{pos: pos}
	case *ast.StringNode:
		return &node{kind: scalarNode, text: n.Value, quoted: strings.ContainsAny(n.Token.Origin, `"'`), pos: pos}
	case *ast.LiteralNode:
		return &node{kind: scalarNode, text: n.Value.Value, quoted: true, pos: pos}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return &node{kind: scalarNode, text: n.GetToken().Value, pos: pos}
	case *ast.SequenceNode:
		s := &node{kind: sequenceNode, pos: pos}
		for i, v := range n.Values {
			s.items = append(s.items, r.within(fmt.Sprintf("%s[%d]", r.path, i), v))
		}
		return s
	case *ast.MappingNode:
		return r.mapping(pos, n.Values)
	case *ast.MappingValueNode:
		return r.mapping(pos, []*ast.MappingValueNode{n})
	case *ast.AnchorNode:
		v := r.read(n.Value)
		r.anchors[n.Name.GetToken().Value] = v
		return v
	case *ast.AliasNode:
		v, ok := r.anchors[n.Value.GetToken().Value]
		if !ok {
			return r.fail(n, "*%s refers to an anchor that is not there: write &%[1]s before the value that is meant", n.Value.GetToken().Value)
		}
		if !r.count(v) {
			return r.fail(n, "the aliases make this larger than %d values: write it without", maxNodes)
		}
		return v.clone()
	}
	return r.fail(n, "%s is of no use in a scenario: write plain mappings, lists and values", n.Type())
}

// within reads what stands at a path.
func (r *treeReader) within(path string, n ast.Node) *node {
	outer := r.path
	r.path = path
	v := r.read(n)
	r.path = outer
	return v
}

func (r *treeReader) mapping(pos Pos, values []*ast.MappingValueNode) *node {
	m := &node{kind: mappingNode, pos: pos}
	var merged []*node
	for _, v := range values {
		if v.Key.Type() == ast.MergeKeyType {
			merged = append(merged, r.read(v.Value))
			continue
		}
		key := r.read(v.Key)
		if key.kind != scalarNode {
			return r.fail(v, "a key must be a single word")
		}
		if m.get(key.text) != nil {
			return r.fail(v.Key, "the key %q is there twice: remove one", key.text)
		}
		m.fields = append(m.fields, field{key.text, key.pos, r.within(join(r.path, key.text), v.Value)})
	}
	for _, from := range merged {
		if from.kind != mappingNode {
			return r.fail(values[0], "<< takes an alias of a mapping")
		}
		for _, f := range from.fields { // already counted: it came by an alias
			if m.get(f.key) == nil {
				m.fields = append(m.fields, f)
			}
		}
	}
	return m
}

// toYAML returns the tree as what the YAML encoder takes.
func (n *node) toYAML() any {
	switch {
	case n == nil || n.kind == nullNode:
		return nil
	case n.kind == mappingNode:
		m := yaml.MapSlice{}
		for _, f := range n.fields {
			m = append(m, yaml.MapItem{Key: f.key, Value: f.value.toYAML()})
		}
		return m
	case n.kind == sequenceNode:
		s := []any{}
		for _, item := range n.items {
			s = append(s, item.toYAML())
		}
		return s
	case n.quoted:
		return n.text
	}
	// Let YAML itself say whether the text is a number, a truth value or a
	// string.
	var v any
	if yaml.Unmarshal([]byte(n.text), &v) != nil {
		return n.text
	}
	return v
}
