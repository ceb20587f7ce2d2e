// Portable type-checks all packages and their tests as they are for another system, by default
// darwin: what Linux alone has must stand in files that other systems leave out. Unlike go vet and
// go build it compiles nothing, so it takes a tenth of their time; what they depend on is checked as
// far as they use it.
//
//	go run ./tools/portable [GOOS...]
package main
