package scenario_test

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/scenario"
)

// What a NIC that divides what it sends is asked for goes together, or the error says what does not.
func TestSharing(t *testing.T) {
	const base = `
topology: {kind: star, hosts: 3}
nic: {preset: cx6dx, mode: offload}
systems:
  - {engine: none}
  - {name: two, engine: none, override: {nic: {with: {functions: [{}, {min_tx_rate: 10Gbps, max_tx_rate: 20Gbps}]}}}}
workloads:
  - {kind: incast, receiver: h0, senders: [h1], size: unlimited}
  - {kind: rpc, clients: [h1], servers: [h2], request: 1KB, response: 1KB}
`
	for set, want := range map[string]string{
		"workloads[0].function=1": "",
		"nic.ports=2":             "nic.ports: is 2, and the network has 3 hosts",
		"nic.ports=3":             "nic.ports: is 3: choose 1 to 2",
		"workloads[0].every=5us":  "",
		"nic.with.egress={tsa: [ets, ets, strict], tcbw: [40, 60], prio_tc: [0, 1, 2, 2]}": "",
		"workloads[1].function=2":                                              "workloads[1].function: is 2: nic.with.functions has 2; choose 0 to 1",
		"workloads[0].function=-1":                                             "workloads[0].function: is -1, and no system's NICs have more than 2",
		"nic.with.functions=[{min_tx_rate: 2Gbps, max_tx_rate: 1Gbps}]":        "nic.with.functions[0].max_tx_rate: is 1Gbps: choose at least min_tx_rate, 2Gbps",
		"nic.with.functions=[{}, {max_tx_rate: 1Kbps}]":                        "nic.with.functions[1].max_tx_rate: is 1Kbps: choose 1Mbps to",
		"nic.with.egress={tsa: [ets, fair]}":                                   `egress.tsa: is "fair": choose strict or ets`,
		"nic.with.egress={tsa: [ets, ets, ets, ets, ets, ets, ets, ets, ets]}": "egress.tsa: is 9: choose at most 8 traffic classes",
		"nic.with.egress={tsa: [ets, ets], tcbw: [40, 50]}":                    "egress.tcbw: is 90: choose shares",
		"nic.with.egress={tsa: [strict], tcbw: [40]}":                          "egress.tcbw: is 40: choose 0 to 100 for a traffic class of ets, and 0 for a strict one",
		"nic.with.egress={tsa: [strict], prio_tc: [0, 1]}":                     "egress.prio_tc: is 1: choose one of the 1 traffic classes",
		"workloads[1].every=5us":                                               "workloads[1].every: only flows have send times, and a workload of kind rpc keeps connections",
		"workloads[0].every=2s":                                                "workloads[0].every: is 2s: choose a positive span up to 1s",
		"nic.with.send_time={tick: 0s, jitter: 1us}":                           "send_time.jitter: is 1us: requires send_time.tick",
	} {
		_, err := scenario.Parse("s.yaml", []byte(base), set)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
	for preset, want := range map[string]string{
		"cx5, mode: offload":  "the NICs of systems[0] do not schedule by time: choose nic.preset cx6dx or cx7",
		"cx7, mode: host":     "the shim of systems[1] makes segments of messages",
		"cx7, model: reduced": "reduced NICs have no send times",
	} {
		src := strings.Replace(base, "cx6dx, mode: offload", preset, 1)
		if _, err := scenario.Parse("s.yaml", []byte(src), "workloads[0].every=5us"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", preset, err, want)
		}
	}
}
