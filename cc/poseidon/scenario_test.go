package poseidon_test

import (
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc/internal/benchtest"
)

// victims returns the wire rate of the multi-hop victim with each configuration.
func victims(t *testing.T, text string) map[string]float64 {
	t.Helper()
	systems := benchtest.Run(t, text)
	got := map[string]float64{}
	for _, sys := range systems {
		for _, l := range sys.Labels {
			if l.Label == "victim" {
				got[sys.Name] = float64(l.WireGbps)
			}
		}
	}
	return got
}

// Figure 21a and Figure 23: a victim that meets 5 flows at one hop and 9 at the
// next keeps its 20 Gbps with max per-hop delay and a target that falls with the
// rate, by whatever update, and with either alternative target; it loses its
// share when the signal is the round trip or the target fixed, and part of it when
// the target goes by the window.
func TestAblation(t *testing.T) {
	got := victims(t, `
extends: poseidon-multihop
duration: 8ms
warmup: 4ms
params: {m: 5, n: 9}
systems:
  - {name: poseidon, engine: poseidon}
  - {name: aimd, engine: poseidon, config: {update: aimd}}
  - {name: ratio, engine: poseidon, config: {update: ratio}}
  - {name: power, engine: poseidon, config: {target: power}}
  - {name: rtt, engine: poseidon, config: {signal: rtt}}
  - {name: fixed, engine: poseidon, config: {target: fixed}}
  - {name: fixed aimd, engine: poseidon, config: {target: fixed, update: aimd}}
  - {name: cwnd, engine: poseidon, config: {scaling: cwnd}}
  - {name: power cwnd, engine: poseidon, config: {target: power, scaling: cwnd}}
`)
	// With the power target the share moves with how packets fall: 16.6 to 20.7 Gbps with
	// pipelines of 20 to 190 ns.
	within := map[string]float64{"poseidon": 2.4, "aimd": 2.4, "ratio": 2.4, "power": 4.5}
	for name, most := range within {
		if math.Abs(got[name]-20) > most {
			t.Errorf("%s: the victim has %v Gbps, its share is 20", name, got[name])
		}
	}
	for _, name := range []string{"rtt", "fixed", "fixed aimd"} {
		if got[name] > 5 {
			t.Errorf("%s: the victim has %v Gbps, and should have lost its share of 20", name, got[name])
		}
	}
	for with, by := range map[string]string{"cwnd": "poseidon", "power cwnd": "power"} {
		if got[with] > 0.85*got[by] || got[with] < 5 {
			t.Errorf("%s: the victim has %v Gbps, by rate %v", with, got[with], got[by])
		}
	}
}

// Where the round trip is long, the paper's loop cycles, and the victim of two hops with
// 9 flows each loses its share of 20 Gbps. With the bound of the gain it keeps it.
func TestLongRoundTrips(t *testing.T) {
	for _, delay := range []string{"2us", "5us"} {
		got := victims(t, `
extends: poseidon-multihop-9-9
duration: 15ms
warmup: 10ms
topology: {host_delay: `+delay+`}
expect: []
systems:
  - {name: bounded, engine: poseidon}
  - {name: paper, engine: poseidon, config: {max_gain: 0}}
`)
		if math.Abs(got["bounded"]-20) > 2.4 {
			t.Errorf("host delay %s: the victim has %v Gbps, its share is 20", delay, got["bounded"])
		}
		if math.Abs(got["paper"]-20) < 2.4 {
			t.Errorf("host delay %s: the victim has %v Gbps without the bound, which it should need", delay, got["paper"])
		}
	}
}

// Inside the NIC, RDMA Reads fare as Writes do: the victim of two congested hops
// keeps its share of 20 Gbps, and READs of a size that no window holds do too.
func TestReadsInTheNIC(t *testing.T) {
	for _, message := range []string{"16KiB", "1MiB"} {
		got := victims(t, `
extends: poseidon-multihop
duration: 8ms
warmup: 4ms
params: {m: 5, n: 9}
workloads:
  - kind: flows
    operation: read
    message: `+message+`
    flows:
      - {label: victim, src: h0, dst: h100, size: unlimited}
      - {label: green, src: h1, src_step: 1, dst: h10, dst_step: 10, count: $m, size: unlimited}
      - {label: blue, src: h11, src_step: 10, dst: h101, dst_step: 1, count: $n, size: unlimited}
`)["Poseidon"]
		if math.Abs(got-20) > 2.4 {
			t.Errorf("with READs of %s the victim has %v Gbps, its share is 20", message, got)
		}
	}
}
