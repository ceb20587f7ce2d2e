package results

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/internal/infile"
)

// NewDocument begins a document: start is when the program began, arguments its
// command line without the program's name.
func NewDocument(start time.Time, arguments []string) *Document {
	return &Document{
		Version:     FormatVersion,
		StartTime:   start.UTC().Format(time.RFC3339),
		Arguments:   arguments,
		Environment: stats.Here(),
		Results:     []*Result{},
	}
}

// WriteJSON writes a document, indented. The same results give the same bytes.
func WriteJSON(w io.Writer, d *Document) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// ReadJSON reads what WriteJSON wrote, to its end.
func ReadJSON(r io.Reader) (*Document, error) {
	text, err := infile.All(r, infile.MaxDocument)
	if err != nil {
		return nil, err
	}
	var d Document
	if err := infile.JSON(text, &d); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return &d, nil
}

func (d *Document) scenarios() []string {
	var names []string
	for _, r := range d.Results {
		names = append(names, r.Scenario)
	}
	return names
}

func (d *Document) made() string {
	var parts []string
	if d.StartTime != "" {
		parts = append(parts, d.StartTime)
	}
	if e := d.Environment; e.OS != "" {
		parts = append(parts, fmt.Sprintf("%s/%s, %d CPUs", e.OS, e.Arch, e.CPUs))
	}
	if missing := d.missing(); missing != "" {
		parts = append(parts, "without "+missing)
	}
	return strings.Join(parts, ", ")
}

// missing says what has no result, and why.
func (d *Document) missing() string {
	var parts []string
	for _, m := range d.Missing {
		parts = append(parts, m.String())
	}
	text := strings.Join(parts, ", ")
	if text != "" && d.Interrupted {
		text += ": interrupted"
	}
	return text
}

// FormatVersion is the version of the JSON that WriteJSON writes. It changes
// when a field changes its meaning or goes, not when one is added. Up to version 1 queues
// and buffers were samples: those of their series, and of queue_avg_bytes the mean.
const FormatVersion = 2

// Document is the output of a call of the program: the results of one or more
// scenarios and where they came from. All that is not a function of scenarios
// and seeds is in StartTime, Environment and the fields that end in wall_s.
type Document struct {
	Version     int               `json:"version"`    // FormatVersion
	StartTime   string            `json:"start_time"` // RFC 3339, UTC
	Arguments   []string          `json:"arguments"`
	Environment stats.Environment `json:"environment"`
	Results     []*Result         `json:"results"`
	// Interrupted says that a signal broke the call off.
	Interrupted bool `json:"interrupted,omitempty"`
	// Missing lists what an interrupt or a failure kept from being run to its end.
	Missing []Missing `json:"missing,omitempty"`
}

// Missing are systems of a scenario that have no result.
type Missing struct {
	Scenario string   `json:"scenario"`
	Systems  []string `json:"systems"`
	// Programs are those of hosts that the first of the systems had begun to run.
	Programs []HostProgram `json:"programs,omitempty"`
}

func (m Missing) String() string { return m.Scenario + " (" + strings.Join(m.Systems, ", ") + ")" }

// ClearWall empties every field that differs from run to run of one scenario
// and seed, so that two documents can be compared byte by byte.
func (d *Document) ClearWall() {
	d.StartTime, d.Environment = "", stats.Environment{}
	for _, r := range d.Results {
		r.WallS = 0
		for _, s := range r.Systems {
			s.WallS = 0
		}
	}
}
