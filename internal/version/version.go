package version

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Version is that of this tree: of the newest release in CHANGELOG.md.
const Version = "0.1.0"

// Variables that the linker sets (the Makefile's STAMP), since Go itself does not read the
// commit in a worktree of git, in sources without .git, or with -buildvcs=false: a package's
// version, the commit in full, its time in RFC 3339, and "true" where the tree had changes.
var (
	release  string
	commit   string
	time     string
	modified string
)

// Identity is which Sluice runs and how it was built. Fields that the build does
// not provide are empty.
type Identity struct {
	Sluice     string `json:"sluice"`                // Version, or that of a package of a commit between releases
	Commit     string `json:"commit,omitempty"`      // in full, or the 12 digits that a pseudo-version has
	CommitTime string `json:"commit_time,omitempty"` // RFC 3339, UTC
	Modified   bool   `json:"modified,omitempty"`    // the checkout had changes that were not committed
	Go         string `json:"go"`                    // such as go1.26.0
	OS         string `json:"os"`                    // GOOS
	Arch       string `json:"arch"`                  // GOARCH
	IBVerbs    bool   `json:"ibverbs"`               // devices of libibverbs are built in
	Program    string `json:"program,omitempty"`     // module of the program, where that is not Sluice
}

// Get returns the identity of this program. It may be called concurrently.
var Get = sync.OnceValue(func() Identity {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	id := of(info)
	if release != "" {
		id.Sluice = release
	}
	if commit != "" {
		id.Commit, id.CommitTime, id.Modified = commit, time, modified == "true"
	}
	id.Go, id.OS, id.Arch, id.IBVerbs = runtime.Version(), runtime.GOOS, runtime.GOARCH, ibverbs
	return id
})

// module is Sluice's path.
const module = "github.com/sluice-rdma/sluice"

// of returns what Go recorded about a build: the commit of Sluice, and the program that
// Sluice is part of.
func of(info *debug.BuildInfo) Identity {
	for _, dep := range info.Deps {
		if dep.Path != module {
			continue
		}
		// The program is another module's: info.Main and the settings are of that.
		if dep.Replace != nil {
			dep = dep.Replace
		}
		return at(dep.Version, Identity{Sluice: Version, Program: info.Main.Path})
	}
	id := Identity{Sluice: Version}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			id.Commit = s.Value
		case "vcs.time":
			id.CommitTime = s.Value
		case "vcs.modified":
			id.Modified = s.Value == "true"
		}
	}
	return at(info.Main.Version, id)
}

// pseudo is the end of a version that Go makes of a commit: its time and 12 digits.
var pseudo = regexp.MustCompile(`\d{14}-([0-9a-f]{12})(\+.*)?$`)

// at fills in what the module's version reveals about the commit.
func at(version string, id Identity) Identity {
	if m := pseudo.FindStringSubmatch(version); m != nil && id.Commit == "" {
		id.Commit = m[1]
	}
	if strings.HasSuffix(version, "+dirty") {
		id.Modified = true
	}
	return id
}

// Settled reports whether the identity settles what the program does: two programs
// of the same one run the same code. It does not in a checkout with changes, without
// a commit, and in programs that may add engines of their own.
func (id Identity) Settled() bool {
	return id.Program == "" && !id.Modified && id.Commit != ""
}

// String returns the version with the commit: "0.1.0, commit 0123456789ab (modified)".
func (id Identity) String() string {
	s := id.Sluice + ", commit "
	if id.Commit == "" {
		return s + "unknown"
	}
	s += id.Commit[:min(12, len(id.Commit))]
	if id.Modified {
		s += " (modified)"
	}
	return s
}
