package tree

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/units"
)

// Small documents that are nested absurdly are refused before they take memory.
func TestNesting(t *testing.T) {
	const n = 20_000
	for name, src := range map[string]string{
		"lists":    "a: 1\nb: " + strings.Repeat("[", n),
		"closed":   "a: 1\nb: " + strings.Repeat("[", n) + strings.Repeat("]", n),
		"maps":     "a: 1\nb: " + strings.Repeat("{a: ", n),
		"dashes":   "a: 1\n" + strings.Repeat("- ", n) + "x",
		"any keys": "a: 1\n" + strings.Repeat("? ", n) + "x",
	} {
		var err error
		got := infile.Allocated(func() { _, err = Parse(Pos{File: "x.yaml"}, []byte(src)) })
		var e *Error
		if !errors.As(err, &e) || e.Pos.Line != 2 {
			t.Errorf("%s: %v", name, err)
		}
		if got > 64*units.MiB {
			t.Errorf("%s: %d MiB were allocated for %d KiB", name, got>>20, len(src)>>10)
		}
	}
	deep := strings.Repeat("[", infile.MaxDepth) + strings.Repeat("]", infile.MaxDepth)
	if _, err := Parse(Pos{}, []byte(deep)); err != nil {
		t.Error(err)
	}
	// What lies beside each other is not nested.
	if _, err := Parse(Pos{}, []byte(strings.Repeat("- [{a: 1}]\n", 10*infile.MaxDepth))); err != nil {
		t.Error(err)
	}
}

// FuzzParse: whatever a document is, it is read or refused, in memory that goes with its
// size.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"a: [1, {b: c}]\nd: &x {e: f}\ng: *x\n", "- - - x\n", "? a\n: b\n", "a: |\n  text\n# note\n", "a: [[[[", "{a: {a: {a: ",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var n *Node
		var err error
		got := infile.Within(t, func() { n, err = Parse(Pos{File: "x.yaml"}, src) })
		if (n == nil) == (err == nil) {
			t.Fatalf("%v, %v", n, err)
		}
		if got > units.Bytes(64<<20+20_000*len(src)) {
			t.Fatalf("%d bytes were allocated for a document of %d", got, len(src))
		}
	})
}
