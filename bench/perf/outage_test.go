package perf

import (
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

func TestLongestTimeWithoutACompletion(t *testing.T) {
	us := units.Microsecond
	for _, test := range []struct {
		name      string
		completed []units.Time // after the row's first post
		end       units.Time
		longest   float64 // us
		at        float64 // s
	}{
		{"nothing was posted", nil, 0, 0, 0},
		{"nothing completed", nil, 7 * us, 7, 0},
		{"the first is late", []units.Time{5 * us, 6 * us}, 6 * us, 5, 0},
		{"one in the middle is late", []units.Time{us, 2 * us, 9 * us, 10 * us}, 11 * us, 7, 2e-6},
		{"the end is", []units.Time{us, 2 * us}, 50 * us, 48, 2e-6},
		{"several at once", []units.Time{us, us, us, 3 * us}, 3 * us, 2, 1e-6},
		{"the first of two alike", []units.Time{2 * us, 4 * us}, 4 * us, 2, 0},
	} {
		e := &end{cfg: Config{Outage: true, Events: true}}
		start := 100 * units.Second
		e.books = books{row: &account{}, open: &account{}, start: start, completed: start}
		for _, at := range test.completed {
			e.books.count(0, start+at-1)
			e.books.count(3, start+at)
		}
		o := e.books.outage
		o.extend(e.books.completed, start+test.end)
		if got := o.report(start); fmt.Sprint(got.LongestUs, got.AtSeconds) != fmt.Sprint(test.longest, test.at) {
			t.Errorf("%s: %v, want %v us from %v s on", test.name, *got, test.longest, test.at)
		}
	}
}
