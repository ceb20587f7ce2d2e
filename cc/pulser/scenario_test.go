package pulser_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc/internal/benchtest"
)

// The claims of figures 2, 5 and 6: beside a long flow, sixteen short ones of the
// paper's mean size that begin at once make a shorter queue than over DCTCP, end
// sooner, and leave the long flow with its window: the link is never idle.
func TestIncastAgainstDCTCP(t *testing.T) {
	systems := benchtest.Run(t, `
duration: 12ms
warmup: 2ms
topology: {kind: star, hosts: 18, host_rate: 10Gbps, host_delay: 20us}
fabric:
  pfc: {enabled: false}
  buffer: 4MiB
  ecn: {kmin: 97500B, kmax: 97500B}
  ein: {gradient: 0.25, high_water: 150KB}
nic: {preset: cx5, mtu: 1024}
systems: [{engine: dctcp}, {engine: pulser}]
workloads:
  - {kind: flows, name: long, flows: [{label: long, src: h1, dst: h0, size: unlimited}]}
  - {kind: flows, name: burst, start: 4ms, flows: [{label: burst, src: h2, src_step: 1, dst: h0, count: 16, size: 20KB}]}
measure: {window: 100us, sample: 100us, links: [tor0->h0]}
`)
	dctcp, pulser := systems[0], systems[1]
	if q, k := pulser.Links[0].QueueMaxBytes, dctcp.Links[0].QueueMaxBytes; 4*q > 3*k {
		t.Errorf("the queue peaks at %d bytes, DCTCP's at %d", q, k)
	}
	if f, k := pulser.Labels[1].FCTAvgUs, dctcp.Labels[1].FCTAvgUs; pulser.Labels[1].FlowsDone != 16 || f > k {
		t.Errorf("of 16 flows %d end, after %v us; DCTCP's after %v", pulser.Labels[1].FlowsDone, f, k)
	}
	if b := pulser.Links[0].BusyMinimum; b < 0.999 || pulser.Drops != 0 {
		t.Errorf("the link is busy for %v of the worst 100 us, %d drops", b, pulser.Drops)
	}
}
