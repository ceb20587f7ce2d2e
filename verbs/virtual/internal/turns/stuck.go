package turns

import (
	"fmt"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// StuckError says that every thread waits and nothing can end a wait.
type StuckError struct {
	At      units.Time
	Waiting []Waiting
}

// Waiting is a thread that waits.
type Waiting struct {
	Program string // its name
	Thread  int
	For     string // such as "descriptor 5 to become readable"
}

// Error implements error.
func (e *StuckError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %v every program waits, and nothing is to happen any more", e.At)
	for _, w := range e.Waiting {
		fmt.Fprintf(&b, "\n  %s (thread %d) waits for %s", w.Program, w.Thread, w.For)
	}
	return b.String()
}
