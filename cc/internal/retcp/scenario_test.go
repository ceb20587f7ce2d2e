package retcp_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc/internal/benchtest"
)

// What the paper is about: the flag of a circuit, and the room that comes with it, let
// windows fill it, with either model of the NIC. Without the jump, queues overflow: with one seed of four a flow runs
// out of retries, which is none of what is tested.
func TestFillsItsCircuit(t *testing.T) {
	systems := benchtest.Run(t, `
seed: 2
duration: 14ms
warmup: 2ms
topology: {kind: rdcn, tors: 9, hosts_per_tor: 12, day: 225us, night: 25us, circuit_rate: 100Gbps, host_rate: 25Gbps, trunk_rate: 25Gbps, host_delay: 2us}
fabric: {pfc: {enabled: false}, circuits: {voq: 72KB, announced_voq: 300KB, ahead: 400us, guard: 5us}}
nic: {timeout: 7}
systems:
  - {name: staged, engine: retcp}
  - {name: staged plain, engine: retcp, config: {jump_up: 1, jump_down: 1}, override: {fabric: {circuits: {announced_voq: 72KB}}}}
  - {name: reduced, engine: retcp, override: {nic: {model: reduced}}}
  - {name: reduced plain, engine: retcp, config: {jump_up: 1, jump_down: 1}, override: {nic: {model: reduced}, fabric: {circuits: {announced_voq: 72KB}}}}
workloads: [{kind: flows, jitter: 50us, flows: [{src: h0, src_step: 1, dst: h12, dst_step: 1, count: 12, size: unlimited}]}]
measure: {links: [tor0->tor1]}
`)
	use := map[string]float64{}
	for _, x := range systems {
		// Its day is 225 of 2000 us, and six weeks are measured.
		use[x.Name] = float64(x.Links[0].Busy) * 2000 / 225
	}
	for _, nic := range []string{"staged", "reduced"} {
		if use[nic] < 0.9 || use[nic] < 1.2*use[nic+" plain"] {
			t.Errorf("%s NIC: reTCP fills %.2f of the circuit, without its jump and its room %.2f", nic, use[nic], use[nic+" plain"])
		}
	}
}
