package turns

import (
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
