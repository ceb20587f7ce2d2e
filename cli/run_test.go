package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// At an interrupt sluice run writes what there is: whole rows of series and flows, and
// the JSON.
func TestRunInterrupted(t *testing.T) {
	dir := t.TempDir()
	scenario := filepath.Join(dir, "long.yaml")
	text := `
duration: 100s
topology: {kind: star, hosts: 2, host_rate: 100Gbps}
nic: {model: reduced}
systems: [{engine: timely}]
measure: {sample: 100us, window: 100us}
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 10KB}, {src: h0, dst: h1, size: unlimited}]}]
`
	if err := os.WriteFile(scenario, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	series, flows, results := filepath.Join(dir, "long.timely.rate.csv"), filepath.Join(dir, "flows.csv"), filepath.Join(dir, "out.json")
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	signalled := make(chan error, 1)
	go func() {
		for {
			if _, err := os.Stat(series); err == nil { // it runs
				signalled <- self.Signal(os.Interrupt)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	var out, errs bytes.Buffer
	status := run([]string{"run", scenario, "-q", "--csv", dir, "--flows-out", flows, "--json", results}, &out, &errs)
	if status != exitFailed || !strings.HasSuffix(errs.String(), ": interrupted\n") {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	if err := <-signalled; err != nil {
		t.Fatal(err)
	}
	for file, columns := range map[string]int{series: 2, flows: 21} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(b), "\n")
		if last := len(lines) - 1; last < 2 || lines[last] != "" || strings.Count(lines[last-1], ",") != columns-1 {
			t.Errorf("%s: %d lines, the last of them %q", file, last, lines[max(last-1, 0):])
		}
	}
	if b, err := os.ReadFile(results); err != nil || !bytes.Contains(b, []byte(`"results": []`)) {
		t.Errorf("%s: %v", b, err)
	}
}
