package tree

import (
	"github.com/goccy/go-yaml"
)

// Node is a YAML value with its position: scalars as their text, aliases and
// merge keys resolved. Overrides, inheritance and parameters are edits of this
// tree, so that whatever they bring is decoded as strictly as a file.
type Node struct {
	Kind   Kind
	Text   string // of a scalar
	Quoted bool   // the scalar is a string whatever it looks like
	Fields []Field
	Items  []*Node
	Pos    Pos
}

// Field is a key of a mapping with its value. Pos is that of the key.
type Field struct {
	Key   string
	Pos   Pos
	Value *Node
}

// Kind is the kind of a Node's value.
type Kind uint8

// Kinds of values.
const (
	Null Kind = iota
	Scalar
	Mapping
	Sequence
)

func (k Kind) String() string {
	return [...]string{"nothing", "a single value", "a mapping (key: value)", "a list"}[k]
}

// Get returns the value of a key, or nil.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			return n.Fields[i].Value
		}
	}
	return nil
}

// Set gives a key a value.
func (n *Node) Set(key string, pos Pos, value *Node) {
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			n.Fields[i].Pos, n.Fields[i].Value = pos, value
			return
		}
	}
	n.Fields = append(n.Fields, Field{key, pos, value})
}

// Take removes a key and returns its value, or nil.
func (n *Node) Take(key string) *Node {
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			v := n.Fields[i].Value
			n.Fields = append(n.Fields[:i:i], n.Fields[i+1:]...)
			return v
		}
	}
	return nil
}

// Clone copies the tree.
func (n *Node) Clone() *Node {
	if n == nil {
		return nil
	}
	c := *n
	c.Fields = make([]Field, len(n.Fields))
	for i, f := range n.Fields {
		c.Fields[i] = Field{f.Key, f.Pos, f.Value.Clone()}
	}
	c.Items = make([]*Node, len(n.Items))
	for i, item := range n.Items {
		c.Items[i] = item.Clone()
	}
	return &c
}

// YAML returns the tree as what the YAML encoder takes.
func (n *Node) YAML() any {
	switch {
	case n == nil || n.Kind == Null:
		return nil
	case n.Kind == Mapping:
		m := yaml.MapSlice{}
		for _, f := range n.Fields {
			m = append(m, yaml.MapItem{Key: f.Key, Value: f.Value.YAML()})
		}
		return m
	case n.Kind == Sequence:
		s := []any{}
		for _, item := range n.Items {
			s = append(s, item.YAML())
		}
		return s
	case n.Quoted:
		return n.Text
	}
	// Let YAML itself say whether the text is a number, a truth value or a
	// string.
	var v any
	if yaml.Unmarshal([]byte(n.Text), &v) != nil {
		return n.Text
	}
	return v
}
