package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

func TestIdentity(t *testing.T) {
	const full = "0123456789abcdef0123456789abcdef01234567"
	vcs := func(revision, modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: revision},
			{Key: "vcs.time", Value: "2026-07-01T12:00:00Z"}, {Key: "vcs.modified", Value: modified},
		}
	}
	const when = "2026-07-01T12:00:00Z"
	const pseudo = "v0.0.0-20260701120000-0123456789ab"
	cases := map[string]struct {
		info    debug.BuildInfo
		want    Identity
		text    string
		settled bool
	}{
		"nothing": {debug.BuildInfo{}, Identity{Sluice: Version}, Version + ", commit unknown", false},
		// As -buildvcs=false has it.
		"no commit": {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, Identity{Sluice: Version}, Version + ", commit unknown", false},
		"released":  {debug.BuildInfo{Main: debug.Module{Version: "v" + Version}}, Identity{Sluice: Version}, Version + ", commit unknown", false},
		"checkout": {
			debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs(full, "false")},
			Identity{Sluice: Version, Commit: full, CommitTime: when}, Version + ", commit 0123456789ab", true,
		},
		"checkout with changes": {
			debug.BuildInfo{Main: debug.Module{Version: pseudo + "+dirty"}, Settings: vcs(full, "true")},
			Identity{Sluice: Version, Commit: full, CommitTime: when, Modified: true}, Version + ", commit 0123456789ab (modified)", false,
		},
		"changes by the version alone": {
			debug.BuildInfo{Main: debug.Module{Version: pseudo + "+dirty"}},
			Identity{Sluice: Version, Commit: "0123456789ab", Modified: true}, Version + ", commit 0123456789ab (modified)", false,
		},
		"go install of a commit": {
			debug.BuildInfo{Main: debug.Module{Version: pseudo}},
			Identity{Sluice: Version, Commit: "0123456789ab"}, Version + ", commit 0123456789ab", true,
		},
		"short commit": {debug.BuildInfo{Settings: vcs("01", "false")}, Identity{Sluice: Version, Commit: "01", CommitTime: when}, Version + ", commit 01", true},
		// The commit is that of the program, not Sluice's.
		"part of another program": {
			debug.BuildInfo{Main: debug.Module{Path: "mine", Version: "v0.3.0"}, Deps: []*debug.Module{{Path: "a"}, {Path: module, Version: "v1.2.3"}}, Settings: vcs(full, "false")},
			Identity{Sluice: Version, Program: "mine"}, Version + ", commit unknown", false,
		},
		"part of another program, at a commit": {
			debug.BuildInfo{Main: debug.Module{Path: "mine", Version: "v0.3.0"}, Deps: []*debug.Module{{Path: module, Version: pseudo}}},
			Identity{Sluice: Version, Commit: "0123456789ab", Program: "mine"}, Version + ", commit 0123456789ab", false,
		},
		"replaced": {
			debug.BuildInfo{Main: debug.Module{Path: "mine"}, Deps: []*debug.Module{{Path: module, Version: pseudo, Replace: &debug.Module{Path: "../sluice"}}}},
			Identity{Sluice: Version, Program: "mine"}, Version + ", commit unknown", false,
		},
	}
	for name, c := range cases {
		got := of(&c.info)
		if got != c.want || got.String() != c.text || got.Settled() != c.settled {
			t.Errorf("%s: %+v, %q, settled %v; want %+v, %q, %v", name, got, got, got.Settled(), c.want, c.text, c.settled)
		}
	}
}

// The linker sets these variables: were one renamed, -X would pass it over silently.
func TestStamp(t *testing.T) {
	const at = module + "/internal/version."
	command := filepath.Join(t.TempDir(), "sluice")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", command, "-buildvcs=false",
		"-ldflags", "-X "+at+"release=9.9~stamp -X "+at+"commit=fedcba9876543210 -X "+at+"time=2026-01-02T03:04:05Z -X "+at+"modified=true",
		module+"/cmd/sluice")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), command, "version", "--json").CombinedOutput()
	if err != nil {
		t.Fatalf("sluice version --json: %v\n%s", err, out)
	}
	for _, want := range []string{`"sluice": "9.9~stamp"`, `"commit": "fedcba9876543210"`, `"commit_time": "2026-01-02T03:04:05Z"`, `"modified": true`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("there is no %s in\n%s", want, out)
		}
	}
}

// What else has a version in it has this one.
func TestOneVersion(t *testing.T) {
	for file, pattern := range map[string]string{
		"CHANGELOG.md":               `(?m)^## \[(\d[^]]*)\] - \d{4}-\d\d-\d\d$`, // the newest release
		"Makefile":                   `(?m)^LIBSLUICE_VERSION := (.*)$`,
		"deploy/deb/build.sh":        `(?m)^base=(\S+)`,
		"libsluice/include/sluice.h": `(?m)^#define SLUICE_VERSION "(.*)"$`,
	} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(pattern).FindSubmatch(text); m == nil || string(m[1]) != Version {
			t.Errorf("%s has version %q, want %s", file, m, Version)
		}
	}
	header, err := os.ReadFile("../../libsluice/include/sluice.h")
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, m := range regexp.MustCompile(`(?m)^#define SLUICE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$`).FindAllSubmatch(header, -1) {
		parts = append(parts, string(m[1]))
	}
	if got := strings.Join(parts, "."); got != Version {
		t.Errorf("sluice.h has the numbers %s, want %s", got, Version)
	}
}

// make build stamps the commit also where Go is told to leave it out.
func TestMakeStamps(t *testing.T) {
	for _, program := range []string{"make", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the commit is stamped by make and git: %v", err)
		}
	}
	dir := t.TempDir()
	run := func(env []string, program string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "MAKEFLAGS=", "GOFLAGS=-buildvcs=false"), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	// A tree that has of Sluice only what stamps.
	for _, file := range []string{"Makefile", "deploy/commit.sh"} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o755); err != nil { //nolint:gosec // G306: a script is executable
			t.Fatal(err)
		}
	}
	linker := func(args ...string) string {
		t.Helper()
		out := run(nil, "make", append([]string{"-n", "IBVERBS=no", "command"}, args...)...)
		m := regexp.MustCompile(`-ldflags "(.*?)"`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("make runs no linker:\n%s", out)
		}
		return m[1]
	}
	if got := linker(); got != "" {
		t.Errorf("without git the linker is told %q", got)
	}
	const user = "-c user.name=a -c user.email=a@example.org -c commit.gpgsign=false"
	run(nil, "git", "init", "-q")
	run(nil, "git", "add", ".")
	run([]string{"GIT_COMMITTER_DATE=2026-01-02T03:04:05+02:00"}, "git", append(strings.Fields(user), "commit", "-q", "-m", "a")...)
	commit := run(nil, "git", "rev-parse", "HEAD")
	const at = "-X " + module + "/internal/version."
	want := at + "commit=" + commit + " " + at + "time=2026-01-02T01:04:05Z " + at + "modified="
	if got := linker(); got != want+"false" {
		t.Errorf("the linker is told %q, want %q", got, want+"false")
	}
	if err := os.WriteFile(filepath.Join(dir, "more"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := linker(); got != want+"true" {
		t.Errorf("with changes the linker is told %q, want %q", got, want+"true")
	}
	if got := linker("STAMP=mine"); got != "mine" {
		t.Errorf("by STAMP=mine the linker is told %q", got)
	}
}
