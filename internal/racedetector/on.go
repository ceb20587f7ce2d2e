//go:build race

// Package racedetector says whether Go's race detector is built in. It makes a run take some
// ten times as long, and has nothing to say of what one goroutine does: long tests of that kind
// leave it out.
package racedetector

// On reports whether it is.
const On = true
