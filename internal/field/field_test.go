package field

import (
	"errors"
	"fmt"
	"testing"
)

func TestRange(t *testing.T) {
	for _, x := range []struct {
		v, low, high int
		zero, want   string
	}{
		{5, 5, 7, "", ""},
		{7, 5, 7, "", ""},
		{4, 5, 7, "", "nic: tags is 4: choose 5 to 7"},
		{8, 5, 7, "", "nic: tags is 8: choose 5 to 7"},
		{0, 5, 7, "none", ""},
		{4, 5, 7, "none", "nic: tags is 4: choose 5 to 7, or 0 for none"},
		{-1, 0, 7, "no limit", "nic: tags is -1: choose 1 to 7, or 0 for no limit"},
	} {
		err := Range("nic", "tags", x.v, x.low, x.high, x.zero)
		if got := fmt.Sprint(err); x.want == "" && err != nil || x.want != "" && got != x.want {
			t.Errorf("%+v: %s", x, got)
		}
	}
}

func TestErrors(t *testing.T) {
	a, b, other := Bad("x", "a", 1, "choose %d", 2), Bad("x", "b", "no", "choose yes"), errors.New("other")
	if a.Error() != "x: a is 1: choose 2" || b.Error() != `x: b is "no": choose yes` {
		t.Errorf("%v; %v", a, b)
	}
	if none := Bad("x", "c", nil, "leave it out"); none.Error() != "x: c: leave it out" || none.(*Error).Fault() != "leave it out" {
		t.Error(none)
	}
	fields, rest := Errors(errors.Join(fmt.Errorf("in: %w", a), errors.Join(other, b)))
	if len(fields) != 2 || error(fields[0]) != a || error(fields[1]) != b || !errors.Is(rest, other) {
		t.Errorf("%v, %v", fields, rest)
	}
	if fields, rest := Errors(nil); len(fields) != 0 || rest != nil {
		t.Errorf("of nil: %v, %v", fields, rest)
	}
	if fields, rest := Errors(errors.Join(a, b)); len(fields) != 2 || rest != nil {
		t.Errorf("of fields alone: %v, %v", fields, rest)
	}
}
