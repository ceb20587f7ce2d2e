// Longtests prints a line for each package that has tests which do less under `make test`: its
// directory, and the tests' names as a regular expression for go test's -run. Such tests ask
// testing.Short, or draw with rapid, which checks fewer cases under -short, or are of programs
// that only `make deps-all` installs. They are what `make test-long` runs; only.sh has each
// package run its own.
package main
