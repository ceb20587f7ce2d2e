package bench

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/units"
)

const oneFlow = `
duration: 4ms
topology: {kind: star, hosts: 3, host_rate: 100Gbps}
workloads: [{kind: flows, message: 1MiB, flows: [{src: h0, dst: h1, size: 1MiB}]}]
`

// One segment at a time: of 64, each of which takes as long as the others, the bound
// holds all but the first back, and the NIC has all while the last is under way.
func TestTheShimsWindowRules(t *testing.T) {
	s := run(t, parse(t, oneFlow+"systems: [{engine: timely}]", "shim.outstanding=16KiB")).Systems[0]
	if math.Abs(float64(s.ShimHeld)-63./64) > 1e-3 || math.Abs(float64(s.AllSent)-1./64) > 1e-3 || s.EngineHeld != 0 || s.EngineCuts != 0 {
		t.Errorf("%+v", s.Ruling)
	}
	if want := "the shim's window, 16KiB, was full 98.4 % of the time; the engine never cut"; s.RuledBy != want {
		t.Errorf("%q, expected %q", s.RuledBy, want)
	}
}

// With a bound that is too small for the link, engines of all kinds tie, and the table
// says why. Without, the bound follows the link and holds nothing but the line rate.
func TestABoundDoesNotRankEngines(t *testing.T) {
	const systems = `systems:
  - {name: none, engine: none, override: {nic: {mode: host}}}
  - {name: TIMELY, engine: timely}
  - {name: theta-PowerTCP, engine: theta-powertcp, override: {nic: {mode: host}}}
`
	small := run(t, parse(t, oneFlow+systems, "shim.outstanding=16KiB"))
	if len(small.Ties) != 1 || !slices.Contains(small.Ties[0], "none") || !slices.Contains(small.Ties[0], "TIMELY") {
		t.Errorf("ties %v", small.Ties)
	}
	var b strings.Builder
	if err := results.Table(&b, small); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"none: the shim's window, 16KiB, was full 98.4 % of the time; there is no engine\n",
		"TIMELY: the shim's window, 16KiB, was full 98.4 % of the time; the engine never cut\n",
		": the same to the last digit",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("%q is missing in\n%s", line, b.String())
		}
	}
	follows := parse(t, oneFlow+systems)
	sim, err := newSimulation(follows.Systems[1], follows.Graph(), 1, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	free := run(t, follows).Systems[1]
	asked := 2 * (100 * units.Gbps).BytesIn(sim.baseRTT)
	if bound := units.Bytes(free.ShimOutstandingBytes); bound < asked || bound > asked+16*units.KiB || free.GoodputGbps < 85 {
		t.Errorf("a bound of %v where %v are asked, %v Gbps", bound, asked, free.GoodputGbps)
	}
	if !strings.Contains(free.RuledBy, "the line rate ruled") {
		t.Errorf("%q", free.RuledBy)
	}
}

// Where the engine rules, nothing is said.
func TestTheEngineRules(t *testing.T) {
	for name, system := range map[string]string{
		"its rate, in the host":   `{engine: timely, config: {initial_rate: 1Gbps}}`,
		"its rate, in the NIC":    `{engine: timely, config: {initial_rate: 1Gbps}, override: {nic: {mode: offload}}}`,
		"its window, in the host": `{engine: swift, config: {initial_cwnd: 4, max_cwnd: 4}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := run(t, parse(t, oneFlow+"systems: ["+system+"]")).Systems[0]
			if s.EngineHeld < 0.9 || s.RuledBy != "" {
				t.Errorf("held %v by the engine; %q", s.EngineHeld, s.RuledBy)
			}
		})
	}
}

// Where neither does, it says what did: the line, or that there was no more to send.
func TestWhatElseRules(t *testing.T) {
	const closed = `
duration: 1ms
topology: {kind: star, hosts: 2, host_rate: 100Gbps}
workloads: [{kind: storage, clients: [h0], targets: [h1], reads: 0, block: 4KiB, outstanding: 1}]
`
	for name, c := range map[string]struct{ text, place, want string }{
		"no engine, at the NIC":    {oneFlow + "systems: [{engine: none, override: {nic: {mode: offload}}}]", results.EngineNone, "there is no engine; h0->tor0 was busy"},
		"the line, in the NIC":     {oneFlow + "systems: [{engine: timely, override: {nic: {mode: offload}}}]", results.EngineInNIC, "the engine never cut; h0->tor0 was busy"},
		"reduced NICs":             {oneFlow + "systems: [{engine: timely, override: {nic: {model: reduced}}}]", results.EngineInNIC, "the engine never cut; h0->tor0 was busy"},
		"a closed loop, from host": {closed + "systems: [{engine: timely}]", results.EngineInHost, "the NIC had all that was posted 100.0 % of the time; the engine never cut; the busiest link, h0->tor0, was busy"},
	} {
		t.Run(name, func(t *testing.T) {
			s := run(t, parse(t, c.text)).Systems[0]
			if !strings.HasPrefix(s.RuledBy, c.want) || s.EngineIn != c.place {
				t.Errorf("%s: %q, expected %s: %q...", s.EngineIn, s.RuledBy, c.place, c.want)
			}
		})
	}
}

// Many into one, with an engine that has to act: it cuts, and not at the line alone.
func TestCutsAreCounted(t *testing.T) {
	const incast = `
duration: 2ms
warmup: 500us
topology: {kind: star, hosts: 9, host_rate: 100Gbps}
workloads: [{kind: incast, receiver: h8, senders: [h0..h7], size: unlimited}]
systems:
  - {name: host, engine: timely}
  - {name: NIC, engine: timely, override: {nic: {mode: offload}}}
  - {name: reduced, engine: timely, override: {nic: {model: reduced}}}
`
	for _, s := range run(t, parse(t, incast)).Systems {
		if s.EngineCuts < 10 {
			t.Errorf("%s: %d cuts", s.Name, s.EngineCuts)
		}
	}
}
