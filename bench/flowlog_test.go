package bench

import (
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

const flowLogScenario = `
duration: 2ms
warmup: 200us
topology: {kind: star, hosts: 4, host_rate: 25Gbps}
systems: [{engine: timely}]
workloads:
  - {kind: permutation, size: 100KB}
  - {kind: flows, name: late, start: 1ms, operation: read, flows: [{src: h0, dst: h1, size: 50KB}]}
  - {kind: flows, name: endless, flows: [{src: h2, dst: h3, size: unlimited}]}
`

// Every flow has one record, and the records add up to the figures of the run.
func TestFlowRecordsAddUp(t *testing.T) {
	var all []results.FlowRecord
	r, err := Run(parse(t, flowLogScenario), Options{Flows: func(r *results.FlowRecord) error {
		var one results.FlowRecord // the record's pointers are the log's
		b, _ := json.Marshal(r)
		if err := json.Unmarshal(b, &one); err != nil {
			return err
		}
		all = append(all, one)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 6 {
		t.Fatalf("%d records, want 6", len(all))
	}
	var counted, samples uint64
	var bytesOfAll int64
	for _, x := range all {
		bytesOfAll += x.DeliveredBytes
		samples += x.RTTSamples
		if x.Counted && x.FCTUs != nil {
			counted++
		}
		if x.SizeBytes > 0 && (x.FCTUs == nil || x.DeliveredBytes != x.SizeBytes || !within(stats.Float(*x.Slowdown), *x.FCTUs / *x.IdealUs, 1e-9)) {
			t.Errorf("flow %d of %d bytes: %d delivered, slowdown %v", x.Flow, x.SizeBytes, x.DeliveredBytes, x.Slowdown)
		}
		if x.SizeBytes == 0 && (x.FCTUs != nil || x.Label != "endless") {
			t.Errorf("the flow without end has ended: %+v", x)
		}
	}
	sys := r.Systems[0]
	if counted != sys.FlowsDone || samples < sys.RTTSamples || bytesOfAll < sys.Bytes {
		t.Errorf("records: %d flows, %d samples, %d bytes; result: %d, %d, %d", counted, samples, bytesOfAll, sys.FlowsDone, sys.RTTSamples, sys.Bytes)
	}
}

// An error of whoever takes the records ends the run.
func TestFlowRecordErrors(t *testing.T) {
	full := errors.New("no space")
	if _, err := Run(parse(t, flowLogScenario), Options{Flows: func(*results.FlowRecord) error { return full }}); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
}

// Flows that have ended leave nothing behind: four times the flows take no more
// memory.
func TestFinishedFlowsLeaveNothing(t *testing.T) {
	notUnderRace(t)
	const text = `
duration: 10s
topology: {kind: star, hosts: 4, host_rate: 100Gbps}
systems: [{engine: none}]
workloads: [{kind: poisson, sizes: 1KB, load: 0.05, flows: 1}]
`
	for _, mode := range []string{"mode=host", "mode=offload", "model=reduced"} {
		live := func(flows int) int64 {
			s, err := scenario.Parse("test.yaml", []byte(strings.Replace(text, "flows: 1}", "flows: "+strconv.Itoa(flows)+"}", 1)), "nic."+mode)
			if err != nil {
				t.Fatal(err)
			}
			sys := s.Systems[0]
			sim, err := newSimulation(sys, s.Graph(), 1, 0, false)
			if err != nil {
				t.Fatal(err)
			}
			sim.flows, sim.duration = s.Flows(1).Next, s.Duration
			m, err := newMeasurement(sim, s, &Options{})
			if err != nil {
				t.Fatal(err)
			}
			sim.measure, m.progress = m, func(float64) {}
			if err := sim.run(); err != nil {
				t.Fatal(err)
			}
			if got := m.labels[0].finished; got != uint64(flows) {
				t.Fatalf("%d of %d flows", got, flows)
			}
			var stats runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&stats)
			runtime.KeepAlive(sim)
			runtime.KeepAlive(m)
			return int64(stats.HeapAlloc)
		}
		few, many := live(4000), live(16000)
		// A byte a flow would be 12 KB; a queue pair a flow, 100 MB.
		if grown := many - few; grown > 1<<19 {
			t.Errorf("%s: 12000 more flows left %d bytes, %d each", mode, grown, grown/12000)
		}
	}
}
