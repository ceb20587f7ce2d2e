package tree

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/sluice-rdma/sluice/internal/infile"
)

// Parse reads one document. at is the position's file or override.
func Parse(at Pos, src []byte) (*Node, error) {
	tokens, err := infile.Tokens(src)
	if bad := (*infile.YAMLError)(nil); errors.As(err, &bad) {
		if at.Set == "" {
			at.Line = bad.Line
		}
		return nil, &Error{Pos: at, Msg: bad.Msg}
	}
	file, err := parser.Parse(tokens, 0)
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
		return &Node{Kind: Null, Pos: at}, nil
	}
	r := treeReader{at: at, anchors: map[string]*Node{}}
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
	anchors map[string]*Node
	nodes   int    // read so far, copies of aliases included
	path    string // of what is read
	err     error
}

// maxNodes bounds a scenario: aliases of aliases could make it grow without end.
const maxNodes = 1 << 20

// count adds a tree to the nodes read, and reports whether there is room for it.
func (r *treeReader) count(n *Node) bool {
	if r.nodes++; r.nodes > maxNodes {
		return false
	}
	for _, f := range n.Fields {
		if !r.count(f.Value) {
			return false
		}
	}
	for _, item := range n.Items {
		if !r.count(item) {
			return false
		}
	}
	return true
}

func (r *treeReader) fail(n ast.Node, format string, args ...any) *Node {
	if r.err == nil {
		r.err = &Error{Pos: atLine(r.at, n), Key: r.path, Msg: fmt.Sprintf(format, args...)}
	}
	return &Node{Pos: atLine(r.at, n)}
}

func (r *treeReader) read(n ast.Node) *Node {
	pos := atLine(r.at, n)
	switch n := n.(type) {
	case nil:
		return &Node{Pos: r.at}
	case *ast.NullNode:
		return &Node{Pos: pos}
	case *ast.StringNode:
		return &Node{Kind: Scalar, Text: n.Value, Quoted: strings.ContainsAny(n.Token.Origin, `"'`), Pos: pos}
	case *ast.LiteralNode:
		return &Node{Kind: Scalar, Text: n.Value.Value, Quoted: true, Pos: pos}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return &Node{Kind: Scalar, Text: n.GetToken().Value, Pos: pos}
	case *ast.SequenceNode:
		s := &Node{Kind: Sequence, Pos: pos}
		for i, v := range n.Values {
			s.Items = append(s.Items, r.within(fmt.Sprintf("%s[%d]", r.path, i), v))
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
		return v.Clone()
	}
	return r.fail(n, "%s is of no use in a scenario: write plain mappings, lists and values", n.Type())
}

// within reads what stands at a path.
func (r *treeReader) within(path string, n ast.Node) *Node {
	outer := r.path
	r.path = path
	v := r.read(n)
	r.path = outer
	return v
}

func (r *treeReader) mapping(pos Pos, values []*ast.MappingValueNode) *Node {
	m := &Node{Kind: Mapping, Pos: pos}
	var merged []*Node
	has := make(map[string]bool, len(values))
	for _, v := range values {
		if v.Key.Type() == ast.MergeKeyType {
			merged = append(merged, r.read(v.Value))
			continue
		}
		key := r.read(v.Key)
		if key.Kind != Scalar {
			return r.fail(v, "a key must be a single word")
		}
		if has[key.Text] {
			return r.fail(v.Key, "the key %q is there twice: remove one", key.Text)
		}
		has[key.Text] = true
		m.Fields = append(m.Fields, Field{key.Text, key.Pos, r.within(Join(r.path, key.Text), v.Value)})
	}
	for _, from := range merged {
		if from.Kind != Mapping {
			return r.fail(values[0], "<< takes an alias of a mapping")
		}
		for _, f := range from.Fields { // already counted: it came by an alias
			if !has[f.Key] {
				has[f.Key] = true
				m.Fields = append(m.Fields, f)
			}
		}
	}
	return m
}
