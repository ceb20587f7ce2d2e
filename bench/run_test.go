package bench

import (
	"testing"

	"github.com/sluice-rdma/sluice/scenario"
)

func load(t testing.TB, name string, sets ...string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(name, sets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t testing.TB, s *scenario.Scenario) *Result {
	t.Helper()
	r, err := Run(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestQuickstart(t *testing.T) {
	r := run(t, load(t, "quickstart"))
	s := r.Systems[0]
	if s.FlowsDone != 1 || s.Bytes != 10_000_000 {
		t.Errorf("%d flows done, %d bytes", s.FlowsDone, s.Bytes)
	}
	t.Logf("%+v", s.Flows)
	t.Logf("%+v", s.Links)
}
