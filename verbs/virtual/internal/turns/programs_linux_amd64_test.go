package turns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
	dir, library, program, world string
	skip                         string
	err                          error
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
	built.dir, built.library, built.program, built.world = dir, filepath.Join(dir, "libsluice-virtual.so"), filepath.Join(dir, "program"), filepath.Join(dir, "world")
	sources, err := filepath.Glob("../../preload/*.c")
	if err != nil {
		return err
	}
	flags := []string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"}
	for _, args := range [][]string{
		append([]string{"-fPIC", "-shared", "-fvisibility=hidden", "-Wl,--version-script=../../preload/virtual.map", "-o", built.library}, sources...),
		{"-o", built.program, "testdata/program.c", "-lpthread"},
		{"-o", built.world, "testdata/world.c", "-lpthread"},
		{"-DGO", "-o", filepath.Join(dir, "go"), "testdata/program.c", "-lpthread"},
		{"-static", "-o", filepath.Join(dir, "static"), "-x", "c", "-"}, // an empty program
	} {
		c := exec.Command(cc, append(flags, args...)...)
		c.Stdin = strings.NewReader("int main(void) { return 0; }")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %q: %w\n%s", cc, args, err, out)
		}
	}
	return nil
}

// ran is the result of programs.
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

// run runs programs on hosts h0 and h1. An argument of "PROGRAM" is the test program, "WORLD" the one of its machine.
func run(t *testing.T, devices Devices, lookahead units.Time, commands ...command) ran {
	t.Helper()
	library, program := build(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "paths"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	engine := des.New()
	s, err := New(Config{
		Simulation: engine, Devices: devices, PollCost: 100 * units.Nanosecond, Lookahead: lookahead,
		Hosts: []Host{{"h0", netip.MustParseAddr("10.0.0.1")}, {"h1", netip.MustParseAddr("10.0.0.2")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if c, ok := devices.(*completer); ok {
		c.engine, c.s = engine, s
	}
	var programs []*Program
	var files []string
	for i, c := range commands {
		for i := range c.args {
			switch c.args[i] {
			case "PROGRAM":
				c.args[i] = program
			case "WORLD":
				c.args[i] = built.world
			}
		}
		cmd := exec.Command(c.args[0], c.args[1:]...)
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+library, "SLUICE_VIRTUAL="+dir)
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("output%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
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

// twice runs programs two times, with a lookahead and without, and checks that both runs are equal.
func twice(t *testing.T, commands ...command) ran {
	t.Helper()
	clone := func() (c []command) {
		for _, x := range commands {
			x.args = append([]string(nil), x.args...)
			c = append(c, x)
		}
		return c
	}
	first := run(t, none{}, 0, clone()...)
	if first.err != nil {
		t.Errorf("%v\n%s", first.err, strings.Join(first.outputs, "\n"))
		return first
	}
	if again := run(t, none{}, units.Microsecond, clone()...); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("two runs differ:\n%v\n%v", first, again)
	}
	return first
}

// TestLeftBehind ends a child that a program made by a system call of its own, with the run.
func TestLeftBehind(t *testing.T) {
	out := run(t, none{}, 0, on(0, 0, "PROGRAM", "cloner"))
	if out.err != nil {
		t.Fatal(out.err, out.outputs)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.outputs[0]))
	if err != nil || pid <= 0 {
		t.Fatalf("the program printed %q", out.outputs[0])
	}
	// As a zombie it has ended, too: whoever reaps it here may take a while.
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil && !strings.Contains(string(state), ") Z ") {
		t.Errorf("the child is there: %s", state)
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// TestDescriptors has a program see none of the descriptors that this process inherited.
func TestDescriptors(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inherited, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 300) // without close-on-exec, as a shell leaves it
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	out := run(t, none{}, 0, on(0, 0, "ls", "/proc/self/fd"))
	if out.err != nil || slices.Contains(strings.Fields(out.outputs[0]), strconv.Itoa(inherited)) {
		t.Errorf("%v: the program has descriptors %q, among them %d", out.err, out.outputs, inherited)
	}
}

func TestPrograms(t *testing.T) {
	for _, test := range []struct {
		name     string
		commands []command
		want     []string
	}{
		{"clocks", []command{on(0, 0, "PROGRAM", "clocks")}, []string{clocksWant}},
		{"machine", []command{on(0, 0, "PROGRAM", "machine"), on(1, 0, "PROGRAM", "machine")}, []string{fmt.Sprintf(machineWant, 1), fmt.Sprintf(machineWant, 2)}},
		{"timers", []command{on(0, 0, "PROGRAM", "timers")}, []string{timersWant}},
		{"sockets", []command{on(0, 0, "PROGRAM", "server", "20"), on(1, units.Millisecond, "PROGRAM", "client", "h0", "20")}, []string{serverWant, clientWant}},
		{"a call at once", []command{on(0, 0, "PROGRAM", "server", "0"), on(1, units.Millisecond, "PROGRAM", "caller", "h0")}, []string{calledWant, "1060000 read\n"}},
		{"alternating", []command{on(0, 0, "PROGRAM", "reader"), on(1, 0, "PROGRAM", "reader"), on(1, 3*units.Microsecond, "PROGRAM", "reader")},
			[]string{"60000 read\n", "60000 read\n", "63000 read\n"}},
		{"threads", []command{on(0, 0, "PROGRAM", "threads")}, []string{threadsWant}},
		{"barriers", []command{on(0, 0, "PROGRAM", "barriers")}, []string{barriersWant}},
		{"impatient", []command{on(0, 0, "PROGRAM", "impatient"), on(1, 10*units.Microsecond, "PROGRAM", "asker", "h0")}, []string{impatientWant}},
		{"processes", []command{on(0, 0, "PROGRAM", "processes")}, []string{processesWant}},
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

// A probe may come in any system call: among them that by which the library looks whether a
// descriptor is ready.
func TestProbesInterruptNoLook(t *testing.T) {
	_, program := build(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			links, err := filepath.Glob("/proc/[0-9]*/exe")
			if err != nil {
				t.Error(err)
				return
			}
			for _, link := range links {
				if exe, err := os.Readlink(link); err != nil || exe != program {
					continue
				}
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
				if !catches(pid, unix.SIGSTKFLT) { // it would be the program's end
					continue
				}
				for range 20_000 {
					if unix.Tgkill(pid, pid, unix.SIGSTKFLT) != nil {
						break
					}
				}
			}
		}
	}()
	r := run(t, none{}, 0, on(0, 0, "PROGRAM", "looks", "20000"))
	close(stop)
	<-stopped
	if want := "0 looks went wrong\n"; r.err != nil || r.outputs[0] != want {
		t.Errorf("%v\n%sexpected\n%s", r.err, r.outputs[0], want)
	}
}

// catches reports whether a process has a handler for a signal.
func catches(pid int, sig unix.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, caught, found := strings.Cut(string(status), "SigCgt:\t")
	if err != nil || !found {
		return false
	}
	line, _, _ := strings.Cut(caught, "\n")
	mask, err := strconv.ParseUint(line, 16, 64)
	return err == nil && mask>>(sig-1)&1 == 1
}

const clocksWant = `clock 1: 1000.000000020
clock 2: 0.000000040
clock 3: 0.000000060
clock 4: 1000.000000080
clock 5: 1767225600.000000100
clock 6: 1000.000000120
clock 7: 1000.000000140
0 clocks
180 again
1767225600.000000200
1767225600.000000 1767225600
2000000000560 2000000000520
1000300 slept 1 ms
2000002000640
51000360 spun 50 ms
`

const machineWant = `processors: 1
cpu MHz		: 2000.000
00000000-0000-4000-8000-ffff0a00000%d
`

const timersWant = `3 left
2000000020 alarm
2050000040 alarm in a loop of clock reads
2800000060 three of an interval
5800000080 timer_create
6800000100 alarm in a loop of memory reads
6800000120 computed
`

const serverWant = `20 listening
from 10.0.0.2:32769
1000020 accepted
1300020 answered
then 0
10300100 closed
`

// The listener hears of the call when it is made, not when the caller next waits.
const calledWant = `20 listening
from 10.0.0.2:32769
1000020 accepted
1000040 answered
then 0
1060020 closed
`

const clientWant = `at 10.0.0.2:32769
to 10.0.0.1:18515
1300020 asked
poll 0
4300040 polled in vain
select 0
6300060 selected in vain
epoll 0
10300080 waited in vain
10300100 done
`

const threadsWant = `143020 all counted
0 1 0 2 3 0 1 2 1 3 2 3 
193040 another thread wrote
1
2000193080 timed out
`

const barriersWant = `thread 1000 1000 of 1000 1000
thread 101000 101000 of 1000 1000
thread 201000 201000 of 1000 1000
30020: 2 met
30020: 0 met
30020: 1 met
60040: 2 met
60040: 0 met
60040: 1 met
90060: 2 met
main 3
90060: 0 met
0 0
90060: 1 met
1 0
90080 parted
`

// A look that finds nothing takes 100 ns, and sees what has come until then.
const impatientWant = `100 looks
10120 accepted
48 looks
15040 received
70 looks
22160 received again
`

const processesWant = `process 1000 of 1
c7d6fb4b7a917de1 7a50859d0a634813
forked 1001
child 1001 of 1000
100020 the child read
waited for 1001, status 7
400040 waited
1 SIGCHLD
1900060 slept after exec
1900080 executed
system 3
251900100 slept in a shell
popen 42
kill 0
signal 15
kill -1 1
251910120 end
`

// completer is a device that writes completions into the queue of the program's part
// "queue": bursts of growing size, each 1 µs after the one before.
type completer struct {
	t        *testing.T
	engine   *des.Engine
	source   des.Source
	node     des.NodeID
	s        *Scheduler
	memory   *os.File
	queue    *WatchedQueue
	produced uint32
	writes   uint64
}

const (
	queueAddr, recordAddr = 0x10000000, 0x20000000
	queueEntries          = 64
)

func (c *completer) OnWaitingPoint(pid int) {
	if c.queue != nil {
		return
	}
	var err error
	if c.queue, err = c.s.WatchQueue(pid, Queue{Addr: queueAddr, Entries: queueEntries, EntrySize: 64, Doorbell: recordAddr}); err != nil {
		c.t.Error(err)
	}
	if c.memory, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err != nil {
		c.t.Error(err)
	}
	c.source = c.engine.NewSource()
	c.node = c.engine.AddHandler(c)
	c.engine.Schedule(c.engine.Now()+units.Microsecond, &c.source, c.node, 0, 1)
}

// Handle writes a burst.
func (c *completer) Handle(ev des.Event) {
	for range ev.Arg {
		entry := make([]byte, 64)
		entry[0], entry[63] = byte(c.produced), byte(c.produced/queueEntries&1)
		if _, err := c.memory.WriteAt(entry, int64(queueAddr+c.produced%queueEntries*64)); err != nil {
			c.t.Error(err)
		}
		c.produced++
	}
	c.writes++
	c.queue.Produce(c.produced)
	if c.produced < 200 {
		c.engine.Schedule(ev.At+units.Microsecond, &c.source, c.node, 0, min(ev.Arg+1, uint64(200-c.produced)))
	}
}

func (c *completer) Writes(int) uint64 { return c.writes }

func (c *completer) OnEnd(int) { _ = c.memory.Close() }

// TestComputesLong has a program compute for long, and another that waits for a thread in a loop that looks as if it did.
func TestComputesLong(t *testing.T) {
	defer func(was time.Duration) { computesFor = was }(computesFor)
	computesFor = 20 * time.Millisecond
	r := run(t, none{}, 0, on(0, 0, "PROGRAM", "computer", "200"), on(1, 0, "PROGRAM", "counter"), on(1, units.Second, "PROGRAM", "looks", "1"))
	if r.err != nil {
		t.Fatalf("%v\n%s", r.err, strings.Join(r.outputs, "\n"))
	}
	if most := 100 * units.Millisecond; r.ends[0] > most || !strings.HasSuffix(r.outputs[0], " computed\n") {
		t.Errorf("who computes ended at %v, expected %v at most:\n%s", r.ends[0], most, r.outputs[0])
	}
	if want := "50020 counted\n"; r.outputs[1] != want {
		t.Errorf("who counts printed %q, expected %q", r.outputs[1], want)
	}
}

// TestQueue has a program poll a completion queue: each poll that finds none takes 100 ns,
// and others take nothing.
func TestQueue(t *testing.T) {
	for _, most := range []int{1, 16} {
		c := &completer{t: t}
		r := run(t, c, 0, on(0, 0, "PROGRAM", "queue", fmt.Sprint(most)))
		if r.err != nil {
			t.Fatal(r.err)
		}
		want := "1020 made\n"
		total, polls := 0, 1
		for burst := 1; total < 200; burst++ {
			for left := min(burst, 200-total); left > 0; polls = 1 {
				n := min(left, most)
				want += fmt.Sprintf("%d polls, %d:", polls, n)
				for range n {
					want += fmt.Sprintf(" %d", total)
					total++
				}
				want += "\n"
				left -= n
			}
			polls = 10 // the last of them sees the entry after its 100 ns
		}
		want += "0\n5\n20040 end\n"
		if got := r.outputs[0]; got != want {
			t.Errorf("%d at a time: the program (%s) printed\n%sexpected\n%s", most, r.states, got, want)
		}
	}
}

// TestStuck has all programs wait for ever.
func TestStuck(t *testing.T) {
	r := run(t, none{}, 0, on(0, 0, "PROGRAM", "stuck"), on(1, 0, "PROGRAM", "server", "1"))
	var stuck *StuckError
	if !errors.As(r.err, &stuck) || len(stuck.Waiting) != 2 {
		t.Fatalf("%v, expected that two programs wait", r.err)
	}
	for _, want := range []string{"h0: program (thread 1) waits for a signal", "h1: program (thread 1) waits for descriptor 3 (socket)"} {
		if !strings.Contains(r.err.Error(), want) {
			t.Errorf("%v, expected that it has %q", r.err, want)
		}
	}
}

// TestRefused has programs do what can't be simulated.
func TestRefused(t *testing.T) {
	build(t)
	goProgram := filepath.Join(built.dir, "go")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"PROGRAM", "uring"}, "h0: program: the system call io_uring_setup can't be simulated"},
		{[]string{goProgram, "clocks"}, "h0: go: a Go runtime (sluice virtual runs it in real time) can't be simulated"},
		{[]string{filepath.Join(built.dir, "static"), "clocks"}, "h0: static: it ended before it was simulated: it is linked statically, changes its user, or lacks a library"},
		{[]string{"PROGRAM", "execute", filepath.Join(built.dir, "static")}, "h0: program: it executed a program that can't be simulated: one that is linked statically, changes its user, or lacks a library"},
	} {
		if r := run(t, none{}, 0, on(0, 0, test.args...)); r.err == nil || r.err.Error() != test.want {
			t.Errorf("%q: %v, expected %s", test.args, r.err, test.want)
		}
	}
}
