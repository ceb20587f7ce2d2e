package storm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/sim/fault"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// TestStorm runs 3,600 seeds over what applications can be linked with, 120 with
// -short. "sluice storm" runs more.
func TestStorm(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a run's memory is small and short-lived
	for _, over := range []struct{ provider, shim string }{
		{"soft", ""}, {"sim", ""}, {"soft", "timely"}, {"sim", "timely"},
		{"sim", "powertcp"}, {"sim", "poseidon"}, // by telemetry of switches
	} {
		t.Run(strings.Trim(over.provider+" "+over.shim, " "), func(t *testing.T) {
			c := Default()
			c.Provider, c.Shim = over.provider, over.shim
			n := uint64(600)
			if testing.Short() {
				n = 20
			}
			before := runtime.NumGoroutine()
			tally, failed, err := Seeds(context.Background(), c, n, runtime.GOMAXPROCS(0), nil)
			if err != nil {
				t.Fatal(err)
			}
			if failed != nil {
				t.Fatalf("seed %d: %s\n%s\nsluice storm --provider %s --shim %q --seed %d", failed.Seed, failed.Failure, failed.Stack, c.Provider, c.Shim, failed.Seed)
			}
			if tally.Seeds != n || tally.Requests < 100*n || tally.Failed < n/2 {
				t.Errorf("%+v: a storm in which so little happens tests little", tally)
			}
			// One that has done its last may not be gone yet, and a finalizer that runs counts as one.
			now := runtime.NumGoroutine()
			for end := time.Now().Add(30 * time.Second); now > before && time.Now().Before(end); {
				time.Sleep(time.Millisecond) //nolint:forbidigo // nothing says when a goroutine is gone
				now = runtime.NumGoroutine()
			}
			if now > before {
				stacks := make([]byte, 1<<20)
				t.Errorf("%d goroutines before, %d after\n%s", before, now, stacks[:runtime.Stack(stacks, true)])
			}
		})
	}
}

// The same seed gives the same run.
func TestSeedsRepeat(t *testing.T) {
	for _, provider := range []string{"soft", "sim"} {
		c := Default()
		c.Provider, c.Shim, c.Seed = provider, "timely", 12
		var results [2]string
		for i := range results {
			r, err := Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			results[i] = fmt.Sprint(r.Failure, r.End, r.Requests, r.Failed, r.Packets)
		}
		if results[0] != results[1] {
			t.Errorf("%s: %s, then %s", provider, results[0], results[1])
		}
	}
}

// program runs a program as process 0 in a calm or a given storm, while the other ends at
// once.
func program(t *testing.T, faults fault.Schedule, f Program) *Result {
	t.Helper()
	c := Default()
	c.Processes, c.Grace, c.Faults = 2, 10*units.Millisecond, faults
	if faults == nil {
		c.Faults = fault.Schedule{}
	}
	c.Program = func(p *Process) error {
		if p.ID > 0 {
			return nil
		}
		return f(p)
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What a program does or leaves is found.
func TestWhatFails(t *testing.T) {
	forget := func(p *Process) error {
		_, err := p.Device().AllocPD()
		return err
	}
	for _, c := range []struct {
		name    string
		program Program
		want    string
	}{
		{"nothing", func(*Process) error { return nil }, ""},
		{"an error", func(*Process) error { return errors.New("no luck") }, "at 0s: process 0: no luck"},
		{"a report", func(p *Process) error { p.Failf("%d is odd", 3); return nil }, "at 0s: process 0: 3 is odd"},
		{"a panic", func(*Process) error { panic("oops") }, "at 0s: panic: oops"},
		{"a leak", forget, "and 1 objects remained"},
		{"no end", func(p *Process) error {
			for {
				p.Sleep(time.Millisecond)
			}
		}, "process 0 has not ended, 10ms after the last fault"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := program(t, nil, c.program)
			if (c.want == "") != (r.Failure == "") || !strings.Contains(r.Failure, c.want) {
				t.Errorf("%q, want %q", r.Failure, c.want)
			}
			if (c.name == "a panic") != (r.Stack != "") {
				t.Errorf("stack %q", r.Stack)
			}
		})
	}
}

// A program that spins at one instant does not hold the storm up.
func TestPatience(t *testing.T) {
	c := Default()
	c.Patience = time.Millisecond
	stop := make(chan struct{})
	defer close(stop)
	c.Program = func(*Process) error {
		<-stop
		return nil
	}
	r, err := Run(t.Context(), c)
	if err != nil || !strings.HasPrefix(r.Failure, "the run hangs") {
		t.Errorf("%+v, %v", r, err)
	}
}

// A run ends with its context, and its programs at their next call.
func TestLeft(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	hold, ended := make(chan struct{}), make(chan struct{})
	c := Default()
	c.Seed, c.Patience = 5, 0
	c.Program = func(p *Process) error {
		if p.ID > 0 {
			return nil
		}
		defer close(ended)
		cancel(why)
		<-hold
		for {
			p.Sleep(time.Millisecond)
		}
	}
	tally, failed, err := Seeds(ctx, c, 100, 1, nil)
	if err != nil || failed != nil || tally.Seeds != 0 || len(tally.UnderWay) != 1 || tally.UnderWay[0] != 5 {
		t.Errorf("%+v, %v, %v: expected that seed 5 was under way", tally, failed, err)
	}
	close(hold)
	<-ended
	if _, err := Run(ctx, c); !errors.Is(err, why) {
		t.Errorf("%v, expected the context's cause", err)
	}
}

// A crash takes all that a process has, and the program begins anew.
func TestCrash(t *testing.T) {
	us := units.Microsecond
	var began []units.Time
	var leftover verbs.MR
	r := program(t, fault.Schedule{{Kind: fault.Crash, A: 0, At: 50 * us, For: 20 * us}}, func(p *Process) error {
		began = append(began, p.Now())
		pd, err := p.Device().AllocPD()
		if err != nil {
			return err
		}
		mr, err := pd.RegMR(make([]byte, 100), ib.AccessLocalWrite)
		if err != nil {
			return err
		}
		if p.Incarnation == 0 {
			leftover = mr
			defer func() {
				if err := mr.Close(); !errors.Is(err, verbs.ErrClosed) {
					t.Errorf("while the process crashes: %v", err)
				}
			}()
			p.Sleep(time.Second)
			t.Error("the process lives on")
		}
		return errors.Join(mr.Close(), pd.Close(), p.Device().Close())
	})
	if r.Failure != "" || len(began) != 2 || began[1] < 70*us || began[1] > 71*us {
		t.Errorf("%q, began at %v", r.Failure, began)
	}
	if err := leftover.(*guardMR).MR.Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("memory of before the crash: %v", err)
	}
}

// A process that stands still takes part again afterwards, and its messages wait.
func TestStall(t *testing.T) {
	us := units.Microsecond
	c := Default()
	c.Processes, c.Faults = 2, fault.Schedule{{Kind: fault.Stall, A: 1, At: 30 * us, For: 500 * us}}
	var got units.Time
	c.Program = func(p *Process) error {
		if p.ID == 0 {
			p.Sleep(100 * time.Microsecond)
			p.Send(1, "hello")
			return nil
		}
		for {
			if from, msg, ok := p.Receive(); ok {
				if from != 0 || msg != "hello" {
					t.Errorf("%v from %d", msg, from)
				}
				got = p.Now()
				return nil
			}
			p.Sleep(10 * time.Microsecond)
		}
	}
	if r, err := Run(t.Context(), c); err != nil || r.Failure != "" || got < 530*us || got > 550*us {
		t.Errorf("%+v, %v: the message came at %v", r, err, got)
	}
}

func TestNICClock(t *testing.T) {
	us := units.Microsecond
	c := newNICClock(1e9, 1, fault.Schedule{
		{Kind: fault.Step, A: 1, At: 20 * us, By: -5 * us},
		{Kind: fault.Drift, A: 1, PPM: 100},
		{Kind: fault.Step, A: 1, At: 10 * us, By: 2 * us},
		{Kind: fault.Drift, A: 0, PPM: -50},
	})
	for ticks, want := range map[uint64]uint64{0: 0, 9_999: 9_999, 10_000: 12_001, 19_999: 22_000, 20_000: 17_002, 1_000_000: 997_100} {
		if got := c.read(ticks); got != want {
			t.Errorf("at %d ns the clock shows %d, want %d", ticks, got, want)
		}
	}
}

func TestConfigs(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`Provider is "ibv": choose soft or sim`:             func(c *Config) { c.Provider = "ibv" },
		"Processes is 1: choose 2 to 16":                    func(c *Config) { c.Processes = 1 },
		"Span is 0s: choose a positive span up to 1s":       func(c *Config) { c.Span = 0 },
		"Grace is -1s: choose a positive span up to 10000s": func(c *Config) { c.Grace = -units.Second },
		`Shim: no rate engine is called "sw"`:               func(c *Config) { c.Shim = "sw" },
		`fault "crash 3 at 0s for 0s": there`:               func(c *Config) { c.Faults = fault.Schedule{{Kind: fault.Crash, A: 3}} },
	} {
		c := Default()
		change(&c)
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Shrink leaves what the failure needs.
func TestShrink(t *testing.T) {
	us := units.Microsecond
	c := Default()
	c.Processes, c.Grace = 2, 10*units.Millisecond
	c.Faults = fault.Schedule{
		{Kind: fault.Drop, A: 0, B: 1, Packet: 3}, {Kind: fault.Crash, A: 1, At: 300 * us, For: us}, {Kind: fault.Stall, A: 0, At: us, For: us},
		{Kind: fault.Crash, A: 1, At: 100 * us, For: us}, {Kind: fault.Drift, A: 0, PPM: 3},
	}
	c.Program = func(p *Process) error {
		if p.Incarnation == 2 {
			p.Failf("twice")
		}
		if p.ID == 1 {
			p.Sleep(time.Millisecond)
		}
		return nil
	}
	r, err := Run(t.Context(), c)
	if err != nil || r.Failure == "" {
		t.Fatal(r, err)
	}
	least, err := Shrink(t.Context(), c, r, 100)
	if err != nil || least.Failure == "" || len(least.Faults) != 2 || least.Faults[0].Kind != fault.Crash || least.Faults[1].Kind != fault.Crash {
		t.Errorf("%+v, %v", least, err)
	}
}
