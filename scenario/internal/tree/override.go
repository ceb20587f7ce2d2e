package tree

import (
	"fmt"
	"strconv"
	"strings"
)

// Override applies "a.b[0].c=value" to the tree; the value is YAML. List items go
// by number or by name: systems[0], systems[TIMELY]. Keys that are not there are
// added: whether the schema has them is for the decoder to say.
func (n *Node) Override(set string) error {
	pos := Pos{Set: set}
	path, text, ok := strings.Cut(set, "=")
	bad := func(format string, args ...any) error {
		return &Error{Pos: pos, Msg: fmt.Sprintf(format, args...)}
	}
	steps, err := splitPath(path)
	switch {
	case !ok:
		return bad("there is no \"=\": write it as key.key=value")
	case err != nil:
		return bad("%v", err)
	}
	value, err := Parse(pos, []byte(text))
	if err != nil {
		return err
	}
	if value.Kind == Null {
		return bad("there is no value after \"=\"")
	}
	at, walked := n, ""
	for i, step := range steps {
		last := i == len(steps)-1
		if step.item {
			if at.Kind != Sequence {
				return bad("%s is no list: it has no item [%s]", walked, step.name)
			}
			j, err := at.index(step.name)
			if err != nil {
				return bad("%s %v", walked, err)
			}
			walked = fmt.Sprintf("%s[%s]", walked, step.name)
			if last {
				at.Items[j] = value
			}
			at = at.Items[j]
			continue
		}
		if at.Kind == Null {
			at.Kind = Mapping
		}
		if at.Kind == Sequence {
			return bad("%s is a list: say which item, as in %[1]s[0]", walked)
		}
		if at.Kind != Mapping {
			return bad("%s is a single value: it has no key %q", walked, step.name)
		}
		walked = Join(walked, step.name)
		next := at.Get(step.name)
		switch {
		case last:
			at.Set(step.name, pos, value)
			next = value
		case next == nil:
			next = &Node{Kind: Mapping, Pos: pos}
			at.Set(step.name, pos, next)
		}
		at = next
	}
	return nil
}

// index finds an item by its number or its name.
func (n *Node) index(name string) (int, error) {
	if len(n.Items) == 0 {
		return 0, fmt.Errorf("is empty: it has no item [%s]", name)
	}
	if i, err := strconv.Atoi(name); err == nil {
		if i < 0 || i >= len(n.Items) {
			return 0, fmt.Errorf("has no item [%s]: its items are [0] to [%d]", name, len(n.Items)-1)
		}
		return i, nil
	}
	var names []string
	for i, item := range n.Items {
		for _, key := range []string{"name", "label"} {
			if v := item.Get(key); v != nil && v.Kind == Scalar {
				if v.Text == name {
					return i, nil
				}
				names = append(names, v.Text)
			}
		}
	}
	if len(names) == 0 {
		return 0, fmt.Errorf("has no item of the name [%s]: write a number, [0] to [%d]", name, len(n.Items)-1)
	}
	return 0, fmt.Errorf("has no item of the name [%s]: there are %s", name, strings.Join(names, ", "))
}

type step struct {
	name string
	item bool // in brackets
}

func splitPath(path string) (steps []step, err error) {
	bad := fmt.Errorf("%q is no path of a key: write it as key.key or key[0].key", path)
	rest := strings.TrimSpace(path)
	for rest != "" {
		if rest[0] == '[' {
			name, after, ok := strings.Cut(rest[1:], "]")
			if !ok || name == "" || len(steps) == 0 {
				return nil, bad
			}
			steps = append(steps, step{name, true})
			rest = after
			if strings.HasPrefix(rest, ".") && rest != "." {
				rest = rest[1:]
			} else if rest != "" && rest[0] != '[' {
				return nil, bad
			}
			continue
		}
		i := strings.IndexAny(rest, ".[")
		if i < 0 {
			i = len(rest)
		}
		if i == 0 {
			return nil, bad
		}
		steps = append(steps, step{rest[:i], false})
		rest = rest[i:]
		if strings.HasPrefix(rest, ".") {
			if rest = rest[1:]; rest == "" || rest[0] == '[' {
				return nil, bad
			}
		}
	}
	if len(steps) == 0 {
		return nil, bad
	}
	return steps, nil
}

// Merge lays over n what a scenario that extends it says: mappings merge key by
// key, everything else is replaced, and so is a mapping of another kind.
func (n *Node) Merge(over *Node) {
	for _, f := range over.Fields {
		base := n.Get(f.Key)
		if base != nil && base.Kind == Mapping && f.Value.Kind == Mapping && !otherKind(base, f.Value) {
			base.Merge(f.Value)
			n.Set(f.Key, f.Pos, base)
			continue
		}
		n.Set(f.Key, f.Pos, f.Value)
	}
}

func otherKind(base, over *Node) bool {
	a, b := base.Get("kind"), over.Get("kind")
	return b != nil && (a == nil || a.Text != b.Text)
}

// Substitute replaces each value that is "$name" by the parameter of that name,
// and says which were used.
func (n *Node) Substitute(params *Node, used map[string]bool, path string) error {
	if n.Kind == Scalar && !n.Quoted && strings.HasPrefix(n.Text, "$") {
		name := n.Text[1:]
		v := params.Get(name)
		if v == nil {
			var names []string
			if params != nil {
				for _, f := range params.Fields {
					names = append(names, f.Key)
				}
			}
			return &Error{Pos: n.Pos, Key: path, Msg: fmt.Sprintf("there is no parameter %q: params has %s", name, orNone(names))}
		}
		used[name] = true
		*n = *v.Clone()
		return nil
	}
	for _, f := range n.Fields {
		if err := f.Value.Substitute(params, used, Join(path, f.Key)); err != nil {
			return err
		}
	}
	for i, item := range n.Items {
		if err := item.Substitute(params, used, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
