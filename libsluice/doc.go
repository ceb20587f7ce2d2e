//go:build ibverbs

// Package main is libsluice, the C library: queue pairs of C programs, paced. It
// is built with -buildmode=c-shared and the build tag ibverbs (make libsluice).
// include/sluice.h is what programs see, and preload/ the library that brings
// programs here that know nothing of it. docs/c-api.md and docs/preload.md are for
// users; this is for those who change it.
//
// The C files hold what is called often. They find the object by its address in
// a table that is read without a lock (table.c), and decide whether there is
// anything to do in Go. Go has the shims, package paced, over the provider
// ibverbs, which adopts the program's objects. A call crosses into Go once for a
// list of requests and once for an array of completions; in Go, requests are read
// where the program has them and completions written where it wants them.
//
// A queue pair is made by the application's own attributes, whatever they are: Go
// chooses the CQ and the room in the send queue, and calls.c puts these in
// (sl_pending). The same goes for its modification. So Go need not know every
// attribute there is, or will be.
package main

// #cgo pkg-config: libibverbs
// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -I${SRCDIR}/include
// #cgo LDFLAGS: -ldl -lpthread
import "C"

func main() {}
