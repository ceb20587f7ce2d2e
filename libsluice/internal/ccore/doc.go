// Package ccore holds the C of the pure data path, in src: what cgen generates from
// the Go packages that core.yaml names, for programs without a Go runtime, and for
// processors without an operating system. The tests hold it to Go bit for bit.
// docs/c-core.md says how to use it.
package ccore

//go:generate go run ../../../tools/cgen core.yaml src
