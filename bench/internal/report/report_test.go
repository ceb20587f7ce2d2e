package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	unit := func(key, name, unit string, series ...Series) Plot {
		return Plot{Key: key, Name: name, Unit: unit, Series: series}
	}
	return &Report{
		Title:   "Incast & others",
		Command: `sluice run incast --set 'x=</script><script>alert(1)</script>'`,
		Version: "v0.1.0",
		Inputs:  []Input{{"a", "sluice run <a>", "v0.0.9", "2026-01-02"}, {"b", "", "v0.1.0", ""}},
		Runs: []Run{{
			Scenario:    "incast",
			Description: "Ten hosts write to <one>.",
			Texts: []Text{
				{"a", "name: incast # </script><!-- \" ' & \u2028\nseed: 1\nmtu: 1024\n"},
				{"b", "name: incast # </script><!-- \" ' & \u2028\nseed: 2\nmtu: 1024\n"},
			},
			Facts:   []Fact{{"Seed", "7"}, {"Simulated", "10 ms"}},
			Columns: []Column{{"throughput_gbps", "Throughput", "Gbps", 2}, {"rtt_p99_us", "RTT p99", "us", 1}, {"jain", "Jain", "", 3}},
			Systems: []System{{
				Name:   "timely",
				Values: []float64{19.414, 116.05, 0.9991},
				Parts:  []Part{{"victim & co", []float64{1.5, math.NaN(), 1}}},
				Plots: []Plot{
					unit("rate", "Rate", "bps",
						Series{Label: "total", Summary: true, T: []float64{0, 1e-3, 2e-3}, V: []float64{0, 20e9, 19e9}},
						Series{Label: "flow 0", T: []float64{0, 1e-3, 2e-3}, V: []float64{0, math.NaN(), 9.5e9}}),
					unit("rtt", "RTT", "s", Series{Label: "flow 0", T: []float64{1e-3, 1.5e-3}, V: []float64{61e-6, 60e-6}}),
					unit("queue", "Queue", "B", Series{Label: "leaf0 port 2", T: []float64{0, 1e-3}, V: []float64{0, 3 << 10}}),
				},
				CDFs: []CDF{{"rtt", "RTT", "s", []CDFLine{{"all", true, []float64{10e-6, 20e-6, 90e-6}, []float64{0, 0.5, 1}}}}},
				Slowdowns: []Slowdown{{"all", []SlowdownBin{
					{0, 10_000, 12, 1.1, 2.25, 123.4}, {1_500_000, math.MaxInt64, 3, 2, math.NaN(), 4},
				}}},
				Network: sampleNetwork(),
			}, {
				Name:      "powertcp",
				Values:    []float64{20.1, math.NaN(), 1},
				Slowdowns: []Slowdown{{"all", []SlowdownBin{{10_000, 1_500_000, 7, 1, 1, 1}}}},
			}},
			Timelines: []Timeline{sampleTimeline()},
		}, {
			Scenario: "idle",
		}},
	}
}

// sampleTimeline is a request from a host to another.
func sampleTimeline() Timeline {
	return Timeline{
		Title: "One request of <h0>", Notes: []string{"3 us & no more"}, Places: []string{"h0", "network", "<h1>"},
		Parts: []TimelinePart{{"store", 0, 250e-9}, {"wire", 1, 1.5e-6}, {"receive & place", 2, 1e-12}, {"back", 1, 1.25e-6 - 1e-12}},
	}
}

// sampleNetwork is two hosts on a switch.
func sampleNetwork() *Network {
	return &Network{
		Nodes: []Node{{"h0", false}, {"<h1>", false}, {"tor0", true}},
		Links: []Link{
			{Name: "h0->tor0", From: 0, To: 2, Rate: 10e9, Busy: 0.991, Queue: 2048, Drops: 3, Paused: 1e-6},
			{Name: "tor0->h0", From: 2, To: 0, Rate: 10e9, Busy: 0.02, Queue: 0},
			{Name: "tor0-><h1>", From: 2, To: 1, Rate: 10e9, Busy: 0.6, Queue: 4096},
			{Name: "<h1>->tor0", From: 1, To: 2, Rate: 10e9, Busy: math.NaN(), Queue: math.NaN(), Paused: math.NaN()},
		},
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
	if strings.ContainsAny(text, "<>&\u2028\u2029") {
		t.Error("report-data holds what a page may take for its own")
	}
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
	if d.Title != r.Title || d.Command != r.Command || d.Version != r.Version || len(d.Runs) != 2 || len(d.Inputs) != 2 || d.Inputs[0] != inputData(r.Inputs[0]) {
		t.Errorf("head reads %q, %q, %q, %v, %d runs", d.Title, d.Command, d.Version, d.Inputs, len(d.Runs))
	}
	run := d.Runs[0]
	if run.Description != r.Runs[0].Description {
		t.Errorf("description reads %q", run.Description)
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
	if got, want := string(rate.Series[1].V), "[0,null,9.5e+09]"; got != want {
		t.Errorf("rates %s, want %s", got, want)
	}
	if !rate.Series[0].Summary || rate.Series[1].Summary {
		t.Error("summary marks are lost")
	}
	if len(run.Systems[0].Plots) != 3 || len(run.Systems[1].Plots) != 0 {
		t.Errorf("%d and %d plots, want 3 and 0", len(run.Systems[0].Plots), len(run.Systems[1].Plots))
	}
	if want := []quantityData{{"rate", "Rate", "bps", false}, {"rtt", "RTT", "s", false}, {"queue", "Queue", "B", false}}; fmt.Sprint(run.Quantities) != fmt.Sprint(want) {
		t.Errorf("quantities %v, want %v", run.Quantities, want)
	}
	if c := run.Systems[0].CDFs["rtt"]; len(c) != 1 || string(c[0].V) != "[1e-05,2e-05,9e-05]" || string(c[0].Share) != "[0,0.5,1]" || !c[0].Summary {
		t.Errorf("distribution %+v", c)
	}
	if b := run.Systems[0].Slowdown; len(b) != 2 || *b[0].To != 10_000 || b[1].To != nil || string(b[1].P) != "[2,null,4]" {
		t.Errorf("slowdown %+v", b)
	}
}

func TestWriteTables(t *testing.T) {
	html := write(t, sampleReport())
	for _, want := range []string{
		`<th scope="col">Throughput<span class="unit">Gbps</span></th>`,
		`<th scope="col">Jain</th>`,
		`<tr data-name="timely" data-of="" data-input=""><th scope="row">timely</th><td data-v="19.414">19.41</td><td data-v="116.05">116.0</td><td data-v="0.9991">0.999</td></tr>`,
		`<th scope="row"><span class="unseen">timely, </span>victim &amp; co</th><td data-v="1.5">1.50</td>`,
		`<span class="unseen">not measured</span>`,
		`<td class="text">Rate</td><td class="text">total</td><td>0 bps</td><td>20 Gbps</td><td>19 Gbps</td>`,
		`<td class="text">RTT</td><td class="text">flow 0</td><td>60 µs</td><td>61 µs</td><td>60 µs</td>`,
		`<td class="text">Queue</td><td class="text">leaf0 port 2</td><td>0 B</td><td>3 KiB</td><td>3 KiB</td>`,
		`<td class="text">RTT</td><td class="text">all</td><td>20 µs</td><td>20 µs</td><td>20 µs</td><td>20 µs</td><td>90 µs</td>`,
		`<th scope="col">up to 10 KB</th><th scope="col">up to 1.5 MB</th><th scope="col">above 1.5 MB</th>`,
		`<td>1.10 / 2.25 / 123<span class="unit">12 flows</span></td>`,
		`<td>2.00 / – / 4.00<span class="unit">3 flows</span></td>`,
		`<td class="text">h0-&gt;tor0</td><td>10 Gbps</td><td>99 %</td><td>2 KiB</td><td>3</td><td>1 µs</td>`,
		`<td class="text">&lt;h1&gt;-&gt;tor0</td><td>10 Gbps</td><td>unmeasured</td><td>none</td><td>0</td><td>none</td>`,
		`How b differs from a`, `<del>- seed: 1</del>`, `<ins>+ seed: 2</ins>`,
		`<li><a href="#run-1">idle</a></li>`,
		`Ten hosts write to &lt;one&gt;.`,
		`<td><code>sluice run &lt;a&gt;</code></td><td>v0.0.9</td><td>2026-01-02</td>`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("page lacks %s", want)
		}
	}
	for _, no := range []string{`data-run="1"`, `<ins>+ mtu`} {
		if strings.Contains(html, no) {
			t.Errorf("page has %s", no)
		}
	}
}

// Two runs with a column in common are in one table.
func TestWriteOverview(t *testing.T) {
	columns := []Column{{"a", "A", "us", 1}, {"b", "B", "", 0}}
	r := &Report{Runs: []Run{
		{Scenario: "x", Columns: columns, Systems: []System{{Name: "s", Values: []float64{1, 2}}}},
		{Scenario: "y", Columns: columns[:1], Systems: []System{{Name: "t", Values: []float64{math.NaN()}}}},
	}}
	html := write(t, r)
	for _, want := range []string{`<h2 id="overview">`, `<a href="#run-0">x</a></th><td class="text">s</td><td>1.0</td></tr>`} {
		if !strings.Contains(html, want) {
			t.Errorf("page lacks %s", want)
		}
	}
	if strings.Contains(write(t, &Report{Runs: r.Runs[:1]}), `id="overview"`) {
		t.Error("one run has an overview")
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
	if strings.Contains(html, "<!-- ") || strings.Contains(html, "<h1>]") || strings.Contains(html, "<h1>:") {
		t.Error("text of the report opens an element or a comment")
	}
}

// A page opened without a network shows all it has to show.
func TestWriteLoadsNothing(t *testing.T) {
	html := write(t, sampleReport())
	loads := regexp.MustCompile(`(?i)<(link|img|image|use|iframe|object|embed|base|source|video|audio)\b|<script[^>]*\ssrc\b|@import|url\(|@font-face|` +
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

// However many series a report has, its page stays small.
func TestWriteStaysSmall(t *testing.T) {
	r := &Report{}
	for range 2 {
		run := Run{Scenario: "many"}
		for i := range 8 {
			s := System{Name: fmt.Sprint(i)}
			for _, key := range []string{"rate", "rtt", "queue", "busy", "flows", "pause"} {
				p := Plot{Key: key, Name: key, Unit: "s"}
				for f := range 1000 {
					one := Series{Label: fmt.Sprintf("flow %d", f), Summary: f == 0}
					for k := range 300 {
						one.T = append(one.T, float64(k)*1.37e-6)
						one.V = append(one.V, float64(f*k)*1.1234567e-9)
					}
					p.Series = append(p.Series, one)
				}
				s.Plots = append(s.Plots, p)
			}
			run.Systems = append(run.Systems, s)
		}
		r.Runs = append(r.Runs, run)
	}
	html := write(t, r)
	t.Logf("96 plots of 1000 series: %d bytes", len(html))
	if len(html) > 3<<20 {
		t.Errorf("%d bytes, want 3 MiB at most", len(html))
	}
	if got := embedded(t, html).Runs[0].Systems[0].Plots["rate"].Series; len(got) != 4 || got[0].Label != "flow 0" || got[1].Label != "greatest of 999" {
		t.Errorf("%d series: %v", len(got), got[0].Label)
	}
}

func TestSpread(t *testing.T) {
	var series []Series
	for i := range maxLines + 1 {
		series = append(series, Series{Label: fmt.Sprint(i), T: []float64{0, 1, 2}, V: []float64{float64(i), float64(-i), math.NaN()}})
	}
	series = append(series, Series{Label: "all", Summary: true, T: []float64{0, 1, 2}, V: []float64{7, 8, 9}})
	few, _ := spread(series[1:], 10)
	if len(few) != maxLines+1 {
		t.Errorf("%d series, want all %d", len(few), maxLines+1)
	}
	names, a := spread(series, 10)
	want := map[string][]float64{
		"all":            {7, 8, 9},
		"greatest of 25": {24, 0, math.NaN()},
		"median of 25":   {12, -12, math.NaN()},
		"least of 25":    {0, -24, math.NaN()},
	}
	if len(names) != len(want) {
		t.Fatalf("%d series, want %d", len(names), len(want))
	}
	for i, s := range names {
		for k, v := range want[s.Label] {
			if !same(a.v[i][k], v) {
				t.Errorf("%s at %v is %v, want %v", s.Label, a.t[k], a.v[i][k], v)
			}
		}
		if _, ok := want[s.Label]; !ok {
			t.Errorf("there is a series %q", s.Label)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	system := func(s System) *Report {
		s.Name = "b"
		return &Report{Runs: []Run{{Scenario: "a", Systems: []System{s}}}}
	}
	series := func(ts, vs []float64) *Report {
		return system(System{Plots: []Plot{{Key: "queue", Series: []Series{{Label: "c", T: ts, V: vs}}}}})
	}
	cdf := func(v, share []float64) *Report {
		return system(System{CDFs: []CDF{{Key: "fct", Lines: []CDFLine{{Label: "c", V: v, Share: share}}}}})
	}
	tests := []struct {
		name string
		r    *Report
		want string
	}{
		{"values", system(System{Values: []float64{1}}), `report: run "a", system "b": 1 values for 0 columns`},
		{"part", system(System{Parts: []Part{{"p", []float64{1}}}}), `report: run "a", system "b", part "p": 1 values for 0 columns`},
		{"digits", &Report{Runs: []Run{{Scenario: "a", Columns: []Column{{Key: "k", Digits: -1}}}}},
			`report: run "a", column "k": -1 digits`},
		{"lengths", series([]float64{1}, nil), `report: run "a", system "b", queue of "c": 1 times and 0 values`},
		{"order", series([]float64{2, 1}, []float64{0, 0}), `report: run "a", system "b", queue of "c": time 1, 1 s, is before the one ahead of it, 2 s`},
		{"no time", series([]float64{math.NaN()}, []float64{0}), `report: run "a", system "b", queue of "c": time 0 is NaN s`},
		{"before zero", series([]float64{-1}, []float64{0}), `report: run "a", system "b", queue of "c": time 0 is -1 s`},
		{"twice", system(System{Plots: []Plot{{Key: "k"}, {Key: "k"}}}), `report: run "a", system "b": two plots are named "k"`},
		{"cdf lengths", cdf([]float64{1}, nil), `report: run "a", system "b", distribution fct of "c": 1 values and 0 shares`},
		{"cdf share", cdf([]float64{1}, []float64{1.5}), `report: run "a", system "b", distribution fct of "c": share 0 is 1.5: it must be from 0 to 1`},
		{"cdf value", cdf([]float64{math.Inf(1)}, []float64{1}), `report: run "a", system "b", distribution fct of "c": value 0 is +Inf`},
		{"cdf order", cdf([]float64{2, 1}, []float64{0, 1}), `report: run "a", system "b", distribution fct of "c": point 1, 1 at 1, is below the one ahead of it, 0 at 2`},
		{"link", system(System{Network: &Network{Links: []Link{{Name: "l", To: 1}}}}), `report: run "a", system "b", network: link "l" joins node 0 of 0`},
		{"units", &Report{Runs: []Run{{Scenario: "a", Systems: []System{{Name: "b", Plots: []Plot{{Key: "k", Name: "K", Unit: "s"}}}, {Name: "c", Plots: []Plot{{Key: "k", Name: "K", Unit: "B"}}}}}}},
			`report: run "a", system "c": plot "k" is "K" in "B", and elsewhere "K" in "s"`},
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
		{0.125, "share", "12 %"}, {0.0375, "share", "3.8 %"}, {1234, "", "1234"}, {12.34, "packets", "12.3 packets"},
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
				Plots:  []Plot{{Key: "rate", Name: "Rate", Unit: "bps", Series: []Series{{Label: "total", Summary: true, T: []float64{0, 1e-3}, V: []float64{0, 19.4e9}}}}},
			}},
		}},
	}
	var page bytes.Buffer
	if err := Write(&page, r); err != nil {
		panic(err)
	}
	fmt.Println(strings.Contains(page.String(), "<td data-v=\"19.4\">19.4</td>"))
	// Output: true
}
