package bench

import (
	"fmt"
	"github.com/sluice-rdma/sluice/bench/results"
	"math"
	"strings"
	"testing"
)

const hostsText = `
duration: 20ms
topology: {kind: star, hosts: 4, host_rate: 25Gbps}
nic: {mode: %s}
host: %s
systems: [{engine: none}]
workloads: [%s]
`

func runHosts(t *testing.T, mode, host, workload string) *results.System {
	t.Helper()
	return run(t, parse(t, fmt.Sprintf(hostsText, mode, host, workload))).Systems[0]
}

// Every step of a host costs what it should: a message waits for the thread to wake
// and to post, and its completion for the thread to wake.
func TestWakeupAndPost(t *testing.T) {
	const flow = `{kind: flows, flows: [{src: h0, dst: h1, size: 1000B, start: 1ms}]}`
	at := func(host string) float64 {
		sys := runHosts(t, "offload", host, flow)
		if sys.FlowsDone != 1 {
			t.Fatalf("%s: %d flows done", host, sys.FlowsDone)
		}
		return float64(sys.FCTAvgUs)
	}
	instant := at("{}")
	for host, want := range map[string]float64{
		"{wakeup: 4us}":            8,
		"{post: 1us}":              1,
		"{wakeup: 4us, post: 1us}": 9,
	} {
		if more := at(host) - instant; math.Abs(more-want) > 1e-3 {
			t.Errorf("%s: %.4f us more, want %v", host, more, want)
		}
	}
}

// Under load everything still happens, and takes longer the more there is: to a flow
// of one message, twice what the queue of the other work has a thread wait.
func TestLoadDelays(t *testing.T) {
	const n = 2000
	const flows = `{kind: storage, clients: [h0], targets: [h1], reads: 0.5, block: 1000B, rate: 200000, requests: 2000, start: 100us}`
	instant := runHosts(t, "offload", "{}", flows)
	for _, load := range []float64{0.1, 0.3} {
		sys := runHosts(t, "offload", fmt.Sprintf("{load: %v, burst: 2us}", load), flows)
		if sys.FlowsDone != n {
			t.Errorf("load %v: %d of %d done", load, sys.FlowsDone, n)
		}
		more, want := float64(sys.FCTAvgUs-instant.FCTAvgUs), 2*load*2/((1-load)*(1-load))
		if math.Abs(more-want) > 0.2*want {
			t.Errorf("load %v: %.3f us more, want %.3f", load, more, want)
		}
	}
}

// With busy hosts all workloads come to their ends, in both places of the engine,
// and a run is a function of its seed.
func TestBusyHostsFinish(t *testing.T) {
	for _, mode := range []string{"host", "offload"} {
		for _, w := range []string{
			`{kind: incast, receiver: h3, size: 200KB, connections: 2}`,
			`{kind: incast, receiver: h3, size: unlimited, start: 1ms, stop: 1010us}`,
			`{kind: rpc, clients: [h0, h1], servers: [h2, h3], request: 1000B, response: 20KB, outstanding: 2, requests: 20}`,
			`{kind: storage, clients: [h0, h1], targets: [h2], reads: 0.5, block: 16KiB, outstanding: 4, requests: 20}`,
			`{kind: all-reduce, size: 100KB, algorithm: tree}`,
			`{kind: all-to-all, size: 50KB}`,
			`{kind: flows, operation: send, message: 4KB, flows: [{src: h0, dst: h1, size: 40KB}]}`,
		} {
			const host = "{load: 0.5, burst: 10us, wakeup: 2us, post: 200ns}"
			a, b := runHosts(t, mode, host, w), runHosts(t, mode, host, w)
			if a.FlowsStarted == 0 || a.FlowsDone != a.FlowsStarted && !strings.Contains(w, "unlimited") || a.SimS >= 0.02 {
				t.Errorf("%s, %s: %d of %d done in %v s", mode, w, a.FlowsDone, a.FlowsStarted, a.SimS)
			}
			if a.SimS != b.SimS || a.PacketHops != b.PacketHops || a.Bytes != b.Bytes {
				t.Errorf("%s, %s: two runs differ", mode, w)
			}
			if a.RTTPolled != 0 || a.CalibrationOutside != 0 || a.CalibrationRefused != 0 {
				t.Errorf("%s, %s: %+v", mode, w, a.Clocks)
			}
		}
	}
}
