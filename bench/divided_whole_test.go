package bench

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/racedetector"
	"github.com/sluice-rdma/sluice/scenario"
)

// seen returns all output of a run on a number of workers: results, series and the record
// of each flow; 0 workers run the undivided network.
func seen(t *testing.T, s *scenario.Scenario, workers int) (string, *results.Result) {
	t.Helper()
	var out []byte
	opt := Options{Workers: workers, smallWindows: true}
	opt.Flows = func(r *results.FlowRecord) error {
		b, err := json.Marshal(r)
		out = append(append(out, b...), '\n')
		return err
	}
	r, err := Run(s, opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, sys := range r.Systems {
		if workers > 0 && sys.Undivided != "" {
			t.Errorf("%s is not divided: %s", sys.Name, sys.Undivided)
		}
	}
	return string(out) + withoutCost(t, r), r
}

// withoutCost is a result as JSON, without what it cost and how it was run.
func withoutCost(t *testing.T, r *results.Result) string {
	t.Helper()
	d := &results.Document{Results: []*results.Result{r}}
	d.ClearWall()
	r.Events = 0
	for _, sys := range r.Systems {
		sys.Events, sys.Undivided = 0, ""
	}
	b, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// agree fails unless a scenario is divided and gives the same undivided, on one worker, on two, and on three for each of its
// systems, which then run beside each other.
func agree(t *testing.T, s *scenario.Scenario) (r *results.Result) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	want := ""
	for i, workers := range runsOf(0, 1, 2, 3*len(s.Systems)) {
		got, result := seen(t, s, workers)
		if i == 0 {
			want, r = got, result
		} else if got != want {
			t.Errorf("%d workers: %s", workers, firstDifference(got, want))
		}
	}
	return r
}

// runsOf is by how many workers a test runs the same and compares: under the race detector by the last number alone, since a
// race shows in one run, and what comes out is compared where the detector is not.
func runsOf(workers ...int) []int {
	if racedetector.On {
		return workers[len(workers)-1:]
	}
	return workers
}

// wholeScenario is a scenario by its name, or its text where that has several lines.
func wholeScenario(t *testing.T, text string, sets ...string) *scenario.Scenario {
	t.Helper()
	sets = append(slices.Clip(sets), "expect=[]", "nic.model=reduced", "nic.mode=auto")
	if !strings.Contains(text, "\n") {
		return load(t, text, sets...)
	}
	s, err := scenario.Parse("whole.yaml", []byte(text), sets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// failing is a network whose links fail, come back and lose packets within windows, and
// pauses that the watchdog ends by an action.
func failing(action string) string {
	return fmt.Sprintf(`
duration: 3ms
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 4, host_rate: 25Gbps, trunk_rate: 25Gbps}
fabric:
  reroute: 50us
  pfc: {xoff: 20KB, watchdog: 20us, watchdog_action: %s}
  failures:
    - {link: tor0->spine0, at: 100us, for: 300us, down: true}
    - {link: spine1->tor1, at: 300us, for: 400us, down: true, both: false}
    - {link: tor0->h1, at: 200us, for: 500us, rate: 1Gbps}
    - {link: tor1->h5, at: 0s, for: 1ms, loss: 0.02}
    - {port: h6, at: 150us, for: 200us, pfc_storm: true}
measure: {sample: 50us}
nic: {timeout: 5}
systems: [{engine: none}, {engine: timely}, {engine: poseidon}, {engine: ideal}]
workloads:
  - {kind: permutation, size: 1MB}
  - {kind: incast, receiver: h1, senders: [h2..h7], size: 100KB, start: 250us}
`, action)
}

// Links that fail, come back and lose packets within windows, pauses that the watchdog
// ends, and routes that change.
func TestDividedFailuresAgree(t *testing.T) {
	for _, action := range []string{"drop", "forward"} {
		r := agree(t, wholeScenario(t, failing(action)))
		trips, lost := uint64(0), uint64(0)
		for _, sys := range r.Systems {
			trips += sys.WatchdogTrips
			lost += sys.Retransmissions
		}
		if trips == 0 || lost == 0 {
			t.Errorf("%d pauses were ended and %d packets sent again: nothing was tested", trips, lost)
		}
	}
}

func TestDividedLinkFailureAgrees(t *testing.T) { agree(t, wholeScenario(t, "link-failure")) }

// Circuits that come and go, with reTCP, HPCC and PowerTCP.
func TestDividedCircuitsAgree(t *testing.T) {
	agree(t, wholeScenario(t, "powertcp-rdcn", "duration=400us", "warmup=100us"))
}

// Every P4 program.
func TestDividedProgramsAgree(t *testing.T) {
	for _, c := range []struct {
		scenario string
		set      []string
		programs map[string]string // by clock
	}{
		{"poseidon-multihop", []string{"fabric.telemetry.form=poseidon"}, map[string]string{"v1model": "p4/poseidon_mpd.p4", "tofino": "p4/poseidon_mpd_tna.p4"}},
		{"poseidon-multihop-2-9", []string{"fabric.telemetry.form=csig-wide"}, map[string]string{"v1model": "p4/csig_mpd.p4", "tofino2": "p4/csig_mpd_tna.p4"}},
		{"powertcp-incast", []string{"fabric.telemetry.form=csig-wide"}, map[string]string{"v1model": "p4/int.p4", "tofino": "p4/int_tna.p4"}},
		{pulserIncast, []string{"fabric.telemetry.form=csig-wide"}, map[string]string{"v1model": "p4/ein.p4", "tofino": "p4/ein_tna.p4"}},
	} {
		for clock, program := range c.programs {
			name, _, _ := strings.Cut(c.scenario, "\n")
			t.Run(name+"/"+program, func(t *testing.T) {
				sets := append(slices.Clone(c.set), "fabric.telemetry.clock="+clock, "fabric.program=../"+program, "duration=400us", "warmup=0s")
				if c.scenario == pulserIncast {
					sets = append(sets, "duration=1200us")
				}
				agree(t, wholeScenario(t, c.scenario, sets...))
			})
		}
	}
}

// The oracle, which acts on all flows at an instant, where flows begin and end in
// between.
func TestDividedOracleAgrees(t *testing.T) {
	for name, sets := range map[string][]string{
		"websearch":       {"duration=2ms", "warmup=200us"},
		"quickstart":      {"duration=1ms"},
		"powertcp-incast": {"duration=1ms", "warmup=200us"},
	} {
		t.Run(name, func(t *testing.T) {
			agree(t, wholeScenario(t, name, append(sets, "systems=[{engine: ideal}]")...))
		})
	}
}

// Workloads whose messages follow from one another.
func TestDividedTrafficAgrees(t *testing.T) {
	const text = `
duration: 1ms
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 4, host_rate: 25Gbps}
measure: {sample: 20us}
systems: [{engine: none}, {engine: timely}, {engine: powertcp}, {engine: ideal}]
workloads:
`
	for name, workloads := range map[string]string{
		"ring":     "  - {kind: all-reduce, size: 400KB, algorithm: ring, iterations: 2}\n",
		"tree":     "  - {kind: all-reduce, size: 100KB, algorithm: tree, iterations: 2}\n",
		"rpc":      "  - {kind: rpc, clients: [h0..h3], servers: [h4..h7], request: 200B, response: 20KB, service: 1us, outstanding: 3}\n",
		"open rpc": "  - {kind: rpc, clients: [h0..h3], servers: [h0..h7], request: 100B, response: 5KB, rate: 100000}\n",
		"granted":  "  - {kind: rpc, clients: [h0..h3], servers: [h4..h7], request: 200B, response: 20KB, outstanding: 3}\n",
		"storage":  "  - {kind: storage, block: 16KiB, reads: 0, outstanding: 4}\n",
		"on-off":   "  - {kind: on-off, senders: [h0..h3], receivers: [h7], on: 30us, off: 20us, random: true}\n",
		"priorities": `  - {kind: incast, receiver: h0, senders: [h1..h7], size: 60KB, priority: 1}
  - {kind: permutation, size: 200KB}
  - {kind: rpc, clients: [h0..h3], servers: [h4..h7], request: 200B, response: 2KB, priority: 3}
`,
	} {
		t.Run(name, func(t *testing.T) {
			var sets []string
			if name == "rpc" { // whose completions take no time
				sets = append(sets, "nic.completion=0s")
			}
			if name == "granted" {
				sets = append(sets, "systems=[{engine: homa}, {engine: ictcp}]")
			}
			r := agree(t, wholeScenario(t, text+workloads, sets...))
			for _, sys := range r.Systems {
				if sys.FlowsDone == 0 {
					t.Errorf("%s: nothing was done", sys.Name)
				}
			}
		})
	}
}
