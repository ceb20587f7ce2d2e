package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
)

// Workloads that keep connections give close figures with either model of the NIC: as
// much is done, and it takes about as long.
func TestTrafficOfBothModels(t *testing.T) {
	notUnderRace(t)
	for _, c := range []struct {
		scenario string
		sets     []string
		fct      float64 // how far mean completion times may be apart
	}{
		{"all-reduce", nil, 0.01},
		// One switch: on several paths flows collide elsewhere with either model.
		{"all-reduce", []string{"workloads[0].algorithm=tree", "topology={kind: star, hosts: 8, host_rate: 100Gbps}", "measure.links=[]"}, 0.01},
		{"rpc", nil, 0.03},
		{"storage", []string{"workloads[0].reads=0"}, 0.05},
		{"storage", nil, 0.05},
		// Windows that shrink below what is under way, which no packet says is to be acknowledged.
		{`duration: 1ms
topology: {kind: star, hosts: 8, host_rate: 100Gbps}
nic: {ack_every: 16, mtu: 4096}
systems: [{engine: powertcp}, {engine: theta-powertcp}]
workloads: [{kind: storage, reads: 0, block: 8KB..256KB, outstanding: 16, stop: 900us}]
`, nil, 0.1},
		{`duration: 2ms
topology: {kind: star, hosts: 5, host_rate: 100Gbps}
fabric: {ecn: {kmin: 100KB, kmax: 400KB}}
systems: [{engine: none}, {engine: swift}, {engine: hpcc}, {engine: dcqcn}, {engine: poseidon}]
workloads: [{kind: incast, receiver: h4, senders: [h0..h3], size: 1MB, operation: read}]
`, nil, 0.05},
		{`duration: 3ms
topology: {kind: star, hosts: 6, host_rate: 25Gbps}
systems: [{engine: none}, {engine: timely}]
workloads: [{kind: on-off, senders: [h0..h3], receivers: [h4, h5], on: 100us, off: 150us, step: 7us}]
`, nil, 0.05},
		{`duration: 2ms
topology: {kind: star, hosts: 6, host_rate: 25Gbps}
systems: [{engine: none}, {engine: timely}]
workloads:
  - {kind: incast, receiver: h0, senders: [h1..h5], size: 200KB}
  - {kind: rpc, clients: [h1, h2], servers: [h0], request: 200B, response: 4KB, rate: 50000, priority: 2, stop: 1ms}
`, nil, 0.05},
	} {
		sets := append(slices.Clone(c.sets), "expect=[]")
		of := func(model string) *results.Result {
			set := append(slices.Clone(sets), "nic.mode=offload", "nic.model="+model)
			if strings.Contains(c.scenario, "\n") {
				return run(t, parse(t, c.scenario, set...))
			}
			return run(t, load(t, c.scenario, set...))
		}
		staged, light := of("staged"), of("reduced")
		for i, a := range staged.Systems {
			b := light.Systems[i]
			t.Logf("%s %v, %s: %d and %d tasks, %.3f and %.3f Gbps, times %.2f and %.2f us, p99 %.2f and %.2f, rtt %.2f and %.2f", c.scenario, c.sets, a.Name, a.FlowsDone, b.FlowsDone, a.ThroughputGbps, b.ThroughputGbps, a.FCTAvgUs, b.FCTAvgUs, a.FCTP99Us, b.FCTP99Us, a.RTTAvgUs, b.RTTAvgUs)
			if a.FlowsDone == 0 || !near(stats.Float(a.FlowsDone), stats.Float(b.FlowsDone), c.fct) || !near(a.FCTAvgUs, b.FCTAvgUs, c.fct) {
				t.Errorf("%s %v, %s: %d and %d were done, in %v and %v us on average", c.scenario, c.sets, a.Name, a.FlowsDone, b.FlowsDone, a.FCTAvgUs, b.FCTAvgUs)
			}
			for k, bin := range a.Slowdown {
				if k == len(b.Slowdown) || bin.Flows > 100 && !near(bin.P50, b.Slowdown[k].P50, 0.15) {
					t.Errorf("%s %v, %s: slowdowns %+v and %+v", c.scenario, c.sets, a.Name, a.Slowdown, b.Slowdown)
					break
				}
			}
		}
	}
}
