// Command mutants measures tests by faults: it builds the tree with a fault in it and
// asks whether the tests, or a fault storm, find that. The tree itself stays as it is
// (go build -overlay), and no code has hooks for it.
//
//	go run ./tools/mutants check              each planted fault still fits the tree
//	go run ./tools/mutants plant              plant the faults of plants/, one after the other
//	go run ./tools/mutants auto ./ratelimiter change a package mechanically, here and there
//
// It runs at the top of the tree. docs/mutants.md has what it found.
package main
