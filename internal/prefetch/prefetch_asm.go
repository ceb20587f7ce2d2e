//go:build amd64 || arm64

package prefetch

import "unsafe"

// Line brings the cache line at p near. p may be any address, even none.
//
//go:noescape
func Line(p unsafe.Pointer)

// Beyond brings near the cache line so many bytes behind p. That may lie outside what
// p points into, where Go has no pointer to be.
//
//go:noescape
func Beyond(p unsafe.Pointer, offset uintptr)

// Lines brings near the cache lines of so many bytes from p on.
//
//go:noescape
func Lines(p unsafe.Pointer, size uintptr)
