package nictrace_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

func builtin(t *testing.T, name string, sets ...string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(name, sets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func runWith(t *testing.T, opt bench.Options, name string, sets ...string) *results.Result {
	t.Helper()
	r, err := bench.Run(builtin(t, name, sets...), opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
