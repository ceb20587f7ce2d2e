package hpcc_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc/internal/benchtest"
)

// A ten-to-one incast on a long flow, over the model's NIC and switch. Once it
// has settled, HPCC leaves the queue well below PowerTCP's, whose equilibrium is
// a queue of sum beta, and pays for it with the 1 - eta of the link.
func TestIncastAgainstPowerTCP(t *testing.T) {
	systems := benchtest.Run(t, `
duration: 8ms
warmup: 4ms
topology: {kind: star, hosts: 12, host_rate: 25Gbps, host_delay: 2us}
nic: {preset: cx6dx, mode: offload, mtu: 1024}
systems: [{engine: hpcc}, {engine: powertcp}]
workloads:
  - {kind: flows, flows: [{src: h1, dst: h0, size: unlimited}]}
  - {kind: flows, name: incast, start: 1ms, flows: [{src: h2, src_step: 1, dst: h0, count: 10, size: unlimited}]}
measure: {window: 100us, links: [tor0->h0]}
`)
	hpcc, power := systems[0].Links[0], systems[1].Links[0]
	if 2*hpcc.QueueMaxBytes > power.QueueMaxBytes || 2*hpcc.QueueAvgBytes > power.QueueAvgBytes {
		t.Errorf("the queue is %v bytes, at most %d; PowerTCP's is %v, at most %d", hpcc.QueueAvgBytes, hpcc.QueueMaxBytes, power.QueueAvgBytes, power.QueueMaxBytes)
	}
	if hpcc.Busy < 0.93 || hpcc.Busy > 0.97 || hpcc.BusyMinimum < 0.91 {
		t.Errorf("the link is busy for %v of the time, in the worst 100 us for %v; eta is 0.95", hpcc.Busy, hpcc.BusyMinimum)
	}
	if systems[0].Drops != 0 {
		t.Errorf("%d drops", systems[0].Drops)
	}
}

// A flow that joins another at the line rate: both end with half of what eta
// leaves them.
func TestTwoFlowsOnTheModel(t *testing.T) {
	for _, start := range []string{"1ms", "1.0033ms"} {
		sys := benchtest.Run(t, `
duration: 12ms
warmup: 8ms
topology: {kind: star, hosts: 3, host_rate: 25Gbps, host_delay: 5us}
nic: {preset: cx6dx, mode: offload, mtu: 1024}
systems: [{engine: hpcc, config: {flows: 10}}]
workloads:
  - {kind: flows, flows: [{label: first, src: h1, dst: h0, size: unlimited}]}
  - {kind: flows, name: joins, start: `+start+`, flows: [{label: second, src: h2, dst: h0, size: unlimited}]}
`)[0]
		for _, l := range sys.Labels {
			if share := float64(l.WireGbps) / 25; share < 0.45 || share > 0.525 {
				t.Errorf("from %s: the %s flow has %.3f of the link", start, l.Label, share)
			}
		}
	}
}
