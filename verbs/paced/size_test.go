package paced

import (
	"strconv"
	"testing"
	"unsafe"
)

// A queue pair fits Go's size class of 1,792 bytes. In the next one, 2,048, the same
// fields of all queue pairs share few sets of a processor's cache, which costs a
// thousand queue pairs half as many cache misses again.
func TestQPFitsItsSizeClass(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skipf("sizes are those of 64 bits, and this is %d", strconv.IntSize)
	}
	if n := unsafe.Sizeof(QP{}); n > 1792 {
		t.Errorf("a QP has %d bytes, at most 1792", n)
	}
}

// Threads that poll different CQs share no cache line of these.
func TestCQIsWholeCacheLines(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skipf("sizes are those of 64 bits, and this is %d", strconv.IntSize)
	}
	if n := unsafe.Sizeof(CQ{}); n != cqSize {
		t.Errorf("a CQ has %d bytes, expected %d: adapt its padding", n, cqSize)
	}
}
