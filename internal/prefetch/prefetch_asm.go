//go:build amd64 || arm64

package prefetch

import "unsafe"

// Line brings the cache line at p near. p may be any address, even none.
//
//go:noescape
func Line(p unsafe.Pointer)

// Beyond prefetches the cache line at an offset in bytes behind p. It may lie outside the
// object that p points into, where Go allows no pointer.
//
//go:noescape
func Beyond(p unsafe.Pointer, offset uintptr)

// Lines prefetches the cache lines of a number of bytes from p on.
//
//go:noescape
func Lines(p unsafe.Pointer, size uintptr)
