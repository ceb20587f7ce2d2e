package results

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/internal/version"
)

// sample is a document with something in every part.
func sample() *Document {
	d := NewDocument(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), []string{"run", "demo"})
	pfc := NewSystem("PFC only", "none", "host")
	pfc.ThroughputGbps, pfc.WireGbps = 19.5, 21.06
	pfc.RTTAvgUs, pfc.RTTP50Us, pfc.RTTP99Us, pfc.RTTSamples = 658, 655.5, 1036, 1000
	pfc.Jain = 0.909
	pfc.QueueMaxBytes, pfc.QueueAvgBytes, pfc.PauseUs = 1<<20, 2048, 12.5
	pfc.SimS, pfc.WallS = 0.2, 1.5
	timely := NewSystem("TIMELY", "timely", "host")
	timely.Config = map[string]any{"t_low": "50us", "beta": 0.8}
	timely.ThroughputGbps, timely.WireGbps, timely.RTTAvgUs = 19.4, 20.95, 61
	timely.QueueMaxBytes = 1536
	timely.Slowdown = []SlowdownBin{
		{0, 10_000, 12, 1.1, 2.25, 123.4},
		{10_000, 1_500_000, 0, stats.Unmeasured, stats.Unmeasured, stats.Unmeasured},
		{1_500_000, math.MaxInt64, 3, 2, 3, 4},
	}
	timely.Labels = []Label{{"victim", NewFlows()}, {"other", NewFlows()}}
	timely.Labels[0].ThroughputGbps, timely.Labels[0].WireGbps = 1.25, 1.35
	timely.Links = []Link{{Link: "tor0->h1", RateGbps: 20, Busy: 0.99, BusyMinimum: 0.95, QueueMaxBytes: 1536, QueueAvgBytes: 3, PauseUs: 0, WireGbps: 19}}
	timely.Series = []Series{
		{Kind: SeriesRate, Name: SeriesAll, Unit: "Gbps", StartUs: 100, StepUs: 100, Values: []stats.Float{19, 19.5, 20}},
		{Kind: SeriesRate, Name: "victim", Unit: "Gbps", StartUs: 100, StepUs: 100, Values: []stats.Float{1, stats.Unmeasured}},
		{Kind: SeriesQueue, Name: "tor0->h1", Unit: "B", StartUs: 0, StepUs: 50, Values: []stats.Float{0, 1500, 0}, Max: []stats.Float{0, 3000, 1000}},
		{Kind: SeriesRTT, Name: SeriesAll, Unit: "us", StartUs: 100, StepUs: 100, Values: []stats.Float{60, 61, 62}},
	}
	timely.Distributions = []stats.Distribution{{Kind: "rtt", Name: SeriesAll, Unit: "us", Values: []stats.Float{50, 60}, Share: []stats.Float{0.5, 1}}}
	d.Results = append(d.Results, &Result{
		Scenario: "demo", Description: "A <demo> & more.", Source: "table 1", YAML: "name: demo\n", Seed: 7,
		Systems: []*System{pfc, timely}, Events: 10, PacketHops: 2_500_000, SimS: 0.4, WallS: 3.25,
		Misses: []Miss{{System: "TIMELY", Label: "victim", Metric: "wire_gbps", Value: 1.35, Min: 2, Max: stats.Unmeasured}},
	})
	return d
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := Table(&b, sample().Results...); err != nil {
		t.Fatal(err)
	}
	const want = `
demo (seed 7): 2 systems, 400 ms simulated in all, 2.5 million packet-hops, 3.2 s
system    engine in  payload[Gbps]  wire[Gbps]  RTT avg[us]  RTT p50[us]  RTT p99[us]   Jain  queue avg[KiB]  queue max[KiB]  paused[us]  drops
PFC only       none          19.50       21.06        658.0        655.5       1036.0  0.909             2.0          1024.0        12.5      0
TIMELY         host          19.40       20.95         61.0            -            -      -               -             1.5           -      0
  victim                      1.25        1.35            -            -            -      -               -               -           -      -
  other                          -           -            -            -            -      -               -               -           -      -

slowdown by flow size: median / 95th / 99th percentile
system          up to 10 KB  up to 1.5 MB        above 1.5 MB
PFC only                  -             -                   -
TIMELY    1.10 / 2.25 / 123             -  2.00 / 3.00 / 4.00
missed: TIMELY, victim: wire_gbps is 1.35, expected at least 2
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := WriteJSON(&b, sample()); err != nil {
		t.Fatal(err)
	}
	// The order that readers may count on.
	last := -1
	for _, key := range []string{`"version": 2`, `"start_time": "2026-01-02T03:04:05Z"`, `"arguments"`, `"environment"`, `"results"`, `"scenario"`} {
		at := strings.Index(b.String(), key)
		if at <= last {
			t.Errorf("%s is not where it belongs", key)
		}
		last = at
	}
	if !strings.Contains(b.String(), "A <demo> & more.") {
		t.Error("text is escaped as for HTML")
	}
	var all map[string]any
	if err := json.Unmarshal(b.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	systems := all["results"].([]any)[0].(map[string]any)["systems"].([]any)
	timely := systems[1].(map[string]any)
	for key, want := range map[string]any{"throughput_gbps": 19.4, "wire_gbps": 20.95, "rtt_avg_us": 61.0, "rtt_p99_us": nil, "jain": nil, "drops": 0.0, "engine": "timely"} {
		if got, ok := timely[key]; !ok || got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}

	again, err := ReadJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	var b1, b2 bytes.Buffer
	if err := WriteJSON(&b1, sample()); err != nil {
		t.Fatal(err)
	}
	if err := WriteJSON(&b2, again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b1.String(), b2.String()); diff != "" {
		t.Errorf("what was written reads otherwise: %s", diff)
	}
}

// What depends on the machine or the hour has fields of its own, and ClearWall
// knows them all.
func TestClearWall(t *testing.T) {
	a, b := sample(), sample()
	b.StartTime, b.Environment = "2027-01-01T00:00:00Z", stats.Environment{Identity: version.Identity{Sluice: "x"}, CPUs: 99}
	b.Results[0].WallS, b.Results[0].Systems[1].WallS = 99, 98
	var ja, jb bytes.Buffer
	for d, w := range map[*Document]*bytes.Buffer{a: &ja, b: &jb} {
		d.ClearWall()
		if err := WriteJSON(w, d); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(ja.String(), jb.String()); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(ja.String(), "2026") {
		t.Error("the time is still there")
	}
}

// Every number in a result has a name in snake case and, where it has one, its
// unit in it; and a value that starts out as unmeasured is not 0.
func TestMetricNames(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range append(figuresOf(NewSystem("", "", "")), figuresOf(&Link{})...) {
		seen[m.name] = true
		if m.name != strings.ToLower(m.name) || strings.ContainsAny(m.name, " -") || m.name == "" {
			t.Errorf("a figure is called %q", m.name)
		}
	}
	for _, name := range []string{"throughput_gbps", "wire_gbps", "rtt_avg_us", "rtt_p99_us", "jain", "events", "packet_hops", "sim_s", "wall_s", "fct_p99_us", "queue_max_bytes"} {
		if !seen[name] {
			t.Errorf("there is no figure %s", name)
		}
	}
	for _, c := range columns {
		if !seen[c.key] {
			t.Errorf("the table has a column of %q, which is no figure", c.key)
		}
	}
	v := reflect.ValueOf(NewSystem("", "", "")).Elem()
	for _, part := range []reflect.Value{v, v.FieldByName("Flows"), v.FieldByName("Network")} {
		for i := range part.NumField() {
			if f, ok := part.Field(i).Interface().(stats.Float); ok && f.Measured() {
				t.Errorf("%s starts as %v", part.Type().Field(i).Name, f)
			}
		}
	}
}

func TestCSV(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	d := sample()
	d.Results[0].Topology = &Topology{Links: []TopologyLink{{Link: "h1->tor0", RateGbps: 25}, {Link: "tor0->h1", RateGbps: 20}}}
	d.Results[0].Systems[1].LinkUse = &LinkUse{Busy: []stats.Float{0.5, stats.Unmeasured}, QueueMaxBytes: []int64{1, 2}, Drops: []uint64{0, 3}, PauseUs: []stats.Float{0, 1.5}}
	if err := WriteCSV(dir, d.Results...); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"demo.slowdown.csv": "system,label,from_bytes,to_bytes,flows,slowdown_p50,slowdown_p95,slowdown_p99\n" +
			"TIMELY,,0,10000,12,1.1,2.25,123.4\nTIMELY,,10000,1500000,0,,,\nTIMELY,,1500000,9223372036854775807,3,2,3,4\n",
		"demo.link_use.csv": "system,link,rate_gbps,busy,queue_max_bytes,drops,pause_us\nTIMELY,h1->tor0,25,0.5,1,0,0\nTIMELY,tor0->h1,20,,2,3,1.5\n",
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(want)+2 {
		t.Errorf("files: %v", files)
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "demo.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(got), "\n")
	if !strings.HasPrefix(lines[0], "system,label,flows_started,") || !strings.HasPrefix(lines[1], "PFC only,,0,") || !strings.HasPrefix(lines[3], "TIMELY,victim,") || len(lines) != 6 {
		t.Errorf("demo.csv is\n%s", got)
	}
	got, err = os.ReadFile(filepath.Join(dir, "demo.links.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines = strings.Split(string(got), "\n")
	if !strings.HasPrefix(lines[0], "system,link,rate_gbps,wire_gbps,busy,busy_minimum,") || !strings.HasPrefix(lines[1], "TIMELY,tor0->h1,20,19,0.99,0.95,1536,3,") || len(lines) != 3 {
		t.Errorf("demo.links.csv is\n%s", got)
	}
}

func TestHTML(t *testing.T) {
	var b bytes.Buffer
	if err := WriteHTML(&b, sample()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<title>Sluice: demo", "sluice run demo", "PFC only", "tor0-", "RTT p99", "TIMELY, victim", version.Get().String()} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
