// Package cacheline allocates what one thread writes in cache lines of its own.
//
// Go places objects of a size side by side, so that the end of one and the beginning of the
// next are in one line wherever the size is not whole lines. Two threads of which each
// writes one of them then take that line from each other all the time. Objects of whole
// lines stand in size classes of whole lines.
package cacheline

import "unsafe"

// Size is that of a line on the processors that the library knows, in bytes.
const Size = 64

// New returns a copy of v that shares no cache line with another object.
func New[T any](v T) *T {
	switch over := unsafe.Sizeof(v) % Size; {
	case over == 0:
		return &v
	case over <= 8:
		return &(&struct {
			v T
			_ [56]byte
		}{v: v}).v
	case over <= 16:
		return &(&struct {
			v T
			_ [48]byte
		}{v: v}).v
	case over <= 24:
		return &(&struct {
			v T
			_ [40]byte
		}{v: v}).v
	case over <= 32:
		return &(&struct {
			v T
			_ [32]byte
		}{v: v}).v
	case over <= 40:
		return &(&struct {
			v T
			_ [24]byte
		}{v: v}).v
	case over <= 48:
		return &(&struct {
			v T
			_ [16]byte
		}{v: v}).v
	case over <= 56:
		return &(&struct {
			v T
			_ [8]byte
		}{v: v}).v
	}
	return &(&struct {
		v T
		_ [1]byte
	}{v: v}).v
}
