package reproduce

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/sluice-rdma/sluice/bench/internal/deviations"
	"github.com/sluice-rdma/sluice/scenario"
)

// What a row must have, so that those who add one need not remember it.
func TestRowsAreWhole(t *testing.T) {
	used := map[string]bool{}
	for _, r := range Rows() {
		if len(r.runs) == 0 || r.read == nil || len(r.checks) == 0 || r.seconds <= 0 {
			t.Errorf("%s lacks runs, Read, checks or Seconds", r.ID)
		}
		if r.quick != nil && (r.quick.Seconds <= 0 || r.quick.Seconds > r.seconds) {
			t.Errorf("%s takes %v s in small and %v s in full", r.ID, r.quick.Seconds, r.seconds)
		}
		if r.paper.Kind == kindRatio && r.Seeds < 5 {
			t.Errorf("%s is a ratio with %d seeds", r.ID, r.Seeds)
		}
		names := map[string]bool{}
		for _, run := range r.runs {
			if names[run.name] {
				t.Errorf("%s has two runs called %q", r.ID, run.name)
			}
			names[run.name] = true
			used[run.scenario] = true
			for _, quick := range []bool{false, true} {
				if quick && r.quick == nil {
					continue
				}
				if _, err := scenario.Load(run.scenario, r.sets(&run, quick)...); err != nil {
					t.Errorf("%s: %v", r.ID, err)
				}
			}
		}
		for _, c := range r.checks {
			switch {
			case c.Figure != "" && math.IsNaN(c.Paper):
				t.Errorf("%s: papers.yaml has no figure %s", r.ID, c.Figure)
			case c.Figure != "" && c.Within <= 0:
				t.Errorf("%s: papers.yaml does not say within what %s is to lie", r.ID, c.Figure)
			case c.Of != "" && !math.IsNaN(c.Paper) && c.Above != (c.Paper > 1):
				t.Errorf("%s: %q is to lie on the other side of 1 than the paper's %v", r.ID, c.Text, c.Paper)
			}
		}
	}
	for _, name := range scenario.Reproductions() {
		if !used[name] {
			t.Errorf("no row runs the scenario %s", name)
		}
	}
}

// No reproduction sets a parameter of an engine, except the ones that the row's
// experiment varies: everything else is scenario/systems.yaml's.
func TestParametersAreFrozen(t *testing.T) {
	for _, r := range Rows() {
		for _, run := range r.runs {
			for _, set := range slices.Concat(run.sets, quickSets(r)) {
				if strings.HasPrefix(set, "systems") {
					t.Errorf("%s sets %s: give the scenario a parameter, and list it in Varies", r.ID, set)
				}
			}
			for i, sys := range systemsOf(t, run.scenario) {
				if sys["use"] == nil || sys["engine"] != nil {
					t.Errorf("%s: systems[%d] of %s does not come from systems.yaml", r.ID, i, run.scenario)
				}
				config, _ := sys["config"].(map[string]any)
				for key := range config {
					if !slices.Contains(r.varies, key) {
						t.Errorf("%s: systems[%d] of %s sets %s, which the row does not list in Varies", r.ID, i, run.scenario, key)
					}
				}
			}
		}
	}
}

func quickSets(r *Row) []string {
	if r.quick == nil {
		return nil
	}
	return r.quick.Sets
}

// systemsOf reads the systems of a built-in scenario, or of the one that it extends, as
// they are written.
func systemsOf(t *testing.T, name string) []map[string]any {
	t.Helper()
	src, err := scenario.Source(name)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Extends string           `yaml:"extends"`
		Systems []map[string]any `yaml:"systems"`
	}
	if err := yaml.Unmarshal(src, &s); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if s.Systems == nil && s.Extends != "" {
		return systemsOf(t, s.Extends)
	}
	return s.Systems
}

// The facts of papers.yaml that rows rest on.
func TestPapers(t *testing.T) {
	seen := map[string]bool{}
	n := 0
	for _, p := range allPapers() {
		if p.Title == "" || len(p.Setup) == 0 {
			t.Errorf("%s lacks its title or set-up", p.Name)
		}
		for _, r := range p.Rows {
			n++
			if seen[r.ID] || !strings.HasPrefix(r.ID, p.Name+"-") || r.Source == "" {
				t.Errorf("%s: a row %q of %q", p.Name, r.ID, r.Source)
			}
			seen[r.ID] = true
			if !slices.Contains([]kind{kindValue, kindRatio, kindOrder, kindReport}, r.Kind) {
				t.Errorf("%s is of kind %q", r.ID, r.Kind)
			}
			if r.Beside != "" && !seen[r.Beside] {
				t.Errorf("%s stands beside %q, which is no row before it", r.ID, r.Beside)
			}
			if r.Kind == kindValue && (r.Within <= 0 || len(r.Values) == 0) {
				t.Errorf("%s is a value without figures, or without how far they may be off", r.ID)
			}
		}
	}
	if n != 48+6 {
		t.Errorf("there are %d rows, want 48 and 6 of artefacts", n)
	}
}

func TestSelect(t *testing.T) {
	rows := Rows()
	for pattern, want := range map[string]int{"timely-jain": 1, "timely-table1-*": 2} {
		got, err := Select(rows, []string{pattern})
		if err != nil || len(got) < want {
			t.Errorf("%s chooses %d rows: %v", pattern, len(got), err)
		}
	}
	if got, err := Select(rows, []string{"timely", "timely-jain"}); err != nil || len(got) < 10 || len(got) >= len(rows)+1 {
		t.Errorf("timely chooses %d rows: %v", len(got), err)
	}
	for pattern, want := range map[string]string{"nonsense": "there is no row", "[": "is no pattern"} {
		if _, err := Select(rows, []string{pattern}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	// A row of the papers' list that nothing was written for.
	without := slices.DeleteFunc(Rows(), func(r *Row) bool { return r.ID == "pulser-testbed" })
	if _, err := Select(without, []string{"pulser-testbed"}); err == nil || !strings.Contains(err.Error(), "pulser-testbed (Pulser, ") || !strings.Contains(err.Error(), "can't be run yet") {
		t.Errorf("a row that is not there: %v", err)
	}
}

// Every deviation is about rows that there are.
func TestDeviations(t *testing.T) {
	listed := map[string]bool{}
	for _, p := range allPapers() {
		for _, r := range p.Rows {
			listed[r.ID] = true
		}
	}
	for i, d := range differences() {
		if d.Differs == "" || len(d.Points) > 0 {
			t.Errorf("D%d does not say what differs, or has points, which rows here do not", i+1)
		}
		for _, id := range d.Rows {
			if !listed[id] {
				t.Errorf("D%d is about %s, which is no row", i+1, id)
			}
		}
	}
}

// The last whole run: one program made all of its runs, this one gives the same, what was
// missed has its deviation, and the page is its own.
func TestCommittedReport(t *testing.T) {
	in, err := os.Open("../../docs/reproductions.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	r, err := ReadReport(in)
	if err != nil {
		t.Fatal(err)
	}
	if r.Quick {
		t.Error("the committed report is of rows in small")
	}
	verifyRows(t, r)
	known := differences()
	for _, id := range r.Missed() {
		if len(deviations.About(known, id, "")) == 0 {
			t.Errorf("%s was missed and deviations.yaml has no entry for it", id)
		}
	}
	var page strings.Builder
	if err := r.Markdown(&page); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../docs/reproductions.md")
	if err != nil {
		t.Fatal(err)
	}
	if page.String() != string(have) {
		t.Error("docs/reproductions.md is not what docs/reproductions.json makes: go generate ./bench/reproduce")
	}
}

// verifyRows makes a run of each row again, as far as that takes seconds, and holds it
// against the report.
func verifyRows(t *testing.T, r *Report) {
	t.Helper()
	p, err := newPlan(Rows(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.plannedAs(p); err != nil {
		t.Fatalf("%v: run sluice reproduce --all --json docs/reproductions.json, and go generate ./bench/reproduce", err)
	}
	most := 3.0 // seconds
	if testing.Short() {
		most = 0.7
	}
	for _, row := range p.rows {
		first := p.of[row][0].job
		if first.seconds > most {
			continue
		}
		same, err := r.verify(first, func(float64) {})
		if err != nil {
			t.Fatal(err)
		}
		if !same {
			t.Errorf("%s: %v gives something else than in the committed report: run the rows that this change bears on again, all of them for it to be of one version", row.ID, first)
		}
	}
}

// The order rows in small, as far as they take seconds: what holds in the committed
// report holds here, unless the row says that it does not come out in small.
func TestOrdersInSmall(t *testing.T) {
	in, err := os.Open("../../docs/reproductions.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	whole, err := ReadReport(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range Rows() {
		committed := whole.row(row.ID)
		if row.paper.Kind != kindOrder || row.quick == nil || row.quick.Seconds > 3 || committed == nil {
			continue
		}
		t.Run(row.ID, func(t *testing.T) {
			t.Parallel()
			report, err := Do(t.Context(), []*Row{row}, Options{Quick: true, Dir: t.TempDir(), Jobs: 1})
			if err != nil {
				t.Fatal(err)
			}
			met := map[string]bool{}
			for _, c := range committed.Checks {
				met[c.Text] = c.Met
			}
			for _, c := range report.Rows[0].Checks {
				if !c.Met && met[c.Text] && row.quick.Unlike == "" {
					t.Errorf("%s: %s: %v", c.Text, c.Why, report.Rows[0].Figures)
				}
			}
		})
	}
}
