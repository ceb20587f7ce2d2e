package include

import (
	"regexp"
	"strings"
	"sync"
)

// word is an identifier of P4.
var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// Tofino2Only reports whether a name is declared for Tofino 2 and not for Tofino 1: a field of the
// intrinsic metadata, a type, an extern.
func Tofino2Only(name string) bool { return tofino2Only()[name] }

var tofino2Only = sync.OnceValue(func() map[string]bool {
	names := func(files ...string) map[string]bool {
		all := map[string]bool{}
		for _, file := range files {
			text, err := Builtin(file)
			if err != nil {
				panic(err) // it is embedded
			}
			for line := range strings.Lines(string(text)) {
				code, _, _ := strings.Cut(line, "//")
				for _, name := range word.FindAllString(code, -1) {
					all[name] = true
				}
			}
		}
		return all
	}
	of2 := names("t2na.p4", "tofino2_specs.p4", "tofino2_base.p4", "tofino2_arch.p4")
	for name := range names("core.p4", "tna.p4", "tofino_types.p4", "tofino_common.p4", "tofino1_specs.p4", "tofino1_base.p4", "tofino1_arch.p4") {
		delete(of2, name)
	}
	return of2
})
