package bench

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/internal/racedetector"
	"github.com/sluice-rdma/sluice/scenario"
)

// Workloads whose hosts answer each other, on staged NICs: the same bytes undivided and on
// one worker to three.
func TestDividedTrafficStaged(t *testing.T) {
	for name, sets := range map[string][]string{
		"all-reduce": {"duration=2ms", "workloads[0].size=256KiB", "workloads[0].iterations=2"},
		"rpc":        {"duration=1ms", "warmup=200us"},
		"storage":    {"duration=1ms", "warmup=200us"},
	} {
		t.Run(name, func(t *testing.T) { agree(t, load(t, name, append(sets, "expect=[]")...)) })
	}
	for i, workloads := range []string{
		"{kind: on-off, senders: [h0..h2], receivers: [h3], on: 20us, off: 10us, bursts: 3}",
		"{kind: on-off, senders: [h0..h4], receivers: [h5], on: 20us, off: 10us, random: true, stop: 150us, operation: read}",
		"{kind: all-to-all, size: 10KB, iterations: 3}",
		"{kind: all-to-all, size: 10KB, algorithm: rounds, iterations: 3, gap: 5us}, {kind: incast, receiver: h1, size: 30KB, rounds: 3, period: 60us}",
		"{kind: all-reduce, size: 6B, iterations: 20}, {kind: rpc, clients: [h0, h3], servers: [h3, h5], request: 64B, response: 1KB, requests: 20}",
		"{kind: all-reduce, size: 100KB, algorithm: tree, chunks: 4, iterations: 4, gap: 300ns}",
		"{kind: rpc, clients: [h0..h2], servers: [h3, h4], request: 100B, response: 4KB, requests: 10, outstanding: 3, think: 2us, service: 700ns}",
		"{kind: rpc, clients: [h0..h5], servers: [h0..h5], request: 64B, response: 8KB..32KB, rate: 100000, outstanding: 2, stop: 150us}",
		"{kind: storage, clients: [h0..h3], targets: [h4, h5], reads: 0.5, block: 4KiB, outstanding: 8, requests: 20}, {kind: incast, receiver: h1, size: 100KB, rounds: 4, period: 70us}",
		"{kind: storage, clients: [h0], targets: [h4], reads: 1, block: 64B, requests: 20}",
		"{kind: storage, clients: [h0..h3], targets: [h4, h5], reads: 0, order: turn, block: 16KiB, rate: 50000, arrivals: even, stop: 200us}",
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) { agree(t, parse(t, onTwoRacks("", "host timely", 1, workloads, ""))) })
	}
}

// onTwoRacks is a scenario of six hosts with staged NICs. engine is its mode and name.
func onTwoRacks(nic, engine string, seed int, workloads, keys string) string {
	mode, engine, _ := strings.Cut(engine, " ")
	return fmt.Sprintf(`
seed: %d
duration: 400us
warmup: 0s
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 3, host_rate: 25Gbps, trunk_rate: 100Gbps}
nic: {mode: %s, mtu: 1024%s}
fabric: {ecn: {kmin: 20KB, kmax: 80KB}}
systems: [{engine: %s}]
workloads: [%s]
measure: {sample: 20us, window: 20us, links: [tor0->h0]}
%s
`, seed, mode, nic, engine, workloads, keys)
}

// randomTraffic is the text of small scenarios whose hosts answer each other.
var randomTraffic = rapid.Custom(func(t *rapid.T) string {
	draw := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(t, name) }
	workload := func(i int) string {
		bound := draw("bound", "", ", stop: 150us", ", stop: 90us")
		common := fmt.Sprintf("name: w%d, start: %s%s", i, draw("start", "0s", "10us", "7ns"), bound)
		switch draw("kind", "on-off", "all-reduce", "all-to-all", "rpc", "storage") {
		case "on-off":
			return fmt.Sprintf("{kind: on-off, %s, senders: [h0..h%s], receivers: [h5], on: %s, off: %s, random: %s, message: %s, operation: %s, bursts: %s}", common,
				draw("senders", "0", "2", "4"), draw("on", "1us", "20us"), draw("off", "0s", "10us"), draw("random", "true", "false"), draw("message", "64B", "4KiB", "64KiB"), draw("op", "write", "send", "read"), draw("bursts", "0", "1", "3"))
		case "all-reduce":
			return fmt.Sprintf("{kind: all-reduce, %s, hosts: %s, size: %s, algorithm: %s, iterations: %s, gap: %s, operation: %s}", common,
				draw("hosts", "2", "5", "all"), draw("size", "64B", "9000B", "200KB"), draw("algorithm", "ring", "tree"), draw("iterations", "0", "2", "9"), draw("gap", "0s", "300ns", "5us"), draw("op", "write", "send"))
		case "all-to-all":
			return fmt.Sprintf("{kind: all-to-all, %s, hosts: %s, size: %s, algorithm: %s, iterations: %s, gap: %s}", common,
				draw("hosts", "2", "5", "all"), draw("size", "64B", "9000B", "50KB"), draw("algorithm", "direct", "rounds"), draw("iterations", "0", "2", "9"), draw("gap", "0s", "300ns", "5us"))
		}
		loop := draw("loop", "outstanding: 1", "outstanding: 7", "outstanding: 2, think: 3us", "outstanding: 2, think: 300ns", "rate: 200000", "rate: 100000, arrivals: even, outstanding: 2") + draw("requests", "", ", requests: 1", ", requests: 12")
		if draw("which", "rpc", "storage") == "rpc" {
			return fmt.Sprintf("{kind: rpc, %s, clients: [h0..h%s], servers: [h%s..h5], request: %s, response: %s, service: %s, operation: %s, %s}", common,
				draw("clients", "0", "3", "5"), draw("servers", "1", "4"), draw("request", "64B", "8KB..32KB"), draw("response", "64B", "20KB"), draw("service", "0s", "400ns", "6us"), draw("op", "write", "send"), loop)
		}
		return fmt.Sprintf("{kind: storage, %s, clients: [h0..h%s], targets: [h%s..h5], reads: %s, block: %s, order: %s, %s}", common,
			draw("clients", "0", "3", "5"), draw("servers", "1", "4"), draw("reads", "0", "0.5", "1"), draw("block", "64B", "4KiB", "8KB..32KB"), draw("order", "turn", "random"), loop)
	}
	var all []string
	for i := range rapid.IntRange(1, 3).Draw(t, "workloads") {
		all = append(all, workload(i))
	}
	if draw("flows", "", "yes") != "" {
		all = append(all, "{kind: incast, name: in, receiver: h1, size: 30KB, rounds: 3, period: 60us, operation: "+draw("operation", "write", "read")+"}")
	}
	engine := draw("engine", "host none", "host timely", "offload none", "offload timely", "offload poseidon", "offload dcqcn", "offload ideal")
	verbs := draw("verbs", "", "verbs: {post_list: 4}")
	if strings.HasPrefix(engine, "offload") {
		verbs = draw("verbs in the NIC", verbs, "verbs: {events: true}")
	}
	if draw("model", "staged", "reduced") == "reduced" {
		engine := draw("engine of reduced NICs", "none", "timely", "powertcp", "poseidon", "dcqcn", "hpcc", "ideal")
		faults := draw("faults", "", "fabric: {ecn: {kmin: 20KB, kmax: 80KB}, faults: [{link: \"*\", loss: 0.002}]}")
		text := onTwoRacks(", model: reduced", "auto "+engine, rapid.IntRange(1, 1000).Draw(t, "seed"), strings.Join(all, ", "), "")
		if faults != "" {
			text = strings.Replace(text, "fabric: {ecn: {kmin: 20KB, kmax: 80KB}}", faults, 1)
		}
		return strings.ReplaceAll(text, "operation: send", "operation: write")
	}
	nic := draw("preset", "", ", preset: cx5", ", preset: cx6dx", ", preset: cx3") + draw("ports", "", ", ports: 2") +
		draw("with", "", "", ", with: {state: {bytes: 4KiB}}", ", with: {pcie: {rate: gen3x4}}")
	return onTwoRacks(nic, engine,
		rapid.IntRange(1, 1000).Draw(t, "seed"), strings.Join(all, ", "),
		"host: {"+draw("host", "", "load: 0.3, burst: 5us", "wakeup: 3us, post: 100ns")+"}\n"+verbs)
})

// Random scenarios of them give the same bytes in windows as undivided.
func TestRandomDividedTrafficAgrees(t *testing.T) {
	n := 80
	if testing.Short() || racedetector.On {
		n = 8
	}
	for i := range n {
		text := randomTraffic.Example(i)
		s, err := scenario.Parse("random", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if agree(t, s); t.Failed() {
			t.Fatalf("scenario %d does not agree, or did not run divided:\n%s", i, text)
		}
	}
}
