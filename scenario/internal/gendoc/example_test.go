package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/scenario"
)

// around is the scenario around examples that are not whole.
const around = `
topology: {kind: leaf-spine, leaves: 1, spines: 1, hosts_per_leaf: 12}
fabric: {ecn: {kmin: 100KiB, kmax: 400KiB, pmax: 0.2}, ein: {gradient: 0.25, high_water: 120KiB}}
systems: [{name: TIMELY, engine: timely}]
workloads: [{kind: incast, label: victim, receiver: h10, size: unlimited}]
measure: {links: [tor0->h10]}
`

// aroundCircuits is around, for what only a network with circuits has.
var aroundCircuits = strings.NewReplacer(
	"{kind: leaf-spine, leaves: 1, spines: 1, hosts_per_leaf: 12}",
	"{kind: rdcn, tors: 5, hosts_per_tor: 12, day: 225us, night: 20us, circuit_rate: 100Gbps}",
	"fabric: {", "fabric: {pfc: {enabled: false}, ",
).Replace(around)

// aroundPrograms is around, for programs in place of workloads.
var aroundPrograms = strings.NewReplacer(
	"workloads: [{kind: incast, label: victim, receiver: h10, size: unlimited}]\n", "", "{name: TIMELY, engine: timely}", "{engine: none}",
).Replace(around)

// aroundOffload is around, for requests that NICs cut into packets themselves.
var aroundOffload = around + "nic: {mode: offload}\n"

// surroundings are the files that examples stand in, or name.
var surroundings = map[string]string{
	"around.yaml": around, "rdcn.yaml": aroundCircuits, "programs.yaml": aroundPrograms, "offload.yaml": aroundOffload, "flows.txt": flowsText,
}

// within lays an example over what it lacks.
func within(text string) string {
	base := "around.yaml"
	switch {
	case strings.Contains(text, "extends:") || whole(text):
		return text
	case strings.Contains(text, "engine: retcp"):
		base = "rdcn.yaml"
	case strings.HasPrefix(text, "programs:"):
		base = "programs.yaml"
	case strings.Contains(text, "every:") && !strings.HasPrefix(text, "shim:"):
		base = "offload.yaml"
	}
	return "extends: " + base + "\n" + text
}

const flowsText = "Nodes 8\nConnections 1\n0->1 start 2000000000000 size 1000\n"

// parse reads an example. What it lacks comes from around.
func parse(t *testing.T, text string) (*scenario.Scenario, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range surroundings {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s, err := scenario.Parse(filepath.Join(dir, "example.yaml"), []byte(within(text)), "warmup=0", "duration=100us")
	if err == nil {
		err = bench.CheckExpectations(s)
	}
	return s, err
}

func whole(text string) bool {
	return strings.Contains("\n"+text, "\ntopology:") && strings.Contains(text, "\nworkloads:")
}

// Every block of YAML on the page is read without an error; those of each kind of
// topology and workload, which are whole scenarios, run.
func TestExamplesRun(t *testing.T) {
	page, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range strings.Split(page, "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		s, err := parse(t, text)
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		if !whole(text) {
			continue
		}
		ran++
		r, err := bench.Run(s, bench.Options{})
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		} else if r.Events == 0 {
			t.Errorf("nothing happens in\n%s", text)
		}
	}
	if ran < 18 {
		t.Errorf("only %d whole scenarios were found", ran)
	}
}

// Every key has an example.
func TestEveryKeyHasAnExample(t *testing.T) {
	page, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	all := scenario.Schema()
	for _, e := range cc.Schemes() {
		all = append(all, scenario.EngineSchema(e))
	}
	n := 0
	for _, s := range all {
		text := example(&s)
		if s.Path == "topology.links[]" {
			text = page // the graph's
		}
		for _, k := range s.Keys {
			switch {
			case k.Example == "" && k.Apart == "" && !strings.Contains(k.Value, "mapping"):
				t.Errorf("%s: the key %s has no example: give its field the tag eg", s.Title(), k.Name)
			case k.Example == "" && k.Apart == "":
				continue // it has a section of its own
			case slices.Contains(alternatives[s.Path], k.Name):
				continue
			case !strings.Contains(text, k.Name+": "):
				t.Errorf("%s: no %s in\n%s", s.Title(), k.Name, text)
			}
			n++
		}
	}
	if n < 200 {
		t.Errorf("only %d keys have examples", n)
	}
}
