package bench

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/scenario"
)

// randomStaged is the text of small scenarios of staged NICs: two racks, flows that come at
// random and incasts, and what makes NICs send again, pause, wait and drop.
var randomStaged = rapid.Custom(func(t *rapid.T) string {
	draw := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(t, name) }
	mode, engine, _ := strings.Cut(draw("engine", "host none", "host timely", "host swift", "offload none", "offload timely", "offload powertcp", "offload poseidon", "offload dcqcn", "offload hpcc"), " ")
	return fmt.Sprintf(`
seed: %d
duration: 300us
warmup: 50us
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 3, host_rate: %s, host_delay: %s, trunk_rate: 100Gbps}
nic: {preset: %s, mtu: 1024, mode: %s, ack_every: %s%s}
host: {%s}
fabric: {ecn: {kmin: 20KB, kmax: 80KB}%s}
systems: [{engine: %s}]
workloads:
  - {kind: poisson, name: web, sizes: websearch, load: 0.8, load_on: hosts, stop: 200us, operation: %s, message: 16KiB}
  - {kind: incast, name: in, receiver: h0, size: %s, rounds: 3, period: 60us, operation: %s}
measure: {sample: 20us, window: 20us, links: [tor0->h0]}
`,
		rapid.IntRange(1, 1000).Draw(t, "seed"), draw("rate", "25Gbps", "100Gbps"), draw("delay", "1us", "300ns"),
		draw("preset", "cx5", "cx6dx"), mode, draw("acks", "1", "4"),
		draw("with", "", ", with: {transport: {loss: selective-repeat, rto_low: 100us}}", ", with: {receive_buffer: {bytes: 65536}, pcie: {rate: gen3x4}}", ", with: {state: {bytes: 4KiB}}"),
		draw("host", "", "load: 0.3, burst: 5us", "wakeup: 3us, post: 100ns"),
		draw("fabric", "", ", faults: [{link: \"*\", loss: 0.002}]", ", pfc: {enabled: false}, faults: [{link: \"*\", loss: 0.0005}]", ", pfc: {enabled: false}"),
		engine, draw("operation", "write", "send", "read"), draw("size", "8KB", "100KB"), draw("incast", "write", "read"))
})

// Random scenarios of staged NICs give the same bytes in windows as undivided.
func TestRandomDividedRunsAgree(t *testing.T) {
	n := 24
	if testing.Short() {
		n = 4
	}
	for i := range n {
		text := randomStaged.Example(i)
		s, err := scenario.Parse("random", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if agree(t, s); t.Failed() {
			t.Fatalf("scenario %d does not agree, or did not run divided:\n%s", i, text)
		}
	}
}
