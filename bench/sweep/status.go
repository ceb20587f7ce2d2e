package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/sluice-rdma/sluice/internal/infile"
)

// Status is the progress of a sweep.
type Status struct {
	Plan    *Plan `json:"plan"`
	Tasks   int   `json:"tasks"` // of the array
	Done    int   `json:"done"`  // cells that have a result
	Failed  int   `json:"failed"`
	Missing int   `json:"missing"` // that have neither
	// Misfit counts the missing cells that have a result which is not whole, or another's:
	// a run replaces it. Misfits say of the first ones why.
	Misfit  int      `json:"misfit,omitempty"`
	Misfits []string `json:"misfits,omitempty"`
	// Failures are the first ones, by index.
	Failures []Failure `json:"failures,omitempty"`
	// Array is the tasks with cells that failed or are missing: an array's indices,
	// counted from 0.
	Array string `json:"array,omitempty"`
	// CellsPerSecond is the rate at which results came, from the first to the last one.
	CellsPerSecond float64 `json:"cells_per_second,omitempty"`
	// SecondsLeft is at that pace.
	SecondsLeft float64 `json:"seconds_left,omitempty"`
}

// maxFailures bounds the failures that a Status has.
const maxFailures = 20

// Status looks at the folder's results.
func (f Folder) Status() (*Status, error) {
	p, err := f.Plan()
	if err != nil {
		return nil, err
	}
	made, err := f.made(resultsDir, p)
	if err != nil {
		return nil, err
	}
	failed, err := f.made(failedDir, p)
	if err != nil {
		return nil, err
	}
	s := &Status{Plan: p, Tasks: (p.Cells-1)/p.Chunk + 1}
	var tasks []int
	var first, last time.Time
	for r, err := range f.resultsOf(p, func(c *Cell) bool { _, there := made[c.Hash]; return there }) {
		if err != nil {
			return nil, err
		}
		c := r.cell
		misfit := errors.As(r.err, new(*Misfit))
		if r.err != nil && !misfit && !errors.Is(r.err, fs.ErrNotExist) {
			return nil, r.err
		}
		if misfit {
			s.Misfit++
			if len(s.Misfits) < maxFailures {
				s.Misfits = append(s.Misfits, r.err.Error())
			}
		}
		if at := made[c.Hash]; r.err == nil {
			s.Done++
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
			continue
		}
		if task := c.Index / p.Chunk; len(tasks) == 0 || tasks[len(tasks)-1] != task {
			tasks = append(tasks, task)
		}
		if _, ok := failed[c.Hash]; !ok {
			s.Missing++
			continue
		}
		s.Failed++
		if len(s.Failures) < maxFailures {
			why, err := f.failure(c)
			if err != nil {
				return nil, err
			}
			s.Failures = append(s.Failures, why)
		}
	}
	s.Array = ArraySpec(tasks)
	if took := last.Sub(first).Seconds(); s.Done > 1 && took > 0 {
		s.CellsPerSecond = float64(s.Done-1) / took
		s.SecondsLeft = float64(s.Failed+s.Missing) / s.CellsPerSecond
	}
	return s, nil
}

func (f Folder) failure(c *Cell) (Failure, error) {
	out := Failure{Index: c.Index}
	text, err := f.get(fileOf(failedDir, c.Hash))
	if errors.Is(err, fs.ErrNotExist) {
		out.Error = "it is being run again"
		return out, nil
	}
	if err == nil {
		if bad := infile.JSON(text, &out); bad != nil {
			out = Failure{Error: fmt.Sprintf("%s does not say why: %v", f.path(fileOf(failedDir, c.Hash)), bad)}
		}
	}
	out.Index = c.Index // the file may be another cell's of the same hash
	return out, err
}
