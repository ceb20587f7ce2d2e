package bench

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

// Scenarios give the same bytes in windows, whoever runs them, as undivided: results,
// series and the record of each flow.
func TestDividedRunsAgree(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	type run struct {
		name string
		sets []string
	}
	reduced := []string{"nic.model=reduced", "nic.mode=auto"}
	for _, c := range []run{
		{"quickstart", append([]string{"duration=1ms"}, reduced...)},
		{"powertcp-incast", append([]string{"duration=1ms", "warmup=200us"}, reduced...)},
		{"poseidon-multihop", append([]string{"duration=2ms", "warmup=500us"}, reduced...)},
		{"permutation", append([]string{"duration=300us"}, reduced...)},
		{"websearch", append([]string{"duration=2ms", "warmup=200us"}, reduced...)},
		{"timely-table1", append([]string{"duration=2ms", "warmup=500us"}, reduced...)},
		{"plb", append([]string{"duration=1500us", "warmup=500us"}, reduced...)},
		{"quickstart", []string{"duration=1ms"}},
		{"powertcp-incast", []string{"duration=1ms", "warmup=200us"}},
		{"poseidon-multihop", []string{"duration=1ms", "warmup=500us"}},
		{"permutation", []string{"duration=200us"}},
		{"websearch", []string{"duration=2ms", "warmup=200us"}},
		{"timely-table1", []string{"duration=1ms", "warmup=500us"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := scenario.Load(c.name, append(c.sets, "expect=[]")...)
			if err != nil {
				t.Fatal(err)
			}
			if divided := runsAgree(t, s); divided < len(s.Systems) {
				t.Errorf("%d of %d systems ran divided", divided, len(s.Systems))
			}
		})
	}
}

// runsAgree runs a scenario undivided and by 1 to 3 workers, compares the results, and
// returns how many of its systems ran divided.
func runsAgree(t *testing.T, s *scenario.Scenario) (divided int) {
	t.Helper()
	run := func(workers int) string {
		var out []byte
		opt := Options{Workers: workers, smallWindows: true}
		opt.Flows = func(r *results.FlowRecord) error {
			b, err := json.Marshal(r)
			out = append(append(out, b...), '\n')
			return err
		}
		r, err := Run(s, opt)
		if err != nil {
			t.Fatal(err)
		}
		divided = 0
		r.WallS, r.Events = 0, 0
		for _, sys := range r.Systems {
			if sys.Undivided == "" {
				divided++
			} else if workers == 1 {
				t.Logf("%s: undivided: %s", sys.Name, sys.Undivided)
			}
			sys.WallS, sys.Events, sys.Undivided = 0, 0, ""
		}
		b, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(append(out, b...))
	}
	want := run(0)
	// Systems run beside each other if there are workers for that: three for each.
	for _, workers := range []int{1, 2, 3 * len(s.Systems)} {
		if got := run(workers); got != want {
			t.Errorf("%d workers: %s", workers, firstDifference(got, want))
		}
	}
	return divided
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
