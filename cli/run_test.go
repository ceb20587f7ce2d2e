package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/racedetector"
)

const interruptedScenario = `
duration: DURATION
topology: {kind: star, hosts: 2, host_rate: 100Gbps}
nic: {model: reduced}
systems: [{engine: none}, {engine: timely}, {engine: swift}, {engine: poseidon}, {engine: hpcc}]
measure: {sample: 100us, window: 100us}
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 10KB}, {src: h0, dst: h1, size: unlimited}]}]
`

// interrupt runs a command in this process, and sends it a signal as soon as a file
// that matches a pattern is there.
func interrupt(t *testing.T, s os.Signal, pattern string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	ended, signalled := make(chan struct{}), make(chan error, 1)
	go func() {
		poll := time.NewTicker(time.Millisecond)
		defer poll.Stop()
		for {
			select {
			case <-ended:
				signalled <- nil
				return
			case <-poll.C:
			}
			if found, err := filepath.Glob(pattern); err != nil || len(found) > 0 { // it runs
				signalled <- self.Signal(s)
				return
			}
		}
	}()
	var out, errs bytes.Buffer
	status = run(args, &out, &errs)
	close(ended)
	if err := <-signalled; err != nil {
		t.Fatal(err)
	}
	return status, out.String(), errs.String()
}

// At an interrupt sluice run writes what there is: whole rows of series and flows, the
// systems that were done, and what is missing.
func TestRunInterrupted(t *testing.T) {
	for _, test := range []struct {
		name, duration, pattern string
		signal                  syscall.Signal
		status                  int
		some                    bool // a system is done
	}{
		{"in the first system", "100s", ".long.none.rate.csv*", syscall.SIGINT, 130, false},
		{"in a later one", "150ms", "long.none.rate.csv", syscall.SIGTERM, 143, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if racedetector.On && test.some {
				t.Skip("the same goroutines as in the first case: nothing new for the race detector")
			}
			dir := t.TempDir()
			in := func(name string) string { return filepath.Join(dir, name) }
			if err := os.WriteFile(in("long.yaml"), []byte(strings.ReplaceAll(interruptedScenario, "DURATION", test.duration)), 0o666); err != nil {
				t.Fatal(err)
			}
			status, out, errs := interrupt(t, test.signal, in(test.pattern),
				"run", in("long.yaml"), "quickstart", "--csv", dir, "--flows-out", in("flows.csv"), "--json", in("out.json"), "--report", in("report.html"))
			if status != test.status || !strings.HasSuffix(errs, ": interrupted\n") || strings.Count(errs, "\n") != 1 {
				t.Fatalf("status %d, expected %d: %s", status, test.status, errs)
			}
			var doc results.Document
			if b, err := os.ReadFile(in("out.json")); err != nil || json.Unmarshal(b, &doc) != nil {
				t.Fatal(err, string(b))
			}
			var done []string
			for _, r := range doc.Results {
				for _, s := range r.Systems {
					done = append(done, s.Name)
				}
			}
			if !doc.Interrupted || len(doc.Missing) != 2 || doc.Missing[1].Scenario != "quickstart" {
				t.Fatalf("interrupted is %v, missing %v", doc.Interrupted, doc.Missing)
			}
			if all := slices.Concat(done, doc.Missing[0].Systems); !slices.Equal(all, []string{"none", "timely", "swift", "poseidon", "hpcc"}) || test.some != (len(done) > 0) {
				t.Errorf("done %v, missing %v", done, doc.Missing)
			}
			want := "\nmissing: " + doc.Missing[0].String() + ", quickstart (TIMELY)\n"
			if !strings.Contains(out, want) {
				t.Errorf("printed %q, expected %q in it", out, want)
			}
			page, err := os.ReadFile(in("report.html"))
			if (err == nil) != test.some || test.some && !bytes.Contains(page, []byte("<dt>Missing</dt><dd>long (")) {
				t.Errorf("the report says nothing of what is missing: %v", err)
			}
			if strings.Contains(out, "report: ") != test.some || strings.Contains(out, "\nnone ") != test.some {
				t.Errorf("printed %q", out)
			}
			wholeRows(t, in("long.none.rate.csv"), 2)
			wholeRows(t, in("flows.csv"), 21)
			if left, err := filepath.Glob(in(".*")); err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

// wholeRows checks that a CSV file has rows, each of that number of columns.
func wholeRows(t *testing.T, file string, columns int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	if last := len(lines) - 1; last < 2 || lines[last] != "" || strings.Count(lines[last-1], ",") != columns-1 {
		t.Errorf("%s: %d lines, the last of them %q", file, last, lines[max(last-1, 0):])
	}
}
