package bench

import (
	"fmt"
	"strings"
	"testing"
)

// Flows on a path of long queues find the other one, and no packet comes before an
// earlier one on the way: though the new path is shorter by many packets, and
// acknowledgements stand for several, nothing is sent again.
func TestPathsChangeInOrder(t *testing.T) {
	const text = `
duration: 7ms
warmup: 6ms
topology:
  kind: graph
  host_rate: 25Gbps
  trunk_rate: 400Gbps
  hosts: [a0, a1, a2, a3, b0, b1, b2, b3]
  switches: [left, right, near, far]
  links:
    - {a: a0, b: left}
    - {a: a1, b: left}
    - {a: a2, b: left}
    - {a: a3, b: left}
    - {a: b0, b: right}
    - {a: b1, b: right}
    - {a: b2, b: right}
    - {a: b3, b: right}
    - {a: left, b: near}
    - {a: near, b: right}
    - {a: left, b: far, rate: 10Gbps}
    - {a: far, b: right, rate: 10Gbps}
systems:
  - {name: stays, engine: swift, config: {plb: false}}
  - {name: leaves, engine: swift, config: {plb: true, plb_share: 0.05, plb_rounds: 4}}
workloads:
  - {kind: flows, message: MESSAGE, flows: [{src: a0, src_step: 1, dst: b0, dst_step: 1, count: 4, connections: 2, size: unlimited}]}
measure: {links: [left->far, left->near]}
`
	for _, nic := range []string{"model: staged, mode: offload", "model: reduced"} {
		for _, c := range []struct {
			every   int
			message string
		}{{1, "8KiB"}, {4, "1MiB"}, {64, "8KiB"}} {
			name := fmt.Sprintf("%s, ack_every %d, messages of %s", nic, c.every, c.message)
			s := run(t, parse(t, strings.ReplaceAll(text, "MESSAGE", c.message)+fmt.Sprintf("nic: {%s, mtu: 1024, ack_every: %d}\n", nic, c.every)))
			stays, leaves := s.Systems[0], s.Systems[1]
			if stays.Links[0].Busy == 0 {
				t.Fatalf("%s: no flow was given the slow path, so nothing was tested", name)
			}
			if leaves.Links[0].Busy != 0 || leaves.Links[1].Busy == 0 {
				t.Errorf("%s: the slow path is busy for %v and the other one for %v of the time", name, leaves.Links[0].Busy, leaves.Links[1].Busy)
			}
			if leaves.Retransmissions != 0 || leaves.Timeouts != 0 {
				t.Errorf("%s: %v retransmissions, %v timeouts", name, leaves.Retransmissions, leaves.Timeouts)
			}
		}
	}
}

// A timeout changes the path: a flow whose path has been cut goes on by another, though
// switches know no better.
func TestTimeoutsLeaveADeadPath(t *testing.T) {
	notUnderRace(t)
	const text = `
duration: 30ms
warmup: 500us
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 4, host_rate: 25Gbps, trunk_rate: 100Gbps}
fabric: {failures: [{link: tor0->spine0, both: false, at: 1ms, down: true}]}
systems: [{engine: swift, config: {plb: true}}]
workloads: [{kind: flows, message: 64KiB, flows: [{src: h0, src_step: 1, dst: h4, dst_step: 1, count: 4, size: unlimited}]}]
`
	for _, model := range []string{"staged", "reduced"} {
		sys := run(t, parse(t, text+fmt.Sprintf("nic: {model: %s, mode: offload, timeout: 8, retry_cnt: 7}\n", model))).Systems[0]
		if sys.Timeouts == 0 {
			t.Fatalf("%s: no flow was on the dead path, so nothing was tested", model)
		}
		if got := float64(sys.ThroughputGbps); got < 75 { // each timeout costs a flow a millisecond or more of 30
			t.Errorf("%s: %.1f Gbps of payload on ports of 100", model, got)
		}
	}
}
