package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	systems := os.Args[1:]
	if len(systems) == 0 {
		systems = []string{"darwin"}
	}
	wrong := 0
	for _, system := range systems {
		faults, err := check(".", system)
		if err != nil {
			fmt.Fprintln(os.Stderr, "portable:", err)
			os.Exit(1)
		}
		for _, fault := range faults {
			fmt.Fprintf(os.Stderr, "for %s: %v\n", system, fault)
		}
		wrong += len(faults)
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

// check returns what does not parse, resolve or type-check in the packages at and below a directory
// of a module and in their tests, for a GOOS of go tool dist list, without cgo.
func check(dir, system string) ([]packages.Error, error) {
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
		Dir:   dir,
		Env:   append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
		Tests: true,
	}, "./...")
	if err != nil {
		return nil, err
	}
	var faults []packages.Error
	seen := map[packages.Error]bool{} // a package stands beside itself with its tests
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if !seen[e] {
				seen[e] = true
				faults = append(faults, e)
			}
		}
	})
	return faults, nil
}
