package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// The systems of the papers, frozen: every reproduction takes them from this one
// file, so that no constant is set for the sake of one figure.

// PaperSystems lists the names of the systems that `use` takes.
func PaperSystems() []string {
	all, err := paperSystems()
	if err != nil {
		panic(err) // it is part of the program
	}
	var names []string
	for _, f := range all.fields {
		names = append(names, f.key)
	}
	return names
}

func paperSystems() (*node, error) {
	const file = "systems.yaml"
	src, err := builtins.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseYAML(Pos{File: file}, src)
}

// paperSystem says in a line what a system is.
func paperSystem(name string) (string, error) {
	all, err := paperSystems()
	if err != nil {
		return "", err
	}
	one := all.get(name)
	text := "engine " + one.get("engine").text
	for _, key := range []string{"config", "override"} {
		if v := one.get(key); v != nil {
			text += ", with " + key
		}
	}
	return text, nil
}

// useSystems puts a system of systems.yaml for each that says so, with what else it
// says laid over it.
func (n *node) useSystems() error {
	list := n.get("systems")
	if list == nil {
		return nil
	}
	for i, item := range list.items {
		use := item.take("use")
		if use == nil {
			continue
		}
		fail := func(format string, args ...any) error {
			return &Error{Pos: use.pos, Key: fmt.Sprintf("systems[%d].use", i), Msg: fmt.Sprintf(format, args...)}
		}
		all, err := paperSystems()
		if err != nil {
			return err
		}
		if use.kind != scalarNode || all.get(use.text) == nil {
			names := PaperSystems()
			slices.Sort(names)
			return fail("there is no such system of the papers: take one of %s", strings.Join(names, ", "))
		}
		if item.get("engine") != nil {
			return fail("the system has its engine: leave out engine, or use")
		}
		one := all.get(use.text)
		one.set("name", use.pos, &node{kind: scalarNode, text: use.text, quoted: true, pos: use.pos})
		one.merge(item)
		list.items[i] = one
	}
	return nil
}
