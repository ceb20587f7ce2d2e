package infile

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/sluice-rdma/sluice/units"
)

// maxAliased bounds what a text's aliases stand for, taken together: aliases of aliases
// could make it grow without end.
const maxAliased = MaxYAML

// perNode is what a value counts for beside its text.
const perNode = 8

// checkAliases refuses aliases that stand for more than maxAliased, or for a value that they
// lie in or that comes later: the decoder would follow those for ever. What is no YAML is
// left to the decoder.
func checkAliases(tokens token.Tokens) error {
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil //nolint:nilerr // the decoder says it better
	}
	for _, doc := range file.Docs {
		a := aliases{sizes: map[string]units.Bytes{}}
		if a.size(doc.Body); a.err != nil {
			return a.err
		}
	}
	return nil
}

type aliases struct {
	sizes   map[string]units.Bytes // by the anchors whose values have ended
	aliased units.Bytes
	err     error
}

// size is a value's, with what its aliases stand for.
func (a *aliases) size(n ast.Node) units.Bytes {
	switch n := n.(type) {
	case nil:
		return 0
	case *ast.DocumentNode:
		return a.size(n.Body)
	case *ast.AnchorNode:
		delete(a.sizes, n.Name.GetToken().Value)
		size := a.size(n.Value)
		a.sizes[n.Name.GetToken().Value] = size
		return size
	case *ast.AliasNode:
		return a.alias(n.Value.GetToken())
	case *ast.TagNode:
		return a.size(n.Value)
	case *ast.MappingKeyNode:
		return a.size(n.Value)
	case *ast.SequenceNode:
		size := units.Bytes(perNode)
		for _, v := range n.Values {
			size += a.size(v)
		}
		return size
	case *ast.MappingNode:
		size := units.Bytes(perNode)
		for _, v := range n.Values {
			size += a.size(v)
		}
		return size
	case *ast.MappingValueNode:
		return a.size(n.Key) + a.size(n.Value)
	case *ast.LiteralNode:
		return a.size(n.Value)
	case ast.ScalarNode:
		return perNode + units.Bytes(len(n.GetToken().Value))
	case *ast.CommentNode, *ast.CommentGroupNode:
		return 0
	}
	// A directive within a value, for one, which the decoder follows with all that it has.
	a.fail(n.GetToken(), "a %s stands here, in a text with aliases: write plain mappings, lists and values", n.Type())
	return 0
}

func (a *aliases) alias(name *token.Token) units.Bytes {
	size, ok := a.sizes[name.Value]
	if !ok {
		a.fail(name, "*%s stands for no value that has ended here: write &%[1]s before a value, and *%[1]s after it", name.Value)
	}
	if a.aliased += size; a.aliased > maxAliased {
		a.fail(name, "the aliases stand for more than %v: write it without", maxAliased)
	}
	return size
}

func (a *aliases) fail(at *token.Token, format string, args ...any) {
	if a.err == nil {
		a.err = &YAMLError{at.Position.Line, fmt.Sprintf(format, args...)}
	}
}
