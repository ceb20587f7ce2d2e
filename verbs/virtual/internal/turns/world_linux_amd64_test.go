package turns

import (
	"os/exec"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// TestWorld has programs see the rest of a machine in simulated time, twice each.
func TestWorld(t *testing.T) {
	for _, test := range []struct {
		name     string
		commands []command
		want     []string
	}{
		{"signals", []command{on(0, 0, "WORLD", "signals")}, []string{signalsWant}},
		{"timers of descriptors", []command{on(0, 0, "WORLD", "timers")}, []string{timersOfDescriptors}},
		{"datagrams", []command{on(0, 0, "WORLD", "answers"), on(1, units.Millisecond, "WORLD", "asks", "h0")}, []string{answersWant, asksWant}},
		{"listeners of one port", []command{on(0, 0, "WORLD", "reuse")}, []string{"4 and 4\n"}},
		{"names", []command{on(0, 0, "WORLD", "names")}, []string{namesWant}},
		{"what processes share", []command{on(0, 0, "WORLD", "shares")}, []string{sharesWant}},
		{"inotify", []command{on(0, 0, "WORLD", "watches", t.TempDir())}, []string{"1 made\n1000 made\n"}},
		{"what was left in memory", []command{on(0, 0, "WORLD", "leftovers"), on(1, 0, "sh", "-c", "$0 leftovers", "WORLD")}, nil},
		{"signals at an execve", []command{on(0, 0, "WORLD", "interrupted-exec")}, []string{"executed\n"}},
		{"numbers", []command{on(0, 0, "WORLD", "numbers")}, []string{"1000 1000 1000 1\n20 end\n"}},
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

// TestCommands has programs of the machine end as they do outside.
func TestCommands(t *testing.T) {
	for _, test := range []struct {
		args  []string
		want  string
		state string
		end   units.Time // without what reads of clocks take
	}{
		{[]string{"timeout", "1", "sleep", "3"}, "", "exit status 124", units.Second},
		{[]string{"timeout", "3", "sleep", "1"}, "", "exit status 0", units.Second},
		{[]string{"sh", "-c", "timeout 1 sleep 3; echo $?"}, "124\n", "exit status 0", units.Second},
		{[]string{"nice", "-n", "3", "nice"}, "3\n", "exit status 0", 0},
		{[]string{"sh", "-c", "test -r /proc/$$/stat && kill -0 $$ && echo $$"}, "1000\n", "exit status 0", 0},
		{[]string{"sh", "-c", "sleep 1 & wait; echo done"}, "done\n", "exit status 0", units.Second},
	} {
		r := twice(t, on(0, 0, test.args...))
		if r.err != nil {
			continue
		}
		if r.outputs[0] != test.want || r.states[0] != test.state || r.ends[0] < test.end || r.ends[0] > test.end+units.Millisecond {
			t.Errorf("%q ended at %v with %s and printed\n%sexpected %v, %s and\n%s", test.args, r.ends[0], r.states[0], r.outputs[0], test.end, test.state, test.want)
		}
	}
}

// TestShells has a shell's commands print and end as outside, however much goes through their pipes.
func TestShells(t *testing.T) {
	for _, command := range []string{
		"exit 3 | (cat; exit 4)",
		"(sleep 1; echo late) | sed s/late/later/",
		"seq 50000 | sort -rn | sed -n '$p'",
		"yes | head -n 50000 | wc -c",
		"head -c 40000000 /dev/zero",
		"head -c 1000000 /dev/zero | tr '\\0' x | sed s/x/y/",
		"sleep 5 & echo left",
		"echo a >&2 | cat; (echo b; echo c >&2) 2>&1 | sort",
	} {
		outside := exec.Command("sh", "-c", command)
		outside.Dir = t.TempDir()
		want, err := outside.CombinedOutput()
		if outside.ProcessState == nil {
			t.Fatal(err)
		}
		r := twice(t, on(0, 0, "sh", "-c", "cd "+t.TempDir()+";"+command))
		if r.err != nil {
			continue
		}
		if state := outside.ProcessState.String(); r.states[0] != state {
			t.Errorf("%q ended with %s, outside with %s", command, r.states[0], state)
		}
		if got := r.outputs[0]; got != string(want) {
			t.Errorf("%q printed %d bytes, %.100q, outside %d, %.100q", command, len(got), got, len(want), want)
		}
	}
}

const timersOfDescriptors = `8 1
1000 first
999980 2000000
8 2
1
7000 polled
0
17000 disarmed
1
1017000 at a time of day
`

const answersWant = `1 from 10.0.0.2:32769
5 from 10.0.0.2:32769
1000 answered
`

const asksWant = `1 from 10.0.0.1:5353
at 10.0.0.2:32769
5 abcde
0
2000 asked
`

const namesWant = `10.0.0.2:5353 10.0.0.2
10.0.0.1
h1
h1
10.0.0.2
10.0.0.1 h0
10.0.0.2 h1
lo 127.0.0.1/255.0.0.0 0x49
eth0 10.0.0.1/255.0.0.0 0x1043
`

const sharesWant = `1000 barrier
2000 mutex
3000 futex
4000 memory
5000 semaphore
6000 condition
7000 eventfd
8000 end
`

const signalsWant = `1000 pause ended
1 1
-1 1
2000 usleep ended
-1 1
3000 read ended
0 0 1
3500 slept
4500 usleep ended by a signal of kill
4500 sigsuspend took a pending one
5500 sigsuspend ended
-1 1 1
-1 1
10500 sigtimedwait took 5 ms
0 1
2010500 sigwait took an alarm
took 1
2011500 a thread took it
0
2012500 a thread's pause ended
2012500 end
`
