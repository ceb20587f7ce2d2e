package bench

import "testing"

// Errors of the round trip cost TIMELY throughput, and are not in what is reported.
func TestRTTNoise(t *testing.T) {
	const text = `
duration: 60ms
warmup: 30ms
topology: {kind: star, hosts: 5, host_rate: 10Gbps}
nic: {mode: host, ack_every: 64}
shim: {segment: 16KiB, outstanding: 48KiB}
systems: [{engine: timely}, {name: noisy, engine: timely, override: {shim: {rtt_noise: 300us}}}]
workloads: [{kind: incast, receiver: h4, connections: 2, size: unlimited}]
`
	r := run(t, parse(t, text))
	plain, noisy := r.Systems[0], r.Systems[1]
	if noisy.ThroughputGbps > 0.9*plain.ThroughputGbps {
		t.Errorf("%.2f Gbps with noise, %.2f without", float64(noisy.ThroughputGbps), float64(plain.ThroughputGbps))
	}
	if noisy.RTTP50Us > 100 {
		t.Errorf("a median round trip of %.1f us is reported: noise of 150 us on average is in it", float64(noisy.RTTP50Us))
	}
	again := run(t, parse(t, text)).Systems[1]
	if again.Bytes != noisy.Bytes || again.PacketHops != noisy.PacketHops {
		t.Error("the same seed gives another run")
	}
}
