package reduced_test

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/sluice-rdma/sluice/bench/sweep"
)

// kept returns a test cell's result. With SLUICE_OUT, a directory or s3://BUCKET/PREFIX,
// it keeps the result as a sweep does: the task of an array to which a cell belongs runs
// it once, SLUICE_CHUNK cells a task (1 if unset), and ok is false for a missing result of
// another task. The text of essence identifies the result within the program; number is
// the cell's index among cells.
func kept[T any](t *testing.T, essence string, number, cells int, run func() T) (result T, ok bool) {
	t.Helper()
	name := os.Getenv("SLUICE_OUT")
	if name == "" {
		return run(), true
	}
	chunk := 1
	if text := os.Getenv("SLUICE_CHUNK"); text != "" {
		var err error
		if chunk, err = strconv.Atoi(text); err != nil || chunk < 1 {
			t.Fatalf("SLUICE_CHUNK is %q: give a number of cells, at least 1", text)
		}
	}
	folder, err := sweep.Open(name, "")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := sweep.ParseTasks("auto", &sweep.Plan{Cells: cells, Chunk: chunk})
	if err != nil {
		t.Fatal(err)
	}
	text, err := folder.Once(t.Name()+" "+essence, func(text []byte) error { return json.Unmarshal(text, &result) }, func() ([]byte, error) {
		if k := number / chunk; k < tasks.First || k > tasks.Last {
			return nil, nil
		}
		return json.Marshal(run())
	})
	if err == nil && text != nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		t.Fatal(err)
	}
	if text == nil {
		t.Logf("cell %d is missing: task %d", number, number/chunk)
	}
	return result, text != nil
}

// Cells of a test are run by the task that they belong to, once.
func TestKept(t *testing.T) {
	t.Setenv("SLUICE_OUT", t.TempDir())
	t.Setenv("SLUICE_CHUNK", "2")
	runs := 0
	round := func(task string) (found int) {
		t.Setenv("SLURM_ARRAY_TASK_ID", task)
		for i := range 5 {
			got, ok := kept(t, strconv.Itoa(i), i, 5, func() int { runs++; return 10 * i })
			if ok && got != 10*i {
				t.Errorf("cell %d is %d", i, got)
			}
			if ok {
				found++
			}
		}
		return found
	}
	for _, c := range []struct {
		task        string
		found, runs int
	}{{"1", 2, 2}, {"1", 2, 2}, {"2", 3, 3}, {"", 5, 5}} {
		if found := round(c.task); found != c.found || runs != c.runs {
			t.Errorf("task %q: %d cells are there after %d runs, want %d after %d", c.task, found, runs, c.found, c.runs)
		}
	}
}
