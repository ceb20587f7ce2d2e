package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

const sixHosts = `
duration: 200ms
topology: {kind: star, hosts: 6, host_rate: 100Gbps, host_delay: 1us}
shim: {outstanding: 1MiB, segment: 64KiB}
measure: {sample: 10us, window: 10us, links: ["tor0->h5"]}
systems: [{engine: none, name: host}, {engine: none, name: nic, override: {nic: {mode: offload}}}]
`

// What each workload of messages delivers is what it is defined to send, every task
// that begins ends, and the run ends with them.
func TestTrafficDeliversAll(t *testing.T) {
	notUnderRace(t)
	cases := []struct {
		keys  string
		tasks uint64
		bytes int64 // negative: not known beforehand
	}{
		{"kind: all-reduce, size: 3MB, iterations: 2", 2, 2 * 10 * 3_000_000},
		{"kind: all-reduce, size: 3MB, operation: send", 1, 10 * 3_000_000},
		{"kind: all-reduce, size: 1MB, algorithm: tree, chunks: 10", 1, 10 * 1_000_000},
		{"kind: all-to-all, size: 100KB", 1, 30 * 100_000},
		{"kind: all-to-all, size: 100KB, algorithm: rounds, iterations: 3, gap: 5us", 3, 3 * 30 * 100_000},
		{"kind: rpc, request: 500B, response: 30KB, requests: 100, outstanding: 4", 600, 600 * 30_500},
		{"kind: rpc, request: 30KB, response: 1B, requests: 50, rate: 300000, operation: send, service: 3us, clients: 5, servers: [h5]", 250, 250 * 30_001},
		{"kind: storage, block: 16KiB, requests: 100, outstanding: 300, clients: 3, targets: [h3..h5]", 300, 300 * 16384},
		{"kind: storage, block: 4KiB, requests: 200, rate: 1e6, reads: 1, outstanding: 8", 1200, 1200 * 4096},
		{"kind: on-off, senders: 5, receivers: [h5], on: 50us, off: 20us, bursts: 4", 20, -1},
		{"kind: on-off, senders: 2, receivers: [h5, h4], on: 50us, off: 20us, bursts: 4, operation: send, message: 100KB", 8, -1},
		{"kind: on-off, senders: 2, receivers: [h5, h4], on: 50us, off: 20us, stop: 1ms, operation: read, random: true", 0, -1},
		{"kind: rotating-incast, size: 50KB, period: 20us", 30, 30 * 50_000},
	}
	for _, c := range cases {
		s := parse(t, sixHosts+"workloads: [{"+c.keys+"}]")
		for _, sys := range run(t, s).Systems {
			if sys.FlowsDone != sys.FlowsStarted || c.tasks > 0 && sys.FlowsDone != c.tasks {
				t.Errorf("%s, %s: %d begun and %d done, want %d", c.keys, sys.Name, sys.FlowsStarted, sys.FlowsDone, c.tasks)
			}
			if c.bytes >= 0 && sys.Bytes != c.bytes || sys.Bytes == 0 {
				t.Errorf("%s, %s: %d bytes delivered, want %d", c.keys, sys.Name, sys.Bytes, c.bytes)
			}
			if sys.SimS > 0.1 || sys.Drops > 0 || sys.Retransmissions > 0 {
				t.Errorf("%s, %s: ran for %v s, %d drops, %d retransmissions", c.keys, sys.Name, sys.SimS, sys.Drops, sys.Retransmissions)
			}
			for _, x := range sys.Series {
				if x.Kind == results.SeriesFlows && x.Values[len(x.Values)-1] < 0 {
					t.Errorf("%s, %s: %v flows under way at the end", c.keys, sys.Name, x.Values[len(x.Values)-1])
				}
			}
		}
	}
}

// Bytes are conserved where packets are lost, too.
func TestTrafficOnLossyLinks(t *testing.T) {
	for keys, bytes := range map[string]int64{
		"kind: all-reduce, size: 600KB":                                    10 * 600_000,
		"kind: rpc, request: 5KB, response: 30KB, requests: 20":            6 * 20 * 35_000,
		"kind: storage, block: 16KiB, requests: 30":                        6 * 30 * 16384,
		"kind: all-to-all, size: 50KB, algorithm: rounds, operation: send": 30 * 50_000,
	} {
		s := parse(t, sixHosts+"workloads: [{"+keys+"}]\nfabric: {faults: [{link: '*', loss: 0.002}]}\nnic: {timeout: 6}\n")
		for _, sys := range run(t, s).Systems {
			if sys.Bytes != bytes || sys.Retransmissions == 0 {
				t.Errorf("%s, %s: %d bytes, want %d; %d retransmissions", keys, sys.Name, sys.Bytes, bytes, sys.Retransmissions)
			}
		}
	}
}

// A ring all-reduce on an idle network has a closed form: 2(n-1) steps of a chunk at
// line rate, each with its way through the network and the hosts' share.
func TestRingTakesItsTime(t *testing.T) {
	s := parse(t, sixHosts+"workloads: [{kind: all-reduce, size: 12MB}]")
	sys := run(t, s).Systems[1]
	// us, on the wire: a packet of data and an acknowledgement of what comes in.
	chunk := 2e6 / 1024 * (1106 + 84) * 8 / 100e9 * 1e6
	got := float64(sys.FCTAvgUs)
	if got < 10*chunk || got > 10*(chunk+6) {
		t.Errorf("took %.1f us; ten chunks take %.1f on the wire", got, 10*chunk)
	}
}

// Requests that wait because one is under way count from when they should have
// started: coordinated omission would hide them.
func TestOpenLoopLatency(t *testing.T) {
	latency := func(keys string) *results.System {
		return run(t, parse(t, sixHosts+"workloads: [{kind: storage, clients: [h0], targets: [h5], reads: 0, block: 1MiB, arrivals: even, requests: 50, "+keys+"}]")).Systems[1]
	}
	// A block takes some 90 us: one every 200 us finds the network idle, one
	// every 20 us waits for all before it.
	idle, busy, closed := latency("rate: 5000, outstanding: 1"), latency("rate: 50000, outstanding: 1"), latency("outstanding: 1")
	one := float64(idle.FCTAvgUs)
	if !within(closed.FCTAvgUs, one, 0.01) || !within(idle.FCTP99Us, one, 0.01) {
		t.Errorf("a block takes %v us in a closed loop, %v to %v alone", closed.FCTAvgUs, idle.FCTAvgUs, idle.FCTP99Us)
	}
	if want := one + 49.0/2*(one-20); !within(busy.FCTAvgUs, want, 0.02) {
		t.Errorf("the mean is %v us when blocks queue, want %.1f", busy.FCTAvgUs, want)
	}
	for _, b := range idle.Slowdown {
		if b.P50 < 0.98 || b.P50 > 1.05 {
			t.Errorf("slowdown %v on an idle network", b.P50)
		}
	}
}

func TestTrafficSameSeedSameBytes(t *testing.T) {
	notUnderRace(t)
	text := sixHosts + `
workloads:
  - {kind: all-reduce, size: 1MB, iterations: 3, gap: 20us}
  - {kind: rpc, request: google-rpc, response: hadoop, rate: 50000, requests: 40}
  - {kind: storage, block: alistorage, requests: 40, jitter: 5us}
  - {kind: on-off, senders: 2, receivers: [h3], on: 20us, off: 20us, random: true, bursts: 3}
  - {kind: poisson, sizes: 10KB, load: 0.1, flows: 50}
`
	document := func(seed uint64) []byte {
		r, err := Run(parse(t, text), Options{Seed: &seed})
		if err != nil {
			t.Fatal(err)
		}
		d := &results.Document{Results: []*results.Result{r}}
		d.ClearWall()
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, b, c := document(5), document(5), document(6)
	if !bytes.Equal(a, b) {
		t.Error("two runs of one seed differ")
	}
	if bytes.Equal(a, c) {
		t.Error("runs of two seeds are the same")
	}
}

// A trace runs as the flows it lists.
func TestTraceRuns(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	fmt.Fprintf(&b, "Nodes 6\nConnections 30\n")
	for i := range 30 {
		fmt.Fprintf(&b, "%d->%d id %d start %d size %d\n", i%6, (i+1+i/6)%6, i+1, int64(i)*int64(units.Microsecond), 1000*(i+1))
	}
	writeFile(t, dir+"/flows.cm", b.String())
	writeFile(t, dir+"/trace.yaml", sixHosts+"workloads: [{kind: trace, file: flows.cm}]")
	s, err := scenario.Load(dir + "/trace.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, sys := range run(t, s).Systems {
		if sys.FlowsDone != 30 || sys.Bytes != 1000*30*31/2 {
			t.Errorf("%s: %d flows, %d bytes", sys.Name, sys.FlowsDone, sys.Bytes)
		}
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// The flow log has a row for each task, from when it should have started, and one
// for each connection, which together have delivered all.
func TestTasksInTheFlowLog(t *testing.T) {
	s := parse(t, sixHosts+"workloads: [{kind: storage, clients: [h0, h1], targets: [h5], block: 4KiB, rate: 100000, arrivals: even, requests: 20}]\nwarmup: 55us\n")
	tasks, delivered := 0, int64(0)
	_, err := Run(s, Options{Flows: func(r *results.FlowRecord) error {
		switch {
		case r.Flow == -1:
			tasks++
			if r.FCTUs == nil || r.Slowdown == nil || *r.Slowdown < 0.9 || r.SizeBytes != 4096 || (r.Operation != "read") == (r.Dst != "h5") ||
				r.Counted != (r.StartUs >= 55) || math.Mod(r.StartUs, 10) != 0 {
				t.Errorf("task %+v", r)
			}
		case r.Flow < -1:
			delivered += r.DeliveredBytes
		default:
			t.Errorf("flow %+v", r)
		}
		return nil
	}})
	if err != nil || tasks != 2*40 || delivered != 2*40*4096 {
		t.Errorf("%d tasks, %d bytes: %v", tasks, delivered, err)
	}
}

// A request alone on the network takes what its closed form says: one message there,
// the service, one message back.
func TestSlowdownOfASingleRequest(t *testing.T) {
	for _, topology := range []string{
		"{kind: star, hosts: 2, host_rate: 100Gbps, host_delay: 300ns}",
		"{kind: leaf-spine, leaves: 2, spines: 1, hosts_per_leaf: 1, host_rate: 25Gbps, host_delay: 1us, trunk_rate: 100Gbps}",
	} {
		for _, keys := range []string{"request: 1B, response: 1B", "request: 100KB, response: 1025B", "request: 4097B, response: 300KB, service: 7us, operation: send"} {
			s := parse(t, `
duration: 5ms
topology: `+topology+`
systems: [{engine: none, name: host}, {engine: none, name: nic, override: {nic: {mode: offload}}}]
shim: {outstanding: 1MiB, segment: 64KiB}
workloads: [{kind: rpc, clients: [h0], servers: [h1], think: 20us, requests: 3, `+keys+`}]
`)
			above := map[string]float64{"host": 1.1, "nic": 1.03}
			if _, err := Run(s, Options{Flows: func(r *results.FlowRecord) error {
				if r.Flow == -1 && (r.Slowdown == nil || *r.Slowdown < 0.97 || *r.Slowdown > above[r.System]) {
					t.Errorf("%s, %s, %s: %+v", topology, keys, r.System, r)
					if r.Slowdown != nil {
						t.Errorf("slowdown %v, %v us", *r.Slowdown, *r.FCTUs)
					}
				}
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
