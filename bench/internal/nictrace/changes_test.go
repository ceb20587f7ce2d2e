package nictrace

import (
	"regexp"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// More changes than memory is for come out in order all the same.
func TestChangesAreSorted(t *testing.T) {
	var s changeSort
	const n = 2*heldChanges + 1000
	x := uint64(1)
	sum := int64(0)
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
		c := change{at: units.Time(x >> 40), signal: uint32(x>>32) & 0xff, by: int32(x>>20) % 100}
		sum += int64(c.at) ^ int64(c.signal)<<32 + int64(c.by)
		s.add(c)
	}
	if s.runs != 2 {
		t.Errorf("%d runs in the file", s.runs)
	}
	last, count := change{}, 0
	if err := s.each(func(c change) {
		if compareChanges(last, c) > 0 {
			t.Fatalf("%+v comes behind %+v", c, last)
		}
		last = c
		sum -= int64(c.at) ^ int64(c.signal)<<32 + int64(c.by)
		count++
	}); err != nil || count != n || sum != 0 {
		t.Errorf("%d of %d came out: %v", count, n, err)
	}
}

func TestVCDCodes(t *testing.T) {
	form := regexp.MustCompile(`^[!-~]+$`)
	seen := map[string]bool{}
	for i := range uint32(30000) {
		code := vcdCode(i)
		if seen[code] || !form.MatchString(code) {
			t.Fatalf("%d is %q", i, code)
		}
		seen[code] = true
	}
}
