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
	"github.com/sluice-rdma/sluice/scenario"
)

var updateArtefact = flag.Bool("update-artefact", false, "write the tables of docs/artefact.md")

const artefactPage = "../../../docs/artefact.md"

// artefactFigures is what the artefact measured with a system, or Sluice.
type artefactFigures struct {
	PeakKB      float64   `yaml:"peak_kb"`
	DrainedUs   *float64  `yaml:"drained_us"`
	SlowdownP99 []float64 `yaml:"slowdown_p99"`
}

// artefactTrace is flows that both ran, and the link whose queue is looked at.
type artefactTrace struct{ name, link string }

var (
	artefactIncasts = []artefactTrace{{"incast", "tor0->h16"}, {"incast-far", "tor0->h0"}}
	artefactWeb     = artefactTrace{"web", ""}
)

// The tables of docs/artefact.md are what comes out: its incasts always, web search
// traffic unless -short is given. Where the artefact has the law of the engine, four of
// five cells or more lie within 15 percent of it.
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
		var b strings.Builder
		for i, x := range r.Systems {
			theirs, ok := of[trace.name][x.Name]
			if !ok {
				t.Fatalf("artefact.yaml has no %s of %s", x.Name, trace.name)
			}
			var ours artefactFigures
			if trace == artefactWeb {
				for _, v := range bySize[x.Name] {
					slices.Sort(v)
					ours.SlowdownP99 = append(ours.SlowdownP99, v[int(math.Ceil(0.99*float64(len(v))))-1])
				}
			} else {
				// The incast begins 100 us after the warm-up.
				ours = artefactQueue(x, trace.link, s.Warmup.Microseconds()+100)
			}
			n, all := artefactRow(&b, x.Name, theirs, ours)
			if i < 3 { // PowerTCP, theta-PowerTCP and HPCC
				near, cells = near+n, cells+all
			}
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
			t.Errorf("%s has\n%s, expected\n%s: go test ./cli/internal/reproduce -run TestArtefact -update-artefact", artefactPage, have, b.String())
		}
	}
	if *updateArtefact {
		if err := os.WriteFile(artefactPage, page, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d cells of PowerTCP, theta-PowerTCP and HPCC lie within 15 percent", near, cells)
	if 10*near < 8*cells {
		t.Errorf("%d of %d cells of PowerTCP, theta-PowerTCP and HPCC lie within 15 percent, expected 80 percent of them", near, cells)
	}
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
