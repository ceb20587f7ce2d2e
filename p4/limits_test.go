package p4

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-rdma/sluice/internal/infile"
)

// Hostile text of up to 4 MiB ends in an error that has its place, within the bounds on text.
func TestHostileText(t *testing.T) {
	double := "#define A0 x\n"
	for i := range 60 {
		n := string(rune('a' + i%26))
		double += "#define " + n + strings.Repeat("z", i/26+1) + " A0 A0\n#undef A0\n#define A0 " + n + strings.Repeat("z", i/26+1) + " " + n + strings.Repeat("z", i/26+1) + "\n"
	}
	for name, text := range map[string]string{
		"sums":      "const bit<8> x = " + strings.Repeat("1+", 1_900_000) + "1;",
		"brackets":  "const bit<8> x = " + strings.Repeat("(", 3_900_000),
		"blocks":    "control c() { apply { " + strings.Repeat("{", 3_900_000),
		"constants": strings.Repeat("const bit<8> x = 1;\n", 200_000),
		"macros":    double + "A0\n",
		"itself":    strings.Repeat("#include \"p.p4\"\n", 100),
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			used := infile.Allocated(func() {
				_, err = LoadFS(fstest.MapFS{"p.p4": {Data: []byte(text)}}, "p.p4", Options{})
			})
			if err == nil || !located.MatchString(err.Error()) {
				t.Errorf("error is %.300v", err)
			}
			if used > infile.Budget {
				t.Errorf("%v were allocated", used)
			}
		})
	}
}
