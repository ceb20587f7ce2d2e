package harness_test

import (
	"strconv"
	"strings"
	"testing"
)

// TestBalance runs the choice of queue pairs over a model of paths: queues that are served at a rate, after a trip of
// 5 us. Rates are in bytes a microsecond; the last figure of a phase is the mean time of a piece.
func TestBalance(t *testing.T) {
	built(t)
	const all = "100000000" // outstanding: as much as there is room for
	for _, c := range []struct {
		name, args string
		want       string // of each phase and path, what is served at least, and the time of a piece at most, in ns
		most       string // what is served at most
	}{
		{"equal", "delay 65536 " + all + " 3125 3125 3125 3125", "3100 3100 3100 3100 175000", ""},
		{"one slow", "delay 65536 " + all + " 312.5 3125 3125 3125", "280 3100 3100 3100 180000", ""},
		{"one hundred times as slow", "delay 65536 " + all + " 31.25 3125 3125 3125", "28 3100 3100 3100 200000", ""},
		{"all differ", "delay 65536 " + all + " 500 1000 2000 4000", "480 980 1980 3980 400000", ""},
		{"slow, and fast again", "delay 65536 " + all + " 3125 3125 3125 3125 / 312.5 3125 3125 3125 / 3125 3125 3125 3125",
			"3100 3100 3100 3100 175000 280 3100 3100 3100 180000 3100 3100 3100 3100 175000", ""},
		{"dead, and alive again", "delay 65536 " + all + " 3125 3125 3125 3125 / 0 3125 3125 3125 / 3125 3125 3125 3125",
			"3100 3100 3100 3100 175000 0 3100 3100 3100 175000 3100 3100 3100 3100 175000", ""},
		{"dead from the start", "delay 65536 " + all + " 0 3125 3125 3125", "0 3100 3100 3100 175000", ""},
		{"one piece at a time leaves the slow path, but for a look", "delay 65536 65536 312.5 3125 3125 3125", "1 700 700 700 28000", "20 3125 3125 3125"},
		{"round robin waits for the slow one", "roundrobin 65536 " + all + " 312.5 3125 3125 3125", "300 300 300 300 500000", "320 320 320 320"},
		{"round robin, all equal", "roundrobin 65536 " + all + " 3125 3125 3125 3125", "3100 3100 3100 3100 175000", ""},
		{"round robin waits for a dead one", "roundrobin 65536 " + all + " 0 3125 3125 3125", "0 0 0 0 0", "0 0 0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := run(t, nil, "balance", strings.Fields(c.args)...)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got, want, most := figures(t, out), figures(t, c.want), figures(t, c.most)
			if len(got) != len(want) {
				t.Fatalf("%d figures, expected %d:\n%s", len(got), len(want), out)
			}
			const perPhase = 5
			for i, w := range want {
				if i%perPhase == perPhase-1 {
					if got[i] > w {
						t.Errorf("a piece takes %v ns, expected at most %v:\n%s", got[i], w, out)
					}
				} else if got[i] < w || (most != nil && got[i] > most[i]) {
					t.Errorf("path %d has %v, expected at least %v, at most %q:\n%s", i%perPhase, got[i], w, c.most, out)
				}
			}
		})
	}
}

func figures(t *testing.T, text string) (all []float64) {
	t.Helper()
	for _, f := range strings.Fields(text) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}
