package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/nicvalidate"
	"github.com/sluice-rdma/sluice/bench/sweep"
)

// The tasks of an array take what is theirs, once, and say what is missing.
func TestTasksOfAnArray(t *testing.T) {
	all, err := nicvalidate.Tasks()
	if err != nil {
		t.Fatal(err)
	}
	tasks := all[:6] // of rows that are facts of presets
	o := options{out: t.TempDir(), chunk: 2, workers: 2, index: "1"}
	do := func() string {
		t.Helper()
		var w strings.Builder
		if err := run(&o, tasks, &w); err != nil {
			t.Fatal(err)
		}
		return w.String()
	}
	if got, want := do(), "missing: --array=0,2\n"; got != want {
		t.Errorf("after the second of three tasks: %q, want %q", got, want)
	}
	kept := func() (names []string) {
		found, err := filepath.Glob(filepath.Join(o.out, "results", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := kept()
	if len(before) != 2 {
		t.Fatalf("%d figures are kept: %v", len(before), before)
	}
	was, err := os.ReadFile(before[0])
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(was), `"result":`)
	mark := []byte(head + `"result":{"Value":7,"Missing":""}}`)
	if err := os.WriteFile(before[0], mark, 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURM_ARRAY_TASK_ID", "0")
	o.index = "auto"
	if got, want := do(), "missing: --array=2\n"; got != want {
		t.Errorf("after the first, too: %q, want %q", got, want)
	}
	o.index = "0-1"
	do()
	if now, err := os.ReadFile(before[0]); err != nil || string(now) != string(mark) {
		t.Errorf("what was there was taken again: %q, %v", now, err)
	}
	o.status = true
	if got, want := do(), "missing: --array=2\n"; got != want || len(kept()) != 4 {
		t.Errorf("status: %q, want %q, and %d figures", got, want, len(kept()))
	}
	// What is no figure of the task is named, and taken again.
	for _, bad := range []string{"", "{}", head, `{"Value":7,"Missing":""}`, head + `"result":{}}`, `{"task":"another","result":{"Value":7,"Missing":""}}`} {
		if err := os.WriteFile(before[0], []byte(bad), 0o666); err != nil {
			t.Fatal(err)
		}
		o.status = true
		if err := run(&o, tasks, io.Discard); !errors.As(err, new(*sweep.Misfit)) || !strings.Contains(err.Error(), before[0]) {
			t.Errorf("%q: status %v", bad, err)
		}
		o.status = false
		do()
		if now, err := os.ReadFile(before[0]); err != nil || string(now) != string(was) {
			t.Errorf("%q: is %q then, %v", bad, now, err)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct {
		o    options
		want string
	}{
		{options{chunk: 0, workers: 1, index: "auto"}, "-chunk 0"},
		{options{chunk: 1, workers: 1, index: "3"}, "-index"},
		{options{chunk: 1, workers: 1, index: "9", out: t.TempDir()}, "--index 9: expected auto, K or A-B, with tasks from 0 to 1"},
	} {
		if err := run(&c.o, make([]nicvalidate.Task, 2), os.Stdout); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}
