package reproduce

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/quantile"
	"github.com/sluice-rdma/sluice/scenario"
)

var updateArtefact = flag.Bool("update-artefact", false, "write the tables of docs/artefact.md")

const artefactPage = "../../docs/artefact.md"

// artefactFigures is what the artefact measured with a system, or Sluice.
type artefactFigures struct {
	PeakKB      float64   `yaml:"peak_kb"`
	DrainedUs   *float64  `yaml:"drained_us"`
	SlowdownP99 []float64 `yaml:"slowdown_p99"`
}

// artefactTrace is flows that both ran, the link whose queue is looked at, and the seeds of
// Sluice's runs, of which the median counts.
type artefactTrace struct {
	name, link string
	seeds      []uint64
}

var (
	artefactIncasts = []artefactTrace{
		{"incast", "tor0->h16", []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		// The first nine whose paths divide the flows as the artefact's hash does: six of
		// eleven, the long one among them, by one of the rack's two uplinks.
		{"incast-far", "tor0->h0", []uint64{2, 10, 11, 12, 16, 18, 21, 23, 26}},
	}
	artefactWeb = artefactTrace{"web", "", []uint64{1}}
)

// The tables of docs/artefact.md are what comes out: its incasts always, web search
// traffic unless -short is given. Of all cells four of five or more lie within 15 percent of
// the artefact's.
func TestArtefact(t *testing.T) {
	var of map[string]map[string]artefactFigures
	text, err := os.ReadFile("testdata/artefact/artefact.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &of); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(artefactPage)
	if err != nil {
		t.Fatal(err)
	}
	traces := artefactIncasts
	if !testing.Short() {
		traces = append(traces[:len(traces):len(traces)], artefactWeb)
	}
	near, cells := 0, 0
	for _, trace := range traces {
		s, err := scenario.Load(filepath.Join("testdata/artefact", trace.name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		ours := map[string][]artefactFigures{}
		for _, seed := range trace.seeds {
			s.Seed = seed
			names = artefactRun(t, s, trace, ours)
		}
		var b strings.Builder
		for _, name := range names {
			theirs, ok := of[trace.name][name]
			if !ok {
				t.Fatalf("artefact.yaml has no %s of %s", name, trace.name)
			}
			n, all := artefactRow(&b, name, theirs, artefactMedian(ours[name]))
			near, cells = near+n, cells+all
		}
		begin, end := fmt.Sprintf("<!-- %s -->\n", trace.name), "<!-- end -->"
		from := strings.Index(string(page), begin)
		if from < 0 {
			t.Fatalf("%s has no %q", artefactPage, begin)
		}
		from += len(begin)
		to := from + strings.Index(string(page[from:]), end)
		if *updateArtefact {
			page = []byte(string(page[:from]) + b.String() + string(page[to:]))
		} else if have := string(page[from:to]); have != b.String() {
			t.Errorf("%s has\n%s, expected\n%s: go test ./bench/reproduce -run TestArtefact -update-artefact", artefactPage, have, b.String())
		}
	}
	if *updateArtefact {
		if err := os.WriteFile(artefactPage, page, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d cells lie within 15 percent", near, cells)
	if !testing.Short() && 10*near < 8*cells {
		t.Errorf("%d of %d cells lie within 15 percent, expected 80 percent of them", near, cells)
	}
}

// artefactRun runs a trace once, adds the figures of each system to ours, and returns the
// systems in order.
func artefactRun(t *testing.T, s *scenario.Scenario, trace artefactTrace, ours map[string][]artefactFigures) (names []string) {
	t.Helper()
	bySize := map[string]*[4][]float64{}
	r, err := bench.Run(s, bench.Options{Flows: func(f *results.FlowRecord) error {
		if f.Slowdown == nil {
			return nil // still under way at the end
		}
		if bySize[f.System] == nil {
			bySize[f.System] = new([4][]float64)
		}
		i, _ := slices.BinarySearch([]int64{10_000, 100_000, 1_000_000}, int64(f.SizeBytes))
		bySize[f.System][i] = append(bySize[f.System][i], *f.Slowdown)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Systems {
		var f artefactFigures
		if trace.link == "" {
			for _, v := range bySize[x.Name] {
				// The least value with 99 percent of the flows up to it, by which the page's figures
				// are; quantile.Of rounds the rank to the nearest.
				slices.Sort(v)
				f.SlowdownP99 = append(f.SlowdownP99, v[int(math.Ceil(0.99*float64(len(v))))-1])
			}
		} else {
			// The incast begins 100 us after the warm-up.
			f = artefactQueue(x, trace.link, s.Warmup.Microseconds()+100)
		}
		ours[x.Name] = append(ours[x.Name], f)
		names = append(names, x.Name)
	}
	return names
}

// artefactMedian returns the medians of runs whose number is odd. A queue that stays is
// longer than any that drains.
func artefactMedian(runs []artefactFigures) (m artefactFigures) {
	median := func(of func(*artefactFigures) float64) float64 {
		var v []float64
		for i := range runs {
			v = append(v, of(&runs[i]))
		}
		slices.Sort(v)
		return quantile.Of(v, 0.5)
	}
	for i := range runs[0].SlowdownP99 {
		m.SlowdownP99 = append(m.SlowdownP99, median(func(f *artefactFigures) float64 { return f.SlowdownP99[i] }))
	}
	m.PeakKB = median(func(f *artefactFigures) float64 { return f.PeakKB })
	if us := median(func(f *artefactFigures) float64 {
		if f.DrainedUs == nil {
			return math.Inf(1)
		}
		return *f.DrainedUs
	}); !math.IsInf(us, 1) {
		m.DrainedUs = &us
	}
	return m
}

// artefactQueue is what a link's queue did from the start of the incast on, in us.
func artefactQueue(x *results.System, link string, start float64) artefactFigures {
	sys := &system{x, &seed{}}
	queue := sys.most(results.SeriesQueue, link).between(start, math.Inf(1))
	f, peak := artefactFigures{}, queue.max()
	last := queue.X[0]
	for i, y := range queue.Y {
		if y > peak/10 {
			last = queue.X[i]
		}
	}
	f.PeakKB = peak / 1e3
	if last < queue.X[len(queue.X)-1]-100 {
		drained := last - queue.X[0]
		f.DrainedUs = &drained
	}
	return f
}

// artefactRow writes a row of a table, and returns how many of its cells lie within 15
// percent, of how many.
func artefactRow(b *strings.Builder, name string, theirs, ours artefactFigures) (near, cells int) {
	fmt.Fprintf(b, "| %s |", name)
	cell := func(theirs, ours float64) {
		cells++
		off := ours/theirs - 1
		text := fmt.Sprintf("%+.0f %%", 100*off)
		if math.Abs(off) <= 0.15 {
			near++
		} else {
			text = "**" + text + "**"
		}
		fmt.Fprintf(b, " %s | %s | %s |", short(theirs), short(ours), text)
	}
	if theirs.SlowdownP99 != nil {
		for i := range theirs.SlowdownP99 {
			cell(theirs.SlowdownP99[i], ours.SlowdownP99[i])
		}
	} else {
		cell(theirs.PeakKB, ours.PeakKB)
		switch {
		case theirs.DrainedUs != nil && ours.DrainedUs != nil:
			cell(*theirs.DrainedUs, *ours.DrainedUs)
		case theirs.DrainedUs == nil && ours.DrainedUs == nil:
			cells, near = cells+1, near+1
			b.WriteString(" stays | stays | |")
		default:
			cells++
			fmt.Fprintf(b, " %s | %s | **differs** |", drained(theirs.DrainedUs), drained(ours.DrainedUs))
		}
	}
	b.WriteString("\n")
	return near, cells
}

func drained(us *float64) string {
	if us == nil {
		return "stays"
	}
	return short(*us)
}
