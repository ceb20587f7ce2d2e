package bench

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

// The distribution of slowdown agrees with the bins by size, of which each has at
// most its own share of it.
func TestSlowdownDistribution(t *testing.T) {
	notUnderRace(t)
	s, err := scenario.Load("websearch", "duration=3ms", "warmup=0", "workloads[websearch].stop=2ms")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, sys := range r.Systems {
		at := slices.IndexFunc(sys.Distributions, func(d stats.Distribution) bool { return d.Kind == "slowdown" && d.Name == results.SeriesAll })
		if at < 0 {
			t.Fatalf("%s has no distribution of slowdown", sys.Name)
		}
		d := sys.Distributions[at]
		if d.Unit != "" || len(d.Values) != len(d.Share) || !slices.IsSorted(d.Values) || d.Values[0] < 0.9 {
			t.Errorf("%s: %+v", sys.Name, d)
		}
		// Both are rounded from one count of picoseconds.
		flows, least, most := uint64(0), d.Values[0]-1e-9, d.Values[len(d.Values)-1]+1e-9
		for _, b := range sys.Slowdown {
			flows += b.Flows
			if b.P50 < least || b.P99 > most {
				t.Errorf("%s, up to %d bytes: slowdowns %v to %v are not within %v to %v", sys.Name, b.ToBytes, b.P50, b.P99, least, most)
			}
		}
		if flows != sys.FlowsDone || flows == 0 {
			t.Errorf("%s: %d flows have a slowdown and %d were done", sys.Name, flows, sys.FlowsDone)
		}
	}
}

// A message alone takes as long as it would on an idle network, by either model of the NIC
// and with either operation.
func TestSlowdownOfOneMessage(t *testing.T) {
	for _, model := range []string{"staged", "reduced"} {
		for _, reads := range []string{"0", "1"} {
			r := run(t, parse(t, `duration: 1ms
topology: {kind: star, hosts: 2, host_rate: 100Gbps}
systems: [{engine: none}]
workloads: [{kind: storage, clients: [h0], targets: [h1], block: 4KB, outstanding: 1}]
`, "nic.mode=offload", "nic.model="+model, "workloads[0].reads="+reads))
			bins := r.Systems[0].Slowdown
			if len(bins) != 1 || bins[0].Flows < 100 || !near(bins[0].P50, 1, 0.02) || !near(bins[0].P99, 1, 0.02) {
				t.Errorf("%s NICs, share of reads %s: slowdown %+v", model, reads, bins)
			}
		}
	}
}
