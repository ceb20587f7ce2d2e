package hugepages

import "testing"

// Memory is there, zero and of the length asked for, whatever that is.
func TestSlice(t *testing.T) {
	for _, n := range []int{0, 1, size / 8, size/8 + 1, 3 * size / 8, size} {
		s := Slice[uint64](n)
		if len(s) != n {
			t.Fatalf("%d elements, want %d", len(s), n)
		}
		for i := range s {
			if s[i] != 0 {
				t.Fatalf("element %d of %d is %d", i, n, s[i])
			}
			s[i] = uint64(i)
		}
	}
}
