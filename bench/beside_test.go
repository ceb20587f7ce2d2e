package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

// everything runs a scenario and returns all that can be seen of it but elapsed time.
func everything(t *testing.T, s *scenario.Scenario, workers int) string {
	t.Helper()
	var out strings.Builder
	row := func(r any) error {
		b, err := json.Marshal(r)
		out.Write(append(b, '\n'))
		return err
	}
	r, err := Run(s, Options{
		Workers: workers,
		Flows:   func(r *results.FlowRecord) error { return row(r) },
		Series:  func(r *results.SeriesRow) error { return row(r) },
	})
	if err != nil {
		t.Fatal(err)
	}
	d := results.Document{Results: []*results.Result{r}}
	d.ClearWall()
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return out.String() + string(b)
}

// Systems that run beside each other give the bytes that they give one after the other:
// results, flows and series, in the scenario's order.
func TestSystemsBesideEachOther(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	for name, sets := range map[string][]string{
		"permutation":   {"duration=200us"},
		"timely-table1": {"duration=2ms", "warmup=500us"},
		"link-failure":  {},
		"rpc":           {"duration=1ms", "warmup=100us"},
		"websearch":     {"duration=1ms", "warmup=100us", "workloads[0].stop=500us", "nic.model=reduced", "nic.mode=auto"},
	} {
		t.Run(name, func(t *testing.T) {
			s := load(t, name, append(sets, "expect=[]")...)
			if len(s.Systems) < 2 {
				t.Fatal("one system only")
			}
			want := ""
			for i, workers := range runsOf(1, 2, 3) {
				if got := everything(t, s, workers); i == 0 {
					want = got
				} else if got != want {
					t.Errorf("%d workers: %s", workers, firstDifference(got, want))
				}
			}
		})
	}
}

// A system's result says why its network ran undivided, and nothing where it did not.
func TestUndividedIsSaid(t *testing.T) {
	for _, c := range []struct {
		model, set, why string
	}{
		{"reduced", "seed=2", ""},
		{"staged", "seed=2", ""},
		{"staged", "workloads[0].operation=read", ""},
		{"staged", "measure.nic=[h0]", ""},
		{"staged", "verbs.mr_per_qp=true", ""},
		{"staged", "nic.ports=2", ""},
		{"staged", "systems=[{engine: ideal}]", ""},
		{"reduced", "topology.host_delay=0s", "a link without delay"},
		{"staged", "topology.host_delay=100ns", "little in a window: all hosts send 2.4 full packets in 100ns"},
		{"reduced", "topology.host_delay=100ns", "little in a window"},
		{"reduced", "fabric.pfc.watchdog=1ms", ""},
		{"reduced", "systems=[{engine: ideal}]", ""},
	} {
		s := load(t, "quickstart", "nic.model="+c.model, "nic.mode=auto", "duration=20us", c.set)
		r, err := Run(s, Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if why := r.Systems[0].Undivided; c.why == "" && why != "" || !strings.Contains(why, c.why) {
			t.Errorf("%s: undivided because of %q, want %q", c.set, why, c.why)
		}
	}
}

// As many systems run at once as there are workers and memory for them; what is recorded
// by one writer is recorded one after the other.
func TestSystemsAtOnce(t *testing.T) {
	s := load(t, "permutation")
	least := s.LeastMemory()
	for _, c := range []struct {
		o    Options
		want int
	}{
		{Options{}, 1},
		{Options{Workers: 3}, 3},
		{Options{Workers: 100}, len(s.Systems)},
		{Options{Workers: 3, Memory: 4 * least}, 2},
		{Options{Workers: 3, Memory: least}, 1},
		{Options{Workers: 3, Memory: 100 * least}, 3},
		{Options{Workers: 3, Packets: &strings.Builder{}}, 1},
	} {
		if got := c.o.jobs(s); got != c.want {
			t.Errorf("%d workers, %v of %v: %d at once, want %d", c.o.Workers, c.o.Memory, least, got, c.want)
		}
	}
}

// Runs that write more than is kept wait for their turn, and every row comes in order.
func TestTurnsKeepOrder(t *testing.T) {
	const runs, rows = 5, keptRows + 100
	var got, taken []int
	err := inOrder(runs, 3, func(i int, slot *slot) outcome {
		for k := range rows {
			write := func() error { got = append(got, i*rows+k); return nil }
			if err := slot.write(write, func() func() error { return write }); err != nil {
				return outcome{err: err}
			}
		}
		return outcome{end: units.Time(i)}
	}, func(o outcome) { taken = append(taken, int(o.end)) })
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != runs*rows || !slices.IsSorted(got) {
		t.Errorf("%d of %d rows, in order: %t", len(got), runs*rows, slices.IsSorted(got))
	}
	if !slices.Equal(taken, []int{0, 1, 2, 3, 4}) {
		t.Errorf("taken %v", taken)
	}
}

// A run that fails ends later runs, even ones that wait for their turn, and no earlier
// ones: their results and its own rows up to then are there.
func TestRunThatFails(t *testing.T) {
	boom := errors.New("boom")
	failed, later := make(chan struct{}), make(chan struct{})
	var got, taken []int
	var dropped atomic.Int32
	err := inOrder(4, 3, func(i int, slot *slot) outcome {
		write := func() error { got = append(got, i); return nil }
		if err := slot.write(write, func() func() error { return write }); err != nil {
			t.Error(err)
		}
		switch i {
		case 0:
			<-failed // it outlasts the failure
		case 1:
			<-later
			defer close(failed)
			return outcome{err: boom}
		default:
			close(later) // once: run 3 never starts
			for slot.write(write, func() func() error { return write }) == nil {
			}
			dropped.Add(1)
		}
		return outcome{end: units.Time(i)}
	}, func(o outcome) { taken = append(taken, int(o.end)) })
	if !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if !slices.Equal(got, []int{0, 1}) || !slices.Equal(taken, []int{0}) {
		t.Errorf("rows of %v, results of %v", got, taken)
	}
	if n := dropped.Load(); n != 1 {
		t.Errorf("%d runs were dropped under way", n)
	}
}

// An interrupt ends all systems; the result has those before the first that it ended, and
// the flows of that one.
func TestInterruptBesideEachOther(t *testing.T) {
	s := load(t, "permutation")
	stop := errors.New("stop")
	var looks atomic.Int32
	flows := map[string]int{}
	r, err := Run(s, Options{
		Workers:     2,
		Interrupted: func() error { return map[bool]error{true: stop}[looks.Add(1) > 5] },
		Flows:       func(f *results.FlowRecord) error { flows[f.System]++; return nil },
	})
	if !errors.Is(err, stop) || len(r.Systems) != 0 {
		t.Errorf("%v, results of %d systems", err, len(r.Systems))
	}
	if want := fmt.Sprint(map[string]int{s.Systems[0].Name: 16}); fmt.Sprint(flows) != want {
		t.Errorf("flows %v, want %v", flows, want)
	}
}

// Progress never falls, ends at 1 and names what runs.
func TestProgressOfSystemsBesideEachOther(t *testing.T) {
	s := load(t, "permutation", "duration=200us")
	last := 0.0
	if _, err := Run(s, Options{Workers: 2, Progress: func(done float64, what string) {
		if done < last || !strings.Contains(what, fmt.Sprintf(" of %d)", len(s.Systems))) {
			t.Errorf("%v after %v: %s", done, last, what)
		}
		last = done
	}}); err != nil {
		t.Fatal(err)
	}
	if last != 1 {
		t.Errorf("it ends at %v", last)
	}
}
