package scenario

import (
	"fmt"
	"strconv"
	"strings"
)

// override applies "a.b[0].c=value" to the tree; the value is YAML. List items go
// by number or by name: systems[0], systems[TIMELY]. Keys that are not there are
// added: whether the schema has them is for the decoder to say.
func (n *node) override(set string) error {
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
	value, err := parseYAML(pos, []byte(text))
	if err != nil {
		return err
	}
	if value.kind == nullNode {
		return bad("there is no value after \"=\"")
	}
	at, walked := n, ""
	for i, step := range steps {
		last := i == len(steps)-1
		if step.item {
			if at.kind != sequenceNode {
				return bad("%s is no list: it has no item [%s]", walked, step.name)
			}
			j, err := at.index(step.name)
			if err != nil {
				return bad("%s %v", walked, err)
			}
			walked = fmt.Sprintf("%s[%s]", walked, step.name)
			if last {
				at.items[j] = value
			}
			at = at.items[j]
			continue
		}
		if at.kind == nullNode {
			at.kind = mappingNode
		}
		if at.kind == sequenceNode {
			return bad("%s is a list: say which item, as in %[1]s[0]", walked)
		}
		if at.kind != mappingNode {
			return bad("%s is a single value: it has no key %q", walked, step.name)
		}
		walked = join(walked, step.name)
		next := at.get(step.name)
		switch {
		case last:
			at.set(step.name, pos, value)
			next = value
		case next == nil:
			next = &node{kind: mappingNode, pos: pos}
			at.set(step.name, pos, next)
		}
		at = next
	}
	return nil
}

// index finds an item by its number or its name.
func (n *node) index(name string) (int, error) {
	if len(n.items) == 0 {
		return 0, fmt.Errorf("is empty: it has no item [%s]", name)
	}
	if i, err := strconv.Atoi(name); err == nil {
		if i < 0 || i >= len(n.items) {
			return 0, fmt.Errorf("has no item [%s]: its items are [0] to [%d]", name, len(n.items)-1)
		}
		return i, nil
	}
	var names []string
	for i, item := range n.items {
		for _, key := range []string{"name", "label"} {
			if v := item.get(key); v != nil && v.kind == scalarNode {
				if v.text == name {
					return i, nil
				}
				names = append(names, v.text)
			}
		}
	}
	if len(names) == 0 {
		return 0, fmt.Errorf("has no item of the name [%s]: write a number, [0] to [%d]", name, len(n.items)-1)
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

// merge lays over n what a scenario that extends it says: mappings merge key by
// key, everything else is replaced, and so is a mapping of another kind.
func (n *node) merge(over *node) {
	for _, f := range over.fields {
		base := n.get(f.key)
		if base != nil && base.kind == mappingNode && f.value.kind == mappingNode && !otherKind(base, f.value) {
			base.merge(f.value)
			n.set(f.key, f.pos, base)
			continue
		}
		n.set(f.key, f.pos, f.value)
	}
}

func otherKind(base, over *node) bool {
	a, b := base.get("kind"), over.get("kind")
	return b != nil && (a == nil || a.text != b.text)
}

// substitute replaces each value that is "$name" by the parameter of that name,
// and says which were used.
func (n *node) substitute(params *node, used map[string]bool, path string) error {
	if n.kind == scalarNode && !n.quoted && strings.HasPrefix(n.text, "$") {
		name := n.text[1:]
		v := params.get(name)
		if v == nil {
			var names []string
			if params != nil {
				for _, f := range params.fields {
					names = append(names, f.key)
				}
			}
			return &Error{Pos: n.pos, Key: path, Msg: fmt.Sprintf("there is no parameter %q: params has %s", name, orNone(names))}
		}
		used[name] = true
		*n = *v.clone()
		return nil
	}
	for _, f := range n.fields {
		if err := f.value.substitute(params, used, join(path, f.key)); err != nil {
			return err
		}
	}
	for i, item := range n.items {
		if err := item.substitute(params, used, fmt.Sprintf("%s[%d]", path, i)); err != nil {
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
