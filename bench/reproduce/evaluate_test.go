package reproduce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/bench/sweep"
)

func figuresOf(pairs ...any) *figureSet {
	f := &figureSet{}
	for i := 0; i < len(pairs); i += 2 {
		f.add(pairs[i].(string), pairs[i+1].(float64))
	}
	return f
}

func seedsOf(name string, values ...float64) []*figureSet {
	var out []*figureSet
	for _, v := range values {
		out = append(out, figuresOf(name, v, "one", 1.0))
	}
	return out
}

func TestChecks(t *testing.T) {
	for _, c := range []struct {
		name    string
		check   check
		figures []*figureSet
		met     bool
	}{
		{"value on the edge", check{Figure: "x", Paper: 10, Within: 0.25}, seedsOf("x", 12.5), true},
		{"value beyond", check{Figure: "x", Paper: 10, Within: 0.25}, seedsOf("x", 12.6), false},
		{"mean of seeds counts", check{Figure: "x", Paper: 10, Within: 0.1}, seedsOf("x", 8, 12), true},
		{"value not measured", check{Figure: "x", Paper: 10, Within: 0.25}, seedsOf("x", math.NaN()), false},
		{"ratio with its interval below", check{Of: "x", To: "one"}, seedsOf("x", 0.8, 0.82, 0.79, 0.81, 0.8), true},
		{"ratio whose interval holds 1", check{Of: "x", To: "one"}, seedsOf("x", 0.5, 1.4, 0.9, 0.7, 1.2), false},
		{"ratio on the wrong side", check{Of: "x", To: "one", Above: true}, seedsOf("x", 0.8, 0.82, 0.79, 0.81, 0.8), false},
		{"ratio above", check{Of: "x", To: "one", Above: true}, seedsOf("x", 2, 2.2, 2.1, 1.9, 2), true},
		{"ratio with a seed missing", check{Of: "x", To: "one", Above: true}, seedsOf("x", 2, 2, math.NaN(), 2, 2), false},
		{"few seeds", check{Of: "x", To: "one", Above: true}, seedsOf("x", 2), true},
		{"order in every seed", holds("x", func(f *figureSet) bool { return f.get("x") > 1 }), seedsOf("x", 2, 3), true},
		{"order but in one seed", holds("x", func(f *figureSet) bool { return f.get("x") > 1 }), seedsOf("x", 2, 1), false},
	} {
		got := c.check.result(c.figures)
		if got.Met != c.met || got.Why == "" {
			t.Errorf("%s: met %v, %s", c.name, got.Met, got.Why)
		}
	}
}

func TestRatioOf(t *testing.T) {
	if q := ratioOf([]float64{2, 8}, []float64{1, 1}); math.Abs(q.Mean-4) > 1e-9 {
		t.Errorf("the geometric mean of 2 and 8 is %v", q.Mean)
	}
}

// Whoever turns a ratio round gets the inverse interval.
func TestRatioIsSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.Float64Range(0.01, 100), 5, 5).Draw(t, "a")
		b := rapid.SliceOfN(rapid.Float64Range(0.01, 100), 5, 5).Draw(t, "b")
		x, y := ratioOf(a, b), ratioOf(b, a)
		if math.Abs(x.Mean*y.Mean-1) > 1e-9 || math.Abs(x.Low*y.High-1) > 1e-9 || x.Low > x.Mean || x.Mean > x.High {
			t.Fatalf("%v and %v", x, y)
		}
	})
}

func TestCurve(t *testing.T) {
	c := curve{X: []float64{0, 1, 2, 3, 4, 5}, Y: []float64{0, 5, 1, 4, 6, 7}}
	for _, x := range []struct {
		name      string
		got, want float64
	}{
		{"mean", c.mean(), 23.0 / 6}, {"max", c.max(), 7}, {"min", c.min(), 0},
		{"first to stay", c.first(4, 1), 3}, {"first at all", c.first(4, 0), 1}, {"never", c.first(8, 0), math.NaN()},
		{"at", c.at(5), 1}, {"between", c.between(2, 3).mean(), 2.5}, {"scaled", c.scale(2, 3).X[5], 10},
		{"nothing", curve{}.mean(), math.NaN()}, {"deviation", curve{Y: []float64{1, math.NaN(), 3}}.deviation(), 1},
	} {
		if math.Abs(x.got-x.want) > 1e-12 || math.IsNaN(x.got) != math.IsNaN(x.want) {
			t.Errorf("%s: %v, not %v", x.name, x.got, x.want)
		}
	}
}

// tiny is a row that runs in no time.
func tiny() *Row {
	r := &Row{
		ID: "timely-jain", seconds: 1, Seeds: 2, runs: []rowRun{{scenario: "quickstart"}, {name: "short", scenario: "quickstart", sets: []string{"workloads[0].flows[0].size=1MB"}}},
		quick: &quick{Sets: []string{"workloads[0].flows[0].size=500KB"}, Seconds: 0.1},
		read: func(s *seed, f *figureSet) {
			f.add("fct_us", float64(s.system("", "TIMELY").FCTAvgUs))
			f.add("short_us", float64(s.system("short", "TIMELY").FCTAvgUs))
		},
		checks: []check{holds("less takes less", func(f *figureSet) bool { return f.get("short_us") < f.get("fct_us") })},
		charts: func(s *seed, f *figureSet) []chart {
			return []chart{
				{Title: "a < b", X: "t", Y: "r", Lines: []chartLine{s.system("", "TIMELY").Series(results.SeriesRate, "all").line("<TIMELY>")}},
				{Title: "points", X: "x", Y: "y", LogX: true, Lines: []chartLine{over("p", f, []float64{1, 10}, func(i int) string { return f.Names()[i] })}},
			}
		},
	}
	r.complete(allPapers()[0], &paperRow{ID: "timely-jain", Kind: kindOrder, Source: "nowhere"})
	return r
}

func TestRunsAreKept(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, Jobs: 2}
	first, err := Do(t.Context(), []*Row{tiny()}, o)
	if err != nil {
		t.Fatal(err)
	}
	if first.Runs != 4 || first.RunsReused != 0 || first.Rows[0].Status != met || first.MemoryMiB <= 0 {
		t.Errorf("%+v, row %+v", first, first.Rows[0])
	}
	again, err := Do(t.Context(), []*Row{tiny()}, o)
	if err != nil {
		t.Fatal(err)
	}
	if again.RunsReused != 4 {
		t.Errorf("%d of 4 runs were used again", again.RunsReused)
	}
	if diff := cmp.Diff(fmt.Sprint(first.Rows[0].Figures), fmt.Sprint(again.Rows[0].Figures)); diff != "" {
		t.Error(diff)
	}

	// One is lost.
	files, err := filepath.Glob(filepath.Join(dir, "results", "*", "*.json"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%v kept: %v", files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if r, err := Do(t.Context(), []*Row{tiny()}, o); err != nil || r.RunsReused != 3 {
		t.Errorf("with one that is lost: %v, %v", r, err)
	}

	// One is damaged.
	if err := os.WriteFile(files[1], []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if r, err := Do(t.Context(), []*Row{tiny()}, o); err != nil || r.RunsReused != 3 {
		t.Errorf("with one that is damaged: %v, %v", r, err)
	}
}

// What is planned is a sweep's folder: whoever runs its cells, their results are those of
// the rows.
func TestRunsAreASweep(t *testing.T) {
	o := Options{Dir: t.TempDir(), Jobs: 1}
	folder, planned, err := PlanRuns([]*Row{tiny()}, o)
	if err != nil || planned.Cells != 4 || planned.Shared != 0 {
		t.Fatalf("%+v, %v", planned, err)
	}
	tasks, err := sweep.ParseTasks("0-2", &planned.Plan)
	if err != nil {
		t.Fatal(err)
	}
	if done, err := sweep.Run(t.Context(), folder, sweep.Options{Tasks: tasks, Jobs: 2}); err != nil || done.Ran != 3 {
		t.Fatalf("%+v, %v", done, err)
	}
	r, err := Do(t.Context(), []*Row{tiny()}, o)
	if err != nil || r.RunsReused != 3 || r.Rows[0].Status != met {
		t.Fatalf("%+v, %v", r, err)
	}
	alone, err := Do(t.Context(), []*Row{tiny()}, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(alone.Fingerprints, r.Fingerprints); diff != "" {
		t.Error(diff)
	}
}

// A run that fails does not keep others from being done, and is named.
func TestARunThatFails(t *testing.T) {
	bad := tiny()
	bad.ID, bad.Seeds = "timely-bad", 1
	bad.runs = []rowRun{{scenario: "quickstart", sets: []string{"warmup=9ms", "duration=10ms", "workloads[0].flows[0].size=1KB"}}}
	r, err := Do(t.Context(), []*Row{bad, tiny()}, Options{Dir: t.TempDir(), Jobs: 1})
	if err == nil || !strings.Contains(err.Error(), "1 of 5 runs failed") || !strings.Contains(err.Error(), "warmup") {
		t.Fatalf("%v", err)
	}
	if r == nil || len(r.Rows) != 1 || !slices.Equal(r.Missing, []string{"timely-bad"}) || r.Interrupted {
		t.Errorf("%+v", r)
	}
}

func TestAnInterruptKeepsWhatIsDone(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	o := Options{Dir: t.TempDir(), Jobs: 1, Progress: func(float64, string) { stop(interrupted) }}
	if r, err := Do(ctx, []*Row{tiny()}, o); r != nil || !errors.Is(err, interrupted) || !strings.Contains(err.Error(), " of 4 runs are kept in ") {
		t.Errorf("%v, %v", r, err)
	}
	o.Progress = nil
	if r, err := Do(t.Context(), []*Row{tiny()}, o); err != nil || r.Runs != 4 {
		t.Errorf("%v, %v", r, err)
	}
}

// The report of an interrupted call has the finished rows, and names the others.
func TestAnInterruptReportsWhatIsDone(t *testing.T) {
	dir := t.TempDir()
	if _, err := Do(t.Context(), []*Row{tiny()}, Options{Dir: dir, Jobs: 1}); err != nil {
		t.Fatal(err)
	}
	more := tiny()
	more.ID, more.Seeds = "timely-more", tiny().Seeds+1
	ctx, stop := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	stop(interrupted)
	r, err := Do(ctx, []*Row{tiny(), more}, Options{Dir: dir, Jobs: 1})
	if !errors.Is(err, interrupted) || r == nil {
		t.Fatalf("%v, %v", r, err)
	}
	if len(r.Rows) != 1 || r.Rows[0].Status != met || !r.Interrupted || !slices.Equal(r.Missing, []string{"timely-more"}) || r.Runs != 4 {
		t.Errorf("%+v", r)
	}
	if s := r.Summary(); !strings.Contains(s, "1 rows are missing, by an interrupt: timely-more.") {
		t.Errorf("%s", s)
	}
}

func TestQuickIsLabelled(t *testing.T) {
	r, err := Do(t.Context(), []*Row{tiny()}, Options{Dir: t.TempDir(), Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Quick || r.Rows[0].Seeds != 1 || r.Runs != 1 { // the two runs are the same in small
		t.Errorf("%+v", r)
	}
	if !strings.Contains(r.Summary(), "In small") {
		t.Error(r.Summary())
	}
	none := tiny()
	none.quick = nil
	if _, err := Do(t.Context(), []*Row{none}, Options{Dir: t.TempDir(), Quick: true}); err == nil {
		t.Error("a row that is not there in small ran")
	}
}

func TestReportReadsBack(t *testing.T) {
	r, err := Do(t.Context(), []*Row{tiny()}, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	again, err := ReadReport(bytes.NewReader(text.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var text2 bytes.Buffer
	if err := again.Write(&text2); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text.String(), text2.String()); diff != "" {
		t.Error(diff)
	}
	for in, want := range map[string]string{
		"": "no report", "{}": "no report", `{"version": 99, "rows": []}`: "version 99", `{"version": 1, "rows": [null]}`: "no id", "[1]": "no report",
	} {
		if _, err := ReadReport(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}

	var page, table, md strings.Builder
	for _, err := range []error{r.Page(&page), r.Table(&table), r.Markdown(&md)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{`<svg class="chart"`, "a &lt; b", "&lt;TIMELY&gt;", `<path class="line-0" d="M`, "<circle"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, bad := range []string{"<TIMELY>", "NaN", "src=", "ZgotmplZ"} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	if !strings.Contains(table.String(), "less takes less") || !strings.Contains(md.String(), "less takes less") {
		t.Errorf("%s\n%s", table.String(), md.String())
	}
}

func TestARowThatReadsWhatIsNotThere(t *testing.T) {
	r := tiny()
	r.read = func(s *seed, f *figureSet) {
		x := s.system("", "Timely")
		f.add("x", float64(x.link("nowhere").Busy))
	}
	_, err := Do(t.Context(), []*Row{r}, Options{Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), `no system "Timely"`) || !strings.Contains(err.Error(), `no link "nowhere"`) {
		t.Errorf("%v", err)
	}
}

// Whatever the values, a chart is drawn with numbers only.
func TestChartsHoldNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		any := rapid.OneOf(rapid.Float64Range(-1e12, 1e12), rapid.Just(math.NaN()), rapid.Just(0.0), rapid.Just(math.Inf(1)))
		n := rapid.IntRange(0, 1500).Draw(t, "points")
		c := chart{Title: "t", LogX: rapid.Bool().Draw(t, "log"), Lines: []chartLine{{
			Name: "l", X: rapid.SliceOfN(any, n, n).Draw(t, "x"), Y: rapid.SliceOfN(any, n, n).Draw(t, "y"), Dots: rapid.Bool().Draw(t, "dots"),
		}}}
		svg := string(c.svg())
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Fatal(svg)
		}
	})
}

// A row and the one in the artefact's set-up beside it count as one.
func TestBeside(t *testing.T) {
	for _, c := range []struct {
		text, artefact status
		want           string
	}{
		{met, met, "ratio rows 1 of 1 met."},
		{met, missed, "ratio rows 1 of 1 met."},
		{missed, met, "ratio rows 1 of 1 met, 1 of them in the artefact's set-up."},
		{missed, missed, "ratio rows 0 of 1 met."},
	} {
		r := &Report{Rows: []*rowResult{
			{ID: "a", Kind: kindRatio, Status: c.text},
			{ID: "a-artefact", Beside: "a", Kind: kindRatio, Status: c.artefact},
		}}
		if got := r.Summary(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s and %s: %q, expected %q", c.text, c.artefact, got, c.want)
		}
	}
	// Alone it is a row of its own.
	r := &Report{Rows: []*rowResult{{ID: "a-artefact", Beside: "a", Kind: kindRatio, Status: met}}}
	if got, want := r.Summary(), "ratio rows 1 of 1 met."; !strings.HasPrefix(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}
