package bench

import (
	"strconv"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

// Two flows into one port share it evenly; a fixed share against a flow that is
// held to less by its own link is max-min fair though Jain's index is not 1.
func TestFairness(t *testing.T) {
	even := run(t, parse(t, `
duration: 4ms
warmup: 1ms
topology: {kind: star, hosts: 3, host_rate: 25Gbps}
systems: [{engine: none}]
measure: {window: 200us}
workloads: [{kind: incast, receiver: h2, senders: 2, size: unlimited}]
`)).Systems[0]
	if even.MaxMinDistance > 0.02 || even.JainWindow < 0.999 {
		t.Errorf("two equal flows: distance %v, Jain %v", even.MaxMinDistance, even.JainWindow)
	}
	var jain, distance int
	for _, x := range even.Series {
		switch x.Kind {
		case results.SeriesJain:
			jain = len(x.Values)
		case results.SeriesMaxMin:
			distance = len(x.Values)
		}
	}
	if jain != 20 || distance != 20 {
		t.Errorf("%d and %d points, want 20", jain, distance)
	}

	// Three flows leave h0, one of which meets a fourth at h1: a third each, and
	// what is left of h1's link for the fourth.
	s := parse(t, `
duration: 4ms
warmup: 1ms
topology: {kind: star, hosts: 5, host_rate: 24Gbps}
systems: [{engine: none, override: {fabric: {pfc: {enabled: false}}, nic: {mode: offload}}}]
measure: {window: 200us}
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: unlimited}, {src: h0, dst: h2, size: unlimited}, {src: h0, dst: h3, size: unlimited}]}]
`)
	sys := run(t, s).Systems[0]
	if sys.MaxMinDistance > 0.02 {
		t.Errorf("three flows of one host are %v from fair", sys.MaxMinDistance)
	}

	// Flows that end have no say.
	ending := run(t, parse(t, `
duration: 1ms
topology: {kind: star, hosts: 3, host_rate: 25Gbps}
systems: [{engine: none}]
measure: {window: 100us}
workloads: [{kind: incast, receiver: h2, senders: 2, size: 2MB}]
`)).Systems[0]
	if ending.MaxMinDistance.Measured() || ending.JainWindow.Measured() {
		t.Errorf("flows that end have a distance of %v", ending.MaxMinDistance)
	}
}

// One flow's slowdown on an idle network is 1: the ideal time has a closed form,
// and the simulation of a single flow is its test, over networks, rates, sizes,
// verbs, either place of the engine and either model of the NIC.
func TestSlowdownOfASingleFlow(t *testing.T) {
	notUnderRace(t)
	topologies := []string{
		"topology: {kind: star, hosts: 3, host_rate: 25Gbps, host_delay: 1us}",
		"topology: {kind: star, hosts: 3, host_rate: 100Gbps, host_delay: 300ns}",
		"topology: {kind: leaf-spine, leaves: 2, spines: 1, hosts_per_leaf: 2, host_rate: 25Gbps, host_delay: 1us, trunk_rate: 100Gbps}",
		"topology: {kind: leaf-spine, leaves: 2, spines: 1, hosts_per_leaf: 2, host_rate: 100Gbps, host_delay: 500ns, trunk_rate: 40Gbps}",
	}
	operations := []string{"write", "read", "send"}
	i := 0
	for _, topology := range topologies {
		// Around one packet, where a last small packet follows large ones, and long.
		for _, size := range []int{1, 1024, 1025, 4097, 5000, 30_001, 500_000} {
			for mode, above := range map[string]float64{"host": 0.1, "offload": 0.03, "reduced": 0.001} {
				sets := []string{
					"workloads[0].flows[0].size=" + strconv.Itoa(size) + "B",
					"workloads[0].flows[0].dst=" + []string{"h1", "h2"}[i%2],
					"workloads[0].operation=" + operations[i%3],
					"nic.mtu=" + []string{"1024", "4096"}[i/2%2],
					"nic.mode=" + mode,
				}
				below := 0.02
				if mode == "reduced" { // the closed form is all there is
					sets[2], sets[4] = "workloads[0].operation=write", "nic.model=reduced"
					sets[3] = "nic.mtu=" + []string{"1000", "9000"}[i/2%2]
					below = 0.001
				}
				text := "duration: 10s\n" + topology + "\nsystems: [{engine: none}]\n" +
					"workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 1B}]}]\n"
				s, err := scenario.Parse("test.yaml", []byte(text), sets...)
				if err != nil {
					t.Fatal(err)
				}
				var slowdown float64
				if _, err := Run(s, Options{Flows: func(r *results.FlowRecord) error {
					slowdown = *r.Slowdown
					return nil
				}}); err != nil {
					t.Fatal(err)
				}
				// In the host the pause between segments costs up to 8 percent at 100 Gbps.
				if slowdown < 1-below || slowdown > 1+above {
					t.Errorf("%s, %v: slowdown %v alone on the network", topology, sets, slowdown)
				}
			}
			i++
		}
	}
}
