//go:build linux

package guest

import "unsafe"

// firstWord is the first word of shared pages, as programs store to it.
func firstWord(b []byte) *uint64 { return (*uint64)(unsafe.Pointer(&b[0])) }
