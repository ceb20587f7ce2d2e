package bench

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"pgregory.net/rapid"
)

// The rows that come as a run goes are the series of its result, file by file.
func TestSeriesLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	log, err := results.CreateSeriesLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := parse(t, `
name: two parts
duration: 300us
topology: {kind: star, hosts: 4, host_rate: 25Gbps}
nic: {mode: offload}
systems: [{engine: timely}, {name: a/b, engine: powertcp}]
measure: {sample: 10us, window: 20us, links: [tor0->h3, h0->tor0]}
workloads:
  - {kind: incast, receiver: h3, size: unlimited, message: 16KiB, start: 55us}
  - {kind: flows, name: short, flows: [{src: h0, dst: h1, size: 50KB}]}
`)
	r, err := Run(s, Options{Series: log.Write})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "two_parts.timely.busy.csv")); err != nil {
		t.Errorf("a system that is done has no file: %v", err)
	}
	if under, err := filepath.Glob(filepath.Join(dir, ".two_parts.a_b.busy.csv*")); err != nil || len(under) != 1 {
		t.Errorf("the system under way has the files %v: %v", under, err)
	} else if text, err := os.ReadFile(under[0]); err != nil || strings.Count(string(text), "\n") != 16 {
		t.Errorf("before the end there is %q: %v", text, err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	files := 0
	for i, name := range []string{"timely", "a_b"} {
		columns := map[string][]*results.Series{}
		for j := range r.Systems[i].Series {
			x := &r.Systems[i].Series[j]
			columns[x.Kind] = append(columns[x.Kind], x)
		}
		if len(columns) != 8 {
			t.Errorf("%s has %d kinds of series", name, len(columns))
		}
		for kind, series := range columns {
			files++
			f, err := os.Open(filepath.Join(dir, "two_parts."+name+"."+kind+".csv"))
			if err != nil {
				t.Fatal(err)
			}
			rows, err := csv.NewReader(f).ReadAll()
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			// Fairness begins where there is some.
			skipped := len(series[0].Values) + 1 - len(rows)
			if fair := kind == results.SeriesJain || kind == results.SeriesMaxMin; fair != (skipped > 0) {
				t.Errorf("%s, %s: %d rows for %d points", name, kind, len(rows)-1, len(series[0].Values))
			}
			at := map[string]int{}
			for j, cell := range rows[0] {
				at[cell] = j
			}
			for _, x := range series {
				title, unit := x.Name, ""
				if x.Unit != "" {
					unit = " [" + x.Unit + "]"
				}
				if (x.Max != nil) != (kind == results.SeriesQueue) {
					t.Errorf("%s, %s: a most: %v", name, kind, x.Max != nil)
				}
				if x.Max != nil {
					column, ok := at[title+" max"+unit]
					for j, v := range x.Max {
						if !ok || rows[1+j][column] != cell(v) || v < x.Values[j] {
							t.Fatalf("%s, %s of %s: point %d is not %v in the column of the most, of %q", name, kind, x.Name, j, v, rows[0])
						}
					}
					title += " mean"
				}
				column, ok := at[title+unit]
				if !ok {
					t.Fatalf("%s, %s: no column for %s in %q", name, kind, x.Name, rows[0])
				}
				for j, v := range x.Values {
					if j < skipped {
						if v.Measured() {
							t.Errorf("%s, %s of %s: point %d is not in the file", name, kind, x.Name, j)
						}
						continue
					}
					row := rows[1+j-skipped]
					if now := x.StartUs + stats.Float(j)*x.StepUs; row[column] != cell(v) || row[0] != cell(now) {
						t.Errorf("%s, %s of %s at %v us: %q at %q, want %v", name, kind, x.Name, now, row[column], row[0], v)
					}
				}
			}
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != files {
		t.Errorf("%d files, want %d: %v", len(all), files, err)
	}

	// Who takes them from there needs none in the result.
	rows := 0
	none, err := Run(s, Options{NoSeries: true, Series: func(*results.SeriesRow) error { rows++; return nil }})
	if err != nil || rows == 0 {
		t.Fatalf("%d rows: %v", rows, err)
	}
	for i, sys := range none.Systems {
		if len(sys.Series) > 0 {
			t.Errorf("%s has %d series", sys.Name, len(sys.Series))
		}
		sys.Series, sys.WallS = r.Systems[i].Series, r.Systems[i].WallS
		if diff := cmp.Diff(r.Systems[i], sys, cmp.Comparer(same)); diff != "" {
			t.Errorf("without series: %s", diff)
		}
	}

	full := errors.New("no space")
	if _, err := Run(s, Options{Series: func(*results.SeriesRow) error { return full }}); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
}

// cell is a value as the files have it: empty where nothing was measured.
func cell(v stats.Float) string {
	if !v.Measured() {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 64)
}

// same compares measured values, and takes all that were not measured for one.
func same(a, b stats.Float) bool { return a == b || !a.Measured() && !b.Measured() }

// A run that is interrupted has said all there was up to then, of flows and series.
func TestInterrupted(t *testing.T) {
	s := parse(t, `
duration: 1ms
topology: {kind: star, hosts: 3, host_rate: 25Gbps}
nic: {model: reduced}
systems: [{engine: timely}, {engine: swift}]
measure: {sample: 10us, window: 10us}
workloads:
  - {kind: flows, flows: [{src: h0, dst: h1, size: 10KB}, {src: h1, dst: h2, size: unlimited}]}
`)
	stop := errors.New("stop")
	asked, rows, ended, underWay := 0, 0, 0, 0
	last := stats.Float(0)
	_, err := Run(s, Options{
		Interrupted: func() error {
			if asked++; asked > 30 {
				return stop
			}
			return nil
		},
		Series: func(r *results.SeriesRow) error {
			if r.Kind == results.SeriesRate {
				rows, last = rows+1, r.AtUs
			}
			return nil
		},
		Flows: func(r *results.FlowRecord) error {
			if r.FCTUs != nil {
				ended++
			} else {
				underWay++
			}
			return nil
		},
	})
	if !errors.Is(err, stop) || !strings.Contains(err.Error(), "system timely: at 310us: ") {
		t.Errorf("error %v", err)
	}
	if asked != 31 || rows != 30 || last != 300 || ended != 1 || underWay != 1 {
		t.Errorf("asked %d times, %d rows up to %v us, %d flows ended and %d under way", asked, rows, last, ended, underWay)
	}
}

// What is sent again and notified counts from the end of the warm-up, as marks and drops
// do: what two parts of a run have is what the whole has.
func TestWarmupOfCounters(t *testing.T) {
	const text = `
duration: %s
warmup: %s
topology: {kind: star, hosts: 4, host_rate: 25Gbps}
fabric: {ecn: {kmin: 5KiB, kmax: 50KiB, pmax: 0.2}, faults: [{link: "h0->tor0", loss: 0.01}]}
nic: {model: %s, timeout: 6}
systems: [{engine: dcqcn}]
workloads: [{kind: incast, receiver: h3, size: unlimited}]
`
	for _, model := range []string{"staged", "reduced"} {
		of := func(duration, warmup string) results.Flows {
			return run(t, parse(t, fmt.Sprintf(text, duration, warmup, model))).Systems[0].Flows
		}
		first, second, whole := of("150us", "0s"), of("1ms", "150us"), of("1ms", "0s")
		if first.Retransmissions == 0 || second.Retransmissions == 0 || first.CNPs == 0 || second.CNPs == 0 {
			t.Errorf("%s: nothing was tested: %+v, %+v", model, first, second)
		}
		if first.Retransmissions+second.Retransmissions != whole.Retransmissions || first.CNPs+second.CNPs != whole.CNPs || first.Timeouts+second.Timeouts != whole.Timeouts {
			t.Errorf("%s: %d and %d packets sent again are %d, %d and %d notifications %d, %d and %d timeouts %d", model,
				first.Retransmissions, second.Retransmissions, whole.Retransmissions, first.CNPs, second.CNPs, whole.CNPs, first.Timeouts, second.Timeouts, whole.Timeouts)
		}
	}
}

// A series never has more points than its limit: each point is the mean or the largest of
// a group of steps, in as small groups as the limit allows.
func TestTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := 2 * rapid.IntRange(1, 8).Draw(t, "half the limit")
		largest := rapid.Bool().Draw(t, "largest")
		steps := rapid.SliceOfN(rapid.IntRange(0, 1000), 0, 200).Draw(t, "values")
		x := trace{limit: limit, largest: largest, stride: 1}
		for _, v := range steps {
			x.add(stats.Float(v))
		}
		stride := 1
		for len(steps)/stride > limit {
			stride *= 2
		}
		// A point that would be one too many makes room even if it is not complete.
		if x.stride != stride && !(len(steps)/stride == limit && x.stride == 2*stride) || len(x.values) > limit || len(x.values) != len(steps)/x.stride {
			t.Fatalf("%d values of %d steps each for %d, limit %d", len(x.values), x.stride, len(steps), limit)
		}
		for i, got := range x.values {
			want, sum := 0.0, 0.0
			for _, v := range steps[i*x.stride : (i+1)*x.stride] {
				want, sum = max(want, float64(v)), sum+float64(v)
			}
			if !largest {
				want = sum / float64(x.stride)
			}
			if math.Abs(float64(got)-want) > 1e-9*want {
				t.Fatalf("value %d is %v, want %v", i, got, want)
			}
		}
	})
	// What was not measured counts for nothing.
	x := trace{limit: 2, stride: 1}
	for _, v := range []stats.Float{1, stats.Unmeasured, stats.Unmeasured, stats.Unmeasured, 3, 5, stats.Unmeasured, 7} {
		x.add(v)
	}
	if diff := cmp.Diff([]stats.Float{1, 5}, x.values, cmp.Comparer(same)); diff != "" || x.stride != 4 {
		t.Errorf("strides of %d: %s", x.stride, diff)
	}
}

// A run of more steps than a result keeps says how many a value is of, and its file
// has them all.
func TestThinnedSeries(t *testing.T) {
	s := parse(t, `
duration: 2ms
topology: {kind: star, hosts: 2, host_rate: 25Gbps}
nic: {model: reduced}
systems: [{engine: none}]
measure: {sample: 100ns, window: 100us}
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: unlimited}]}]
`)
	rows := 0
	r, err := Run(s, Options{Series: func(row *results.SeriesRow) error {
		if row.Kind == results.SeriesRate {
			rows++
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	x := r.Systems[0].Series[0]
	if rows != 20_000 || x.Kind != results.SeriesRate || x.Thinned != 2 || len(x.Values) != 10_000 || !within(x.StepUs, 0.2, 1e-9) || x.StartUs != x.StepUs {
		t.Errorf("%d rows; %s: %d points from %v us on, every %v us, each of %d", rows, x.Kind, len(x.Values), x.StartUs, x.StepUs, x.Thinned)
	}
	sum := 0.0
	for _, v := range x.Values {
		sum += float64(v)
	}
	if mean := sum / float64(len(x.Values)); !within(r.Systems[0].ThroughputGbps, mean, 1e-6) {
		t.Errorf("the mean of the series is %v Gbps, the throughput %v", mean, r.Systems[0].ThroughputGbps)
	}
	for _, x := range r.Systems[0].Series {
		if x.Kind == results.SeriesJain && (x.Thinned != 0 || len(x.Values) != 20) {
			t.Errorf("%s has %s points, thinned %d", x.Kind, strconv.Itoa(len(x.Values)), x.Thinned)
		}
	}
}
