package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
)

// sampleReport has what a page can have: two runs, one of them with two systems,
// a value not measured, a series with gaps, and text that would break a careless
// page.
func sampleReport() *Report {
	return &Report{
		Title:   "Incast & others",
		Command: `sluice run incast --set 'x=</script><script>alert(1)</script>'`,
		Version: "v0.1.0",
		Runs: []Run{{
			Scenario:    "incast",
			Description: "Ten hosts write to <one>.",
			YAML:        "name: incast # </script><!-- \" ' & \u2028\n",
			Facts:       []Fact{{"Seed", "7"}, {"Simulated", "10 ms"}},
			Columns:     []Column{{"throughput_gbps", "Throughput", "Gbps", 2}, {"rtt_p99_us", "RTT p99", "us", 1}, {"jain", "Jain", "", 3}},
			Systems: []System{{
				Name:   "timely",
				Values: []float64{19.414, 116.05, 0.9991},
				Rate: []Series{
					{Label: "total", Summary: true, T: []float64{0, 1e-3, 2e-3}, V: []float64{0, 20e9, 19e9}},
					{Label: "flow 0", T: []float64{0, 1e-3, 2e-3}, V: []float64{0, math.NaN(), 9.5e9}},
				},
				RTT:   []Series{{Label: "flow 0", T: []float64{1e-3, 1.5e-3}, V: []float64{61e-6, 60e-6}}},
				Queue: []Series{{Label: "leaf0 port 2", T: []float64{0, 1e-3}, V: []float64{0, 3 << 10}}},
			}, {
				Name:   "powertcp",
				Values: []float64{20.1, math.NaN(), 1},
			}},
		}, {
			Scenario: "idle",
		}},
	}
}

func write(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// embedded is the page's JSON, read as a browser would: up to the first end tag.
func embedded(t *testing.T, html string) pageData {
	t.Helper()
	_, rest, ok := strings.Cut(html, `<script type="application/json" id="report-data">`)
	if !ok {
		t.Fatal("no report-data element")
	}
	text, _, _ := strings.Cut(rest, "</script")
	var d pageData
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		t.Fatalf("report-data is not the JSON it should be: %v", err)
	}
	return d
}

func TestWriteEmbedsData(t *testing.T) {
	r := sampleReport()
	d := embedded(t, write(t, r))
	if d.Title != r.Title || d.Command != r.Command || d.Version != r.Version || len(d.Runs) != 2 {
		t.Errorf("head reads %q, %q, %q, %d runs", d.Title, d.Command, d.Version, len(d.Runs))
	}
	run := d.Runs[0]
	if run.YAML != r.Runs[0].YAML || run.Description != r.Runs[0].Description {
		t.Errorf("texts read %q, %q", run.YAML, run.Description)
	}
	if got, want := string(run.Systems[0].Values), "[19.414,116.05,0.9991]"; got != want {
		t.Errorf("values %s, want %s", got, want)
	}
	if got, want := string(run.Systems[1].Values), "[20.1,null,1]"; got != want {
		t.Errorf("values %s, want %s", got, want)
	}
	rate := run.Systems[0].Plots["rate"]
	if got, want := string(rate.T), "[0,0.001,0.002]"; got != want {
		t.Errorf("times %s, want %s", got, want)
	}
	if got, want := string(rate.Series[1].V), "[0,null,9.5e+09]"; got != want || rate.Unit != "bps" {
		t.Errorf("rates %s %s, want %s bps", got, rate.Unit, want)
	}
	if !rate.Series[0].Summary || rate.Series[1].Summary {
		t.Error("summary marks are lost")
	}
	if len(run.Systems[0].Plots) != 3 || len(run.Systems[1].Plots) != 0 {
		t.Errorf("%d and %d plots, want 3 and 0", len(run.Systems[0].Plots), len(run.Systems[1].Plots))
	}
}

func TestWriteTables(t *testing.T) {
	html := write(t, sampleReport())
	for _, want := range []string{
		`<th scope="col">Throughput<span class="unit">Gbps</span></th>`,
		`<th scope="col">Jain</th>`,
		`<tr><th scope="row">timely</th><td>19.41</td><td>116.0</td><td>0.999</td></tr>`,
		`<span class="unseen">not measured</span>`,
		`<td class="text">rate</td><td class="text">total</td><td>0 bps</td><td>20 Gbps</td><td>19 Gbps</td>`,
		`<td class="text">RTT</td><td class="text">flow 0</td><td>60 µs</td><td>61 µs</td><td>60 µs</td>`,
		`<td class="text">queue</td><td class="text">leaf0 port 2</td><td>0 B</td><td>3 KiB</td><td>3 KiB</td>`,
		`<li><a href="#run-1">idle</a></li>`,
		`Ten hosts write to &lt;one&gt;.`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("page lacks %s", want)
		}
	}
	if strings.Contains(html, `data-run="1"`) {
		t.Error("a run without series has a place for plots")
	}
}

// Whatever the texts of a report hold, the page has the elements of its template
// and no others.
func TestWriteEscapes(t *testing.T) {
	html := write(t, sampleReport())
	if n := strings.Count(html, "<script"); n != 3 {
		t.Errorf("%d script elements, want 3", n)
	}
	if n := strings.Count(html, "</script"); n != 3 {
		t.Errorf("%d script end tags, want 3", n)
	}
	if strings.Contains(html, "<!-- ") {
		t.Error("a comment opens in the page")
	}
}

// A page opened without a network shows all it has to show.
func TestWriteLoadsNothing(t *testing.T) {
	html := write(t, sampleReport())
	loads := regexp.MustCompile(`(?i)<(link|img|iframe|object|embed|base|source|video|audio)\b|<script[^>]*\ssrc\b|@import|url\(|@font-face|` +
		`\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)\(|\bimport\(`)
	if found := loads.FindString(html); found != "" {
		t.Errorf("the page may load something: %q", found)
	}
	for _, m := range regexp.MustCompile(`(?i)(href|src|srcset|action|poster)\s*=\s*["']([^"']*)`).FindAllStringSubmatch(html, -1) {
		if !strings.HasPrefix(m[2], "#") {
			t.Errorf("%s leads away from the page", m[0])
		}
	}
	if !strings.Contains(html, `http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"`) {
		t.Error("no policy that forbids loading")
	}
	if !strings.Contains(html, "Permission is hereby granted") {
		t.Error("uPlot's licence is not in the page")
	}
}

func TestWriteIsDeterministic(t *testing.T) {
	first, second := write(t, sampleReport()), write(t, sampleReport())
	if first != second {
		t.Error("two pages of one report differ")
	}
}

func TestWriteEmpty(t *testing.T) {
	if d := embedded(t, write(t, &Report{})); len(d.Runs) != 0 {
		t.Errorf("%d runs, want 0", len(d.Runs))
	}
}

func TestWriteRefuses(t *testing.T) {
	series := func(ts, vs []float64) *Report {
		return &Report{Runs: []Run{{Scenario: "a", Systems: []System{{Name: "b", Queue: []Series{{Label: "c", T: ts, V: vs}}}}}}}
	}
	tests := []struct {
		name string
		r    *Report
		want string
	}{
		{"values", &Report{Runs: []Run{{Scenario: "a", Systems: []System{{Name: "b", Values: []float64{1}}}}}},
			`report: run "a", system "b": 1 values for 0 columns`},
		{"digits", &Report{Runs: []Run{{Scenario: "a", Columns: []Column{{Key: "k", Digits: -1}}}}},
			`report: run "a", column "k": -1 digits`},
		{"lengths", series([]float64{1}, nil), `report: run "a", system "b", queue of "c": 1 times and 0 values`},
		{"order", series([]float64{2, 1}, []float64{0, 0}), `report: run "a", system "b", queue of "c": time 1, 1 s, is before the one ahead of it, 2 s`},
		{"no time", series([]float64{math.NaN()}, []float64{0}), `report: run "a", system "b", queue of "c": time 0 is NaN s`},
		{"before zero", series([]float64{-1}, []float64{0}), `report: run "a", system "b", queue of "c": time 0 is -1 s`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Write(io.Discard, tt.r)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

type full struct{}

var errFull = errors.New("disk full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteReportsErrors(t *testing.T) {
	if err := Write(full{}, sampleReport()); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}

func TestSI(t *testing.T) {
	tests := []struct {
		x    float64
		unit string
		want string
	}{
		{0, "bps", "0 bps"}, {999, "bps", "999 bps"}, {19.4e9, "bps", "19.4 Gbps"}, {2e15, "bps", "2000 Tbps"},
		{61.25e-6, "s", "61.2 µs"}, {1.5, "s", "1.5 s"}, {2e-9, "s", "2 ns"}, {3e-15, "s", "0 ps"},
		{0.5, "B", "0.5 B"}, {1023, "B", "1023 B"}, {1536, "B", "1.5 KiB"}, {12 << 20, "B", "12 MiB"},
		{math.NaN(), "B", "none"},
	}
	for _, tt := range tests {
		if got := si(tt.x, tt.unit); got != tt.want {
			t.Errorf("si(%v, %q) = %q, want %q", tt.x, tt.unit, got, tt.want)
		}
	}
}

func ExampleWrite() {
	r := &Report{
		Title: "Incast",
		Runs: []Run{{
			Scenario: "incast",
			Columns:  []Column{{Key: "throughput_gbps", Label: "Throughput", Unit: "Gbps", Digits: 1}},
			Systems: []System{{
				Name:   "timely",
				Values: []float64{19.4},
				Rate:   []Series{{Label: "total", Summary: true, T: []float64{0, 1e-3}, V: []float64{0, 19.4e9}}},
			}},
		}},
	}
	if err := Write(io.Discard, r); err != nil {
		panic(err)
	}
	// Output:
}
