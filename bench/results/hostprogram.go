package results

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
)

// HostProgram is the outcome of an unmodified program that a host ran in simulated time.
type HostProgram struct {
	Host    string      `json:"host"`
	Run     []string    `json:"run"` // the program and its arguments
	StartUs stats.Float `json:"start_us"`
	EndUs   stats.Float `json:"end_us"` // unmeasured if it still ran at the end
	// Status is the exit status; 128 and the signal's number if a signal ended it, -1 if
	// it still ran at the end.
	Status int    `json:"exit_status"`
	Output string `json:"output"` // what it printed, errors included
	// WaitsFor is what it waited for when it was ended with the run, "" if it ended itself.
	WaitsFor string `json:"waits_for,omitempty"`
}

// title says which program it was, and how it ended.
func (p *HostProgram) title() string {
	how := "still running at the end"
	switch {
	case p.Status == 0:
		how = fmt.Sprintf("%.3f us to %.3f us", float64(p.StartUs), float64(p.EndUs))
	case p.Status < 0 && p.WaitsFor != "":
		how += ", waiting for " + p.WaitsFor
	case p.Status > 0:
		how = fmt.Sprintf("%.3f us to %.3f us, exit status %d", float64(p.StartUs), float64(p.EndUs), p.Status)
	}
	return fmt.Sprintf("%s: %s (%s)", p.Host, strings.Join(p.Run, " "), how)
}

// WritePrograms writes how each program of a system ended, and what it printed.
func WritePrograms(w io.Writer, system string, programs []HostProgram) error {
	var b strings.Builder
	for i := range programs {
		p := &programs[i]
		fmt.Fprintf(&b, "\n%s: %s\n", system, p.title())
		for line := range strings.Lines(p.Output) {
			b.WriteString("  | " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
