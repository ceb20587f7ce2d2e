package run

import (
	"fmt"
	"strings"
)

// find is the index of what is called name among n things: the one whose full name it
// is, else the only one that has it as its last dotted parts.
func find(what, name string, n int, at func(int) string) (int, error) {
	found := -1
	var many []string
	for i := range n {
		full := at(i)
		if full == name {
			return i, nil
		}
		if strings.HasSuffix(full, "."+name) || strings.HasSuffix(name, "."+full) {
			found = i
			many = append(many, full)
		}
	}
	switch len(many) {
	case 1:
		return found, nil
	case 0:
		var all []string
		for i := range n {
			all = append(all, at(i))
		}
		if len(all) == 0 {
			return 0, fmt.Errorf("unknown %s %q", what, name)
		}
		return 0, fmt.Errorf("unknown %s %q: there is %s", what, name, strings.Join(all, ", "))
	}
	return 0, fmt.Errorf("%s %q is ambiguous: %s", what, name, strings.Join(many, ", "))
}
