package nicvalidate

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/deviations"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/outfile"
	"github.com/sluice-rdma/sluice/nicmodel"
)

// The page agrees with the model; each large miss has its deviation, and
// deviations are about existing rows and points.
func TestCommittedPage(t *testing.T) {
	if testing.Short() {
		t.Skipf("-short: every row of docs/nic-figures.md is run again")
	}
	tasks, err := Tasks()
	if err != nil {
		t.Fatal(err)
	}
	var figures [][]byte
	for i := range tasks {
		f, err := tasks[i].Run()
		if err != nil {
			t.Fatal(err)
		}
		figures = append(figures, f)
	}
	results, clock, err := Gather(figures)
	if err != nil {
		t.Fatal(err)
	}
	checkClock(t, clock)
	var page strings.Builder
	if err := Markdown(&page, results, clock); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../../docs/nic-figures.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, written, _, err := outfile.CutSection(string(have), Section); err != nil || written != page.String() {
		t.Errorf("docs/nic-figures.md is not what the model says, error %v: make validate-nic", err)
	}
	for name, text := range Files() {
		var b strings.Builder
		if err := text(&b, results); err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile("../../../docs/" + name); err != nil || string(have) != b.String() {
			t.Errorf("docs/%s is not what the model says, error %v: make validate-nic", name, err)
		}
	}
	known := differences()
	for i := range results {
		r := &results[i]
		for k, f := range r.Figures {
			p := &r.Row.Points[k]
			if f.Missing != "" || r.Row.ClassOf(k) == Fit || math.Abs(p.Error(f.Value)) <= PointLimit {
				continue
			}
			if len(deviations.About(known, r.Row.ID, p.At)) == 0 {
				t.Errorf("%s, %s: %v against %v, and deviations.yaml has no entry for it", r.Row.ID, p.At, f.Value, p.Value)
			}
		}
	}
	for n, d := range known {
		for _, id := range d.Rows {
			if !hasPoints(results, id, nil) {
				t.Errorf("D%d is about %s, which is no row", n+1, id)
			}
		}
		for _, at := range d.Points {
			found := false
			for _, id := range d.Rows {
				found = found || hasPoints(results, id, []string{at})
			}
			if !found {
				t.Errorf("D%d is about %q, which is no point of its rows", n+1, at)
			}
		}
	}
}

func hasPoints(results []Result, id string, points []string) bool {
	for i := range results {
		if results[i].Row.ID != id {
			continue
		}
		for _, at := range points {
			found := false
			for _, p := range results[i].Row.Points {
				found = found || p.At == at
			}
			if !found {
				return false
			}
		}
		return true
	}
	return false
}

// Each row has one measurement, which knows its points and no others.
func TestMeasurementsCoverRows(t *testing.T) {
	rows := map[string]bool{}
	for _, r := range Published() {
		rows[r.ID] = true
	}
	for _, m := range Measurements() {
		if !rows[m.Row] {
			t.Errorf("a measurement is of %q: no such row, or it has two", m.Row)
		}
		delete(rows, m.Row)
		if v, err := m.Figure("nothing"); err == nil {
			t.Errorf("%s: a point that is not there came to %v", m.Row, v)
		}
	}
	for id := range rows {
		t.Errorf("row %s has no measurement", id)
	}
}

func TestError(t *testing.T) {
	for _, c := range []struct {
		p      Point
		figure float64
		want   float64
	}{
		{Point{Value: 80}, 100, 0.25}, {Point{Value: 80}, 60, -0.25}, {Point{Value: 80}, 80, 0},
		{Point{Low: 5, High: 10}, 7, 0}, {Point{Low: 5, High: 10}, 4, -0.2}, {Point{Low: 5, High: 10}, 12, 0.2},
	} {
		if got := c.p.Error(c.figure); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v against %+v: %v, want %v", c.figure, c.p, got, c.want)
		}
	}
}

func TestSummarise(t *testing.T) {
	row := Row{Source: "A table 1", Class: Seen, Points: []Point{{Value: 10}, {Value: 10}, {Value: 10}, {Value: 10}, {Value: 10}, {Value: 10, Class: Fit}, {Value: 10, Apart: "B's"}}}
	r := Result{Row: row, Figures: []Figure{{Value: 11}, {Value: 8}, {Missing: "a stage"}, {Value: 14}, {Value: 10}, {Value: 30}, {Value: 50}}}
	other := r
	other.Row.Source, other.Row.Of = "B/raw", "pcie"
	apart := r
	apart.Row.Apart = "no measurement"
	results := []Result{r, other, apart}
	all := func(*Row) bool { return true }
	for _, c := range []struct {
		name   string
		class  Class
		filter func(*Row) bool
		want   Errors
	}{
		{"two rows", Seen, all, Errors{Rows: 2, Points: 8, Median: 0.15, Worst: 0.4, Over: 2}},
		{"by source", Seen, func(r *Row) bool { return r.origin() == "B" }, Errors{Rows: 1, Points: 4, Median: 0.15, Worst: 0.4, Over: 1}},
		{"of NICs", Seen, func(r *Row) bool { return r.kind() == "NICs" }, Errors{Rows: 1, Points: 4, Median: 0.15, Worst: 0.4, Over: 1}},
		{"points with a class of their own", Fit, all, Errors{Rows: 2, Points: 2, Median: 2, Worst: 2, Over: 2}},
		{"no points", Blind, all, Errors{}},
	} {
		got := Summarise(results, c.class, c.filter)
		if math.Abs(got.Median-c.want.Median) > 1e-12 {
			t.Errorf("%s: median %v, want %v", c.name, got.Median, c.want.Median)
		}
		if math.Abs(got.Worst-c.want.Worst) > 1e-12 {
			t.Errorf("%s: worst %v, want %v", c.name, got.Worst, c.want.Worst)
		}
		if got.Median, got.Worst = c.want.Median, c.want.Worst; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const head = "- {id: X, source: S, conf: A, class: fit, what: W, unit: B, points: ["
	for name, text := range map[string]string{
		"no id":         "- {source: S, conf: A, class: fit, what: W, unit: B, points: [{at: a, value: 1}]}",
		"an id twice":   head + "{at: a, value: 1}]}\n" + head + "{at: a, value: 1}]}",
		"no class":      "- {id: X, source: S, conf: A, what: W, unit: B, points: [{at: a, value: 1}]}",
		"of what":       "- {id: X, source: S, conf: A, class: fit, of: usb, what: W, unit: B, points: [{at: a, value: 1}]}",
		"point's class": head + "{at: a, value: 1, class: predict}]}",
		"no conf":       "- {id: X, source: S, class: fit, what: W, unit: B, points: [{at: a, value: 1}]}",
		"no points":     head + "]}",
		"no value":      head + "{at: a}]}",
		"two values":    head + "{at: a, value: 1, low: 1, high: 2}]}",
		"half a range":  head + "{at: a, value: 1, low: 1}]}",
		"no name":       head + "{value: 1}]}",
		"a name twice":  head + "{at: a, value: 1}, {at: a, value: 2}]}",
		"another key":   head + "{at: a, worth: 1}]}",
	} {
		if _, err := parsePublished([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A flood makes the server the limit: it counts what its NIC does, the same each time, no
// more than the link carries, and more with a window that is larger.
func TestFlood(t *testing.T) {
	for _, c := range []struct {
		name string
		f    flood
	}{
		{"outbound WRITE", flood{op: ib.WRRDMAWrite, payload: 1024, queues: 8, window: 16, batch: 4}},
		{"inbound READ", flood{op: ib.WRRDMARead, payload: 1024, inbound: true, queues: 14, window: 16, batch: 4}},
		{"inbound atomics", flood{op: ib.WRAtomicFetchAndAdd, payload: 8, inbound: true, queues: 14, window: 16, batch: 4, targets: 4096}},
	} {
		rate, err := c.f.run("cx5")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if again, err := c.f.run("cx5"); err != nil || again != rate {
			t.Errorf("%s: %v, and then %v (%v)", c.name, rate, again, err)
		}
		if most := float64(2*fdr) / float64(8*c.f.payload) / 1e6; rate <= 0.1 || rate > most {
			t.Errorf("%s: %v M/s of %d bytes; the link carries %v", c.name, rate, c.f.payload, most)
		}
		small := c.f
		small.window, small.batch, small.queues = 1, 1, 1
		if one, err := small.run("cx5"); err != nil || one > rate/4 {
			t.Errorf("%s: %v M/s one at a time, %v with more (%v)", c.name, one, rate, err)
		}
	}
	if _, err := (&flood{op: ib.WRRDMARead, payload: 64, queues: 1, window: 4, batch: 1}).run("none"); !isMissing(err) {
		t.Errorf("a NIC that there is not: %v", err)
	}
}

func isMissing(err error) bool {
	var missing *Missing
	return errors.As(err, &missing)
}

// Ten requests of one doorbell take fewer stores and more fetches than ten doorbells; both
// are bytes on PCIe.
func TestTenWQEs(t *testing.T) {
	blue, err := tenWQEs("cx5", "BlueFlame")
	if err != nil {
		t.Fatal(err)
	}
	list, err := tenWQEs("cx5", "doorbell")
	if err != nil {
		t.Fatal(err)
	}
	if blue < 10*29 || list < 10*29 || list >= blue {
		t.Errorf("%v bytes by BlueFlame and %v by one doorbell", blue, list)
	}
	if n, err := wqeBytes("cx5", "RC"); err != nil || n < 16 || n > line {
		t.Errorf("a WQE without data is %v bytes (%v)", n, err)
	}
}

// A longer message takes longer, by its serialisation at least.
func TestPingPong(t *testing.T) {
	cfg, err := nicmodel.Preset("cx5")
	if err != nil {
		t.Fatal(err)
	}
	before := 0.0
	for _, n := range []int{8, 1024, 4096} {
		l, err := latencyOf(cfg, n)
		if err != nil {
			t.Fatal(err)
		}
		if l < before+float64(n)*8/100e3/2 {
			t.Errorf("%d bytes take %v us after %v for fewer", n, l, before)
		}
		before = l
	}
}

func latencyOf(cfg nicmodel.Config, n int) (float64, error) {
	return pingPong(cfg, true, back, writePong, n, 1024)
}

// The link of throughput tests carries no more than it can.
func TestThroughputIsBelowTheLink(t *testing.T) {
	for _, at := range []string{"64 B", "300 B", "4096 B"} {
		v, err := throughput(at, readOf)
		if err != nil || v <= 0 || v > nfp6000().Rate.Gbps() {
			t.Errorf("%s: %v Gbps (%v)", at, v, err)
		}
	}
}

func TestParsePB(t *testing.T) {
	got, err := parsePB("write-read 64 B, window 4 MiB, cold, remote, near, iommu, by command, offset 3")
	want := pbTest{op: "write-read", size: 64, window: 4 << 20, offset: 3, cold: true, remote: true, near: true, iommu: true, byCommand: true}
	if err != nil || *got != want {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	for _, at := range []string{"", "read", "copy 64 B", "read 64 B, hot", "read 64 B, window 4"} {
		if got, err := parsePB(at); err == nil && got.window != 0 {
			t.Errorf("%q: %+v", at, got)
		}
	}
}

// Machines that all send to each other do as much each time, and more with a larger window.
func TestSwarm(t *testing.T) {
	for _, op := range []ib.WROpcode{ib.WRRDMARead, ib.WRRDMAWrite} {
		s := swarm{op: op, payload: 32, machines: 3, threads: 2, window: 16, each: 2, link: back}
		rate, err := s.run("cx5")
		if err != nil {
			t.Fatalf("%v: %v", op, err)
		}
		if again, err := s.run("cx5"); err != nil || again != rate {
			t.Errorf("%v: %v, and then %v (%v)", op, rate, again, err)
		}
		s.window = 1
		if one, err := s.run("cx5"); err != nil || one <= 0 || one > rate/4 {
			t.Errorf("%v: %v M/s with one at a time, %v with 16 (%v)", op, one, rate, err)
		}
	}
	if _, err := parseSwarm("11 machines"); err == nil {
		t.Error("half a point was read")
	}
}
