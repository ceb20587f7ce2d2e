package main

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
)

func main() {
	names, packages, err := find(os.DirFS("."))
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "longtests:", err)
		os.Exit(1)
	case len(os.Args) == 2 && os.Args[1] == "names":
		fmt.Printf("^(%s)$\n", strings.Join(names, "|"))
	case len(os.Args) == 2 && os.Args[1] == "packages":
		fmt.Println("./" + strings.Join(packages, "\n./"))
	default:
		fmt.Fprintln(os.Stderr, "usage: longtests names|packages")
		os.Exit(2)
	}
}

// find gives the names of the tests below root that do less under -short, and the directories of
// their packages, both sorted. It reads
// source alone: a test counts where it, or a function that it calls by name, asks, or names a
// program that `make deps` does not install.
func find(root fs.FS) (names, packages []string, err error) {
	functions, err := read(root)
	if err != nil {
		return nil, nil, err
	}
	names, packages = functions.tests()
	return names, packages, nil
}
