package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTutorial does what tutorial.md says: it writes the files and runs the commands,
// in their order. Modules are fetched before, by the machine's own settings; the
// session fetches nothing.
func TestTutorial(t *testing.T) {
	for _, tool := range []string{"sh", "make", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the tutorial's reader has %s, this machine has not: %v", tool, err)
		}
	}
	root := root(t)
	fetchModules(t, root)
	ownNetwork(t)
	newSession(t, root, "tutorial.md").follow(15)
}

// TestCommand runs the examples of cli.md.
func TestCommand(t *testing.T) {
	for _, tool := range []string{"sh", "make", "cc", "ibv_devinfo", "ib_write_bw"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the examples are of a machine that has %s: %v", tool, err)
		}
	}
	root := root(t)
	ownNetwork(t)
	s := newSession(t, root, "cli.md")
	bin := filepath.Join(s.dir, "bin")
	for _, args := range [][]string{
		{"go", "build", "-o", filepath.Join(bin, "sluice"), "./cmd/sluice"},
		{"make", "-s", "libsluice-virtual", "LIB=" + filepath.Join(bin, "lib")},
	} {
		build := exec.CommandContext(t.Context(), args[0], args[1:]...)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	s.run(command{text: "cp roce/testdata/rxe.pcap ~/roce.pcap && cd"})
	s.follow(19)
}

// The library example of README.md compiles.
func TestReadme(t *testing.T) {
	root := root(t)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	compiled := 0
	for _, b := range blocks(string(text)) {
		if b.lang != "go" {
			continue
		}
		compiled++
		name := filepath.Join(t.TempDir(), "example.go")
		if err := os.WriteFile(name, []byte("package example\n"+b.text), 0o666); err != nil {
			t.Fatal(err)
		}
		build := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, name)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("README.md:%d: %v\n%s", b.line, err, out)
		}
	}
	if compiled == 0 {
		t.Error("README.md has no example in Go")
	}
}

func root(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// follow writes the files of the session's page and runs its commands, at least least of
// them.
func (s *session) follow(least int) {
	s.t.Helper()
	text, err := os.ReadFile(s.page)
	if err != nil {
		s.t.Fatal(err)
	}
	commands := 0
	for _, b := range blocks(string(text)) {
		switch {
		case b.lang == "sh":
			for _, c := range b.commands(s.t, s.page) {
				commands++
				s.run(c)
			}
		case b.file != "":
			s.write(b)
		}
	}
	if commands < least {
		s.t.Errorf("only %d commands were found", commands)
	}
}

// What the tutorial's reader writes is what examples/engine has.
func TestTutorialIsTheExample(t *testing.T) {
	text, err := os.ReadFile("tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	const dir = "../examples/engine"
	files := map[string]string{}
	for _, b := range blocks(string(text)) {
		if b.file != "" {
			files[b.file] = b.text
		}
	}
	for _, name := range []string{"main.go", "aimd/aimd.go", "aimd/aimd_test.go", "incast.yaml", "compare.yaml"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(files[name], "example.com/engine", "github.com/sluice-rdma/sluice/examples/engine")
		if got != string(want) {
			t.Errorf("%s in tutorial.md is not that in %s:\n%s", name, dir, files[name])
		}
	}
}

// block is a fenced block of code: ```LANG [FILE].
type block struct {
	lang, file string
	text       string
	line       int // of its first line in the document
}

func blocks(text string) (all []block) {
	var in *block
	for i, line := range strings.SplitAfter(text, "\n") {
		info, fence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case fence && in == nil:
			lang, file, _ := strings.Cut(info, " ")
			in = &block{lang: lang, file: file, line: i + 2}
		case fence:
			all = append(all, *in)
			in = nil
		case in != nil:
			in.text += line
		}
	}
	return all
}

// command is a line that begins with "$ ", and what it prints.
type command struct {
	text string
	want []string
	line int
}

func (b *block) commands(t *testing.T, page string) (all []command) {
	for i, line := range strings.Split(strings.TrimSuffix(b.text, "\n"), "\n") {
		if text, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, command{text: text, line: b.line + i})
		} else if len(all) == 0 {
			t.Fatalf("%s:%d: expected $ COMMAND at the head of a block of commands", page, b.line)
		} else {
			all[len(all)-1].want = append(all[len(all)-1].want, line)
		}
	}
	return all
}

// session is a shell whose directory, environment and last status live on from
// command to command. Time, home directory and where make builds are the test's.
type session struct {
	t      *testing.T
	page   string // the document that it follows
	dir    string // the reader's home
	state  string // a script that sets the session up
	status int
}

func newSession(t *testing.T, root, page string) *session {
	s := &session{t: t, page: page, dir: t.TempDir()}
	bin := filepath.Join(s.dir, "bin")
	s.state = filepath.Join(s.dir, ".state")
	setup := "cd " + quote(root) + "\n"
	for _, v := range [][2]string{
		{"HOME", s.dir},
		{"PATH", bin + string(os.PathListSeparator) + os.Getenv("PATH")},
		// make builds where the test may write, as if that were the checkout; run by
		// another make, it would say where it is.
		{"MAKEFLAGS", "--no-print-directory -- BIN=" + bin + " REPORT=" + filepath.Join(s.dir, "report.html")},
		// What Go needs is on this machine already: see fetchModules.
		{"GOPROXY", "off"}, {"GOSUMDB", "off"}, {"GOTOOLCHAIN", "local"}, {"GOFLAGS", ""}, {"GOWORK", "off"},
		{"GOCACHE", goEnv(t, "GOCACHE")}, {"GOMODCACHE", goEnv(t, "GOMODCACHE")}, {"GOPATH", goEnv(t, "GOPATH")}, {"GOENV", "off"},
	} {
		setup += "export " + v[0] + "=" + quote(v[1]) + "\n"
	}
	if err := os.WriteFile(s.state, []byte(setup), 0o666); err != nil {
		t.Fatal(err)
	}
	return s
}

// fetchModules brings what `go mod tidy` of a program that uses Sluice looks at: the
// modules of the tests of all that it imports, which building Sluice does not need.
// Sluice's own tidy wants the same ones.
func fetchModules(t *testing.T, root string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "tidy", "-diff")
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	// With a difference to print it fails, too, but not for want of modules.
	if diff, err := cmd.Output(); err != nil && len(diff) == 0 {
		t.Skipf("the tutorial's `go mod tidy` wants modules that can't be fetched here: %v\n%s", err, stderr.String())
	}
}

func goEnv(t *testing.T, name string) string {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// run runs a command and compares what it prints. It must succeed, unless it is to
// print an error of sluice's.
func (s *session) run(c command) {
	s.t.Helper()
	script := fmt.Sprintf(". %[1]s\n(exit %[2]d)\n%[3]s\nstatus=$?\n{ export -p; echo \"cd '$PWD'\"; } >%[1]s.new && mv %[1]s.new %[1]s\nexit $status\n", s.state, s.status, c.text)
	cmd := exec.CommandContext(s.t.Context(), "sh", "-c", script)
	out, err := cmd.CombinedOutput()
	s.status = cmd.ProcessState.ExitCode()
	refused := func(line string) bool { return strings.HasPrefix(line, "sluice: ") }
	if err != nil && !(s.status > 0 && slices.ContainsFunc(c.want, refused)) {
		s.t.Fatalf("%s:%d: %s: %v\n%s", s.page, c.line, c.text, err, out)
	}
	got := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(out) == 0 {
		got = nil
	}
	for i, line := range got {
		got[i] = strings.ReplaceAll(line, s.dir+"/", "")
	}
	if !match(c.want, got) {
		s.t.Errorf("%s:%d: %s: got\n%s\nwant\n%s", s.page, c.line, c.text, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
	}
}

// write makes the file of a block in the session's directory.
func (s *session) write(b block) {
	s.t.Helper()
	text, err := os.ReadFile(s.state)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	dir := strings.Trim(strings.TrimPrefix(lines[len(lines)-1], "cd "), "'")
	if !strings.HasPrefix(dir, s.dir) {
		s.t.Fatalf("%s:%d: %s would be written to %s", s.page, b.line, b.file, dir)
	}
	name := filepath.Join(dir, b.file)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(b.text), 0o666); err != nil {
		s.t.Fatal(err)
	}
}

// match compares lines; "..." for one stands for any number of them.
func match(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "..." {
		for i := range len(got) + 1 {
			if match(want[1:], got[i:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && matchLine(strings.Fields(want[0]), strings.Fields(got[0])) && match(want[1:], got[1:])
}

// matchLine compares words; "..." for the last stands for any number of them. Simulated
// figures are exact, and what is not the text leaves out.
func matchLine(want, got []string) bool {
	for i, w := range want {
		if w == "..." && i == len(want)-1 {
			return true
		}
		if i >= len(got) || w != got[i] {
			return false
		}
	}
	return len(want) == len(got)
}

func TestMatch(t *testing.T) {
	lines := func(s string) []string { return strings.Split(s, "|") }
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"a b|c", "a  b|c", true},
		{"a b", "a", false},
		{"a", "a b", false},
		{"a ...", "a b c", true},
		{"...|c", "a|b|c", true},
		{"a|...", "a", true},
		{"a|...|c|...", "a|b", false},
		{"x 10.00 s", "x 10.00 s", true},
		{"x 10.00 s", "x 10.01 s", false},
	} {
		if got := match(lines(c.want), lines(c.got)); got != c.ok {
			t.Errorf("%q and %q: %v", c.want, c.got, got)
		}
	}
}
