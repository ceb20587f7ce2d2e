package bench

import (
	"bytes"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The counts of the priorities add up to the counts of all.
func TestPriorities(t *testing.T) {
	const text = `
duration: 3ms
warmup: 500us
topology: {kind: star, hosts: 6, host_rate: 25Gbps}
fabric:
  buffer: 200KB
  pfc: {enabled: false}
  classes: [{priority: 1, lossless: true}]
  ecn: {kmin: 10KB, kmax: 40KB, pmax: 0.1}
nic: {mode: offload, timeout: 4, priority: 1, ack_priority: 3}
systems: [{engine: none}]
workloads:
  - {kind: incast, name: lossless, receiver: h5, senders: 3, size: unlimited}
  - {kind: incast, name: lossy, receiver: h5, senders: [h3, h4], size: 30KB, priority: 2, connections: 20, start: 600us}
  - {kind: storage, clients: [h0], targets: [h1], reads: 0, block: 4KiB, priority: 2}
`
	r := run(t, parse(t, text))
	sys := r.Systems[0]
	if len(sys.Priorities) != 3 {
		t.Fatalf("%d priorities: %+v", len(sys.Priorities), sys.Priorities)
	}
	var marks, drops, started, done, samples uint64
	var paused stats.Float
	var delivered int64
	for i, p := range sys.Priorities {
		if p.Priority != i+1 {
			t.Errorf("priority %d at %d", p.Priority, i)
		}
		marks, drops, paused = marks+p.ECNMarks, drops+p.Drops, paused+p.PauseUs
		started, done, samples, delivered = started+p.FlowsStarted, done+p.FlowsDone, samples+p.RTTSamples, delivered+p.Bytes
	}
	if marks != sys.ECNMarks || drops != sys.Drops || !near(paused, sys.PauseUs, 1e-9) || started != sys.FlowsStarted || done != sys.FlowsDone || samples != sys.RTTSamples || delivered != sys.Bytes {
		t.Errorf("the sums are %d marks, %d drops, %v us paused, %d started, %d done, %d samples, %d bytes; all had %d, %d, %v, %d, %d, %d, %d",
			marks, drops, paused, started, done, samples, delivered, sys.ECNMarks, sys.Drops, sys.PauseUs, sys.FlowsStarted, sys.FlowsDone, sys.RTTSamples, sys.Bytes)
	}
	lossless, lossy, acks := &sys.Priorities[0], &sys.Priorities[1], &sys.Priorities[2]
	if lossless.Drops != 0 || lossless.PauseUs == 0 || lossy.PauseUs != 0 || lossy.Drops == 0 || lossless.ECNMarks != 0 {
		t.Errorf("lossless: %d drops, %v us paused, %d marks; lossy: %d and %v", lossless.Drops, lossless.PauseUs, lossless.ECNMarks, lossy.Drops, lossy.PauseUs)
	}
	if lossless.QueueMaxBytes == 0 || lossless.QueueMaxBytes > sys.QueueMaxBytes || !(lossless.QueueAvgBytes > lossy.QueueAvgBytes) || acks.Bytes != 0 || acks.FCTAvgUs.Measured() {
		t.Errorf("queues of up to %d bytes, of %d in all, mean %v and %v; acknowledgements delivered %d bytes", lossless.QueueMaxBytes, sys.QueueMaxBytes, lossless.QueueAvgBytes, lossy.QueueAvgBytes, acks.Bytes)
	}
	if tasks := sys.Labels[2]; tasks.FlowsDone == 0 || lossy.FlowsDone != tasks.FlowsDone+sys.Labels[1].FlowsDone || lossless.Bytes != sys.Labels[0].Bytes || len(lossy.Slowdown) == 0 {
		t.Errorf("of the lossy %d are done, of its labels %d and %d", lossy.FlowsDone, sys.Labels[1].FlowsDone, tasks.FlowsDone)
	}

	var table, page bytes.Buffer
	if err := results.Table(&table, r); err != nil {
		t.Fatal(err)
	}
	d := &results.Document{Results: []*results.Result{r}}
	if err := results.WriteHTML(&page, d); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := results.WriteCSV(dir, r); err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile(filepath.Join(dir, "test.priorities.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"table": table.String(), "page": page.String()} {
		if !strings.Contains(text, "priority 2") {
			t.Errorf("the %s has no row of priority 2:\n%s", name, text)
		}
	}
	if lines := strings.Split(string(rows), "\n"); len(lines) != 5 || !strings.HasPrefix(lines[0], "system,priority,flows_started,") || !strings.HasPrefix(lines[2], "none,2,") {
		t.Errorf("the file of priorities is\n%s", rows)
	}

	// Where there is only one, it is all.
	one := run(t, parse(t, text, "nic.ack_priority=1", "workloads[lossy].priority=1", "workloads[2].priority=1"))
	if n := len(one.Systems[0].Priorities); n != 0 {
		t.Errorf("%d rows for one priority", n)
	}
}

// Watchdog trips and drops, and explicit incast notifications, are in the figures of system
// and link, and in the table only where there are some.
func TestWatchdogAndNotices(t *testing.T) {
	const text = `
duration: 2ms
topology: {kind: dumbbell, left: 3, right: 1, host_rate: 25Gbps, trunk_rate: 100Gbps}
fabric:
  ein: {gradient: 0.25, high_water: 20KB}
  pfc: {xoff: 20KB, xon: 10KB, watchdog: 100us}
  failures: [{link: tor1->h3, at: 500us, for: 1ms, rate: 10Mbps}]
nic: {mode: offload, timeout: 8}
systems: [{engine: none}]
measure: {links: [tor1->h3, tor0->tor1]}
workloads: [{kind: incast, receiver: h3, size: 2MB}]
`
	table := func(r *results.Result) string {
		var b bytes.Buffer
		if err := results.Table(&b, r); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	r := run(t, parse(t, text))
	sys := r.Systems[0]
	down, trunk := &sys.Links[0], &sys.Links[1]
	if sys.EINMarks == 0 || down.EINMarks+trunk.EINMarks != sys.EINMarks || down.EINMarks == 0 {
		t.Errorf("%d notices, of the links %d and %d", sys.EINMarks, down.EINMarks, trunk.EINMarks)
	}
	if sys.WatchdogTrips == 0 || sys.WatchdogDrops == 0 || sys.WatchdogDrops > sys.Drops || trunk.WatchdogTrips != sys.WatchdogTrips || trunk.WatchdogDrops != sys.WatchdogDrops || down.WatchdogTrips != 0 {
		t.Errorf("%d trips and %d of %d drops, of the trunk %d and %d", sys.WatchdogTrips, sys.WatchdogDrops, sys.Drops, trunk.WatchdogTrips, trunk.WatchdogDrops)
	}
	if got := table(r); !strings.Contains(got, "EIN marks") || !strings.Contains(got, "watchdog") {
		t.Errorf("the table is\n%s", got)
	}
	if got := table(run(t, parse(t, text, "fabric.ein.gradient=0", "fabric.failures=[]"))); strings.Contains(got, "EIN marks") || strings.Contains(got, "watchdog") {
		t.Errorf("without either the table is\n%s", got)
	}
}
