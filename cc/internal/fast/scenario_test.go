package fast_test

import (
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc/internal/benchtest"
)

// FAST TCP's claim (section IV): a queue of alpha for each flow, and equal rates.
// Rates have no acknowledgement clock, so that they swing around it (docs/engines/fast.md).
func TestBalanceOnTheModel(t *testing.T) {
	systems := benchtest.Run(t, `
duration: 60ms
warmup: 30ms
topology: {kind: star, hosts: 10, host_rate: 25Gbps, host_delay: 20us}
nic: {preset: cx6dx, mode: offload, mtu: 1024}
systems:
  - {engine: fast, name: 125M, config: {alpha: 125Mbps, initial_rate: 1Gbps}}
  - {engine: fast, name: 250M, config: {alpha: 250Mbps, initial_rate: 1Gbps}}
workloads:
  - {kind: incast, receiver: h0, senders: [h1..h8], size: unlimited}
measure: {links: [tor0->h0]}
`)
	for i, alpha := range []float64{0.125, 0.25} {
		sys := systems[i]
		// C (1 - base/RTT) = 8 alpha, with C in payload, and a base of 82.1 us less a
		// packet's 0.35, which a whole round trip has again.
		want := 81.75/(1-8*alpha/(25*1024.0/1106)) + 0.35
		if got := float64(sys.RTTAvgUs); math.Abs(got-want) > 0.04*want {
			t.Errorf("alpha %v Gbps: the round trip is %v us, want %v", alpha, got, want)
		}
		if sys.Links[0].Busy < 0.95 || sys.Jain < 0.99 || sys.Drops != 0 {
			t.Errorf("alpha %v Gbps: the link is busy for %v, Jain's index %v, %d drops", alpha, sys.Links[0].Busy, sys.Jain, sys.Drops)
		}
	}
}
