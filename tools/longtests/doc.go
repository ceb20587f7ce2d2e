// Longtests prints, as a regular expression for go test's -run, the names of the tests that do
// less under `make test`: the tests that ask testing.Short or draw with rapid, which checks
// fewer cases under -short, and the tests of programs that only `make deps-all` installs. They
// are
// what `make test-long` runs; longtests packages prints where they are.
package main
