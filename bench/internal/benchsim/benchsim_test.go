package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/scenario/workload"
)

// Flows of a connection matrix give the hops that their paths and packets say,
// twice the same, and nothing is lost, whatever the engine.
func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.cm")
	// One pair under a switch, one in a pod, one across: 2, 4 and 6 links.
	if err := os.WriteFile(file, []byte("Nodes 16\nConnections 3\n0->1 id 1 start 0 size 10000\n4->6 id 2 start 0 size 20000\n8->2 id 3 start 1000000 size 2500\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"none", "powertcp"} {
		var first *result
		for range 2 {
			r, err := run("incast10x10", options{Engine: engine, MTU: 1000, File: file}, "")
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

// The built-in scenarios have the flows of the connection matrices that htsim is given.
func TestMatrices(t *testing.T) {
	for _, name := range []string{"incast10x10", "incast255", "perm128"} {
		opt := options{Engine: "none", MTU: 1000}
		flows := func() (all []workload.Flow) {
			s, err := load(name, opt)
			if err != nil {
				t.Fatal(err)
			}
			next := s.Flows(1).Next
			for f, ok := next(); ok; f, ok = next() {
				f.Message = 0
				all = append(all, f)
			}
			return all
		}
		built := flows()
		opt.File = filepath.Join("workloads", name+".cm")
		if matrix := flows(); len(built) < 10 || fmt.Sprint(built) != fmt.Sprint(matrix) {
			t.Errorf("%s: flows %v\nof the matrix %v", name, built, matrix)
		}
	}
}

// A run of sluice's makes the hops of this tool's, which measures nothing.
func TestLikeSluiceRun(t *testing.T) {
	opt := options{Engine: "none", MTU: 1000, Workers: 1}
	ours, err := run("incast10x10", opt, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Load("incast10x10")
	if err != nil {
		t.Fatal(err)
	}
	for workers := 1; workers <= 2; workers++ {
		r, err := bench.Run(s, bench.Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		if one := r.Systems[0]; one.PacketHops != ours.Hops || float64(one.SimS) != ours.SimS || one.Undivided != "" {
			t.Errorf("%d workers: %d hops in %v s, want %d in %v; undivided: %q", workers, one.PacketHops, one.SimS, ours.Hops, ours.SimS, one.Undivided)
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
