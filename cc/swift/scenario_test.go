package swift_test

import (
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc/internal/benchtest"
)

// want is the delay, in us, that n flows on one link of 25 Gbps settle at with
// the defaults over one switch: the target of the window that fills their share
// in it. Packets are 1024 bytes of 1106 on the wire.
func want(n float64) float64 {
	target := 26.0
	for range 100 {
		cwnd := 25e9 / 8 / 1106 * target * 1e-6 / n
		target = 26 + max(0, min(32.653*(1/math.Sqrt(cwnd)-0.1), 100))
	}
	return target
}

// Two flows, the second of which joins, and a ten-to-one incast on a long flow,
// over the model's NIC and switch: the delay is on target, the link full, and all
// flows alike.
func TestOnTheModel(t *testing.T) {
	for _, c := range []struct {
		name  string
		count string
		flows float64
	}{{"two flows", "1", 2}, {"incast", "10", 11}} {
		sys := benchtest.Run(t, `
duration: 8ms
warmup: 4ms
topology: {kind: star, hosts: 12, host_rate: 25Gbps, host_delay: 2us}
nic: {preset: cx6dx, mode: offload, mtu: 1024}
systems: [{engine: swift}] # one switch: the acknowledgements say it
workloads:
  - {kind: flows, flows: [{src: h1, dst: h0, size: unlimited}]}
  - {kind: flows, name: others, start: 1ms, flows: [{src: h2, src_step: 1, dst: h0, count: `+c.count+`, size: unlimited}]}
measure: {window: 100us, links: [tor0->h0]}
`)[0]
		if target := want(c.flows); math.Abs(float64(sys.RTTAvgUs)-target) > 0.06*target || float64(sys.RTTP99Us) > 1.15*target {
			t.Errorf("%s: the RTT is %v us, its 99th percentile %v, the target of their share %.1f", c.name, sys.RTTAvgUs, sys.RTTP99Us, target)
		}
		if sys.Links[0].BusyMinimum < 0.99 {
			t.Errorf("%s: the link is busy for %v of the worst 100 us", c.name, sys.Links[0].BusyMinimum)
		}
		if sys.Jain < 0.99 || sys.Drops != 0 {
			t.Errorf("%s: Jain's index is %v, %d drops", c.name, sys.Jain, sys.Drops)
		}
	}
}

// Section 3.4: with more flows than packets fill the target, windows go below one packet
// and are paced, so that the delay stays within the largest target, where windows of one
// packet queue one for each flow.
func TestMoreFlowsThanPackets(t *testing.T) {
	const flows = 660
	delay := func(least string) float64 {
		sys := benchtest.Run(t, `
duration: 24ms
warmup: 16ms
topology: {kind: star, hosts: 12, host_rate: 25Gbps, host_delay: 2us}
nic: {preset: cx6dx, mode: offload, mtu: 1024}
systems: [{engine: swift, config: {hops: 1, min_cwnd: `+least+`}}]
workloads:
  - {kind: flows, jitter: 1ms, flows: [{src: h1, src_step: 1, dst: h0, count: 11, connections: 60, size: unlimited}]}
measure: {window: 1ms, links: [tor0->h0]}
`)[0]
		if sys.Links[0].BusyMinimum < 0.99 || sys.Drops != 0 {
			t.Errorf("min_cwnd %s: the link is busy for %v of the worst ms, %d drops", least, sys.Links[0].BusyMinimum, sys.Drops)
		}
		t.Logf("min_cwnd %s: the RTT is %v us, its 99th percentile %v, Jain's index %v", least, sys.RTTAvgUs, sys.RTTP99Us, sys.Jain)
		return float64(sys.RTTAvgUs)
	}
	const queued = flows * 1106 * 8 / 25e3 // us, by a packet of each
	if below, whole := delay("0.001"), delay("1"); below > 126 || whole < 0.95*queued {
		t.Errorf("the RTT is %v us, the largest target 126; with whole packets %v, a packet of each takes %v", below, whole, queued)
	}
}
