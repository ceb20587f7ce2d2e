package deviations

import (
	"slices"
	"testing"
)

func TestAbout(t *testing.T) {
	all, err := Parse([]byte("- {rows: [A, B], why: so}\n- {rows: [B], points: [x], why: so}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		row, point string
		want       []int
	}{
		{"A", "", []int{1}}, {"A", "x", []int{1}}, {"B", "x", []int{1, 2}}, {"B", "y", []int{1}}, {"B", "", []int{1, 2}}, {"C", "", nil},
	} {
		if got := About(all, c.row, c.point); !slices.Equal(got, c.want) {
			t.Errorf("%s, %q: %v, want %v", c.row, c.point, got, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no rows": "- {why: so}", "no reason": "- {rows: [X]}", "another key": "- {rows: [X], why: so, because: no}",
	} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("a deviation with %s: accepted", name)
		}
	}
}
