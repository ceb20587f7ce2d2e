package sweep

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// arrays are the variables by which engines of jobs tell a task which one of an array it
// is, and the first index that their arrays have here: Slurm and Kubernetes count from 0,
// as does PBS where the job says so; Grid Engine and GNU parallel from 1.
var arrays = [...]struct {
	variable string
	first    int
}{
	{"SLURM_ARRAY_TASK_ID", 0}, {"JOB_COMPLETION_INDEX", 0}, {"SGE_TASK_ID", 1}, {"PBS_ARRAY_INDEX", 0}, {"PARALLEL_SEQ", 1},
}

// Tasks is a range of an array's tasks, from First up to and including Last, counted
// from 0. A task is as many cells as the plan's Chunk.
type Tasks struct{ First, Last int }

// ParseTasks reads a range: auto is that of the environment, or all where no variable of
// an array is set; K is one task and A-B several.
func ParseTasks(text string, p *Plan) (Tasks, error) {
	all := Tasks{0, (p.Cells - 1) / p.Chunk}
	if text == "auto" || text == "" {
		for _, a := range arrays {
			value := os.Getenv(a.variable)
			if value == "" || value == "undefined" { // Grid Engine's, outside an array
				continue
			}
			k, err := strconv.Atoi(value)
			if err != nil || k-a.first < 0 || k-a.first > all.Last {
				return Tasks{}, fmt.Errorf("%s is %q, expected a task from %d to %d: take the array of sluice sweep status", a.variable, value, a.first, all.Last+a.first)
			}
			return Tasks{k - a.first, k - a.first}, nil
		}
		return all, nil
	}
	from, to, isRange := strings.Cut(text, "-")
	first, err := strconv.Atoi(from)
	last := first
	if err == nil && isRange {
		last, err = strconv.Atoi(to)
	}
	if err != nil || first < 0 || last < first || last > all.Last {
		return Tasks{}, fmt.Errorf("--index %s: expected auto, K or A-B, with tasks from 0 to %d", text, all.Last)
	}
	return Tasks{first, last}, nil
}

// ArraySpec writes increasing numbers as an array's: 5,17-20.
func ArraySpec(tasks []int) string {
	var b strings.Builder
	for i := 0; i < len(tasks); {
		j := i
		for j+1 < len(tasks) && tasks[j+1] == tasks[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(tasks[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(tasks[j]))
		}
		i = j + 1
	}
	return b.String()
}
