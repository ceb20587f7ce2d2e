package prefetch

import (
	"testing"
	"unsafe"
)

// A prefetch reads and writes nothing, wherever it points to.
func TestLine(t *testing.T) {
	x := [64]byte{1, 2, 3}
	before := x
	Line(unsafe.Pointer(&x))
	Line(nil)
	Beyond(unsafe.Pointer(&x), 1<<20)
	Lines(unsafe.Pointer(&x), unsafe.Sizeof(x))
	Lines(unsafe.Pointer(&x), 0)
	if x != before {
		t.Error("it has written")
	}
	if n := testing.AllocsPerRun(100, func() { Line(unsafe.Pointer(&x)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
