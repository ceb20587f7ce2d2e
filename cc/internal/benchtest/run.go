// Package benchtest runs scenarios in tests.
package benchtest

import (
	"testing"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

// Run runs a scenario, with values set as by --set, and returns its systems in order. The
// run audits that no byte comes from nowhere or is lost without a trace.
func Run(t testing.TB, text string, sets ...string) []*results.System {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(text), sets...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := bench.Run(s, bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Systems
}
