package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: longtests")
		os.Exit(2)
	}
	found, err := find(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "longtests:", err)
		os.Exit(1)
	}
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		fmt.Printf("./%s ^(%s)$\n", dir, strings.Join(found[dir], "|"))
	}
}

// find gives the names of the tests below root that do less under -short, sorted, by the
// directories of their packages. It reads source alone: a test counts where it, or a function
// that it calls by name, asks, or names a program that `make deps` does not install.
func find(root fs.FS) (map[string][]string, error) {
	functions, err := read(root)
	if err != nil {
		return nil, err
	}
	return functions.tests(), nil
}
