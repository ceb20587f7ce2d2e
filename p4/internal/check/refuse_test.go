package check

import (
	"errors"
	"strings"
	"testing"
)

// A register whose index type is not known makes no object, and what uses it is
// checked all the same.
func TestUnknownObject(t *testing.T) {
	const src = `#include <core.p4>
#include <tna.p4>
control c(inout bit<32> x) {
    Register<bit<32>, _>(8) r;
    RegisterAction<bit<32>, _, bit<32>>(r) a = { void apply(inout bit<32> v, out bit<32> o) { o = v; } };
    apply { x = a.execute(0); }
}
`
	_, err := load(src, Options{NoMain: true})
	const want = "t.p4:4:5: the type argument I of Register cannot be inferred: write Register<...>(...)"
	var es Errors
	if !errors.As(err, &es) || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// What an empty program lacks has a position, too.
func TestEmptyProgram(t *testing.T) {
	_, err := load("#ifdef NO\nconst bit<8> x = 1;\n#endif\n", Options{})
	if want := "t.p4:1:1: the program has no package instance called main"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error is %v, want %s", err, want)
	}
}
