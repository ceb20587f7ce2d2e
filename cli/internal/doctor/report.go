package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Level is a finding's weight for pacing.
type Level string

// Levels.
const (
	OK   Level = "ok"
	Note Level = "note" // good to know, or not to be seen from here
	Warn Level = "warn" // costs accuracy or speed
	Fail Level = "fail" // does not work
)

// Finding is one thing that was looked at.
type Finding struct {
	Level  Level  `json:"level"`
	What   string `json:"what"`
	Detail string `json:"detail"`
	// Mend is the remedy; empty if nothing is to be done.
	Mend string `json:"mend,omitempty"`
}

// Section is findings about one subject.
type Section struct {
	Title    string    `json:"title"`
	Findings []Finding `json:"findings"`
}

func (s *Section) add(level Level, what, detail string, args ...any) *Finding {
	s.Findings = append(s.Findings, Finding{Level: level, What: what, Detail: fmt.Sprintf(detail, args...)})
	return &s.Findings[len(s.Findings)-1]
}

func (f *Finding) mend(format string, args ...any) { f.Mend = fmt.Sprintf(format, args...) }

// Report is the result of an examination.
type Report struct {
	Device   string    `json:"device"`
	Sections []Section `json:"sections"`
}

func (r *Report) section(title string) *Section {
	r.Sections = append(r.Sections, Section{Title: title, Findings: []Finding{}})
	return &r.Sections[len(r.Sections)-1]
}

// Count returns how many findings have a level.
func (r *Report) Count(level Level) int {
	n := 0
	for _, s := range r.Sections {
		for _, f := range s.Findings {
			if f.Level == level {
				n++
			}
		}
	}
	return n
}

// WriteText writes the report for a person.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "device %s\n", r.Device)
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n%s\n", s.Title)
		for _, f := range s.Findings {
			fmt.Fprintf(&b, "  %-4s  %s: %s\n", f.Level, f.What, f.Detail)
			if f.Mend != "" {
				fmt.Fprintf(&b, "        -> %s\n", f.Mend)
			}
		}
	}
	fmt.Fprintf(&b, "\n%d failed, %d warnings\n", r.Count(Fail), r.Count(Warn))
	_, err := io.WriteString(w, b.String())
	return err
}
