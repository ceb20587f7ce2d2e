//go:build amd64 || arm64

package prefetch

import "unsafe"

// Line brings the cache line at p near. p may be any address, even none.
//
//go:noescape
func Line(p unsafe.Pointer)
