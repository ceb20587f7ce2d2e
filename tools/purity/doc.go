// Command purity checks what the linter can't: that the packages named on its
// command line, and those below them, start no goroutine and use no channel.
// Tests are free to.
//
//	go run ./tools/purity units des cc
//
// It also checks that .golangci.yml forbids clocks in the same packages, so
// that the Makefile's list and the linter's are one.
package main
