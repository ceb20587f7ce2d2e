// Package hugepages asks the system for large pages under memory that is walked in
// no order, so that the processor finds it without walking page tables, too. It
// changes nothing but speed, and does nothing where the system has no such advice.
package hugepages

import "unsafe"

// size is that of a large page, where it is not larger.
const size = 2 << 20

// Slice returns a slice of zero values. Memory of less than a large page is as make
// gives it; what T points to is not affected.
func Slice[T any](n int) []T {
	s := make([]T, n)
	var t T
	if bytes := uintptr(n) * unsafe.Sizeof(t); bytes >= size {
		p := unsafe.Pointer(unsafe.SliceData(s))
		skip := -uintptr(p) % size
		if bytes >= skip+size {
			advise(unsafe.Slice((*byte)(unsafe.Add(p, skip)), (bytes-skip)/size*size))
		}
	}
	return s
}
