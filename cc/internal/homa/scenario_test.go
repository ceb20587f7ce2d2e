package homa_test

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/cc/internal/benchtest"
)

// A ten-to-one incast of messages of 100 KB over the model's switch: the line is
// never idle, the queue is no longer than what came unasked and what was granted,
// and nothing overtakes, or the transport would send again. RTTBytes are what 25
// Gbps take in the base RTT, 7 us.
func TestIncastOnTheModel(t *testing.T) {
	systems := benchtest.Run(t, `
duration: 20ms
topology: {kind: star, hosts: 11, host_rate: 25Gbps, host_delay: 1us}
fabric: {pfc: {enabled: false}, buffer: 4MiB}
nic: {model: reduced, mtu: 1024}
systems:
  - {name: one, engine: homa, config: {overcommit: 1, rtt_bytes: 22KiB}}
  - {name: six, engine: homa, config: {overcommit: 6, rtt_bytes: 22KiB}}
  - {name: none, engine: none}
workloads:
  - {kind: incast, receiver: h0, senders: [h1..h10], size: 100KB}
measure: {links: [tor0->h0]}
`)
	const frame, rttBytes = 1.1, 22 * 1024
	for i, degree := range []int64{1, 6} {
		sys := systems[i]
		if bound := int64(float64((10+degree)*rttBytes) * frame); sys.QueueMaxBytes > bound {
			t.Errorf("%s: %d bytes queued, the bound is %d", sys.Name, sys.QueueMaxBytes, bound)
		}
		if sys.FlowsDone != 10 || sys.Drops+sys.Retransmissions+sys.Timeouts > 0 {
			t.Errorf("%s: %d flows done, %d drops, %d packets sent again", sys.Name, sys.FlowsDone, sys.Drops, sys.Retransmissions)
		}
		if sys.Links[0].Busy < 0.97 {
			t.Errorf("%s: the receiver's link is busy for %v of the time", sys.Name, sys.Links[0].Busy)
		}
	}
	// One after the other they take on average less than at once.
	if one, all := systems[0].FCTAvgUs, systems[2].FCTAvgUs; one > 0.7*all {
		t.Errorf("granted one by one flows take %v us, all at once %v", one, all)
	}
}

// Shorter messages go first, over ECMP and two tiers of switches, and with losses
// all arrive.
func TestShortestFirstOnTheModel(t *testing.T) {
	text := `
duration: 100ms
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 6, host_rate: 25Gbps, trunk_rate: 100Gbps, host_delay: 1us, trunk_delay: 1us}
fabric: {pfc: {enabled: false}}
nic: {model: reduced, mtu: 1024, timeout: 9}
systems: [{engine: homa, config: {overcommit: 2}}]
workloads:
  - {kind: flows, name: long, flows: [{label: long, src: h1, src_step: 1, dst: h0, count: 3, size: 2MB}]}
  - {kind: flows, name: medium, start: 100us, flows: [{label: medium, src: h6, src_step: 1, dst: h0, count: 3, size: 300KB}]}
  - {kind: flows, name: short, start: 200us, flows: [{label: short, src: h6, src_step: 1, dst: h0, count: 6, size: 10KB}]}
`
	sys := benchtest.Run(t, text)[0]
	fct := map[string]float64{}
	for _, l := range sys.Labels {
		fct[l.Label] = float64(l.FCTP99Us)
	}
	// At 25 Gbps 10 KB take 3.5 us, 300 KB 105 us, and 2 MB 700 us.
	if fct["short"] > 60 || fct["medium"] > 3*105+120 || fct["long"] < 2100 || fct["long"] > 1.05*(6+0.9+0.06)*1e6*8*1.1/25e3 {
		t.Errorf("the slowest take %v us", fct)
	}
	if sys.FlowsDone != 12 || sys.Retransmissions > 0 {
		t.Errorf("%d flows done, %d packets sent again", sys.FlowsDone, sys.Retransmissions)
	}
	lossy := benchtest.Run(t, strings.Replace(text, "enabled: false}", "enabled: false}, faults: [{link: '*', loss: 0.002}]", 1))[0]
	if lossy.FlowsDone != 12 || lossy.Retransmissions == 0 {
		t.Errorf("with losses %d flows done, %d packets sent again", lossy.FlowsDone, lossy.Retransmissions)
	}
}
