package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// toyFlag is what a new flag of sluice perf needs, by file: a line, and the one after which it
// stands.
var toyFlag = map[string]struct{ after, line string }{
	"bench/perf/config.go": {
		"type Config struct {\n", "\tRepeat int `flag:\"repeat\" default:\"1\" range:\"[1,9]\" help:\"measure each size this number of <TIMES>\"`\n",
	},
	"bench/perf/run.go": {
		"func (e *end) each(run func(size int) (*Row, error)) error {\n",
		"\tfor n, all := 1, e.sizes; n < e.cfg.Repeat; n++ {\n\t\te.sizes = append(e.sizes, all...)\n\t}\n",
	},
	"CHANGELOG.md": {"## [Unreleased]\n", "\n- `sluice perf --repeat`.\n"},
}

// TestOneMoreFlag adds a flag to sluice perf by the edits that CONTRIBUTING.md names, in an
// overlay of the tree, and runs it.
func TestOneMoreFlag(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	_, list, _ := strings.Cut(read("CONTRIBUTING.md"), "**A flag of `sluice perf`**")
	list, _, _ = strings.Cut(list, "\n**")
	var edits []string
	for _, m := range regexp.MustCompile("(?m)^- `([^`]+)`").FindAllStringSubmatch(list, -1) {
		edits = append(edits, m[1])
	}
	if len(edits) != 3 || len(toyFlag) != 3 {
		t.Fatalf("CONTRIBUTING.md has the edits %q, and this test %d: want 3", edits, len(toyFlag))
	}
	dir := t.TempDir()
	replaced := map[string]string{}
	for name, edit := range toyFlag {
		if !slices.Contains(edits, name) {
			t.Errorf("CONTRIBUTING.md does not have %s among the edits for a flag: %q", name, edits)
		}
		text := read(name)
		if strings.Count(text, edit.after) != 1 {
			t.Fatalf("%s does not have the line %q once", name, edit.after)
		}
		changed := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(changed, []byte(strings.Replace(text, edit.after, edit.after+edit.line, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[filepath.Join(root, name)] = changed
	}

	if testing.Short() {
		t.Skipf("-short: a program is linked, which takes over ten seconds")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("the program is built by the go command: %v", err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	sluice := filepath.Join(dir, "sluice")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", sluice, "./cmd/sluice")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, x := range []struct{ args, want string }{
		{"perf --help", `--repeat TIMES +measure each size this number of TIMES \(default 1\)`},
		{"perf write_bw -n 20 --quiet", `^ 65536 .*\n$`},
		{"perf write_bw -n 20 --quiet --repeat 3", `^( 65536 .*\n){3}$`},
		{"perf read_lat -n 20 --quiet --repeat 2", `^( 2 .*\n){2}$`},
		{"perf write_bw --repeat 10", `^sluice: --repeat 10: choose 1 to 9: see sluice perf --help\n$`},
		{"man", `\\-\\-repeat \\fITIMES\\fR\nmeasure each size`},
	} {
		out, _ := exec.CommandContext(t.Context(), sluice, strings.Fields(x.args)...).CombinedOutput()
		if !regexp.MustCompile(x.want).Match(out) {
			t.Errorf("sluice %s does not print %s:\n%s", x.args, x.want, out)
		}
	}
}
