package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What one system alone declares is missed on another, in a package and in its tests.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module example.com/m\n\ngo 1.24\n",
		"a_linux.go":  "package m\n\nfunc here() int { return 1 }\n",
		"b.go":        "package m\n\nvar A = here()\n",
		"c_test.go":   "package m\n\nvar b = only()\n",
		"o_linux.go":  "package m\n\nconst both = 1\n",
		"o_darwin.go": "package m\n\nconst both = 2\n",
		"o.go":        "package m\n\nvar _ = both\n",

		"only_linux_test.go": "package m\n\nfunc only() int { return 1 }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	faults, err := check(dir, "linux")
	if err != nil || len(faults) > 0 {
		t.Errorf("linux: %v, %v", faults, err)
	}
	faults, err = check(dir, "darwin")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range faults {
		text.WriteString(f.Error() + "\n")
	}
	for _, want := range []string{"b.go:3:9: undefined: here", "c_test.go:3:9: undefined: only"} {
		if strings.Count(text.String(), want) != 1 {
			t.Errorf("%q is not there once in\n%s", want, text.String())
		}
	}
	if len(faults) != 2 {
		t.Errorf("%d faults:\n%s", len(faults), text.String())
	}
	if faults, err = check(dir, "plan10"); err == nil && len(faults) == 0 {
		t.Error("a system that is not there is taken")
	}
}
