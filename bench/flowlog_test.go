package bench

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

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

// Every flow has one record, in every format the same, and the records add up to
// the figures of the run.
func TestFlowLogFormatsAgree(t *testing.T) {
	s := parse(t, flowLogScenario)
	dir := t.TempDir()
	var want []FlowRecord
	logs := map[string]*FlowLog{}
	for _, ending := range []string{".csv", ".jsonl", ".parquet"} {
		l, err := CreateFlowLog(filepath.Join(dir, "flows"+ending))
		if err != nil {
			t.Fatal(err)
		}
		logs[ending] = l
	}
	r, err := Run(s, Options{Flows: func(r *FlowRecord) error {
		var one FlowRecord // the record's pointers are the log's
		b, _ := json.Marshal(r)
		if err := json.Unmarshal(b, &one); err != nil {
			return err
		}
		want = append(want, one)
		for _, l := range logs {
			if err := l.Write(r); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for ending, l := range logs {
		if err := l.Close(); err != nil {
			t.Errorf("%s: %v", ending, err)
		}
	}
	if len(want) != 6 {
		t.Fatalf("%d records, want 6", len(want))
	}
	var counted, samples uint64
	var bytesOfAll int64
	for _, x := range want {
		bytesOfAll += x.DeliveredBytes
		samples += x.RTTSamples
		if x.Counted && x.FCTUs != nil {
			counted++
		}
		if x.SizeBytes > 0 && (x.FCTUs == nil || x.DeliveredBytes != x.SizeBytes || !within(Float(*x.Slowdown), *x.FCTUs / *x.IdealUs, 1e-9)) {
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

	if got := readJSONLines(t, filepath.Join(dir, "flows.jsonl")); !cmp.Equal(want, got) {
		t.Errorf("JSON lines: %s", cmp.Diff(want, got))
	}
	got, err := parquet.ReadFile[FlowRecord](filepath.Join(dir, "flows.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parquet: %s", diff)
	}
	text, err := os.ReadFile(filepath.Join(dir, "flows.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(want)+1 || len(rows[0]) != reflect.TypeFor[FlowRecord]().NumField() {
		t.Fatalf("CSV: %d rows of %d cells", len(rows), len(rows[0]))
	}
	for i := range want {
		if diff := cmp.Diff(want[i].cells(nil), rows[i+1]); diff != "" {
			t.Errorf("CSV, row %d: %s", i, diff)
		}
	}
}

func readJSONLines(t *testing.T, name string) []FlowRecord {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []FlowRecord
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r FlowRecord
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// A column is called the same in every format.
func TestFlowColumns(t *testing.T) {
	typ := reflect.TypeFor[FlowRecord]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		inParquet, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		if f.Tag.Get("json") != flowColumns[i] || inParquet != flowColumns[i] {
			t.Errorf("column %d is %s in CSV, %s in JSON, %s in Parquet", i, flowColumns[i], f.Tag.Get("json"), inParquet)
		}
	}
}

func TestFlowLogErrors(t *testing.T) {
	if _, err := CreateFlowLog("flows.xlsx"); err == nil || !strings.Contains(err.Error(), ".parquet") {
		t.Errorf("error %v", err)
	}
	full := errors.New("no space")
	_, err := Run(parse(t, flowLogScenario), Options{Flows: func(*FlowRecord) error { return full }})
	if !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
}

// Flows that have ended leave nothing behind: four times the flows take no more
// memory.
func TestFinishedFlowsLeaveNothing(t *testing.T) {
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
			sim, err := newSimulation(sys, s.Graph(), 1, 0)
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
