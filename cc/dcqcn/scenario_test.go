package dcqcn_test

import (
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc/internal/benchtest"
)

// base is the paper's: 40 Gbps, the thresholds of its figure 14, and PFC; with both
// models of a NIC.
const base = `
topology: {kind: star, hosts: 22, host_rate: 40Gbps, host_delay: 500ns}
fabric: {ecn: {kmin: 5KB, kmax: 200KB, pmax: 0.01}}
nic: {preset: cx6dx, mtu: 1024, ack_priority: 1}
systems: [{engine: dcqcn, name: staged}, {engine: dcqcn, name: reduced, override: {nic: {model: reduced}}}]
measure: {window: 10ms, sample: 5ms, links: [tor0->h0]}
`

// share is the marking probability at which n flows of the paper's parameters are
// in balance (Zhu et al., "ECN or Delay", CoNEXT 2016, equation 11), and queue the one
// that has it, in bytes.
func share(n float64) float64 {
	const capacity, t, b, ai = 40e9 / 8 / 1106, 55e-6, 10e6 / 1106, 40e6 / 8 / 1106 // packets
	return math.Cbrt(ai * n * n / (t * capacity * capacity) * math.Pow(1/b+n/(t*capacity), 2))
}

func queue(n float64) float64 { return 5_000 + min(share(n)/0.01, 1)*195_000 }

// The paper's section 6.2: a flow that joins another ends with its half of the link,
// the link is full, and the queue is that of the balance.
func TestTwoFlowsConverge(t *testing.T) {
	for _, sys := range benchtest.Run(t, base+`
duration: 70ms
warmup: 30ms
workloads:
  - {kind: flows, flows: [{label: first, src: h1, dst: h0, size: unlimited}]}
  - {kind: flows, name: second, start: 10ms, flows: [{label: second, src: h2, dst: h0, size: unlimited}]}
`) {
		for _, l := range sys.Labels {
			if l.WireGbps < 17.5 || l.WireGbps > 22.5 {
				t.Errorf("%s: the %s flow has %v of 40 Gbps", sys.Name, l.Label, l.WireGbps)
			}
			if l.CNPs == 0 {
				t.Errorf("%s: the %s flow was sent no CNP", sys.Name, l.Label)
			}
		}
		link := sys.Links[0]
		if link.Busy < 0.99 || sys.Drops != 0 || sys.PauseFrames != 0 {
			t.Errorf("%s: the link is busy for %v; %d drops, %d pause frames", sys.Name, link.Busy, sys.Drops, sys.PauseFrames)
		}
		if got, want := float64(link.QueueAvgBytes), queue(2); got < 0.6*want || got > 1.6*want {
			t.Errorf("%s: the queue is %v bytes, in balance %v", sys.Name, got, want)
		}
	}
}

// And its 20:1 incast: nothing is lost, the link is full and the flows alike. So many
// flows ask for marks on 2 percent of the packets, above the 1 percent that the
// thresholds give below 200 KB: there the queue stands.
func TestIncast(t *testing.T) {
	for _, sys := range benchtest.Run(t, base+`
duration: 40ms
warmup: 20ms
workloads:
  - {kind: incast, receiver: h0, senders: [h1..h20], size: unlimited}
`) {
		link := sys.Links[0]
		if sys.Drops != 0 || sys.Jain < 0.98 || link.BusyMinimum < 0.999 {
			t.Errorf("%s: %d drops, Jain's index %v, the link is busy for %v of the worst 10 ms", sys.Name, sys.Drops, sys.Jain, link.BusyMinimum)
		}
		if share(20) < 0.01 || link.QueueMaxBytes > 220_000 || float64(link.QueueAvgBytes) < 0.8*queue(20) {
			t.Errorf("%s: the queue is %v bytes, at most %d, in balance %v", sys.Name, link.QueueAvgBytes, link.QueueMaxBytes, queue(20))
		}
	}
}
