package bench

import "testing"

// The longest queue is that from the warm-up on, though a longer one was before it and
// nothing is sampled: four flows that start at line rate, and then drain it.
func TestLongestQueueAfterTheWarmUp(t *testing.T) {
	longest := func(warmup string) int64 {
		s := parse(t, `
duration: 3ms
warmup: `+warmup+`
topology: {kind: star, hosts: 5, host_rate: 25Gbps}
systems: [{engine: powertcp}]
workloads: [{kind: incast, receiver: h4, senders: [h0..h3], size: unlimited}]
measure: {sample: 0s, window: 100us, links: [tor0->h4]}
`)
		x := run(t, s).Systems[0]
		if x.QueueMaxBytes != x.Links[0].QueueMaxBytes {
			t.Errorf("from %s on the network has %d, the only link with a queue %d", warmup, x.QueueMaxBytes, x.Links[0].QueueMaxBytes)
		}
		return x.QueueMaxBytes
	}
	if all, late := longest("0s"), longest("2900us"); late <= 0 || late >= all {
		t.Errorf("the longest queue is %d bytes, and %d from the warm-up on", all, late)
	}
}
