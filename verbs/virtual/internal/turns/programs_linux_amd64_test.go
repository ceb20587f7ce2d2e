package turns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// none are devices that nobody has.
type none struct{}

func (none) OnWaitingPoint(int) {}
func (none) Writes(int) uint64  { return 0 }
func (none) OnEnd(int)          {}

// TestMain removes what build made.
func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

var built struct {
	sync.Once
	dir, library, program string
	skip                  string
	err                   error
}

// build compiles the library and the program, once.
func build(t *testing.T) (library, program string) {
	t.Helper()
	built.Do(func() { built.err = compile() })
	switch {
	case built.skip != "":
		t.Skipf("%s", built.skip)
	case built.err != nil:
		t.Fatal(built.err)
	}
	return built.library, built.program
}

func compile() error {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		built.skip = fmt.Sprintf("no C compiler: %v", err)
		return nil
	}
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		return err
	}
	built.dir, built.library, built.program = dir, filepath.Join(dir, "libsluice-virtual.so"), filepath.Join(dir, "program")
	sources, err := filepath.Glob("../../preload/*.c")
	if err != nil {
		return err
	}
	flags := []string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"}
	for _, args := range [][]string{
		append([]string{"-fPIC", "-shared", "-fvisibility=hidden", "-Wl,--version-script=../../preload/virtual.map", "-o", built.library}, sources...),
		{"-o", built.program, "testdata/program.c", "-lpthread"},
	} {
		if out, err := exec.Command(cc, append(flags, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %q: %w\n%s", cc, args, err, out)
		}
	}
	return nil
}

// ran is what programs did.
type ran struct {
	outputs []string // with what they wrote to standard error
	ends    []units.Time
	states  []string
	err     error
}

// command is a program of a run: on a host, from a time on.
type command struct {
	host  int
	start units.Time
	args  []string
}

func on(host int, start units.Time, args ...string) command { return command{host, start, args} }

// run runs programs on hosts h0 and h1. An argument of "PROGRAM" is the test program.
func run(t *testing.T, devices Devices, commands ...command) ran {
	t.Helper()
	library, program := build(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "paths"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{
		Simulation: des.New(), Devices: devices, PollCost: 100 * units.Nanosecond,
		Hosts: []Host{{"h0", netip.MustParseAddr("10.0.0.1")}, {"h1", netip.MustParseAddr("10.0.0.2")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // a temporary directory
	var programs []*Program
	var files []string
	for i, c := range commands {
		if c.args[0] == "PROGRAM" {
			c.args[0] = program
		}
		cmd := exec.Command(c.args[0], c.args[1:]...)
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+library, "SLUICE_VIRTUAL="+dir)
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("output%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close() //nolint:errcheck // read by name
		cmd.Stdout, cmd.Stderr = f, f
		files = append(files, f.Name())
		programs = append(programs, &Program{Name: fmt.Sprintf("h%d: %s", c.host, filepath.Base(c.args[0])), Host: c.host, Start: c.start, Command: cmd})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out := ran{err: s.Run(ctx, programs...)}
	for i, p := range programs {
		b, err := os.ReadFile(files[i])
		if err != nil {
			t.Error(err)
		}
		out.outputs = append(out.outputs, string(b))
		out.ends = append(out.ends, p.End)
		if p.Command.ProcessState != nil {
			out.states = append(out.states, p.Command.ProcessState.String())
		}
	}
	return out
}

// twice runs programs two times and checks that both runs are equal.
func twice(t *testing.T, commands ...command) ran {
	t.Helper()
	clone := func() (c []command) {
		for _, x := range commands {
			x.args = append([]string(nil), x.args...)
			c = append(c, x)
		}
		return c
	}
	first := run(t, none{}, clone()...)
	if first.err != nil {
		t.Errorf("%v\n%s", first.err, strings.Join(first.outputs, "\n"))
		return first
	}
	if again := run(t, none{}, clone()...); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("two runs differ:\n%v\n%v", first, again)
	}
	return first
}

func TestPrograms(t *testing.T) {
	for _, test := range []struct {
		name     string
		commands []command
		want     []string
	}{
		{"clocks", []command{on(0, 0, "PROGRAM", "clocks")}, []string{clocksWant}},
		{"cpu", []command{on(0, 0, "PROGRAM", "cpu")}, []string{"cpu MHz\t\t: 2000.000\n"}},
		{"timers", []command{on(0, 0, "PROGRAM", "timers")}, []string{""}},
		{"sockets", []command{on(0, 0, "PROGRAM", "server", "20"), on(1, units.Millisecond, "PROGRAM", "client", "h0", "20")}, []string{"", ""}},
		{"threads", []command{on(0, 0, "PROGRAM", "threads")}, []string{""}},
		{"processes", []command{on(0, 0, "PROGRAM", "processes")}, []string{""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := twice(t, test.commands...)
			for i, want := range test.want {
				if got := r.outputs[i]; got != want {
					t.Errorf("program %d (%s) printed\n%sexpected\n%s", i, r.states[i], got, want)
				}
			}
		})
	}
}

const clocksWant = ``

// TestStuck has all programs wait for ever.
func TestStuck(t *testing.T) {
	r := run(t, none{}, on(0, 0, "PROGRAM", "stuck"), on(1, 0, "PROGRAM", "server", "1"))
	var stuck *StuckError
	if !errors.As(r.err, &stuck) || len(stuck.Waiting) != 2 {
		t.Fatalf("%v, expected that two programs wait", r.err)
	}
	t.Log(r.err)
}

// TestRefused has programs do what can't be simulated.
func TestRefused(t *testing.T) {
	r := run(t, none{}, on(0, 0, "PROGRAM", "timerfd"))
	if r.err == nil || !strings.Contains(r.err.Error(), "timerfd_create can't be simulated") {
		t.Errorf("%v, expected that timerfd_create can't be simulated", r.err)
	}
}
