package workload_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/units"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// traceFile is a scenario of four hosts beside a trace.
func traceFile(t *testing.T, trace, keys string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "flows.txt", trace)
	return write(t, dir, "trace.yaml", network16+"workloads:\n  - {kind: trace, file: flows.txt"+keys+"}\n")
}

func TestTrace(t *testing.T) {
	const us = units.Microsecond
	type row struct {
		src, dst int
		size     units.Bytes
		start    units.Time
	}
	cases := []struct {
		name, trace, keys string
		want              []row
	}{
		{"hpcc", workload.HPCCSample, ", origin: 2s", []row{{0, 1, 200_000, 0}, {1, 2, 64, 125 * us / 2}, {5, 1, 1, 125 * us}}},
		{"htsim", workload.HTSimSample, "", []row{{15, 0, 10_000_000, 0}, {11, 0, 64, 1500}}},
		{"other hosts", workload.HPCCSample, ", origin: 2s, hosts: [h8..h15], start: 1us, format: hpcc", []row{{8, 9, 200_000, us}, {9, 10, 64, us + 125*us/2}, {13, 9, 1, 126 * us}}},
		{"stopped", workload.HPCCSample, ", origin: 1s, stop: 1000100us", []row{{0, 1, 200_000, units.Second}, {1, 2, 64, units.Second + 125*us/2}}},
		{"none", "0\n", "", nil},
		{"no connections", "Nodes 2\r\nConnections 0\r\n", "", nil},
	}
	for _, c := range cases {
		s, err := scenario.Load(traceFile(t, c.trace, c.keys))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []row
		for _, f := range take(s, 1, 100) {
			if f.Message != f.Size || f.Stop != units.Never {
				t.Errorf("%s: flow %+v", c.name, f)
			}
			got = append(got, row{f.Src, f.Dst, f.Size, f.Start})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTraceErrors(t *testing.T) {
	cases := []struct{ name, trace, keys, want string }{
		{"empty", "", "", "flows.txt:1: the file is empty"},
		{"no count", "a b\n", ", format: hpcc", "flows.txt:1: there are 2 words where the number of flows belongs"},
		{"bad count", "-1\n", "", `flows.txt:1: flows: "-1" is no whole number from 0 to`},
		{"short line", "1\n0 1 3 100 5\n", "", "flows.txt:2: there are 5 words where a flow has 6"},
		{"bad source", "1\nx 1 3 100 5 0\n", "", `flows.txt:2: src: "x" is no whole number`},
		{"bad destination", "1\n1 -1 3 100 5 0\n", "", `flows.txt:2: dst: "-1" is no whole number`},
		{"bad group", "1\n0 1 8 100 5 0\n", "", `flows.txt:2: pg: "8" is no whole number from 0 to 7`},
		{"bad port", "1\n0 1 3 70000 5 0\n", "", `flows.txt:2: dport: "70000"`},
		{"no bytes", "1\n0 1 3 100 0 0\n", "", `flows.txt:2: size: "0" is no whole number from 1`},
		{"bad start", "1\n0 1 3 100 5 soon\n", "", `flows.txt:2: start: "soon" is no time in seconds`},
		{"NaN", "1\n0 1 3 100 5 nan\n", "", `flows.txt:2: start: "nan" is no time`},
		{"to itself", "1\n\n4 4 3 100 5 0\n", "", "flows.txt:3: dst: the flow goes from node 4 to itself"},
		{"too few", "2\n0 1 3 100 5 0\n", "", "flows.txt:2: the file ends after 1 of the 2 flows"},
		{"no host", "1\n0 16 3 100 5 0\n", "", "flows.txt:2: dst: there is no host for node 16: the scenario gives it 16, so nodes are 0 to 15"},
		{"before the origin", "1\n0 1 3 100 5 1.5\n", ", origin: 2s", "flows.txt:2: start: 1.5s is before the origin, 2s"},
		{"no connection count", "Nodes 4\n0->1 start 0 size 1\n", "", "flows.txt:2: Connections: the line is missing: write Connections 1"},
		{"another connection count", "Connections 2\n0->1 start 0 size 1\n", "", "flows.txt:2: Connections: the file says 2 and has 1"},
		{"beyond the nodes", "Nodes 4\nConnections 1\n0->4 start 0 size 1\n", "", `flows.txt:3: dst: "0->4" names a node beyond the 4`},
		{"trigger", "Connections 1\n0->1 id 1 trigger 2 size 1\n", "", "flows.txt:2: trigger: no workload follows triggers"},
		{"triggers", "Connections 1\nTriggers 3\n", "", "flows.txt:2: Triggers: there are 3, which no workload follows"},
		{"unknown key", "Connections 1\n0->1 colour 1\n", "", `flows.txt:2: "colour" is no key of a connection`},
		{"value missing", "Connections 1\n0->1 start 0 size\n", "", "flows.txt:2: size: its value is missing"},
		{"size missing", "Connections 1\n0->1 start 0\n", "", "flows.txt:2: size: it is missing"},
		{"start missing", "Connections 1\n0->1 size 4\n", "", "flows.txt:2: start: it is missing"},
		{"unknown word", "Hosts 3\n", "", `flows.txt:1: "Hosts" is neither Nodes, Connections nor a connection`},
		{"unknown format", "0\n", ", format: csv", `trace.yaml:5: workloads[0].format: is "csv": choose auto, hpcc or htsim`},
		{"negative origin", "0\n", ", origin: -1s", "trace.yaml:5: workloads[0].origin: is -1s"},
		{"jitter", "0\n", ", jitter: 1us", "trace.yaml:5: workloads[0].jitter: a trace says when"},
	}
	for _, c := range cases {
		_, err := scenario.Load(traceFile(t, c.trace, c.keys))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	for file, want := range map[string]string{"gone.txt": "there is no file", ".": "is no regular file", `""`: "it is missing"} {
		path := write(t, t.TempDir(), "trace.yaml", network16+"workloads: [{kind: trace, file: "+file+"}]")
		if _, err := scenario.Load(path); err == nil || !strings.Contains(err.Error(), "trace.yaml:4: workloads[0].file: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("file %s: error %v, want %q", file, err, want)
		}
	}
}

// The file is relative to the scenario that names it, also where another extends
// that one, and YAML's text finds it.
func TestTraceIsRelative(t *testing.T) {
	path := traceFile(t, workload.HTSimSample, "")
	child := write(t, t.TempDir(), "child.yaml", "extends: "+path+"\nduration: 3ms\n")
	s, err := scenario.Load(child)
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again := write(t, t.TempDir(), "again.yaml", string(text))
	if s, err = scenario.Load(again); err != nil {
		t.Fatal(err)
	}
	if n := len(take(s, 1, 10)); n != 2 {
		t.Errorf("%d flows, want 2", n)
	}
	t.Chdir(filepath.Dir(path))
	if s, err = scenario.Load("./trace.yaml", "workloads[0].file=flows.txt"); err != nil || len(take(s, 1, 10)) != 2 {
		t.Errorf("named by an override: %v", err)
	}
}

func TestTraceDoesNotAllocate(t *testing.T) {
	var b strings.Builder
	fmt.Fprintln(&b, 5000)
	for i := range 5000 {
		fmt.Fprintf(&b, "%d %d 3 100 1000 0.%06d\n", i%16, (i+1)%16, i)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "flows.txt"), []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Load(write(t, dir, "trace.yaml", network16+"workloads: [{kind: trace, file: flows.txt}]"))
	if err != nil {
		t.Fatal(err)
	}
	f := s.Flows(1)
	if n := testing.AllocsPerRun(1000, func() { f.Next() }); n != 0 {
		t.Errorf("a flow takes %v allocations", n)
	}
}

// HPCC's simulator reads as many flows as its file's first line says. What follows, such as
// the comment in the repository's own flow.txt, is no fault, and is said.
func TestHPCCTextAfterTheFlowsIsLeft(t *testing.T) {
	s, err := scenario.Load(traceFile(t, "2\n0 1 3 100 200000 2\n1 2 3 100 64 2\n\nFirst line: flow #\nsrc dst priority packet# start_time\n5 1 3 100 1 2.0\n", ", origin: 2s"))
	if err != nil {
		t.Fatal(err)
	}
	if got := take(s, 1, 100); len(got) != 2 {
		t.Errorf("%d flows, expected 2", len(got))
	}
	if w := s.Notes(); len(w) != 1 || !strings.Contains(w[0], "flows.txt:5: text after the 2 flows") {
		t.Errorf("notes %q", w)
	}
}
