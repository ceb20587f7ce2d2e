package ictcp_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc/internal/benchtest"
)

// Sixteen flows join a long one, over a switch with little memory: ICTCP loses
// nothing, where TCP without it (DCTCP's, with marks out of reach) does.
func TestIncastOnTheModel(t *testing.T) {
	systems := benchtest.Run(t, `
duration: 30ms
topology: {kind: star, hosts: 18, host_rate: 10Gbps, host_delay: 5us}
fabric: {pfc: {enabled: false}, buffer: 200KB, alpha: 8}
nic: {model: reduced, mtu: 1024, timeout: 8}
systems:
  - {engine: ictcp}
  - {engine: dctcp, name: tcp, override: {fabric: {ecn: {kmin: 1GB, kmax: 1GB}}}}
workloads:
  - {kind: flows, flows: [{label: long, src: h17, dst: h0, size: unlimited}]}
  - {kind: incast, label: incast, start: 5ms, receiver: h0, senders: [h1..h16], size: 500KB}
measure: {links: [tor0->h0]}
`)
	sys, tcp := systems[0], systems[1]
	if sys.FlowsDone != 16 || sys.Drops+sys.Retransmissions+sys.Timeouts > 0 {
		t.Errorf("%d flows done, %d drops, %d packets sent again", sys.FlowsDone, sys.Drops, sys.Retransmissions)
	}
	if tcp.Drops == 0 || tcp.Timeouts == 0 {
		t.Errorf("TCP dropped %d packets, with %d timeouts: the test shows nothing", tcp.Drops, tcp.Timeouts)
	}
	// The long flow gives way: 17 flows of 500 KB take 7.4 ms with headers.
	for _, l := range sys.Labels {
		if l.Label == "incast" && l.FCTP99Us > 1.15*7400 {
			t.Errorf("the incast took %v us", l.FCTP99Us)
		}
	}
	if busy := sys.Links[0].Busy; busy < 0.89 {
		t.Errorf("the link is busy for %v of the time", busy)
	}
}
