// Package cli is the command sluice, for programs that are that command with more in
// it. What registers when it is imported is in the command: rate engines
// (cc.Register), devices (verbs.Register). Such a program is its imports and a call:
//
//	package main
//
//	import (
//		"github.com/sluice-rdma/sluice/cli"
//
//		_ "example.com/mine/aimd" // registers an engine
//	)
//
//	func main() { cli.Main() }
//
// With the build tag ibverbs it has the devices of libibverbs. docs/tutorial.md makes
// one from nothing.
//
// Its manual page is man/sluice.1.
package cli

//go:generate sh -c "SLUICE_RUN=/run/sluice go run ../cmd/sluice man >man/sluice.1"
