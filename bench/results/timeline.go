package results

import (
	"fmt"
	"io"

	"github.com/sluice-rdma/sluice/bench/internal/report"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
)

// Timeline is what failed in a run, and what that set off, in order.
type Timeline struct {
	Events []Occurrence `json:"events"`
	// Left is how many more there were.
	Left int `json:"left_out,omitempty"`
}

// Occurrence is something that happened in a run.
type Occurrence struct {
	AtUs stats.Float `json:"at_us"`
	What string      `json:"what"`
}

// maxOccurrences bounds a timeline.
const maxOccurrences = 1000

// Add adds an occurrence, unless there are too many.
func (t *Timeline) Add(at stats.Float, what string) {
	if len(t.Events) == maxOccurrences {
		t.Left++
		return
	}
	t.Events = append(t.Events, Occurrence{at, what})
}

// write writes the timeline as lines of text.
func (t *Timeline) write(w io.Writer) error {
	for _, e := range t.Events {
		if _, err := fmt.Fprintf(w, "  %14.3f us  %s\n", float64(e.AtUs), e.What); err != nil {
			return err
		}
	}
	if t.Left == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "  and %d more\n", t.Left)
	return err
}

// failureTables has the timelines of all systems that have one.
func failureTables(sources []source) []report.Table {
	t := report.Table{Title: "Failures, and what they set off", Columns: []string{"system", "time (us)", "what"}}
	for _, from := range sources {
		for _, s := range from.r.Systems {
			if s.Timeline == nil {
				continue
			}
			for _, e := range s.Timeline.Events {
				t.Rows = append(t.Rows, []string{s.Name, fmt.Sprintf("%.3f", float64(e.AtUs)), e.What})
			}
			if s.Timeline.Left > 0 {
				t.Notes = append(t.Notes, fmt.Sprintf("Of %s %d more are left out.", s.Name, s.Timeline.Left))
			}
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return []report.Table{t}
}
