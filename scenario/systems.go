package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
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
	for _, f := range all.Fields {
		names = append(names, f.Key)
	}
	return names
}

func paperSystems() (*tree.Node, error) {
	const file = "systems.yaml"
	src, err := builtins.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return tree.Parse(Pos{File: file}, src)
}

// paperSystem says in a line what a system is.
func paperSystem(name string) (string, error) {
	all, err := paperSystems()
	if err != nil {
		return "", err
	}
	one := all.Get(name)
	text := "engine " + one.Get("engine").Text
	for _, key := range []string{"config", "override"} {
		if v := one.Get(key); v != nil {
			text += ", with " + key
		}
	}
	return text, nil
}

// useSystems puts a system of systems.yaml for each that says so, with what else it
// says laid over it.
func useSystems(root *tree.Node) error {
	list := root.Get("systems")
	if list == nil {
		return nil
	}
	for i, item := range list.Items {
		use := item.Take("use")
		if use == nil {
			continue
		}
		fail := func(format string, args ...any) error {
			return &Error{Pos: use.Pos, Key: fmt.Sprintf("systems[%d].use", i), Msg: fmt.Sprintf(format, args...)}
		}
		all, err := paperSystems()
		if err != nil {
			return err
		}
		if use.Kind != tree.Scalar || all.Get(use.Text) == nil {
			names := PaperSystems()
			slices.Sort(names)
			return fail("there is no such system of the papers: take one of %s", strings.Join(names, ", "))
		}
		if item.Get("engine") != nil {
			return fail("the system has its engine: leave out engine, or use")
		}
		one := all.Get(use.Text)
		one.Set("name", use.Pos, &tree.Node{Kind: tree.Scalar, Text: use.Text, Quoted: true, Pos: use.Pos})
		one.Merge(item)
		list.Items[i] = one
	}
	return nil
}
