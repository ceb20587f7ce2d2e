package field

import (
	"errors"
	"fmt"
	"testing"
)

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
