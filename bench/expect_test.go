package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

func TestMisses(t *testing.T) {
	ten, twenty := 10.0, 20.0
	pfc, timely := results.NewSystem("PFC only", "none", "host"), results.NewSystem("TIMELY", "timely", "host")
	pfc.ThroughputGbps, timely.ThroughputGbps = 19.5, 19.4
	timely.Labels = []results.Label{{Label: "victim", Flows: results.NewFlows()}}
	timely.Labels[0].WireGbps = 1.35
	timely.Links = []results.Link{{Link: "tor0->h1", RateGbps: 20}}
	results := &results.Result{Scenario: "demo", Systems: []*results.System{pfc, timely}}
	cases := []struct {
		expect scenario.Expectation
		want   []string
	}{
		{scenario.Expectation{Metric: "throughput_gbps", Min: &ten, Max: &twenty}, nil},
		{scenario.Expectation{Metric: "throughput_gbps", Max: &ten}, []string{
			"PFC only: throughput_gbps is 19.5, expected at most 10", "TIMELY: throughput_gbps is 19.4, expected at most 10",
		}},
		{scenario.Expectation{System: "TIMELY", Metric: "jain", Min: &ten}, []string{"TIMELY: jain was not measured, expected at least 10"}},
		{scenario.Expectation{System: "TIMELY", Label: "victim", Metric: "wire_gbps", Min: &ten, Max: &twenty}, []string{
			"TIMELY, victim: wire_gbps is 1.35, expected at least 10 and at most 20",
		}},
		{scenario.Expectation{System: "TIMELY", Link: "tor0->h1", Metric: "rate_gbps", Min: &ten, Max: &twenty}, nil},
		{scenario.Expectation{System: "PFC only", Link: "tor0->h1", Metric: "rate_gbps", Min: &ten}, []string{
			"PFC only, tor0->h1: rate_gbps was not measured, expected at least 10",
		}},
		{scenario.Expectation{System: "TIMELY", Metric: "drops", Max: &ten}, nil},
	}
	for _, c := range cases {
		s := &scenario.Scenario{Expect: []scenario.Expectation{c.expect}}
		if err := CheckExpectations(s); err != nil {
			t.Errorf("%+v: %v", c.expect, err)
		}
		var got []string
		for _, m := range Misses(s, results) {
			got = append(got, m.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v: %s", c.expect, diff)
		}
	}
	for _, e := range []scenario.Expectation{{Metric: "speed"}, {Label: "x", Metric: "drops"}, {Link: "x", Metric: "jain"}, {Metric: "name"}} {
		err := CheckExpectations(&scenario.Scenario{Name: "demo", Expect: []scenario.Expectation{e}})
		if err == nil || !strings.Contains(err.Error(), "there is no figure") {
			t.Errorf("%+v: error %v", e, err)
		}
	}
}

// Names that would be one file are refused: one would be over the other.
func TestCheckCSV(t *testing.T) {
	const text = `
name: %s
duration: 1ms
topology: {kind: star, hosts: 2}
systems: [{name: a b, engine: timely}, {name: %s, engine: none}]
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 1KB}]}]
`
	a, b, c := parse(t, fmt.Sprintf(text, "x y", "ab")), parse(t, fmt.Sprintf(text, "x-y", "c")), parse(t, fmt.Sprintf(text, "x/y", "c"))
	if err := CheckCSV(a, b); err != nil {
		t.Error(err)
	}
	for want, scenarios := range map[string][]*scenario.Scenario{
		`scenarios "x y" and "x/y" would have the same file, x_y.csv`:                 {a, b, c},
		`:5: systems[1].name: the CSV of systems "a b" and "a_b" would have the same`: {parse(t, fmt.Sprintf(text, "x", "a_b"))},
	} {
		if err := CheckCSV(scenarios...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
