package dctcp_test

import (
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/cc/internal/benchtest"
)

// The claim of the paper's section 4.1 (figure 13, table 1): two long flows fill a
// link of 10 Gbps with a queue about K, of 65 packets.
func TestQueueStaysAtK(t *testing.T) {
	sys := benchtest.Run(t, `
duration: 60ms
warmup: 20ms
topology: {kind: star, hosts: 3, host_rate: 10Gbps, host_delay: 20us}
fabric: {pfc: {enabled: false}, ecn: {kmin: 97500B, kmax: 97500B}}
nic: {preset: cx5, mtu: 1024}
systems: [{engine: dctcp}]
workloads: [{kind: flows, flows: [{src: h1, src_step: 1, dst: h0, count: 2, size: unlimited}]}]
measure: {window: 1ms, links: [tor0->h0]}
`)[0]
	link := sys.Links[0]
	// What a flow takes from its window is little, and what it adds before it hears of
	// a mark a few packets.
	if float64(link.QueueAvgBytes) < 0.8*97_500 || link.QueueMaxBytes > 97_500+6*1522 {
		t.Errorf("the queue is %v bytes, at most %d, K is 97500", link.QueueAvgBytes, link.QueueMaxBytes)
	}
	if link.BusyMinimum < 0.999 || sys.Jain < 0.99 {
		t.Errorf("the link is busy for %v of the worst millisecond, Jain's index is %v", link.BusyMinimum, sys.Jain)
	}
}

// Section 3.4: a threshold above C RTT/7 keeps the link busy, one far below does not.
func TestLeastThreshold(t *testing.T) {
	const bound = 10e9 / 8 * 84e-6 / 7 // bytes: 15 KB
	for _, c := range []struct {
		k     float64
		least float64 // of the link
		most  float64
	}{{1.5 * bound, 0.999, 1}, {0.1 * bound, 0, 0.98}} {
		sys := benchtest.Run(t, fmt.Sprintf(`
duration: 60ms
warmup: 20ms
topology: {kind: star, hosts: 3, host_rate: 10Gbps, host_delay: 20us}
fabric: {pfc: {enabled: false}, ecn: {kmin: %.0[1]fB, kmax: %.0[1]fB}}
nic: {preset: cx5, mtu: 1024}
systems: [{engine: dctcp}]
workloads: [{kind: flows, flows: [{src: h1, src_step: 1, dst: h0, count: 2, size: unlimited}]}]
measure: {links: [tor0->h0]}
`, c.k))[0]
		t.Logf("K is %.0f bytes: the link is busy for %v, the queue %v bytes", c.k, sys.Links[0].Busy, sys.Links[0].QueueAvgBytes)
		if busy := float64(sys.Links[0].Busy); busy < c.least || busy > c.most {
			t.Errorf("K is %.0f bytes: the link is busy for %v, want %v to %v", c.k, busy, c.least, c.most)
		}
	}
}
