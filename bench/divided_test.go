package bench

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

// Scenarios of reduced NICs give the same bytes in windows, whoever runs them, as
// undivided: results, series and the record of each flow.
func TestDividedRunsAgree(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	divided := 0
	for name, sets := range map[string][]string{
		"quickstart":        {"duration=1ms"},
		"powertcp-incast":   {"duration=1ms", "warmup=200us"},
		"poseidon-multihop": {"duration=2ms", "warmup=500us"},
		"permutation":       {"duration=300us"},
		"websearch":         {"duration=2ms", "warmup=200us"},
		"timely-table1":     {"duration=2ms", "warmup=500us"},
		"plb":               {"duration=1500us", "warmup=500us"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := scenario.Load(name, append(sets, "expect=[]", "nic.model=reduced", "nic.mode=auto")...)
			if err != nil {
				t.Fatal(err)
			}
			run := func(workers int) string {
				var out []byte
				opt := Options{Workers: workers}
				opt.Flows = func(r *results.FlowRecord) error {
					b, err := json.Marshal(r)
					out = append(append(out, b...), '\n')
					return err
				}
				r, err := Run(s, opt)
				if err != nil {
					t.Fatal(err)
				}
				r.WallS, r.Events = 0, 0
				for _, sys := range r.Systems {
					sys.WallS, sys.Events = 0, 0
				}
				b, err := json.MarshalIndent(r, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				return string(append(out, b...))
			}
			want := run(0)
			for workers := 1; workers <= 2; workers++ {
				if got := run(workers); got != want {
					t.Errorf("%d workers: %s", workers, firstDifference(got, want))
				}
			}
			for _, sys := range s.Systems {
				if sim, err := newSimulation(sys, s.Graph(), 1, 1, false); err == nil && sim.net.Division() != nil {
					divided++
				}
			}
		})
	}
	if divided < 10 {
		t.Errorf("only %d systems ran divided", divided)
	}
}

func firstDifference(got, want string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			from := max(0, i-200)
			return fmt.Sprintf("expected\n%s\ngot\n%s", want[from:min(len(want), i+100)], got[from:min(len(got), i+100)])
		}
	}
	return fmt.Sprintf("expected %d bytes, got %d", len(want), len(got))
}
