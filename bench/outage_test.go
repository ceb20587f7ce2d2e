package bench

import (
	"testing"

	"github.com/sluice-rdma/sluice/scenario"
)

// A link that comes back within the retry time costs its time and what is sent again: the
// engine in the host goes on at the rate that it had, and does not take the timeout for a
// queue of that length. So it is with a queue pair's own timer and with the shorter ones of a device.
func TestRatesAfterAnOutage(t *testing.T) {
	notUnderRace(t)
	for _, nic := range []string{
		"{mode: host, timeout: 8}", // 1 ms
		"{mode: host, preset: cx5, with: {transport: {adp_retrans: {enabled: true, timeout_init_low_bound: 8}}}}", // the same, of 67 ms
	} {
		rateAfterAnOutage(t, nic)
	}
}

func rateAfterAnOutage(t *testing.T, nic string) {
	t.Helper()
	text := `
topology: {kind: star, hosts: 2, host_rate: 10Gbps}
nic: ` + nic + `
duration: 20ms
systems: [{engine: timely}, {engine: swift}]
workloads: [{kind: flows, message: 256KiB, flows: [{src: h0, dst: h1, size: unlimited}]}]
fabric: {pfc: {enabled: false}, failures: [{link: tor0->h1, at: 5ms, for: 2ms, down: true}]}
`
	s, err := scenario.Parse("outage", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, sys := range r.Systems {
		// Of 20 ms, 2 ms without the link, and up to 4 ms until the timer expires again.
		if got := sys.ThroughputGbps; got < 10*0.9*14/20 || sys.Timeouts == 0 {
			t.Errorf("%s, nic %s: %.2f Gbps with %d timeouts", sys.Name, nic, float64(got), sys.Timeouts)
		}
	}
}

// Two flows of a card into one port share it, whichever starts first, though the round trip over the full buffer is longer than
// slow restart's period: neither lowers its rate twice for one overflow.
func TestSharesOfALossyIncast(t *testing.T) {
	notUnderRace(t)
	for _, start := range []string{"0s", "13us", "700us"} {
		s, err := scenario.Parse("shares", []byte(`
topology: {kind: star, hosts: 3, host_rate: 100Gbps}
fabric: {buffer: 5.2MB, alpha: 100, pfc: {enabled: false}}
nic: {preset: cx5, mode: offload, mtu: 4096}
duration: 40ms
warmup: 8ms
systems: [{engine: nic-default}]
workloads:
  - {kind: incast, name: a, receiver: h2, senders: [h0], size: unlimited, message: 1MiB}
  - {kind: incast, name: b, receiver: h2, senders: [h1], size: unlimited, message: 1MiB, start: `+start+`}
`))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		sys := r.Systems[0]
		if got := float64(sys.ThroughputGbps); got < 80 || sys.Drops == 0 {
			t.Errorf("start %s: %.1f Gbps with %d drops", start, got, sys.Drops)
		}
		if sys.Jain < 0.97 { // shares of 41 and 59 percent
			t.Errorf("start %s: Jain's index is %.3f", start, float64(sys.Jain))
		}
	}
}
