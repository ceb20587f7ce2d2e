package version

import (
	"os/exec"
	"path/filepath"
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
		"nothing": {debug.BuildInfo{}, Identity{Sluice: "devel"}, "devel, commit unknown", false},
		// As -buildvcs=false has it.
		"devel":    {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, Identity{Sluice: "devel"}, "devel, commit unknown", false},
		"released": {debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, Identity{Sluice: "v1.2.3"}, "v1.2.3, commit unknown", false},
		"checkout": {
			debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs(full, "false")},
			Identity{Sluice: "devel", Commit: full, CommitTime: when}, "devel, commit 0123456789ab", true,
		},
		"checkout with changes": {
			debug.BuildInfo{Main: debug.Module{Version: pseudo + "+dirty"}, Settings: vcs(full, "true")},
			Identity{Sluice: pseudo + "+dirty", Commit: full, CommitTime: when, Modified: true}, pseudo + "+dirty, commit 0123456789ab (modified)", false,
		},
		"go install of a commit": {
			debug.BuildInfo{Main: debug.Module{Version: pseudo}},
			Identity{Sluice: pseudo, Commit: "0123456789ab"}, pseudo + ", commit 0123456789ab", true,
		},
		"short commit": {debug.BuildInfo{Settings: vcs("01", "false")}, Identity{Sluice: "devel", Commit: "01", CommitTime: when}, "devel, commit 01", true},
		// The commit is that of the program, not Sluice's.
		"part of another program": {
			debug.BuildInfo{Main: debug.Module{Path: "mine", Version: "v0.3.0"}, Deps: []*debug.Module{{Path: "a"}, {Path: module, Version: "v1.2.3"}}, Settings: vcs(full, "false")},
			Identity{Sluice: "v1.2.3", Program: "mine"}, "v1.2.3, commit unknown", false,
		},
		"part of another program, at a commit": {
			debug.BuildInfo{Main: debug.Module{Path: "mine", Version: "v0.3.0"}, Deps: []*debug.Module{{Path: module, Version: pseudo}}},
			Identity{Sluice: pseudo, Commit: "0123456789ab", Program: "mine"}, pseudo + ", commit 0123456789ab", false,
		},
		"replaced": {
			debug.BuildInfo{Main: debug.Module{Path: "mine"}, Deps: []*debug.Module{{Path: module, Version: "v1.2.3", Replace: &debug.Module{Path: "../sluice"}}}},
			Identity{Sluice: "devel", Program: "mine"}, "devel, commit unknown", false,
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
