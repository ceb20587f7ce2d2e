package cli

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-rdma/sluice/internal/racedetector"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sluice": Main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Condition: func(condition string) (bool, error) {
			if condition != "race" {
				return false, fmt.Errorf("unknown condition %q", condition)
			}
			return racedetector.On, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
		},
	})
}

// exits runs a command and checks its exit status: exits 2 sluice run.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = err.Error()
	}
	if want := args[0]; got != want && got != "exit status "+want {
		ts.Fatalf("%v: %s, want status %s", args[1:], got, want)
	}
}

// oneGoroutine skips a test that starts none under the race detector, which would find nothing
// there in ten times the time.
func oneGoroutine(t *testing.T) {
	t.Helper()
	if racedetector.On {
		t.Skip("one goroutine: nothing for the race detector")
	}
}

func TestDashed(t *testing.T) {
	got := dashed([]string{"run", "a_b.yaml", "--gid_index", "x_y", "--tx_depth=a_b", "-q", "--", "--c_d"})
	want := []string{"run", "a_b.yaml", "--gid-index", "x_y", "--tx-depth=a_b", "-q", "--", "--c_d"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExitStatusesAreDistinct(t *testing.T) {
	seen := map[int]bool{}
	for _, s := range []int{exitOK, exitFailed, exitUsage, exitMissed} {
		if seen[s] {
			t.Errorf("status %d has two meanings", s)
		}
		seen[s] = true
	}
	if code := run([]string{"version"}, os.Stderr, os.Stderr); code != exitOK {
		t.Errorf("version exits with %d", code)
	}
}
