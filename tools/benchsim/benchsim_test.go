package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Flows of a connection matrix give the hops that their paths and packets say,
// twice the same, and nothing is lost, whatever the engine.
func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.cm")
	// One pair under a switch, one in a pod, one across: 2, 4 and 6 links.
	if err := os.WriteFile(file, []byte("Nodes 16\nConnections 3\n0->1 id 1 start 0 size 10000\n4->6 id 2 start 0 size 20000\n8->2 id 3 start 1000000 size 2500\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := named("incast10x10")
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"none", "powertcp"} {
		var first *result
		for range 2 {
			r, err := run(w, options{Engine: engine, MTU: 1000, File: file}, "")
			if err != nil {
				t.Fatal(err)
			}
			if want := uint64(2 * (10*2 + 20*4 + 3*6)); r.Hops != want || r.Flows != 3 || r.Dropped != 0 {
				t.Errorf("%s: %d hops of %d flows, %d dropped; want %d of 3 and 0", engine, r.Hops, r.Flows, r.Dropped, want)
			}
			if first == nil {
				first = r
			} else if r.Events != first.Events || r.SimS != first.SimS {
				t.Errorf("%s: %d events in %v s, and %d in %v s the second time", engine, first.Events, first.SimS, r.Events, r.SimS)
			}
		}
	}
}

func TestWorkloadsLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: 8192 hosts take a moment")
	}
	for _, w := range standard {
		s, err := w.load(options{Engine: "none", MTU: 1000})
		if err != nil {
			t.Errorf("%s: %v", w.Name, err)
			continue
		}
		if hosts := s.Graph().Hosts(); !strings.Contains(w.Name, "8192") && hosts > 1024 || hosts < 16 {
			t.Errorf("%s has %d hosts", w.Name, hosts)
		}
	}
}

func TestMisuse(t *testing.T) {
	for _, args := range []string{"-workloads none", "-one none", "-flows x.cm", "-htsim x -workloads perm128", "-engine x -one perm128"} {
		var out bytes.Buffer
		if err := command(strings.Fields(args), &out); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
}
