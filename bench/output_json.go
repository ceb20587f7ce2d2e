package bench

import (
	"encoding/json"
	"io"
	"runtime"
	"runtime/debug"
	"time"
)

// NewDocument begins a document: start is when the program began, arguments its
// command line without the program's name.
func NewDocument(start time.Time, arguments []string) *Document {
	return &Document{
		Version:   FormatVersion,
		StartTime: start.UTC().Format(time.RFC3339),
		Arguments: arguments,
		Environment: Environment{
			Sluice: ProgramVersion(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		},
		Results: []*Result{},
	}
}

// WriteJSON writes a document, indented. The same results give the same bytes.
func WriteJSON(w io.Writer, d *Document) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(r io.Reader) (*Document, error) {
	var d Document
	if err := json.NewDecoder(r).Decode(&d); err != nil {
		return nil, err
	}
	return &d, nil
}

// ProgramVersion is the version of Sluice in this program, or the commit that it was
// built from.
func ProgramVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

// module is Sluice's path.
const module = "github.com/sluice-rdma/sluice"

func versionOf(info *debug.BuildInfo) string {
	for _, dep := range info.Deps {
		if dep.Path != module {
			continue
		}
		// The program is another module's, and info.Main is that module.
		if dep.Replace != nil {
			dep = dep.Replace
		}
		if dep.Version == "" || dep.Version == "(devel)" {
			return "devel"
		}
		return dep.Version
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if commit == "" {
		return "devel"
	}
	return "devel-" + commit + dirty
}
