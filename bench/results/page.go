package results

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/report"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/internal/version"
)

// WriteHTML writes a document as one self-contained page.
func WriteHTML(w io.Writer, d *Document) error {
	page := &report.Report{
		Title:   "Sluice: " + strings.Join(d.scenarios(), ", "),
		Command: commandLine(d.Arguments),
		Version: d.Environment.String(),
		Missing: d.missing(),
	}
	for _, r := range d.Results {
		page.Runs = append(page.Runs, reportRun([]source{{r: r}}))
	}
	return report.Write(w, page)
}

// Input is a document of an earlier run.
type Input struct {
	Name string // what a comparison calls it: see InputNames
	*Document
}

// WriteComparison writes several documents as one page. Results of scenarios of one
// name share one section, from all documents. Where names of their systems collide,
// each is followed by the name of its input. arguments are the command line of this
// call.
func WriteComparison(w io.Writer, arguments []string, inputs ...Input) error {
	return report.Write(w, comparison(arguments, inputs))
}

// comparison returns the page of several documents.
func comparison(arguments []string, inputs []Input) *report.Report {
	page := &report.Report{Command: commandLine(arguments), Version: version.Get().String()}
	var names []string
	groups := map[string][]source{}
	for _, in := range inputs {
		page.Inputs = append(page.Inputs, report.Input{
			Name: in.Name, Command: commandLine(in.Arguments), Version: in.Environment.String(), Made: in.made(),
		})
		for _, r := range in.Results {
			if groups[r.Scenario] == nil {
				names = append(names, r.Scenario)
			}
			s := source{name: in.Name, r: r}
			again := 1
			for _, other := range groups[r.Scenario] {
				if other.input == in.Name {
					again++
				}
			}
			if s.input = in.Name; again > 1 {
				s.name = fmt.Sprintf("%s #%d", in.Name, again)
			}
			groups[r.Scenario] = append(groups[r.Scenario], s)
		}
	}
	page.Title = "Sluice: " + strings.Join(names, ", ")
	for _, name := range names {
		page.Runs = append(page.Runs, reportRun(groups[name]))
	}
	return page
}

// InputNames returns the shortest names that distinguish files: their base without
// .json; if that is not enough, their whole path; and a number for a path that
// occurs twice.
func InputNames(paths []string) []string {
	names := make([]string, len(paths))
	short := func(path string) string { return strings.TrimSuffix(filepath.Base(path), ".json") }
	for i, path := range paths {
		names[i] = short(path)
		for j, other := range paths {
			if j != i && short(other) == names[i] {
				names[i] = strings.TrimSuffix(filepath.Clean(path), ".json")
				break
			}
		}
	}
	for i := range names {
		name := names[i]
		for n := 2; slices.Contains(names[:i], names[i]); n++ {
			names[i] = fmt.Sprintf("%s #%d", name, n)
		}
	}
	return names
}

var plainArgument = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

// commandLine is the program's command as a shell reads it back.
func commandLine(arguments []string) string {
	if len(arguments) == 0 {
		return ""
	}
	words := []string{"sluice"}
	for _, a := range arguments {
		if !plainArgument.MatchString(a) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// source is a result and who gave it.
type source struct {
	input string
	name  string // of the input, and which of its results of one scenario it is
	r     *Result
}

// shownLabels is the number of labels that a page shows of a system.
const shownLabels = 24

// reportRun puts results of one scenario into one section.
func reportRun(sources []source) report.Run {
	run := report.Run{Scenario: sources[0].r.Scenario, Description: sources[0].r.Description}
	all := &Result{}
	for _, s := range sources {
		all.Systems = append(all.Systems, s.r.Systems...)
	}
	shown := columnsOf(all)
	if all.comparesClocks() {
		shown = append(shown, clockColumns...)
	}
	for _, c := range shown {
		run.Columns = append(run.Columns, report.Column{Key: c.key, Label: c.title, Unit: c.unit, Digits: c.digits})
	}
	valuesOf := func(figures any) []float64 {
		values := []float64{}
		for _, c := range shown {
			values = append(values, float64(c.of(figures)))
		}
		return values
	}
	run.Facts = facts(sources)
	run.Tables, run.Timelines = append(failureTables(sources), nicTables(sources)...), nicTimelines(sources)
	for _, from := range sources {
		for _, s := range from.r.Systems {
			for i := range s.Programs {
				run.Outputs = append(run.Outputs, report.Output{Name: s.Name + ": " + s.Programs[i].title(), Text: s.Programs[i].Output})
			}
		}
	}
	run.Texts = texts(sources)
	collide := collide(sources)
	units := map[string]string{}
	for _, from := range sources {
		for _, s := range from.r.Systems {
			sys := s.reportSystem(from.r.Topology, units, valuesOf)
			sys.Input = from.name
			if collide {
				sys.Name = fmt.Sprintf("%s (%s)", s.Name, from.name)
			}
			run.Systems = append(run.Systems, sys)
		}
	}
	if collide {
		besideEachOther(run.Systems)
	}
	return run
}

// reportSystem is a system of a page; valuesOf gives the values of its columns, and units
// are those of the keys that the run has so far.
func (s *System) reportSystem(topology *Topology, units map[string]string, valuesOf func(figures any) []float64) report.System {
	sys := report.System{Name: s.Name, Of: s.Name, Values: valuesOf(s)}
	if len(s.Labels) > 1 {
		for i := range s.Labels[:min(shownLabels, len(s.Labels))] {
			sys.Parts = append(sys.Parts, report.Part{Name: s.Labels[i].Label, Values: valuesOf(&s.Labels[i])})
		}
	}
	for i := range s.Priorities {
		sys.Parts = append(sys.Parts, report.Part{Name: s.Priorities[i].name(), Values: valuesOf(&s.Priorities[i])})
	}
	sys.Plots = s.reportPlots(units)
	sys.CDFs = s.reportCDFs(units)
	sys.Slowdowns = s.reportSlowdowns()
	sys.Network = reportNetwork(topology, s.LinkUse)
	return sys
}

// besideEachOther orders systems so that those of one name are together, in the order in
// which the names first come.
func besideEachOther(systems []report.System) {
	rank := map[string]int{}
	for i := range systems {
		if _, ok := rank[systems[i].Of]; !ok {
			rank[systems[i].Of] = len(rank)
		}
	}
	slices.SortStableFunc(systems, func(a, b report.System) int { return rank[a.Of] - rank[b.Of] })
}

// collide reports whether two systems have one name.
func collide(sources []source) bool {
	seen := map[string]bool{}
	for _, from := range sources {
		for _, s := range from.r.Systems {
			if seen[s.Name] {
				return true
			}
			seen[s.Name] = true
		}
	}
	return false
}

// facts are those of all sources; where they differ, it says whose each is.
func facts(sources []source) []report.Fact {
	if len(sources) == 1 {
		return sources[0].r.facts()
	}
	var out []report.Fact           // with empty values
	values := map[string][]string{} // by name, one a source
	for i, s := range sources {
		for _, f := range s.r.facts() {
			if values[f.Name] == nil {
				out = append(out, report.Fact{Name: f.Name})
				values[f.Name] = make([]string, len(sources))
			}
			v := &values[f.Name][i]
			if *v != "" {
				*v += "; "
			}
			*v += f.Value
		}
	}
	for i := range out {
		out[i].Value = whose(values[out[i].Name], sources)
	}
	return out
}

// whose says which source has which value, and no source where all have the same.
func whose(values []string, sources []source) string {
	if len(slices.Compact(slices.Clone(values))) == 1 {
		return values[0]
	}
	var parts []string
	for i, v := range values {
		if v != "" {
			parts = append(parts, fmt.Sprintf("%s (%s)", v, sources[i].name))
		}
	}
	return strings.Join(parts, ", ")
}

// facts are a page's statements on a result besides its figures. A name may occur
// several times.
func (r *Result) facts() []report.Fact {
	var all []report.Fact
	add := func(name, format string, args ...any) {
		all = append(all, report.Fact{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	if r.Source != "" {
		add("source", "%s", r.Source)
	}
	add("seed", "%d", r.Seed)
	if r.SimS.Measured() {
		add("simulated", "%.4g ms", float64(r.SimS)*1e3)
	}
	add("events", "%d", r.Events)
	add("packet-hops", "%d", r.PacketHops)
	add("elapsed", "%.1f s", r.WallS)
	for _, s := range r.Systems {
		if s.Undivided != "" {
			add("undivided", "%s: %s", s.Name, s.Undivided)
		}
		if n := len(s.Labels); n > shownLabels {
			add("labels", "%d of %d shown for %s; the JSON has all", shownLabels, n, s.Name)
		}
	}
	for _, s := range r.Systems {
		add("engine in", "%s: %s", s.Name, s.place())
	}
	for _, w := range r.Warnings {
		add("warning", "%s", w)
	}
	for _, n := range r.Notes {
		add("note", "%s", n)
	}
	for _, line := range r.rulingLines() {
		add("what ruled", "%s", line)
	}
	for _, s := range r.Systems {
		if n := s.thinned(); n > 0 {
			add("over time", "of %s, each value is of up to %d steps of the measurement", s.Name, n)
		}
	}
	for _, m := range r.Misses {
		add("missed", "%v", m)
	}
	return all
}

// thinned is the most steps that a value of a series is of, if some is of several.
func (s *System) thinned() int {
	most := 0
	for i := range s.Series {
		most = max(most, s.Series[i].Thinned)
	}
	return most
}

// texts are the forms in which a scenario ran, each once.
func texts(sources []source) []report.Text {
	var all []report.Text
	for _, s := range sources {
		if s.r.YAML == "" {
			continue
		}
		if i := slices.IndexFunc(all, func(t report.Text) bool { return t.YAML == s.r.YAML }); i >= 0 {
			all[i].Name += ", " + s.name
			continue
		}
		all = append(all, report.Text{Name: s.name, YAML: s.r.YAML})
	}
	return all
}

// kinds are the known kinds of series and distributions: in their order, with their
// names, and which of them a page shows at once. It also shows unknown kinds.
var kinds = []struct {
	kind, name string
	more       bool
}{
	{SeriesRate, "Rate", false},
	{SeriesRTT, "RTT", false},
	{SeriesQueue, "Queue", false},
	{SeriesWire, "Rate on the wire", true},
	{SeriesBusy, "Link busy", true},
	{SeriesFlows, "Flows under way", true},
	{SeriesBuffer, "Buffer taken", true},
	{"pause", "Paused", true},
	{"jain", "Fairness among endless flows (Jain's index)", true},
	{"maxmin", "Distance from max-min fair rates", true},
	{"fct", "FCT", true},
	{DistributionBySize, "FCT by size", true},
	{"slowdown", "Slowdown", true},
}

// kindOf returns the rank of a kind, its name, and whether it is shown folded.
func kindOf(kind string) (rank int, name string, more bool) {
	for i, k := range kinds {
		if k.kind == kind {
			return i, k.name, k.more
		}
	}
	first, rest := []rune(strings.ReplaceAll(kind, "_", " ")), []rune(nil)
	if len(first) > 1 {
		first, rest = first[:1], first[1:]
	}
	return len(kinds), strings.ToUpper(string(first)) + string(rest), true
}

// scaleOf returns the unit of a page for one of the JSON, and its scale.
func scaleOf(kind, unit string) (string, float64) {
	switch unit {
	case "Gbps":
		return "bps", 1e9
	case "us":
		return "s", 1e-6
	case "":
		if kind == SeriesBusy {
			return "share", 1
		}
	}
	return unit, 1
}

// keyOf keeps apart what has one kind and several units. units are those of the
// keys that a run has so far.
func keyOf(units map[string]string, kind, unit string) string {
	key := kind
	if first, ok := units[key]; ok && first != unit {
		key = fmt.Sprintf("%s [%s]", kind, unit)
	}
	units[key] = unit
	return key
}

// reportPlots returns the series by kind.
func (s *System) reportPlots(units map[string]string) []report.Plot {
	var plots []report.Plot
	ranks := map[string]int{}
	for i := range s.Series {
		one := &s.Series[i]
		if !slices.ContainsFunc(one.Values, stats.Float.Measured) {
			continue
		}
		unit, scale := scaleOf(one.Kind, one.Unit)
		key := keyOf(units, one.Kind, unit)
		at := slices.IndexFunc(plots, func(p report.Plot) bool { return p.Key == key })
		if at < 0 {
			rank, name, more := kindOf(one.Kind)
			at, ranks[key] = len(plots), rank
			plots = append(plots, report.Plot{Key: key, Name: name, Unit: unit, More: more})
		}
		x := report.Series{Label: one.Name, Summary: one.Name == SeriesAll}
		for j, v := range one.Values {
			t := float64(one.StartUs)
			if j > 0 {
				t += float64(float64(j) * float64(one.StepUs))
			}
			x.T = append(x.T, float64(t*1e-6))
			x.V = append(x.V, float64(v)*scale)
			if one.Max != nil {
				x.Max = append(x.Max, float64(one.Max[j])*scale)
			}
		}
		plots[at].Series = append(plots[at].Series, x)
	}
	slices.SortStableFunc(plots, func(a, b report.Plot) int { return ranks[a.Key] - ranks[b.Key] })
	return plots
}

// reportCDFs returns the distributions by kind, without the points that have no
// value.
func (s *System) reportCDFs(units map[string]string) []report.CDF {
	var cdfs []report.CDF
	for i := range s.Distributions {
		d := &s.Distributions[i]
		unit, scale := scaleOf(d.Kind, d.Unit)
		line := report.CDFLine{Label: d.Name, Summary: d.Name == SeriesAll}
		for j, v := range d.Values {
			if v.Measured() && d.Share[j].Measured() {
				line.V = append(line.V, float64(v)*scale)
				line.Share = append(line.Share, float64(d.Share[j]))
			}
		}
		if len(line.V) == 0 {
			continue
		}
		key := keyOf(units, "distribution "+d.Kind, unit)
		at := slices.IndexFunc(cdfs, func(c report.CDF) bool { return c.Key == key })
		if at < 0 {
			_, name, _ := kindOf(d.Kind)
			at = len(cdfs)
			cdfs = append(cdfs, report.CDF{Key: key, Name: name, Unit: unit})
		}
		cdfs[at].Lines = append(cdfs[at].Lines, line)
	}
	return cdfs
}

// reportSlowdowns returns the slowdowns of all flows and of those of each label.
func (s *System) reportSlowdowns() []report.Slowdown {
	var all []report.Slowdown
	add := func(label string, f *Flows) {
		one := report.Slowdown{Label: label}
		for _, b := range f.Slowdown {
			if b.Flows > 0 {
				one.Bins = append(one.Bins, report.SlowdownBin{
					From: b.FromBytes, To: b.ToBytes, Flows: b.Flows, P50: float64(b.P50), P95: float64(b.P95), P99: float64(b.P99),
				})
			}
		}
		if len(one.Bins) > 0 {
			all = append(all, one)
		}
	}
	add(SeriesAll, &s.Flows)
	if len(s.Labels) > 1 {
		for i := range s.Labels[:min(shownLabels, len(s.Labels))] {
			add(s.Labels[i].Label, &s.Labels[i].Flows)
		}
	}
	return all
}

// reportNetwork joins a topology with what happened at its links. It returns nil
// if either is missing.
func reportNetwork(t *Topology, use *LinkUse) *report.Network {
	if t == nil || use == nil || len(t.Nodes) == 0 {
		return nil
	}
	n := &report.Network{}
	index := map[string]int{}
	for i, v := range t.Nodes {
		index[v.Name] = i
		n.Nodes = append(n.Nodes, report.Node{Name: v.Name, Switch: v.Kind != NodeHost})
	}
	for i, l := range t.Links {
		pause := math.NaN()
		if use.PauseUs[i].Measured() {
			pause = float64(use.PauseUs[i]) * 1e-6
		}
		n.Links = append(n.Links, report.Link{
			Name: l.Link, From: index[l.From], To: index[l.To], Rate: float64(l.RateGbps) * 1e9,
			Busy: float64(use.Busy[i]), Queue: float64(use.QueueMaxBytes[i]), Drops: use.Drops[i], Paused: pause,
		})
	}
	return n
}
