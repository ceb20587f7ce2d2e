package main

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
)

func main() {
	names, err := find(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "longtests:", err)
		os.Exit(1)
	}
	fmt.Printf("^(%s)$\n", strings.Join(names, "|"))
}

// find gives the names of the tests below root that do less under -short, sorted. It reads
// source alone: a test counts where it, or a function that it calls by name, asks, or names a
// program that `make deps` does not install.
func find(root fs.FS) ([]string, error) {
	functions, err := read(root)
	if err != nil {
		return nil, err
	}
	return functions.tests(), nil
}
