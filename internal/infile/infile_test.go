package infile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/units"
)

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(name, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := infile.Read(name, 10); err != nil || string(text) != "0123456789" {
		t.Errorf("got %q, %v", text, err)
	}
	large := (*infile.TooLarge)(nil)
	if _, err := infile.Read(name, 9); !errors.As(err, &large) || !strings.Contains(err.Error(), name) {
		t.Errorf("expected an error that names the file, got %v", err)
	}
	if _, err := infile.Read("/dev/zero", units.MiB); !errors.As(err, &large) || !strings.Contains(err.Error(), "/dev/zero") {
		t.Errorf("expected an error that names the device, got %v", err)
	}
	if _, err := infile.All(endless{}, units.MiB); !errors.As(err, &large) {
		t.Errorf("expected a limit, got %v", err)
	}
	if text, err := infile.All(io.LimitReader(endless{}, int64(units.MiB)), units.MiB); err != nil || len(text) != int(units.MiB) {
		t.Errorf("got %d bytes, %v", len(text), err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, size, err := infile.Head(f, 4); err != nil || string(text) != "0123" || size != 10 {
		t.Errorf("got %q of %v, %v", text, size, err)
	}
}

type wide struct {
	Numbers [128]uint64 `json:"numbers"`
	Inner   []wide      `json:"inner"`
}

func TestJSON(t *testing.T) {
	var real struct {
		Inner []wide `json:"inner"`
	}
	text, err := json.Marshal(&wide{Inner: make([]wide, 1000)})
	if err != nil {
		t.Fatal(err)
	}
	if err := infile.JSON(text, &real); err != nil || len(real.Inner) != 1000 {
		t.Errorf("got %d, %v", len(real.Inner), err)
	}
	for name, text := range map[string]string{
		"deep":    `{"inner":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}",
		"objects": `{"inner":[` + strings.Repeat("{},", 1<<20) + "{}]}",
		"nulls":   `{"inner":[` + strings.Repeat("null,", 1<<19) + "{}]}",
	} {
		used := infile.Allocated(func() {
			if err := infile.JSON([]byte(text), &real); err == nil {
				t.Errorf("%s: taken", name)
			}
		})
		if used > infile.Budget {
			t.Errorf("%s: took %v", name, used)
		}
	}
	if err := infile.JSON([]byte(`{"inner":[{"numbers":[1,2]}], "other":"`+strings.Repeat(`[{\"`, 1000)+`"}`), &real); err != nil {
		t.Error(err)
	}
}

// hard are YAML texts that parsers take long for, or much memory, made from n.
var hard = map[string]func(n int) string{
	"keys":         func(n int) string { return lines(n, "k%d: 1\n") },
	"keys in list": func(n int) string { return lines(n, "- a: %d\n  b: 1\n") },
	"nested keys":  func(n int) string { return "a:\n" + lines(n, "  k%d: 1\n") },
	"question":     func(n int) string { return lines(n, "? k%d\n: 1\n") },
	"flow keys":    func(n int) string { return "{" + lines(n, "k%d: 1, ") + "}" },
	"documents":    func(n int) string { return lines(n, "---\na: %d\n") },
	"comments":     func(n int) string { return lines(n, "# %d\n") + "a: 1\n" },
	"literal":      func(n int) string { return "a: |\n" + lines(n, "  line %d\n") },
	"folded":       func(n int) string { return "a: >\n" + lines(n, "  line %d\n") },
	"plain":        func(n int) string { return "a: b\n" + lines(n, "  line %d\n") },
	"quoted":       func(n int) string { return "a: \"" + lines(n, "\\x41 %d\n") + "\"" },
	"anchors":      func(n int) string { return lines(n, "- &a%d 1\n") },
	"list":         func(n int) string { return lines(n, "- %d\n") },
	"flow list":    func(n int) string { return "[" + lines(n, "%d,") + "]" },
	"brackets":     func(n int) string { return strings.Repeat("[", n) },
	"short lists":  func(n int) string { return "[" + strings.Repeat("[],", n) + "]" },
	"json":         func(n int) string { return `{"runs":[` + strings.Repeat("{},", n) + "{}]}" },
	"dashes":       func(n int) string { return strings.Repeat("- ", n) },
	"spaces":       func(n int) string { return "a:" + strings.Repeat(" ", n) + "1\n" },
	"one word":     func(n int) string { return strings.Repeat("a", n) },
	"words":        func(n int) string { return strings.Repeat("a ", n) },
	"line ends":    func(n int) string { return strings.Repeat("\n", n) },
	"tabs":         func(n int) string { return strings.Repeat("\t", n) },
	"aliases":      func(n int) string { return "- &a [1]\n" + strings.Repeat("- *a\n", n) },
	"tags":         func(n int) string { return strings.Repeat("!a ", n) },
	"deeper":       func(n int) string { return stairs(n) },
}

func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "%d", strconv.Itoa(i)))
	}
	return b.String()
}

func stairs(n int) string {
	var b strings.Builder
	for i := range n {
		if b.Len() > 1<<20 {
			break
		}
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// Each text is read or refused, at any length that is read, with memory that is bounded.
func TestHardYAML(t *testing.T) {
	for name, text := range hard {
		for _, n := range []int{60_000, 1 << 20} {
			s := text(n)
			if len(s) > 4<<20 {
				continue
			}
			used := infile.Allocated(func() {
				var v any
				_ = infile.YAML([]byte(s), &v)
			})
			t.Log(name, n, int64(used)>>20)
			if used > 4*infile.Budget {
				t.Errorf("%s, %d: allocates %v", name, n, used)
			}
		}
	}
}

// text is a value that reads its own YAML, as settings do.
type text string

func (t *text) UnmarshalYAML(b []byte) error {
	*t = text(b)
	return nil
}

func TestAliases(t *testing.T) {
	bomb := "a0: &a0 " + strings.Repeat("x", 100) + "\n"
	for i := range 20 {
		bomb += fmt.Sprintf("a%d: &a%[1]d [*a%d, *a%[2]d, *a%[2]d]\n", i+1, i)
	}
	for _, test := range []struct{ text, want string }{
		{"a: &a 1\nb: *a", ""},
		{"a: &a {x: 1}\nb: {<<: *a}", ""},
		{"a: &a 1\nb: &a [*a]", "line 2: *a stands for no value"},
		{"a: &a %*a\n---\n", "a Directive stands here"},
		{"a: &a\n *a", "line 2: *a stands for no value"},
		{"a: &a [1, {b: *a}]", "line 1: *a stands for no value"},
		{"a: &a \r*a\n", "*a stands for no value"},
		{"a: &a !!str *a", "line 1: *a stands for no value"},
		{"a: *b\nb: &b 1", "line 1: *b stands for no value"},
		{"a: &a 1\n---\nb: *a", "line 3: *a stands for no value"},
		{bomb, "the aliases stand for more than 1MiB"},
	} {
		var texts map[string]text
		var v any
		for _, to := range []any{&texts, &v} {
			used := infile.Within(t, func() {
				err := infile.YAML([]byte(test.text), to)
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("%.40q into %T: %v, want %q", test.text, to, err, test.want)
				}
			})
			t.Logf("%.40q: %v", test.text, used)
		}
	}
}

func TestYAMLThatPeopleWrite(t *testing.T) {
	for name, text := range map[string]string{
		"20,000 flows": "flows:\n" + lines(20_000, "- {from: h1, to: %d}\n"),
		"10,000 flows": "flows:\n" + lines(10_000, "- from: h1\n  to: h%d\n  size: 1MB\n"),
		"500 keys":     lines(500, "k%d: 1\n"),
		"50,000 sizes": "sizes: [" + lines(50_000, "%d, ") + "]",
		"a long text":  "text: |\n" + lines(50_000, "  line %d\n"),
	} {
		var v any
		if err := infile.YAML([]byte(text), &v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
