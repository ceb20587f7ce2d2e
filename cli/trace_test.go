package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRunTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nic.json")
	var out, errs bytes.Buffer
	status := run([]string{"run", "nic-small-writes", "--set", "workloads[0].connections=2", "--trace", file, "--trace-window", "150us..160us", "--trace-of", "h0/0x10"}, &out, &errs)
	if status != 0 {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	if !strings.Contains(out.String(), "\ntrace: "+file+", ") || !strings.Contains(out.String(), "h0's NIC: ") {
		t.Errorf("printed:\n%s", out.String())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var trace struct{ TraceEvents []map[string]any }
	if err := json.Unmarshal(b, &trace); err != nil || len(trace.TraceEvents) < 100 {
		t.Errorf("%d events: %v", len(trace.TraceEvents), err)
	}
}

func TestRunTraceVCD(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "nic.vcd")
	var out, errs bytes.Buffer
	status := run([]string{"run", "nic-small-writes", "--set", "workloads[0].connections=2", "--trace", file, "--trace-window", "150us..155us", "--trace-of", "h0/0x10"}, &out, &errs)
	if status != 0 || !strings.Contains(out.String(), "\ntrace: "+file+", ") {
		t.Fatalf("status %d: %s\n%s", status, errs.String(), out.String())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"$scope module qp_0x10 $end", "$enddefinitions $end\n#150000000\n$dumpvars", "\n#155000000\n"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the dump has no %q", want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(left) > 0 {
		t.Errorf("left over: %s", left)
	}
}

// Wrong flags are refused before anything runs or is written, with what to write
// instead.
func TestRunTraceRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nic.json")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"quickstart", "--trace-window", "0..1us"}, "--trace-window says what a trace shows, and there is none: give --trace FILE too"},
		{[]string{"quickstart", "--trace-of", "h0"}, "--trace-of says what a trace shows"},
		{[]string{"quickstart", "rpc", "--trace", file}, "--trace is of one scenario, not of 2"},
		{[]string{"quickstart", "--trace", file, "--trace-window", "5us"}, `--trace-window "5us" is no window of time: write FROM..TO, such as 100us..120us`},
		{[]string{"quickstart", "--trace", file, "--trace-window", "5us..2us"}, "is no window of time"},
		{[]string{"quickstart", "--trace", file, "--trace-window", "5..9"}, "is no window of time"},
		{[]string{"quickstart", "--trace", file, "--trace-window", "1s..2s"}, "--trace-window begins at 1s, and the scenario ends at 10ms: choose an earlier time"},
		{[]string{"quickstart", "--trace", file, "--trace-of", "h7"}, `there is no host "h7"`},
		{[]string{"quickstart", "--trace", file, "--trace-of", "h0/x"}, `"x" is no queue pair: write a number, such as h0/0x10`},
		{[]string{"quickstart", "--trace", file, "--set", "nic.model=reduced"}, "has reduced NICs, which have no stages: add --set nic.model=staged"},
		{[]string{"quickstart", "--set", "nic.model=reduced", "--set", "measure.nic=all"}, "measure.nic: reduced NICs have no stages to look into: leave it out, or set nic.model to staged"},
		{[]string{"quickstart", "--set", "measure.nic=[h5]"}, `measure.nic[0]: there is no host "h5"`},
	} {
		var out, errs bytes.Buffer
		status := run(append([]string{"run"}, c.args...), &out, &errs)
		if status != exitUsage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%v: status %d: %s", c.args, status, errs.String())
		}
		if left, _ := filepath.Glob(file + "*"); len(left) > 0 {
			t.Fatalf("%v: the file was made", c.args)
		}
	}
}
