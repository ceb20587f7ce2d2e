package cacheline

import (
	"testing"
	"unsafe"
)

// lines fails if two objects, one after the other from New, share a cache line.
func lines[T any](t *testing.T) {
	t.Helper()
	var v T
	size := unsafe.Sizeof(v)
	owner := map[uintptr]int{}
	keep := make([]*T, 200)
	for i := range keep {
		keep[i] = New(v)
		from := uintptr(unsafe.Pointer(keep[i]))
		for line := from / Size; line <= (from+size-1)/Size; line++ {
			if other, taken := owner[line]; taken {
				t.Fatalf("%d bytes: objects %d and %d share a line", size, other, i)
			}
			owner[line] = i
		}
	}
}

func TestNoTwoShareALine(t *testing.T) {
	lines[[1]byte](t)
	lines[[8]byte](t)
	lines[[3]*int](t)
	lines[[5]*int](t)
	lines[[52]byte](t)
	lines[[8]*int](t)
	lines[[9]*int](t)
	lines[[10]*int](t)
	lines[[20]*int](t)
	lines[[22]*int](t)
	lines[[28]*int](t)
	lines[[127]*int](t) // with the header that Go gives objects of more than 512 bytes
	lines[[128]*int](t)
	lines[[1777]byte](t)
}

func TestTheValueIsCopied(t *testing.T) {
	v := [3]int{1, 2, 3}
	p := New(v)
	if *p != v {
		t.Errorf("%v, expected %v", *p, v)
	}
	if p[0] = 4; v[0] != 1 {
		t.Error("the original changed")
	}
}
