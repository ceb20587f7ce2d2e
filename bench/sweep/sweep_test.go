package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/internal/racedetector"
)

// TestMain runs a sweep in place of the tests where a test asks for that in a process of
// its own.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SWEEP_TEST_RUN"); dir != "" {
		f, err := Open(dir, "")
		var p *Plan
		if err == nil {
			p, err = f.Plan()
		}
		if err == nil {
			_, err = Run(context.Background(), f, Options{Tasks: Tasks{0, (p.Cells - 1) / p.Chunk}, Jobs: 2})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const small = `
scenarios: [quickstart]
seeds: [3, 1]
chunk: 4
parameters:
  - {key: nic.mtu, values: [1024, 4096]}
  - zip:
      - {key: duration, name: span, range: {from: 0.1ms, to: 0.3ms, step: 0.1ms}}
      - {key: "systems[TIMELY].config.t_low", values: [10us, 20us, 50us]}
exclude:
  - {nic.mtu: 1024, span: [0.2ms, 0.3ms], seed: 1}
`

// planned makes a plan in a new folder.
func planned(t *testing.T, text string) (Folder, *Planned) {
	t.Helper()
	s, err := parseSpec("small.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f := Dir(t.TempDir())
	p, err := Make(f, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f, p
}

func runAll(t *testing.T, f Folder, jobs int) Done {
	t.Helper()
	p, err := f.Plan()
	if err != nil {
		t.Fatal(err)
	}
	done, err := Run(t.Context(), f, Options{Tasks: Tasks{0, (p.Cells - 1) / p.Chunk}, Jobs: jobs})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// merged is the table in both formats.
func merged(t *testing.T, f Folder) (csv, parquet []byte) {
	t.Helper()
	p, err := f.Plan()
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	x, err := newCSV(&a, p)
	if err != nil {
		t.Fatal(err)
	}
	y := newParquet(&b, p)
	if _, err := Merge(f, false, func(r *Row) error {
		if err := x.Write(r); err != nil {
			return err
		}
		return y.Write(r)
	}, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []io.Closer{x, y} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return a.Bytes(), b.Bytes()
}

func TestSweep(t *testing.T) {
	f, p := planned(t, small)
	if p.Cells != 10 || p.Excluded != 2 || p.Scenarios != 6 || p.Shared != 0 {
		t.Fatalf("%+v", p)
	}
	var list []string
	for c, err := range f.cells(&p.Plan, 0, p.Cells) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c.String())
	}
	if got, want := list[4], "cell 4 (quickstart, TIMELY, seed 3, nic.mtu=4096, span=0.1ms, systems[TIMELY].config.t_low=10us)"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}

	// Nothing, then the second task, then all, then nothing to do.
	for _, c := range []struct {
		tasks Tasks
		want  Done
		array string
	}{
		{Tasks{1, 1}, Done{Cells: 4, Ran: 4}, "0,2"},
		{Tasks{0, 2}, Done{Cells: 10, Ran: 6, Before: 4}, ""},
		{Tasks{2, 2}, Done{Cells: 2, Before: 2}, ""},
	} {
		done, err := Run(t.Context(), f, Options{Tasks: c.tasks, Jobs: 2})
		if err != nil || done != c.want {
			t.Fatalf("%v: %+v, %v, expected %+v", c.tasks, done, err, c.want)
		}
		s, err := f.Status()
		if err != nil || s.Array != c.array || s.Done != c.want.Ran+c.want.Before && c.tasks.First == 0 {
			t.Errorf("%v: %+v, %v", c.tasks, s, err)
		}
	}
	csv, columnar := merged(t, f)
	lines := strings.Split(string(csv), "\n")
	if want := "cell,scenario,system,seed,nic.mtu,span,systems[TIMELY].config.t_low,scope,name,figure,unit,value"; lines[0] != want {
		t.Errorf("%s, expected %s", lines[0], want)
	}
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, ",throughput_gbps,Gbit/s,") }); i < 0 || !strings.HasPrefix(lines[i], "0,quickstart,TIMELY,3,1024,0.1ms,10us,system,,") {
		t.Errorf("no throughput of the first cell:\n%s", csv)
	}
	file, err := parquet.OpenFile(bytes.NewReader(columnar), int64(len(columnar)))
	if err != nil || file.NumRows() != int64(len(lines)-2) {
		t.Errorf("%v rows of Parquet beside %d of CSV, %v", file.NumRows(), len(lines)-2, err)
	}
	if ran, differ, err := Verify(t.Context(), f, 1, 1, nil); err != nil || ran != 10 || len(differ) > 0 {
		t.Errorf("%d ran again, %v differ, %v", ran, differ, err)
	}

	// A result that some machine made otherwise is found; one that is no result is named.
	var one *Cell
	for c := range f.cells(&p.Plan, 3, 4) {
		one = c
	}
	name := fileOf(resultsDir, one.Hash)
	text, err := f.get(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.put(name, bytes.Replace(text, []byte(`"throughput_gbps": `), []byte(`"throughput_gbps": 1`), 1)); err != nil {
		t.Fatal(err)
	}
	if _, differ, err := Verify(t.Context(), f, 1, 1, nil); err != nil || len(differ) != 1 || differ[0].Index != 3 {
		t.Errorf("%v differ, %v", differ, err)
	}
	if err := f.put(name, text[:100]); err != nil {
		t.Fatal(err)
	}
	if _, err := Merge(f, false, func(*Row) error { return nil }, nil); err == nil || !strings.Contains(err.Error(), one.Hash) {
		t.Errorf("of a broken result: %v", err)
	}
}

// begin runs a sweep in a process of its own.
func begin(t *testing.T, f Folder) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "SWEEP_TEST_RUN="+f.name)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestKilled kills a run at twenty random instants. What comes out is what a run without
// a kill gives.
func TestKilled(t *testing.T) {
	if racedetector.On {
		t.Skip("long, and of processes that share files: TestSweep has goroutines for the race detector")
	}
	const text = "scenarios: [quickstart]\nseeds: 60\nparameters:\n  - {key: duration, values: [0.1ms, 0.2ms]}\n"
	whole, _ := planned(t, text)
	runAll(t, whole, 1)
	wantCSV, wantParquet := merged(t, whole)

	f, p := planned(t, text)
	draw := rand.New(rand.NewPCG(1, 2))
	before := 0
	for range 20 {
		cmd := begin(t, f)
		time.Sleep(time.Duration(draw.IntN(150)) * time.Millisecond) //nolint:forbidigo // a random instant
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		s, err := f.Status()
		if err != nil || s.Done < before || s.Failed > 0 {
			t.Fatalf("after a kill %+v, %v; before %d were done", s, err, before)
		}
		before = s.Done
	}
	t.Logf("%d of %d cells were done after 20 kills", before, p.Cells)
	if err := begin(t, f).Wait(); err != nil {
		t.Fatal(err)
	}
	csv, columnar := merged(t, f)
	if !bytes.Equal(csv, wantCSV) || !bytes.Equal(columnar, wantParquet) {
		t.Error("the merged tables differ from those of a run that nothing killed")
	}
}

// TestFailure: a cell that fails is noted with its reason, the others run, and it is taken
// up again.
func TestFailure(t *testing.T) {
	f, p := planned(t, "scenarios: [quickstart]\nseeds: 2\nparameters:\n  - {key: duration, values: [0.1ms, 0.2ms]}\n")
	var c *Cell
	for c = range f.cells(&p.Plan, 0, 1) {
	}
	text, err := f.get(scenariosDir + c.Text)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.put(scenariosDir+c.Text, bytes.Replace(text, []byte("mtu: "), []byte("mtu: 1"), 1)); err != nil {
		t.Fatal(err)
	}
	if done := runAll(t, f, 1); done.Failed != 2 || done.Ran != 2 || !strings.Contains(done.First.Error(), "cell 0 (quickstart, TIMELY, seed 1, duration=0.1ms): ") {
		t.Errorf("%+v", done)
	}
	s, err := f.Status()
	if err != nil || s.Failed != 2 || s.Missing != 0 || s.Array != "0-1" || s.Failures[1].Index != 1 || !strings.Contains(s.Failures[1].Error, "mtu") {
		t.Errorf("%+v, %v", s, err)
	}
	if err := f.put(scenariosDir+c.Text, text); err != nil {
		t.Fatal(err)
	}
	if done := runAll(t, f, 1); done.Failed != 0 || done.Ran != 2 || done.Before != 2 {
		t.Errorf("%+v", done)
	}
	if s, err := f.Status(); err != nil || s.Failed != 0 || s.Done != 4 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestPlannedAgain: a plan with more seeds keeps the results that there are, and one by
// another program is not run.
func TestPlannedAgain(t *testing.T) {
	f, _ := planned(t, "scenarios: [quickstart]\nseeds: 2\nparameters: [{key: duration, values: [0.1ms]}]\n")
	runAll(t, f, 1)
	s, err := parseSpec("x.yaml", []byte("scenarios: [quickstart]\nseeds: [5, 2, 1]\nparameters: [{key: duration, values: [0.1ms]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Make(f, s, nil); err != nil {
		t.Fatal(err)
	}
	if done := runAll(t, f, 1); done.Ran != 1 || done.Before != 2 {
		t.Errorf("%+v", done)
	}
	text, err := f.get(planFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.put(planFile, bytes.Replace(text, []byte(`"program": "`), []byte(`"program": "other `), 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), f, Options{}); err == nil || !strings.Contains(err.Error(), "was planned by other ") {
		t.Errorf("%v", err)
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"values: [1, 2.5, 10us, yes, [1, a], {x: 1}]", `1 2.5 10us yes [1,"a"] {"x":1}`},
		{"range: {from: 1, to: 2, step: 0.25}", "1 1.25 1.5 1.75 2"},
		{"range: {from: 0.1us, to: 0.35us, step: 0.1us}", "0.1us 0.2us 0.3us"},
		{"range: {from: 30us, to: 10us, step: -10us}", "30us 20us 10us"},
		{"log: {from: 1us, to: 1000us, count: 4}", "1us 10us 100us 1000us"},
		{"log: {from: 1, to: 10, count: 3}", "1 3.162 10"},
		{"log: {from: 1, to: 4, count: 9, integer: true}", "1 2 3 4"},
		{"log: {from: 1e-3, to: 1e-1, count: 3}", "0.001 0.01 0.1"},
		{"random: {from: 1us, to: 2us, count: 3, seed: 7}", "1.995us 1.822us 1.026us"},
		{"random: {from: 1, to: 1000, count: 3, seed: 7, log: true, integer: true}", "966 293 1"},
	} {
		s, err := parseSpec("x.yaml", []byte("scenarios: [quickstart]\nparameters: [{key: k, "+c.text+"}]\n"))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		axes, err := s.axes()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range axes[0].values {
			got = append(got, v[0])
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, expected %s", c.text, strings.Join(got, " "), c.want)
		}
	}
}

func TestSpecErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "scenarios: is empty"},
		{"scenarios: quickstart", "x.yaml: "},
		{"scenarios: [a]\nscenario: b", `unknown field "scenario"`},
		{"scenarios: [a, a]", "scenarios: a stands there twice"},
		{"scenarios: [a]\nseeds: 0", "seeds: is 0: choose 1 to"},
		{"scenarios: [a]\nseeds: x", "seeds: expected a number of seeds"},
		{"scenarios: [a]\nseeds: [1, 1]", "seeds: 1 stands there twice"},
		{"scenarios: [a]\nchunk: 0", "chunk: is 0"},
		{"scenarios: [a]\nparameters: [{values: [1]}]", "parameters[0]: has no key"},
		{"scenarios: [a]\nparameters: [{key: k}]", "parameters[0]: has 0 ways of giving values"},
		{"scenarios: [a]\nparameters: [{key: k, values: [1], range: {from: 1, to: 2, step: 1}}]", "has 2 ways"},
		{"scenarios: [a]\nparameters: [{key: k, values: [1, 1]}]", "parameters[0]: has 1 twice"},
		{"scenarios: [a]\nparameters: [{key: k, values: []}]", "parameters[0]: has no values"},
		{"scenarios: [a]\nparameters: [{key: k, range: {from: 1us, to: 2ms, step: 1us}}]", `parameters[0].range: has values with the units "us" and "ms"`},
		{"scenarios: [a]\nparameters: [{key: k, range: {from: 1us, to: 2us}}]", "parameters[0].range: from, to or what else it needs is missing"},
		{"scenarios: [a]\nparameters: [{key: k, range: {from: 1, to: 2, step: 0}}]", "choose another step"},
		{"scenarios: [a]\nparameters: [{key: k, range: {from: x, to: 2, step: 0}}]", "expected a number"},
		{"scenarios: [a]\nparameters: [{key: k, log: {from: 0, to: 2, count: 3}}]", "parameters[0].log: expected from and to above 0"},
		{"scenarios: [a]\nparameters: [{key: k, random: {from: 3, to: 2, count: 3}}]", "parameters[0].random: expected from at most to"},
		{"scenarios: [a]\nparameters: [{zip: [{key: a, values: [1, 2]}, {key: b, values: [1]}]}]", "parameters[0].zip[1]: has 1 values, the first has 2"},
		{"scenarios: [a]\nparameters: [{zip: []}]", "zip: is empty"},
		{"scenarios: [a]\nparameters: [{key: k, zip: [{key: a, values: [1]}]}]", "leave the other keys out"},
		{"scenarios: [a]\nparameters: [{key: k, values: [1]}, {key: k, values: [2]}]", "two are called k"},
		{"scenarios: [a]\nparameters: [{key: seed, values: [1]}]", "seed is a column of its own"},
		{"scenarios: [a]\nparameters: [{key: nic.mtu, values: [1]}]\nexclude: [{nic.mut: 1}]", `exclude[0]: there is no parameter "nic.mut": is "nic.mtu" meant?`},
		{"scenarios: [a]\nexclude: [{}]", "exclude[0]: is empty"},
	} {
		if _, err := parseSpec("x.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, expected %s", c.text, err, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"scenarios: [quickstrat]", `is "quickstart" meant?`},
		{"scenarios: [quickstart]\nsystems: [Swift]", `scenario quickstart has no system "Swift"`},
		{"scenarios: [quickstart]\nparameters: [{key: nic.mtu, values: [4096, 5000]}]", "quickstart nic.mtu=5000: "},
		{"scenarios: [quickstart]\nexclude: [{system: TIMELY}]", "exclude leaves all of 1 out"},
		{"scenarios: [there/is/none.yaml]", "there/is/none.yaml"},
	} {
		s, err := parseSpec("x.yaml", []byte(c.text))
		if err == nil {
			_, err = Make(Dir(t.TempDir()), s, nil)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, expected %s", c.text, err, c.want)
		}
	}
}

func TestTasks(t *testing.T) {
	p := &Plan{Cells: 10, Chunk: 4}
	for _, a := range arrays {
		t.Setenv(a.variable, "")
	}
	for _, c := range []struct {
		index, variable, value string
		want                   Tasks
		err                    string
	}{
		{"auto", "", "", Tasks{0, 2}, ""},
		{"auto", "SLURM_ARRAY_TASK_ID", "0", Tasks{0, 0}, ""},
		{"auto", "JOB_COMPLETION_INDEX", "2", Tasks{2, 2}, ""},
		{"auto", "SGE_TASK_ID", "1", Tasks{0, 0}, ""},
		{"auto", "SGE_TASK_ID", "undefined", Tasks{0, 2}, ""},
		{"auto", "PBS_ARRAY_INDEX", "1", Tasks{1, 1}, ""},
		{"auto", "PARALLEL_SEQ", "3", Tasks{2, 2}, ""},
		{"auto", "PARALLEL_SEQ", "0", Tasks{}, `PARALLEL_SEQ is "0", expected a task from 1 to 3`},
		{"auto", "SLURM_ARRAY_TASK_ID", "3", Tasks{}, `expected a task from 0 to 2`},
		{"1", "SLURM_ARRAY_TASK_ID", "2", Tasks{1, 1}, ""},
		{"0-2", "", "", Tasks{0, 2}, ""},
		{"2-1", "", "", Tasks{}, "--index 2-1: expected auto, K or A-B, with tasks from 0 to 2"},
		{"3", "", "", Tasks{}, "tasks from 0 to 2"},
		{"x", "", "", Tasks{}, "--index x"},
	} {
		t.Run(c.index+" "+c.variable+c.value, func(t *testing.T) {
			if c.variable != "" {
				t.Setenv(c.variable, c.value)
			}
			got, err := ParseTasks(c.index, p)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, %v, expected %v, %s", got, err, c.want, c.err)
			}
		})
	}
	for _, c := range []struct {
		tasks []int
		want  string
	}{{nil, ""}, {[]int{5}, "5"}, {[]int{5, 17, 18, 19, 20}, "5,17-20"}, {[]int{0, 1, 3, 5, 6}, "0-1,3,5-6"}} {
		if got := ArraySpec(c.tasks); got != c.want {
			t.Errorf("%v: %s, expected %s", c.tasks, got, c.want)
		}
	}
}

// TestFiles: a scenario's file and what it extends are in the folder, so that it can move.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"base.yaml": "extends: quickstart\nduration: 0.1ms\n", "mine.yaml": "extends: base.yaml\nseed: 9\n", "sweep.yaml": "scenarios: [mine.yaml]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s, err := ReadSpec(filepath.Join(dir, "sweep.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f := Dir(t.TempDir())
	if _, err := Make(f, s, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if done := runAll(t, f, 1); done.Ran != 1 {
		t.Errorf("%+v", done)
	}
	if csv, _ := merged(t, f); !strings.Contains(string(csv), "\n0,mine,TIMELY,9,system,,") {
		t.Errorf("%.300s", csv)
	}
}

// TestSummary: means over seeds with intervals, differences seed by seed, and a page.
func TestSummary(t *testing.T) {
	f, p := planned(t, "scenarios: [link-failure]\nseeds: 3\nparameters: [{key: duration, values: [0.4ms, 0.5ms]}]\n")
	runAll(t, f, 2)
	s, err := Summarize(f, []string{"drops", "throughput_gbps"})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tables) != 2 || s.Tables[0].Figure != "drops" || len(s.Tables[1].Rows) != 2 || s.Cells != p.Cells {
		t.Fatalf("%+v", s)
	}
	g := s.Tables[1]
	if len(g.Systems) < 2 {
		t.Fatalf("%v", g.Systems)
	}
	// The same from the merged rows.
	sums := map[string]float64{}
	if _, err := Merge(f, false, func(r *Row) error {
		if r.scope == "system" && r.figure == "throughput_gbps" && r.cell.Parameters["duration"] == "0.5ms" {
			sums[r.cell.System] += r.value / 3
		}
		return nil
	}, nil); err != nil {
		t.Fatal(err)
	}
	for i, name := range g.Systems {
		a := g.Rows[1].Systems[i]
		if a.Seeds != 3 || math.Abs(float64(a.Mean)-sums[name]) > 1e-9 {
			t.Errorf("%s: %+v, expected %v", name, a, sums[name])
		}
		if i > 0 && math.Abs(float64(a.Difference)-(sums[name]-sums[g.Systems[0]])) > 1e-9 {
			t.Errorf("%s: %+v", name, a)
		}
	}
	var html, text bytes.Buffer
	if err := errors.Join(s.Page(&html), s.Print(&text)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(html.String(), "--seed 1 --report cell.html") || !strings.Contains(text.String(), "link-failure throughput_gbps [Gbit/s]") {
		t.Errorf("%s\n%s", text.String(), html.String())
	}
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		v, half float64
		want    string
	}{
		{12.3456, 0.0789, "12.346"}, {12.3456, math.NaN(), "12.35"}, {1234567, 2345, "1234600"}, {0, 0, "0"}, {0, 1, "0"}, {0.0789, 0.0789, "0.079"}, {3, 30, "3"},
	} {
		if got := short(c.v, c.half); got != c.want {
			t.Errorf("%v ± %v: %s, expected %s", c.v, c.half, got, c.want)
		}
	}
}
