package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/verbs/storm"
)

// Tasks of an array share a folder: each is run once, whoever asks, and what is missing is
// an array again.
func TestStormFolder(t *testing.T) {
	var ran []uint64
	failing := uint64(45)
	run := func(c storm.Config, n uint64) (*stormDocument, error) {
		ran = append(ran, c.Seed, n)
		d := &stormDocument{Version: 1, Provider: c.Provider, Shim: c.Shim, Processes: c.Processes, FirstSeed: c.Seed, Seeds: n, Requests: 10 * n, Seconds: 1}
		if c.Seed <= failing && failing < c.Seed+n {
			d.Failure = &stormFailure{Seed: failing, What: "a byte is wrong"}
		}
		return d, nil
	}
	folder := stormFolder{name: filepath.Join(t.TempDir(), "storms"), chunk: 10, index: "auto"}
	sum := func(f stormFolder) (stormDocument, []uint64) {
		t.Helper()
		ran = nil
		var d stormDocument
		if err := f.sum(t.Context(), &d, storm.Default(), 45, run); err != nil {
			t.Fatal(err)
		}
		return d, ran
	}
	status := folder
	status.status = true
	if d, ran := sum(status); d.Missing != "0-4" || ran != nil || d.Seeds != 0 {
		t.Errorf("an empty folder: missing %q, %d seeds, ran %d", d.Missing, d.Seeds, ran)
	}
	t.Setenv("SLURM_ARRAY_TASK_ID", "2")
	if d, ran := sum(folder); d.Missing != "" || len(ran) != 2 || ran[0] != 21 || ran[1] != 10 || d.Seeds != 10 {
		t.Errorf("task 2: missing %q, %d seeds, ran %d", d.Missing, d.Seeds, ran)
	}
	if _, ran := sum(folder); ran != nil {
		t.Errorf("task 2 once more: ran %d", ran)
	}
	t.Setenv("SLURM_ARRAY_TASK_ID", "")
	if d, ran := sum(status); d.Missing != "0-1,3-4" || ran != nil || d.Seeds != 10 {
		t.Errorf("with task 2: missing %q, %d seeds, ran %d", d.Missing, d.Seeds, ran)
	}
	d, ran := sum(folder)
	if d.Missing != "" || len(ran) != 8 || ran[6] != 41 || ran[7] != 5 || d.Seeds != 45 || d.Requests != 450 || len(d.Failures) != 1 || d.Failures[0].Seed != failing {
		t.Errorf("all: missing %q, %d seeds, ran %d, failures %v", d.Missing, d.Seeds, ran, d.Failures)
	}
	// Other settings are other tasks.
	ran = nil
	c := storm.Default()
	c.Shim = "timely"
	if err := folder.sum(t.Context(), new(stormDocument), c, 10, run); err != nil || len(ran) != 2 {
		t.Errorf("with the shim: %v, ran %d", err, ran)
	}
	// What is interrupted is not kept.
	ctx, stop := context.WithCancel(t.Context())
	interrupted := stormFolder{name: t.TempDir(), chunk: 10, index: "auto"}
	var part stormDocument
	err := interrupted.sum(ctx, &part, storm.Default(), 30, func(c storm.Config, n uint64) (*stormDocument, error) {
		d, err := run(c, n)
		if c.Seed == 11 {
			stop()
			d.Interrupted = true
		}
		return d, err
	})
	if err != nil || part.Missing != "1-2" || part.Seeds != 10 {
		t.Errorf("interrupted: %v, missing %q, %d seeds", err, part.Missing, part.Seeds)
	}
	// An error is not lost.
	broken := errors.New("broken")
	if err := interrupted.sum(t.Context(), new(stormDocument), storm.Default(), 30, func(storm.Config, uint64) (*stormDocument, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}

// The command keeps what it ran, and says what is wrong with its flags.
func TestStormOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "storms")
	for range 2 {
		var out, errs strings.Builder
		if status := run([]string{"storm", "--seeds", "3", "--chunk", "2", "--out", dir}, &out, &errs); status != exitOK || !strings.HasPrefix(out.String(), "soft: 3 seeds from 1 on, ") {
			t.Fatalf("status %d, %s%s", status, &out, &errs)
		}
	}
	var files []string
	if err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, name)
		}
		return err
	}); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", err, files)
	}
	for flags, want := range map[string]string{
		"--status":                     "--status goes with --out",
		"--index 1":                    "--index goes with --out",
		"--out x --chunk 0":            "--chunk 0: give at least 1",
		"--out x --index 4 --seeds 20": "--index 4: expected auto, K or A-B, with tasks from 0 to 0",
		"--out x -w y.pcapng":          "--write with --out",
		"--out x --endpoint http://h":  "x is a directory",
		"--out x --seeds 1000000001":   "with --out up to 1000000000",
	} {
		var out, errs strings.Builder
		if status := run(append([]string{"storm"}, strings.Fields(flags)...), &out, &errs); status != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: status %d, %s", flags, status, &errs)
		}
	}
}

// A result that is not whole, or that can't be what its seeds gave, is not counted: the
// status names it, and a run replaces it.
func TestStormMisfits(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	good := func(c storm.Config, n uint64) *stormDocument {
		return &stormDocument{Version: 1, Provider: c.Provider, Processes: c.Processes, FirstSeed: c.Seed, Seeds: n, Requests: 10 * n, Packets: 100 * n, Seconds: 1}
	}
	run := func(c storm.Config, n uint64) (*stormDocument, error) { runs++; return good(c, n), nil }
	folder := stormFolder{name: dir, chunk: 10, index: "auto"}
	sum := func(status bool) *stormDocument {
		t.Helper()
		f, d := folder, new(stormDocument)
		f.status, runs = status, 0
		if err := f.sum(t.Context(), d, storm.Default(), 10, run); err != nil {
			t.Fatal(err)
		}
		return d
	}
	sum(false)
	names, err := filepath.Glob(filepath.Join(dir, "results", "*", "*.json"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	whole := string(text)
	for what, bad := range map[string]string{
		"empty":          "",
		"an object":      "{}",
		"without result": whole[:strings.Index(whole, `"result"`)] + `"result":{}}`,
		"truncated":      whole[:len(whole)/2],
		"many seeds":     strings.Replace(whole, `"seeds":10,`, `"seeds":1000000000,`, 1),
		"few seeds":      strings.Replace(whole, `"seeds":10,`, `"seeds":9,`, 1),
		"another's":      strings.Replace(whole, `"first_seed":1,`, `"first_seed":11,`, 1),
		"of a task":      strings.Replace(whole, `from 1"`, `from 11"`, 1),
		"too many":       strings.Replace(whole, `"packets":1000}`, `"packets":18446744073709551615}`, 1),
		"interrupted":    strings.Replace(whole, `"seeds":10,`, `"interrupted":true,"seeds":10,`, 1),
		"no time":        strings.Replace(whole, `"seconds":1,`, `"seconds":-1,`, 1),
		"other's fault":  strings.Replace(whole, `"seeds":10,`, `"seeds":10,"failure":{"seed":4711,"what":"x"},`, 1),
	} {
		if bad == whole {
			t.Errorf("%s: changes nothing", what)
		}
		if err := os.WriteFile(names[0], []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if d := sum(true); d.Seeds != 0 || d.Missing != "0" || len(d.Misfits) != 1 || !strings.Contains(d.Misfits[0], names[0]) {
			t.Errorf("%s: %+v", what, d)
		}
		if d := sum(false); d.Seeds != 10 || d.Missing != "" || d.Misfits != nil || runs != 1 {
			t.Errorf("%s, run: %+v, %d runs", what, d, runs)
		}
		if d := sum(true); d.Seeds != 10 || d.Requests != 100 {
			t.Errorf("%s, then: %+v", what, d)
		}
	}
}
