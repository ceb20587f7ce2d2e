package wiretag

import "testing"

func TestHistory(t *testing.T) {
	h := newHistory(1)
	for _, at := range []uint64{10, 30, 20, 40} { // two came in another order
		h.add(report{at: at, hop: 1})
	}
	for _, c := range []struct {
		at uint64
		ok bool
	}{{5, false}, {10, true}, {10, true}, {20, true}, {25, false}, {30, true}, {40, true}, {40, true}, {50, false}, {40, false}} {
		if r, ok := h.of(c.at); ok != c.ok || ok && r.at != c.at {
			t.Errorf("at %d: %+v, %v", c.at, r, ok)
		}
	}
	for at := range uint64(100) {
		h.add(report{at: 100 + at})
	}
	if _, ok := h.of(100); ok {
		t.Error("a report for which there was no room")
	}
	if _, ok := h.of(199); !ok {
		t.Error("the newest is not there")
	}
}
