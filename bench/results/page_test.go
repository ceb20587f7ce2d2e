package results

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/bench/internal/report"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/internal/infile"
)

func TestInputNames(t *testing.T) {
	cases := []struct{ paths, want []string }{
		{[]string{"a.json"}, []string{"a"}},
		{[]string{"runs/a.json", "b.txt"}, []string{"a", "b.txt"}},
		{[]string{"x/a.json", "y/a.json", "b.json"}, []string{"x/a", "y/a", "b"}},
		{[]string{"a.json", "./a.json", "a.json"}, []string{"a", "a #2", "a #3"}},
		{[]string{"a", "a.json", "a #2.json"}, []string{"a", "a #2", "a #2 #2"}},
	}
	for _, c := range cases {
		got := InputNames(c.paths)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q: %s", c.paths, diff)
		}
	}
}

func TestCommandLine(t *testing.T) {
	cases := []struct {
		arguments []string
		want      string
	}{
		{nil, ""},
		{[]string{"run", "my-incast.yaml", "--set", "nic.mtu=4096"}, "sluice run my-incast.yaml --set nic.mtu=4096"},
		{[]string{"run", "--set", "systems[TIMELY].name=it's", ""}, `sluice run --set 'systems[TIMELY].name=it'\''s' ''`},
	}
	for _, c := range cases {
		if got := commandLine(c.arguments); got != c.want {
			t.Errorf("%q is %s, want %s", c.arguments, got, c.want)
		}
	}
}

// Results of one scenario stand together, with names that tell them apart.
func TestWriteComparison(t *testing.T) {
	a, b := sample(), sample()
	b.Results[0].Seed = 8
	b.Results[0].YAML = "name: demo\nseed: 8\n"
	b.Results = append(b.Results, &Result{Scenario: "other", Systems: []*System{NewSystem("TIMELY", "timely", "host")}})
	var page bytes.Buffer
	if err := WriteComparison(&page, []string{"report", "a.json", "b.json"}, Input{"a", a}, Input{"b", b}); err != nil {
		t.Fatal(err)
	}
	html := page.String()
	last := -1
	for _, want := range []string{
		"<title>Sluice: demo, other</title>", "<code>sluice report a.json b.json</code>",
		"<code>sluice run demo</code>",
		"<dt>seed</dt><dd>7 (a), 8 (b)</dd>", "<dt>packet-hops</dt><dd>2500000</dd>",
		`data-name="PFC only (a)"`, `data-name="PFC only (b)"`, `data-name="TIMELY (a)"`, `data-name="TIMELY (b)"`,
		"How b differs from a", "<ins>+ seed: 8</ins>",
		`data-name="TIMELY"`,
	} {
		at := strings.Index(html, want)
		if at < 0 {
			t.Errorf("the page lacks %q", want)
		} else if at < last {
			t.Errorf("%q is not where it belongs", want)
		}
		last = max(last, at)
	}

	// The same input twice over one scenario.
	a.Results = append(a.Results, a.Results[0])
	page.Reset()
	if err := WriteComparison(&page, nil, Input{"a", a}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`data-name="TIMELY (a)"`, `data-name="TIMELY (a #2)"`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// What this version does not know is shown by the names it has.
func TestReportUnknownKinds(t *testing.T) {
	s := NewSystem("s", "none", "host")
	s.Series = []Series{
		{Kind: "éclat_x", Name: SeriesAll, Unit: "widgets", StartUs: 1, StepUs: 1, Values: []stats.Float{1, stats.Unmeasured}},
		{Kind: "rate", Name: SeriesAll, Unit: "Gbps", StartUs: 1, StepUs: 1, Values: []stats.Float{1, 2}},
		{Kind: "rate", Name: "odd", Unit: "furlongs", StartUs: 1, StepUs: 1, Values: []stats.Float{1, 2}},
		{Kind: "rtt", Name: SeriesAll, Unit: "us", Values: []stats.Float{stats.Unmeasured}},
		{Kind: "", Name: SeriesAll, Unit: "", Values: []stats.Float{4}},
	}
	s.Distributions = []stats.Distribution{
		{Kind: "rtt", Name: SeriesAll, Unit: "us", Values: []stats.Float{stats.Unmeasured, 5}, Share: []stats.Float{0, 1}},
		{Kind: "patience", Name: SeriesAll, Unit: "", Values: []stats.Float{1}, Share: []stats.Float{1}},
		{Kind: "fct", Name: SeriesAll, Unit: "us"},
	}
	run := reportRun([]source{{r: &Result{Scenario: "x", Systems: []*System{s}}}})
	var got []string
	for _, p := range run.Systems[0].Plots {
		got = append(got, p.Key+": "+p.Name+" "+p.Unit)
	}
	for _, c := range run.Systems[0].CDFs {
		got = append(got, c.Key+": "+c.Name+" "+c.Unit)
	}
	want := []string{"rate: Rate bps", "rate [furlongs]: Rate furlongs", "éclat_x: Éclat x widgets", ":  ", "distribution rtt: RTT s", "distribution patience: Patience "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoadJSON(t *testing.T) {
	dir := t.TempDir()
	load := func(text string) (*Document, error) {
		path := filepath.Join(dir, "r.json")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return LoadJSON(path)
	}
	// From before results had topologies.
	d, err := load(`{"version": 1, "results": [{"scenario": "old", "seed": 1, "systems": [{"name": "s", "jain": null, "series": [{"kind": "rate", "name": "all", "unit": "Gbps", "values": [null]}]}]}]}`)
	if d == nil || err != nil || d.Results[0].Systems[0].Jain.Measured() {
		t.Errorf("got %v, %v", d, err)
	} else if err := WriteComparison(&bytes.Buffer{}, nil, Input{"old", d}); err != nil {
		t.Errorf("an old result can't be shown: %v", err)
	}
	system := func(s string) string {
		return `{"version": 1, "results": [{"scenario": "x", "topology": {"nodes": [{"name": "a"}], "links": [{"link": "l", "from": "a", "to": "a"}]}, "systems": [` + s + `]}]}`
	}
	cases := []struct{ text, want string }{
		{"", "the file is empty"},
		{"{\n\"version\": 1,\n]", "line 3: invalid character ']'"},
		{"[1]", "line 1: "},
		{`{"version": 1}`, "these are not the results of a run"},
		{`{"results": []}`, "these are not the results of a run"},
		{`{"version": 99, "results": []}`, "format version 99: this program reads versions up to 2"},
		{`{"version": 0, "results": []}`, "format version 0"},
		{`{"version": 1, "results": []}`, "there are no results in it"},
		{`{"version": 1, "results": [null]}`, "result 1 has no scenario"},
		{`{"version": 1, "results": [{"test": "write_bw"}]}`, "result 1 has no scenario: only results of sluice run"},
		{"{\"version\": 1,\n\"results\": [{\"scenario\": 5}]}", "line 2: results.scenario is a number and should be a string"},
		{system("null"), "scenario x: system 1 is null"},
		{system(`{"name": "s", "series": [{"kind": "rate", "name": "all", "start_us": null, "values": [1]}]}`), `scenario x, system s: series rate of "all": start_us is NaN`},
		{system(`{"name": "s", "series": [{"kind": "rate", "name": "all", "start_us": 0, "step_us": 0, "values": [1, 2]}]}`), `step_us is 0: it must be above 0`},
		{system(`{"name": "s", "series": [{"kind": "queue", "name": "a->b", "start_us": 0, "values": [1], "max": [1, 2]}]}`), `series queue of "a->b": max has 2 entries for 1 values`},
		{system(`{"name": "s", "distributions": [{"kind": "rtt", "name": "all", "values": [1]}]}`), `distribution rtt of "all": 1 values and 0 shares`},
		{system(`{"name": "s", "link_use": {"busy": []}}`), `link_use: busy has 0 entries for 1 links`},
		{`{"version": 1, "results": [{"scenario": "x", "topology": {"links": [{"link": "l", "from": "a", "to": "b"}]}}]}`, `scenario x: topology: link "l" ends at "a", which is no node`},
	}
	for _, c := range cases {
		_, err := load(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "r.json: ") {
			t.Errorf("%s: error %v, want %q", c.text, err, c.want)
		}
	}
	if _, err := LoadJSON(filepath.Join(dir, "none.json")); err == nil || !strings.Contains(err.Error(), "none.json") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Whatever loads can be shown, or is refused with a reason. The page's markup is
// FuzzPage's of bench/internal/report.
func FuzzLoadJSON(f *testing.F) {
	f.Add([]byte(`{"version": 1, "results": [{"scenario": "x", "topology": {"nodes": [{"name": "a"}], "links": [{"link": "l", "from": "a", "to": "a"}]}, "systems": [{"link_use": {"busy": [1], "queue_max_bytes": [1], "drops": [1], "pause_us": [null]}}]}]}`))
	f.Add([]byte(`{"version":1,"arguments":["run"],"results":[{"scenario":"x","yaml":"a: 1","systems":[{"name":"A","rtt_avg_us":61,"slowdown":[{"to_bytes":9,"flows":2,"slowdown_p50":1}],"labels":[{"label":"a"},{"label":"b"}],` +
		`"series":[{"kind":"rate","name":"all","unit":"Gbps","start_us":1,"step_us":1,"values":[1,null,2]}],"distributions":[{"kind":"rtt","name":"all","unit":"us","values":[1,2],"share":[0.5,1]}]}],"misses":[{"system":"A","metric":"jain","min":1}]}]}`))
	f.Add([]byte(`{"version":1,"results":[{"scenario":"x","systems":[{"name":"A","priorities":[{"priority":1}],"links":[{"link":"l"}],"series":[{"kind":"queue","thinned":2}]},{"name":"A"}]},{"scenario":"x"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var d *Document
		var err error
		infile.Within(t, func() { d, err = parseDocument(text) })
		if err != nil {
			return
		}
		if err := report.Check(comparison(nil, []Input{{"a", d}, {"b", d}})); err != nil && !strings.HasPrefix(err.Error(), "report: ") {
			t.Error(err)
		}
	})
}

// A page says that what it shows over time was thinned.
func TestThinnedSeriesAreSaid(t *testing.T) {
	d := sample()
	d.Results[0].Systems[1].Series[2].Thinned = 8
	var b bytes.Buffer
	if err := WriteHTML(&b, d); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "of TIMELY, each value is of up to 8 steps of the measurement") {
		t.Error("the page does not say so")
	}
}
