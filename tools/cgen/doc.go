// Command cgen writes C from the Go of the pure data path: rate engines and what
// they stand on. Go stays the one source.
//
//	go run ./tools/cgen SPEC.yaml DIR    write the C that SPEC.yaml describes into DIR
//
// It takes structs, integers, floating point, booleans, arrays, slices of memory
// that the caller owns, pointers, and the interfaces that the specification names,
// whose dynamic type becomes a tag. It refuses everything else by name, file and
// line: closures, maps, other interfaces, strings, append, make, panics, goroutines,
// and what Go or C leave open, such as a conversion from floating point out of
// range. docs/c-core.md has the rules.
package main
