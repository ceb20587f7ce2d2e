package reduced_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

var update = flag.Bool("update", false, "with SLUICE_LARGE, write testdata/conformity.json anew; write the table of docs/engines/README.md")

// setting is a column of the table of conformity: networks on which flows are held to
// their max-min fair rates.
type setting struct {
	name      string
	hostDelay units.Time
	mixed     bool // links between switches of three rates
	leave     bool // half of the flows leave
	hops      int  // a parking lot, and no random networks
	ties      bool // two hops of the same fair share, of links of 100 Gbps
	among     bool // acknowledgements wait among the data
}

func settingsOfMaxMin() (all []setting) {
	const us = units.Microsecond
	add := func(format string, c setting) {
		c.name = fmt.Sprintf(format, c.hostDelay)
		all = append(all, c)
	}
	add("one rate, %v", setting{hostDelay: us})
	for _, d := range []units.Time{us / 4, 2 * us, 5 * us, 10 * us} {
		add("mixed, %v", setting{hostDelay: d, mixed: true})
	}
	for _, d := range []units.Time{us / 4, 10 * us} {
		add("leaving, %v", setting{hostDelay: d, mixed: true, leave: true})
	}
	for _, hops := range []int{3, 5, 8} {
		for _, d := range []units.Time{us / 4, 10 * us} {
			add(fmt.Sprintf("lot of %d, %%v", hops), setting{hostDelay: d, hops: hops})
		}
	}
	add("ties, %v", setting{hostDelay: us / 4, ties: true})
	for _, d := range []units.Time{us / 4, 2 * us} {
		add("ties, ACKs among data, %v", setting{hostDelay: d, ties: true, among: true})
	}
	return all
}

// run measures an engine in a setting: on five random networks or the parking lot, from 20
// to 30 ms.
func (c setting) run(t *testing.T, s cc.Scheme) (f fairness) {
	rate := 200 * units.Gbps
	const warm, span = 20 * units.Millisecond, 10 * units.Millisecond
	plans := []plan{}
	if c.ties {
		rate = 100 * units.Gbps
		plans = append(plans, newTies(rate, c.hostDelay))
	} else if c.hops > 0 {
		plans = append(plans, newParkingLot(c.hops, rate, c.hostDelay))
	} else {
		for seed := range uint64(5) {
			plans = append(plans, newPlan(seed, rate, c.hostDelay, c.mixed))
		}
	}
	for _, p := range plans {
		n := newNetwork(t, s, p.topo, rate, nil)
		n.acksAmongData = c.among
		if err := f.measure(n, p, c.leave, warm, span); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

const conformityFile = "testdata/conformity.json"

// readConformity returns the measured values, by engine and setting.
func readConformity(t *testing.T) map[string]map[string]fairness {
	t.Helper()
	text, err := os.ReadFile(conformityFile)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]fairness{}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// Poseidon's theorem 1, "Poseidon converges to the max-min fairness": in each setting at
// least 95 percent of its long-run rates are within 15 percent of the max-min fair ones,
// unless acknowledgements wait among data.
// The other engines have the figures that docs/engines/README.md gives. SLUICE_LARGE asks
// for all settings, and not for the shortest and the ties only.
func TestMaxMinFairness(t *testing.T) {
	if testing.Short() {
		t.Skipf("takes a minute")
	}
	recorded := readConformity(t)
	schemes, settings := netSchemes(), settingsOfMaxMin()
	for i, s := range schemes {
		if recorded[s.Name] == nil && !*update {
			continue // docs/engines/README.md names those
		}
		t.Run(s.Name, func(t *testing.T) {
			for j, c := range settings {
				if !large() && c.name != "lot of 3, 250ns" && !c.ties {
					continue
				}
				got, ok := kept(t, c.name, i*len(settings)+j, len(schemes)*len(settings), func() fairness { return c.run(t, s) })
				if !ok {
					continue
				}
				t.Logf("%s: %+v", c.name, got)
				if *update && large() {
					if recorded[s.Name] == nil {
						recorded[s.Name] = map[string]fairness{}
					}
					recorded[s.Name][c.name] = got
				} else if want := recorded[s.Name][c.name]; got != want {
					t.Errorf("%s: got %+v, recorded is %+v: if it changed on purpose, SLUICE_LARGE=1 go test ./bench/internal/reduced -run MaxMin -update", c.name, got, want)
				}
			}
		})
	}
	if *update && large() {
		text, err := json.MarshalIndent(recorded, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(conformityFile, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Poseidon's part of what was recorded, which TestMaxMinFairness measures.
func TestPoseidonIsMaxMinFair(t *testing.T) {
	recorded := readConformity(t)["poseidon"]
	for _, c := range settingsOfMaxMin() {
		if c.among {
			continue // docs/engines/poseidon.md says why it is not
		}
		if f := recorded[c.name]; f.Flows == 0 || f.Close*100 < 95*f.Flows {
			t.Errorf("%s: %d of %d flows are within 15 percent of their max-min fair rates, expected 95 percent", c.name, f.Close, f.Flows)
		}
	}
}

const (
	tableBegin = "<!-- Conformity, written by go test ./bench/internal/reduced -update -->\n"
	tableEnd   = "<!-- end of conformity -->\n"
	readme     = "../../../docs/engines/README.md"
)

// The table of docs/engines/README.md is what was recorded.
func TestTableOfConformity(t *testing.T) {
	page, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), tableBegin)
	old, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("%s has no lines %q and %q", readme, tableBegin, tableEnd)
	}
	table := conformityTable(readConformity(t))
	if *update {
		if err := os.WriteFile(readme, []byte(before+tableBegin+table+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if table != old {
		t.Errorf("the table of %s is not that of %s: go test ./bench/internal/reduced -run TableOfConformity -update", readme, conformityFile)
	}
}

// conformityTable has a row for each engine, the best first.
func conformityTable(recorded map[string]map[string]fairness) string {
	var b bytes.Buffer
	settings := settingsOfMaxMin()
	line := func(first string, cell func(setting) string) {
		fmt.Fprintf(&b, "| %s |", first)
		for _, c := range settings {
			fmt.Fprintf(&b, " %s |", cell(c))
		}
		b.WriteByte('\n')
	}
	line("", func(c setting) string { return c.name })
	line("---", func(setting) string { return "---" })
	share := func(f fairness) float64 { return 100 * float64(f.Close) / float64(max(f.Flows, 1)) }
	total := func(engine string) (sum float64) {
		for _, c := range settings {
			sum += share(recorded[engine][c.name])
		}
		return sum
	}
	var names []string
	for _, s := range netSchemes() {
		if recorded[s.Name] != nil {
			names = append(names, s.Name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return -strings.Compare(fmt.Sprintf("%09.1f", total(a)), fmt.Sprintf("%09.1f", total(b)))
	})
	for _, name := range names {
		line("`"+name+"`", func(c setting) string {
			f := recorded[name][c.name]
			if c.hops > 0 || c.ties {
				return fmt.Sprintf("%.0f, %.2f", share(f), f.First)
			}
			return fmt.Sprintf("%.0f", share(f))
		})
	}
	return b.String()
}
