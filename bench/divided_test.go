package bench

import (
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/scenario"
)

// Scenarios give the same bytes in windows, whoever runs them, as undivided: results,
// series and the record of each flow.
func TestDividedRunsAgree(t *testing.T) {
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
			agree(t, s)
		})
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
