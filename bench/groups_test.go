package bench

import (
	"fmt"
	"testing"
)

// Groups share a bottleneck as single flows do: the same round trip and throughput within 5
// percent, whatever their number of queue pairs.
func TestGroupsShareABottleneckAsFlows(t *testing.T) {
	const yaml = `
duration: 30ms
warmup: 10ms
topology: {kind: star, hosts: 5, host_rate: 10Gbps}
nic: {mode: host}
shim: {group: destination, outstanding: 256KiB}
systems: [{engine: swift}]
workloads:
  - {kind: incast, name: in, receiver: h4, senders: [h0..h3], connections: %d, size: unlimited, jitter: 1ms}
`
	one := run(t, parse(t, fmt.Sprintf(yaml, 1))).Systems[0]
	for _, n := range []int{4, 50} {
		many := run(t, parse(t, fmt.Sprintf(yaml, n))).Systems[0]
		if d := many.RTTAvgUs / one.RTTAvgUs; d < 0.95 || d > 1.05 {
			t.Errorf("groups of %d: round trips of %.1f us, of single flows %.1f us", n, many.RTTAvgUs, one.RTTAvgUs)
		}
		if d := many.ThroughputGbps / one.ThroughputGbps; d < 0.95 || d > 1.05 {
			t.Errorf("groups of %d: %.2f Gbps, single flows %.2f Gbps", n, many.ThroughputGbps, one.ThroughputGbps)
		}
	}
}

// Grouped, 800 queue pairs fill no queue that 800 engines fill.
func TestGroupsKeepQueuesShort(t *testing.T) {
	s := run(t, load(t, "groups", "duration=6ms", "warmup=3ms", "workloads[writes].connections=50"))
	for i := 0; i < len(s.Systems); i += 2 {
		each, group := s.Systems[i], s.Systems[i+1]
		if group.QueueAvgBytes > each.QueueAvgBytes/8 || group.PauseUs != 0 {
			t.Errorf("%s: %.0f bytes in the queue and %.0f us paused, without groups %.0f bytes", group.Name, group.QueueAvgBytes, group.PauseUs, each.QueueAvgBytes)
		}
	}
}
