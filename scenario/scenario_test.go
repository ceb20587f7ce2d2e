package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/scenario/workload"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// small is a scenario with a key of every section, to be made wrong.
const small = `name: small
duration: 10ms
topology:
  kind: star
  hosts: 4
  host_rate: 10Gbps
fabric:
  buffer: 1MiB
  ecn: {kmin: 10KiB, kmax: 20KiB, pmax: 0.5}
nic:
  mtu: 1024
systems:
  - name: A
    engine: timely
    config:
      t_low: 20us
  - name: B
    engine: none
workloads:
  - kind: incast
    receiver: h3
    senders: [h0..h2]
    size: 1MB
measure:
  links: [tor0->h3]
`

func parse(t testing.TB, text string, sets ...string) *Scenario {
	t.Helper()
	s, err := Parse("test.yaml", []byte(text), sets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// take returns at most n flows.
func take(s *Scenario, seed uint64, n int) []workload.Flow {
	var flows []workload.Flow
	for f := s.Flows(seed); len(flows) < n; {
		flow, ok := f.Next()
		if !ok {
			break
		}
		flows = append(flows, flow)
	}
	return flows
}

func TestErrors(t *testing.T) {
	cases := []struct {
		name     string
		from, to string // replaced in small
		want     string
	}{
		{"unknown key", "buffer:", "bufer:", `small.yaml:8: fabric.bufer: there is no such key here: is "buffer" meant?`},
		{"unknown key far from all", "mtu: 1024", "colour: red", "small.yaml:11: nic.colour: there is no such key here: the keys are model, preset, host, ports, with, mode, mtu, "},
		{"unknown key at the top", "measure:", "mesure:", `small.yaml:24: mesure: there is no such key here: is "measure" meant?`},
		{"unknown key of a kind", "hosts: 4", "leaves: 4", "small.yaml:5: topology.leaves: there is no such key with kind star: the keys are kind, hosts, "},
		{"unknown key of an engine", "t_low: 20us", "tlow: 20us", `small.yaml:16: systems[0].config.tlow: there is no such key here: is "t_low" meant?`},
		{"engine without keys", "engine: none", "engine: none\n    config: {x: 1}", "small.yaml:19: systems[1].config.x: there is no such key here: it takes none"},
		{"unit left out", "buffer: 1MiB", "buffer: 64", `small.yaml:8: fabric.buffer: size "64": unit missing, for example 64MiB`},
		{"unit left out of a rate", "10Gbps", "10", `small.yaml:6: topology.host_rate: rate "10": unit missing, for example 10Gbps`},
		{"unit left out of a time", "duration: 10ms", "duration: 10", `small.yaml:2: duration: time "10": unit missing, for example 10ms`},
		{"unit of another kind", "buffer: 1MiB", "buffer: 1ms", "small.yaml:8: fabric.buffer: "},
		{"no host", "h3\n", "h4\n", `small.yaml:21: workloads[0].receiver: there is no host "h4": the 4 hosts are h0 to h3`},
		{"no host in a list", "[h0..h2]", "[h0, h9]", `small.yaml:22: workloads[0].senders[1]: there is no host "h9"`},
		{"a switch for a host", "[h0..h2]", "[tor0]", `small.yaml:22: workloads[0].senders[0]: "tor0" is a switch`},
		{"a receiver that sends", "[h0..h2]", "[h0..h3]", "small.yaml:22: workloads[0].senders[0]: h3 is the receiver itself"},
		{"a host listed twice", "[h0..h2]", "[h0, h0]", "h0 is listed twice"},
		{"range the wrong way", "[h0..h2]", "[h2..h0]", `"h2..h0" begins after its end: write it as h0..h2`},
		{"too many hosts", "[h0..h2]", "4", "small.yaml:22: workloads[0].senders: is 4: there are only 3"},
		{"no choice of hosts", "[h0..h2]", "some", "write a number of hosts, a list"},
		{"no link", "tor0->h3", "tor0->h7", `small.yaml:25: measure.links[0]: there is no link "tor0->h7"`},
		{"unknown engine", "timely", "timley", `small.yaml:14: systems[0].engine: no rate engine is called "timley": is "timely" meant?`},
		{"engine missing", "    engine: none\n", "", "small.yaml:17: systems[1].engine: it is missing: name one of "},
		{"unknown preset", "mtu: 1024", "preset: cx9", `small.yaml:11: nic.preset: no NIC preset is called "cx9": take one of `},
		{"unknown mode", "mtu: 1024", "mode: on", `nic.mode: is "on": choose auto, host or offload`},
		{"mtu out of range", "mtu: 1024", "mtu: 12", "nic.mtu: is 12: choose 64 to 65535"},
		{"mtu of no queue pair", "mtu: 1024", "mtu: 1000", "small.yaml:11: nic.mtu: is 1000, no path MTU of InfiniBand: choose 256, 512, 1024, 2048 or 4096, or set nic.model to reduced"},
		{"unknown model", "mtu: 1024", "model: tiny", `small.yaml:11: nic.model: is "tiny": choose staged or reduced`},
		{"headroom beyond the buffer", "buffer: 1MiB", "buffer: 16KiB", "small.yaml:8: fabric.buffer: is 16KiB, and the headroom of the 4 ports of switch tor0 takes "},
		{"engine that the hosts' rate is too low for", "10Gbps", "1Mbps", "small.yaml:15: systems[0].config: min_rate is 100Mbps: choose at most the line rate, 1Mbps"},
		{"clock read too seldom", "mtu: 1024", "mtu: 1024\nshim: {calibrate_every: 100s}", "small.yaml:12: shim.calibrate_every: is 100s: choose a positive span up to 60s"},
		{"alias of nothing", "mtu: 1024", "mtu: *m", "small.yaml:11: nic.mtu: *m refers to an anchor that is not there"},
		{"latency of a staged NIC", "mtu: 1024", "mtu: 1024\n  host_send: 1us", "small.yaml:12: nic.host_send: the staged NIC has the latencies of its preset"},
		{"negative latency", "mtu: 1024", "model: reduced\n  completion: -1us", "small.yaml:12: nic.completion: is -1us: choose 0s to 1s"},
		{"engine above a reduced NIC", "mtu: 1024", "model: reduced\n  mode: host", "small.yaml:12: nic.mode: reduced NICs run the engine themselves"},
		{"engine above one system's reduced NIC", "engine: none", "engine: none\n    override: {nic: {model: reduced, mode: host}}", "small.yaml:19: systems[1].override.nic.mode: reduced NICs run"},
		{"mtu with a unit", "mtu: 1024", "mtu: 1KiB", `nic.mtu: "1KiB" is not a whole number`},
		{"no topology kind", "  kind: star\n", "", "small.yaml:3: topology: the key kind is missing: it is one of star, "},
		{"unknown topology kind", "kind: star", "kind: ring", `small.yaml:4: topology.kind: there is no kind "ring": it is one of star, `},
		{"dimension missing", "  hosts: 4\n", "", "small.yaml:3: topology.hosts: it is missing: choose 1 to 2097152"},
		{"dimension negative", "hosts: 4", "hosts: -4", "small.yaml:5: topology.hosts: is -4: choose 1 to 2097152"},
		{"odd fat tree", "kind: star\n  hosts: 4", "kind: fat-tree\n  k: 3", "topology.k: is 3: choose an even number"},
		{"topology beyond all bounds", "kind: star\n  hosts: 4", "kind: fat-tree\n  k: 1000000", "small.yaml:3: topology: it has some 7.5e+17 links"},
		{"rate of zero", "10Gbps", "0", "topology.host_rate: is 0bps: choose a positive rate, such as 25Gbps"},
		{"host rate of no host", "10Gbps", "10Gbps\n  host_rates: {h9: 1Gbps}", `topology.host_rates.h9: there is no host "h9"`},
		{"unknown workload kind", "kind: incast", "kind: outcast", `workloads[0].kind: there is no kind "outcast"`},
		{"size missing", "    size: 1MB\n", "", "small.yaml:20: workloads[0].size: it is missing: give the bytes of a flow"},
		{"size negative", "size: 1MB", "size: -1MB", `workloads[0].size: "-1MB" is no size of a flow`},
		{"size of zero", "size: 1MB", "size: 0", `"0" is no size of a flow`},
		{"stop before start", "size: 1MB", "size: 1MB\n    start: 2ms\n    stop: 1ms", "workloads[0].stop: is 1ms: choose a span above start, 2ms"},
		{"unknown operation", "size: 1MB", "size: 1MB\n    operation: fly", `"fly" is no operation: choose one of write, read, send`},
		{"probability out of range", "pmax: 0.5", "pmax: 1.5", "small.yaml:9: fabric.ecn.pmax: is 1.5: choose a probability"},
		{"kmax below kmin", "kmax: 20KiB", "kmax: 2KiB", "fabric.ecn.kmax: is 2KiB: choose at least kmin, 10KiB"},
		{"buffer below a packet", "buffer: 1MiB", "buffer: 100B", "small.yaml:8: fabric.buffer: is 100B"},
		{"engine refuses its parameters", "t_low: 20us", "beta: 2", "small.yaml:16: systems[0].config.beta: is 2: choose a number above 0 and up to 1"},
		{"engine needs the NIC", "engine: none", "engine: poseidon\n    override: {nic: {mode: host}}", "systems[1].engine: poseidon needs what switches report"},
		{"engine chooses paths above the NIC", "engine: none", "engine: swift\n    config: {plb: true}\n    override: {nic: {mode: host}}", "systems[1].config: this swift chooses paths"},
		{"override of an unknown part", "engine: none", "engine: none\n    override: {topology: {}}", "systems[1].override.topology: there is no such key"},
		{"override out of range", "engine: none", "engine: none\n    override: {nic: {timeout: 32}}", "small.yaml:19: systems[1].override.nic.timeout: is 32: choose 0 to 31"},
		{"clock that is none", "name: B", "name: B\n    override: {shim: {clock: sundial}}", `small.yaml:18: systems[1].override.shim.clock: is "sundial": choose calibrated, nic or software`},
		{"host without a rest", "mtu: 1024", "mtu: 1024\nhost:\n  load: 1", "small.yaml:13: host.load: is 1: choose a share from 0 to 0.95"},
		{"host's work without length", "engine: none", "engine: none\n    override: {host: {load: 0.5, burst: 0}}", "small.yaml:19: systems[1].override.host.burst: is 0s: choose 100ns to 1s"},
		{"host above a reduced NIC", "mtu: 1024", "model: reduced\nhost: {wakeup: 1us}", "small.yaml:12: host.wakeup: no host works on what reduced NICs carry"},
		{"two systems of one name", "name: B", "name: A", `two systems are called "A"`},
		{"no systems", "systems:\n", "systems: []\nx:\n", `systems`},
		{"warm-up as long as the run", "duration: 10ms", "duration: 10ms\nwarmup: 10ms", "small.yaml:3: warmup: is 10ms: choose a span from 0 to below the duration, 10ms"},
		{"negative duration", "duration: 10ms", "duration: -1ms", "duration: is -1ms"},
		{"uneven steps", "measure:", "measure:\n  window: 30us\n  sample: 20us", "measure.window: is 30us and sample 20us: make one a multiple of the other"},
		{"too many samples", "measure:", "measure:\n  sample: 1ns", "measure.sample: is 1ns: that makes more than"},
		{"value left out", "mtu: 1024", "mtu:", "small.yaml:11: nic.mtu: no value is given"},
		{"mapping for a value", "mtu: 1024", "mtu: {a: 1}", "nic.mtu: expected a single value, got a mapping (key: value)"},
		{"value for a mapping", "nic:\n  mtu: 1024", "nic: 3", "small.yaml:10: nic: expected a mapping (key: value), got a single value"},
		{"switch to measure", "links: [tor0->h3]", "switches: [tor7]", "measure.switches[0]: there is no switch \"tor7\": there are tor0"},
		{"sizes that fall", "links: [tor0->h3]", "sizes: [10KB, 1KB]", "measure.sizes[1]: is 1KB: choose sizes above 0"},
		{"value for a list", "links: [tor0->h3]", "links: tor0->h3", "measure.links: expected a list, got a single value"},
		{"truth value", "mtu: 1024", "mtu: 1024\nfabric2: 1", "fabric2: there is no such key"},
		{"form of telemetry that there is not", "buffer: 1MiB", "telemetry: {form: int}", `fabric.telemetry.form: unknown value "int", expected exact, csig-wide, `},
		{"form of records that there is not", "buffer: 1MiB", "telemetry: {per_hop: poseidon}", `fabric.telemetry.per_hop: unknown value "poseidon", expected int`},
		{"clock that there is not", "buffer: 1MiB", "telemetry: {clock: tna}", `fabric.telemetry.clock: unknown value "tna", expected v1model, tofino or tofino2`},
		{"program without a form", "buffer: 1MiB", "program: p4/poseidon_mpd.p4", "fabric.program: a program writes telemetry in some form, and fabric.telemetry.form is exact: set it to csig-wide"},
		{"program of one switch without a form", "buffer: 1MiB", "switches: {tor0: {program: x.p4}}", "fabric.switches.tor0.program: a program writes telemetry in some form"},
		{"macros of no program", "buffer: 1MiB", "program_define: [A=1]", "fabric.program_define: there is no program: set fabric.program"},
		{"entries of no program", "buffer: 1MiB", "program_entries: x.stf", "fabric.program_entries: there is no program: set fabric.program"},
		{"macro without a name", "buffer: 1MiB", "program_define: ['=1']", `fabric.program_define: entry 1, "=1", has no name: write NAME or NAME=VALUE`},
		{"not true or false", "buffer: 1MiB", "int: yes", `fabric.int: "yes" is neither true nor false`},
		{"key twice", "mtu: 1024", "mtu: 1024\n  mtu: 2048", "small.yaml:12: not YAML: mapping key \"mtu\" already defined"},
		{"not YAML", "name: small", "name: [", "small.yaml:"},
		{"a list at the top", small, "- a\n- b", "small.yaml:1: expected a scenario, which is a mapping, got a list"},
		{"empty", small, "# nothing\n", "small.yaml: expected a scenario, which is a mapping, got nothing"},
		{"two documents", "measure:", "---\nmeasure:", "a second document begins here"},
		{"expectation of no system", "measure:", "expect: [{system: C, metric: jain, min: 1}]\nmeasure:", `expect[0].system: there is no system "C": there are A, B`},
		{"expectation of no label", "measure:", "expect: [{label: C, metric: jain, min: 1}]\nmeasure:", `expect[0].label: no flow has the label "C": there are incast`},
		{"expectation without limit", "measure:", "expect: [{metric: jain}]\nmeasure:", "expect[0]: there is no limit"},
		{"expectation of no link", "measure:", "expect: [{link: a->b, metric: busy, min: 1}]\nmeasure:", "expect[0].link: a->b is not measured"},
		{"switch that is not there", "buffer: 1MiB", "switches: {tor9: {int: false}}", "fabric.switches.tor9: there is no such switch: there are tor0"},
		{"fault on no link", "buffer: 1MiB", "faults: [{link: h0->h1, loss: 0.1}]", "fabric.faults[0].link: "},
		{"loss above 1", "buffer: 1MiB", "faults: [{link: '*', loss: 2}]", "fabric.faults[0].loss: is 2: choose a probability"},
		{"parameter that is not there", "mtu: 1024", "mtu: $m", `small.yaml:11: nic.mtu: there is no parameter "m": params has none`},
		{"parameter that nothing uses", "name: small", "params: {m: 1}", "small.yaml:1: params.m: no value of the scenario is $m"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(small, c.from) {
				t.Fatalf("%q is not in the scenario", c.from)
			}
			_, err := Parse("small.yaml", []byte(strings.Replace(small, c.from, c.to, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q\ndoes not say %q", err, c.want)
			}
			var all Errors
			if !errors.As(err, &all) {
				t.Errorf("it is a %T, not Errors", err)
			}
		})
	}
}

func TestPoissonErrors(t *testing.T) {
	cases := map[string]string{
		"sizes: websearch":                                   "workloads[0].load: it is missing: choose a positive share up to 1",
		"sizes: websearch, load: 1.5":                        "workloads[0].load: is 1.5: choose",
		"load: 0.5":                                          "workloads[0].sizes: it is missing: name a distribution, one of websearch, ",
		"sizes: webserch, load: 0.5":                         `no size distribution is called "webserch": take one of websearch, `,
		"sizes: 20, load: 0.5":                               `size "20": unit missing, for example 20KiB`,
		"sizes: -1KB, load: 0.5":                             `"-1KB" is no size of a flow`,
		"sizes: hadoop, load: 0.5, to: rack":                 `workloads[0].to: is "rack": choose any or other-rack`,
		"sizes: hadoop, load: 0.5, to: other-rack":           "all hosts hang on one switch",
		"sizes: hadoop, load: 0.5, load_on: uplinks":         "all hosts hang on one switch",
		"sizes: hadoop, load: 0.5, load_on: cores":           `workloads[0].load_on: is "cores": choose hosts or uplinks`,
		"sizes: hadoop, load: 0.5, hosts: 1":                 "random traffic needs at least two hosts",
		"sizes: hadoop, load: 0.5, jitter: 1us":              "workloads[0].jitter: the arrivals of a poisson workload are random already",
		"sizes: hadoop, load: 0.5, flows: -1":                "workloads[0].flows: is -1",
		"sizes: 9KB..8KB, load: 0.5":                         `"9KB..8KB" ends before it begins`,
		"sizes: hadoop, load: 0.5, fan_in: 4":                "workloads[0].fan_in: is 4: choose 1 to 3",
		"sizes: hadoop, load: 0.5, fan_in: -1":               "workloads[0].fan_in: is -1: choose 1 or more senders",
		"sizes: hadoop, load: 0.5, receiver: h0":             "workloads[0].receiver: there is no such key with kind poisson",
		"sizes: 1B, load: 1, hosts: [h0, h1], message: 3GiB": "workloads[0].message: is 3GiB: choose a positive size up to 2GiB",
		"sizes: hadoop, load: 0.5, start: -1us":              "workloads[0].start: is -1us",
		"sizes: hadoop, load: 0.5, hosts: [h0, h1], name: 's', label: 3, stop: 1s, flows: 3, to: any, bogus: 1": "workloads[0].bogus",
	}
	for keys, want := range cases {
		_, err := Parse("p.yaml", []byte("topology: {kind: star, hosts: 4}\nsystems: [{engine: none}]\nworkloads: [{kind: poisson, "+keys+"}]"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %q\ndoes not say %q", keys, err, want)
		}
	}
}

func TestFlowListErrors(t *testing.T) {
	cases := map[string]string{
		"{src: h0, dst: h1}":                                         "workloads[0].flows[0].size: it is missing",
		"{dst: h1, size: 1KB}":                                       "workloads[0].flows[0].src: it is missing: name a host, from h0 to h3",
		"{src: h0, dst: h0, size: 1KB}":                              "workloads[0].flows[0]: flow 0 goes from h0 to itself",
		"{src: h0, dst: h3, dst_step: 1, count: 2, size: 1KB}":       "dst_step: takes flow 1 to host number 4, and the hosts are h0 to h3",
		"{src: h0, dst: h1, size: 1KB, stop: 1ms}":                   "a flow of 1KB ends by itself",
		"{src: h0, dst: h1, size: unlimited, start: 2ms, stop: 1ms}": "is 1ms: choose a span above start, 2ms",
		"{src: h0, dst: h1, size: 1KB, connections: 0}":              "connections: is 0: choose 1 or more flows",
		"{src: h0, dst: h1, size: 1KB, count: -1}":                   "count: is -1: choose 0 to 1048576 flows",
		"{src: h0, dst: h1, size: 1KB, label2: a}":                   `flows[0].label2: there is no such key here: is "label" meant?`,
		"": "workloads[0].flows: there are none",
	}
	for flow, want := range cases {
		_, err := Parse("f.yaml", []byte("topology: {kind: star, hosts: 4}\nsystems: [{engine: none}]\nworkloads: [{kind: flows, flows: ["+flow+"]}]"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %q\ndoes not say %q", flow, err, want)
		}
	}
}

// All that is wrong is said at once, and each thing once, however many systems
// there are.
func TestSeveralErrors(t *testing.T) {
	_, err := Parse("small.yaml", []byte(strings.NewReplacer("mtu: 1024", "mtu: 1", "pmax: 0.5", "pmax: 5", "h3\n", "h9\n").Replace(small)))
	var all Errors
	if !errors.As(err, &all) || len(all) != 3 {
		t.Errorf("want three errors, got\n%v", err)
	}
}

// An MTU is a plain number of bytes.
func TestMTUHasNoUnit(t *testing.T) {
	const want = `nic.mtu: "4KiB" is not a whole number (a plain one, without unit)`
	if _, err := Parse("small.yaml", []byte(small), "nic.mtu=4KiB"); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, expected %s", err, want)
	}
}

func TestOverrides(t *testing.T) {
	cases := []struct {
		set  string
		got  func(*Scenario) any
		want any
	}{
		{"nic.mtu=4096", func(s *Scenario) any { return s.Systems[1].NIC.MTU }, units.Bytes(4096)},
		{"nic={mtu: 2048}", func(s *Scenario) any { return s.NIC.MTU }, units.Bytes(2048)},
		{"shim.segment=64KiB", func(s *Scenario) any { return s.Shim.Segment }, 64 * units.KiB},
		{"systems[0].config.t_low=30us", func(s *Scenario) any { return s.Systems[0].EngineConfig.(*timely.Config).TLow }, 30 * units.Microsecond},
		{"systems[A].config.t_low=30us", func(s *Scenario) any { return s.Systems[0].EngineConfig.(*timely.Config).TLow }, 30 * units.Microsecond},
		{"systems[B].override.nic.mtu=512", func(s *Scenario) any { return []int{int(s.Systems[0].NIC.MTU), int(s.Systems[1].NIC.MTU)} }, []int{1024, 512}},
		{"systems=[{engine: none}]", func(s *Scenario) any { return len(s.Systems) }, 1},
		{"workloads[0].senders[0]=h1", func(s *Scenario) any { return len(take(s, 1, 100)) }, 1},
		{"topology.host_rates.h2=40Gbps", func(s *Scenario) any { return s.Topology.HostRates["h2"] }, 40 * units.Gbps},
		{"description=a = b, c", func(s *Scenario) any { return s.Description }, "a = b, c"},
		{"seed=18446744073709551615", func(s *Scenario) any { return s.Seed }, uint64(1<<64 - 1)},
		{" nic.mtu = 512", func(s *Scenario) any { return s.NIC.MTU }, units.Bytes(512)},
	}
	for _, c := range cases {
		s, err := Parse("small.yaml", []byte(small), c.set)
		if err != nil {
			t.Errorf("--set %s: %v", c.set, err)
		} else if got := c.got(s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("--set %s gives %v, want %v", c.set, got, c.want)
		}
	}
}

func TestOverrideErrors(t *testing.T) {
	cases := map[string]string{
		"nic.mtuu=1":             `--set nic.mtuu=1: nic.mtuu: there is no such key here: is "mtu" meant?`,
		"nic.mtu":                `there is no "=": write it as key.key=value`,
		"nic.mtu=":               `there is no value after "="`,
		"=3":                     `"" is no path of a key`,
		"nic..mtu=1":             `"nic..mtu" is no path of a key`,
		"nic.=1":                 `"nic." is no path of a key`,
		"[0]=1":                  `"[0]" is no path of a key`,
		"systems[0=1":            `"systems[0" is no path of a key`,
		"systems[0]x=1":          `"systems[0]x" is no path of a key`,
		"systems[2].name=x":      "systems has no item [2]: its items are [0] to [1]",
		"systems[C].name=x":      "systems has no item of the name [C]: there are A, B",
		"systems.name=x":         "systems is a list: say which item, as in systems[0]",
		"nic[0]=x":               "nic is no list: it has no item [0]",
		"name.x=3":               `name is a single value: it has no key "x"`,
		"fabric.buffer=64":       `--set fabric.buffer=64: fabric.buffer: size "64": unit missing, for example 64`,
		"workloads[0].size=[1":   "--set workloads[0].size=[1: not YAML: ",
		"workloads[0].size=*x":   "refers to an anchor that is not there",
		"topology.kind=dumbbell": "small.yaml:5: topology.hosts: there is no such key with kind dumbbell",
		"params.x=1":             "--set params.x=1: params.x: no value of the scenario is $x",
	}
	for set, want := range cases {
		_, err := Parse("small.yaml", []byte(small), set)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: error %q\ndoes not say %q", set, err, want)
		}
	}
}

func TestParams(t *testing.T) {
	text := strings.NewReplacer("name: small", "params: {n: 2, rate: 40Gbps}", "[h0..h2]", "$n", "10Gbps", "$rate").Replace(small)
	s := parse(t, text)
	if n := len(take(s, 1, 10)); n != 2 || s.Topology.HostRate != 40*units.Gbps {
		t.Errorf("%d senders at %v", n, s.Topology.HostRate)
	}
	s = parse(t, text, "params.n=3")
	if n := len(take(s, 1, 10)); n != 3 {
		t.Errorf("%d senders, want 3", n)
	}
}

func TestAliasesAndMergeKeys(t *testing.T) {
	s := parse(t, `
topology: {kind: star, hosts: 4}
systems:
  - name: A
    engine: timely
    config: &base {t_low: 30us, beta: 0.5}
  - name: B
    engine: timely
    config: {<<: *base, beta: 0.6}
  - {name: C, engine: timely, config: *base}
workloads: [{kind: permutation, size: 1KB}]
`)
	var got []string
	for _, sys := range s.Systems {
		c := sys.EngineConfig.(*timely.Config)
		got = append(got, fmt.Sprint(c.TLow, c.Beta))
	}
	if diff := cmp.Diff([]string{"30us 0.5", "30us 0.6", "30us 0.5"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAliasesHaveABound(t *testing.T) {
	text := "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
	for c := 'b'; c < 'i'; c++ {
		text += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10), ", "))
	}
	if _, err := Parse("bomb.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "the aliases make this larger") {
		t.Errorf("error %v", err)
	}
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExtends(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "small.yaml", small)
	child := write(t, dir, "child.yaml", `
extends: small.yaml
nic: {mtu: 2048}
topology: {kind: dumbbell, left: 2, right: 2}   # of another kind: replaces
systems: [{engine: none}]
measure: {links: [tor1->h3]}
`)
	s, err := Load(child)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "child" || s.NIC.MTU != 2048 || s.Fabric.Buffer != units.MiB || s.Graph().Switches() != 2 || len(s.Systems) != 1 {
		t.Errorf("name %q, MTU %d, buffer %v, %d switches, %d systems", s.Name, s.NIC.MTU, s.Fabric.Buffer, s.Graph().Switches(), len(s.Systems))
	}
	if s.Topology.HostRate != 100*units.Gbps {
		t.Errorf("a topology of another kind keeps the rate %v", s.Topology.HostRate)
	}

	builtin := write(t, dir, "mine.yaml", "extends: timely-table1\nshim: {segment: 32KiB}\n")
	if s, err = Load(builtin, "seed=3"); err != nil {
		t.Fatal(err)
	}
	if s.Shim.Segment != 32*units.KiB || s.Shim.Outstanding != 48*units.KiB || s.Seed != 3 {
		t.Errorf("segment %v, outstanding %v, seed %d", s.Shim.Segment, s.Shim.Outstanding, s.Seed)
	}

	errs := map[string]string{
		"extends: nope":                      `extends: there is no built-in scenario "nope"`,
		"extends: nope.yaml":                 "extends: there is no file " + filepath.Join(dir, "nope.yaml"),
		"extends: [a]":                       "extends: expected the name of a built-in scenario or a file, got a list",
		"extends: wrong.yaml":                "extends itself",
		"extends: small.yaml\nnic: {mtu: 1}": "wrong.yaml:2: nic.mtu: is 1: choose 64 to 65535",
		// What is wrong below is said to be wrong there.
		"extends: small.yaml\nsystems: [{engine: none}]\ntopology: {hosts: 2}": filepath.Join(dir, "small.yaml") + `:21: workloads[0].receiver: there is no host "h3"`,
	}
	for text, want := range errs {
		path := write(t, dir, "wrong.yaml", text)
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %q\ndoes not say %q", text, err, want)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	cases := map[string]string{
		"timely-tabel1":       `there is no built-in scenario "timely-tabel1": is "timely-table1" meant?`,
		"x":                   `there is no built-in scenario "x": take one of all-reduce, `,
		"./x":                 "there is no file ./x",
		"nowhere/at/all.yaml": "there is no file nowhere/at/all.yaml",
	}
	for name, want := range cases {
		if _, err := Load(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %q\ndoes not say %q", name, err, want)
		}
	}
}

func TestBuiltins(t *testing.T) {
	for _, name := range slices.Concat(Builtins(), Speeds()) {
		s, err := Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Name != name || s.Description == "" {
			t.Errorf("%s is called %q and described by %q", name, s.Name, s.Description)
		}
		if len(take(s, 1, 1)) == 0 && len(s.Traffic(1)) == 0 {
			t.Errorf("%s has no flows", name)
		}
		for _, sys := range s.Systems {
			c := sys.FabricConfig()
			if err := c.Validate(); err != nil {
				t.Errorf("%s, %s: %v", name, sys.Name, err)
			}
			nic := sys.NICConfig()
			if err := nic.Validate(); err != nil {
				t.Errorf("%s, %s: %v", name, sys.Name, err)
			}
		}
	}
}

// The facts of the papers' set-ups that the built-in scenarios restate.
func TestBuiltinFacts(t *testing.T) {
	s, err := Load("timely-table1")
	if err != nil {
		t.Fatal(err)
	}
	flows := take(s, s.Seed, 100)
	g := s.Graph()
	var server units.Rate
	connections, receivers := map[int]int{}, map[int]bool{}
	for _, f := range flows {
		if !receivers[f.Dst] {
			receivers[f.Dst], server = true, server+g.Link(g.HostLink(f.Dst)).Rate
		}
		connections[f.Src]++
	}
	if len(flows) != 40 || len(connections) != 10 || server != 20*units.Gbps {
		t.Errorf("timely-table1 has %d connections of %d clients to a server at %v", len(flows), len(connections), server)
	}
	for h, n := range connections {
		if n != 4 || g.Link(g.HostLink(h)).Rate != 10*units.Gbps {
			t.Errorf("timely-table1: client %d has %d connections at %v", h, n, g.Link(g.HostLink(h)).Rate)
		}
	}
	if off := []bool{s.Systems[0].Offload(), s.Systems[1].Offload()}; off[0] || off[1] {
		t.Errorf("timely-table1 runs engines in the NIC: %v", off)
	}

	// The victim shares tor0->spine0 with the m green flows alone and spine0->tor10
	// with the n blue ones alone, and neither group shares a link within itself
	// besides.
	for _, c := range []struct {
		name string
		m, n int
	}{{"poseidon-multihop", 2, 2}, {"poseidon-multihop-2-9", 2, 9}, {"poseidon-multihop-9-9", 9, 9}} {
		s, err := Load(c.name)
		if err != nil {
			t.Fatal(err)
		}
		out, in, ends := map[string]int{}, map[string]int{}, map[int]int{}
		g := s.Graph()
		rack := func(host int) string { return g.To(g.HostLink(host)) }
		for _, f := range take(s, 1, 100) {
			out[rack(f.Src)]++
			in[rack(f.Dst)]++
			ends[f.Src]++
			ends[f.Dst]++
		}
		for h, n := range ends {
			if n != 1 {
				t.Errorf("%s: host %d has %d flows", c.name, h, n)
			}
		}
		var crowded int
		for _, racks := range []map[string]int{out, in} {
			for _, n := range racks {
				if n > 1 {
					crowded++
				}
			}
		}
		src, dst := rack(0), rack(100)
		if out[src] != c.m+1 || in[dst] != c.n+1 || crowded != 2 {
			t.Errorf("%s: %d flows leave rack 0 and %d enter rack 10; %d shared links", c.name, out[src], in[dst], crowded)
		}
	}

	s, err = Load("powertcp-incast")
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Graph().Hosts(); n != 256 {
		t.Errorf("powertcp-incast has %d hosts", n)
	}
	if flows := take(s, 1, 100); len(flows) != 11 {
		t.Errorf("powertcp-incast has %d flows", len(flows))
	}
}

// What YAML writes reads back as the same scenario, for every built-in one.
func TestYAMLRoundTrip(t *testing.T) {
	for _, name := range Builtins() {
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(name+".yaml", text)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		text2, err := again.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(text), string(text2)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(take(s, 5, 200), take(again, 5, 200)); diff != "" {
			t.Errorf("%s: other flows: %s", name, diff)
		}
		for i := range s.Systems {
			if diff := cmp.Diff(s.Systems[i].FabricConfig(), again.Systems[i].FabricConfig()); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestFabricConfig(t *testing.T) {
	s := parse(t, small, "nic.priority=3", "nic.ack_priority=5", "fabric.switches.tor0={int: false, buffer: 2MiB}", "fabric.faults=[{link: '*', loss: 0.1}]",
		"systems[B].engine=poseidon", "nic.mtu=4096", "systems[B].override.fabric.ecn.pmax=0.25", "systems[B].override.fabric.pfc={enabled: false}")
	c := s.Systems[1].FabricConfig()
	if c.Priorities != 6 || c.MaxFrame != 4096+82+8 {
		t.Errorf("%d priorities, frames of up to %v", c.Priorities, c.MaxFrame)
	}
	if e := c.Switch.Classes[3].ECN; e.Kmin != 10*units.KiB || e.Kmax != 20*units.KiB || e.Pmax != 0.25 {
		t.Errorf("ECN %+v", e)
	}
	if c.Switch.Classes[3].PFC.Lossless || !s.Systems[0].FabricConfig().Switch.Classes[3].PFC.Lossless {
		t.Error("the override of PFC is not B's alone")
	}
	if x := c.Switches["tor0"]; x.INT || x.Buffer != 2*units.MiB || x.Latency != c.Switch.Latency {
		t.Errorf("tor0 is %+v", x)
	}
	if len(c.Faults) != 1 || c.Faults[0].Loss != 0.1 {
		t.Errorf("faults %v", c.Faults)
	}
}

// A graph with other rates for some hosts is otherwise the graph without.
func TestHostRatesChangeNothingElse(t *testing.T) {
	for _, shape := range []string{
		"kind: star, hosts: 3", "kind: dumbbell, left: 2, right: 3", "kind: chain, switches: 3, hosts_per_switch: 2",
		"kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 2, parallel_links: 2",
		"kind: three-tier, pods: 2, tors_per_pod: 2, aggs_per_pod: 2, cores: 2, hosts_per_tor: 2, mesh: true, core_delay: 5us, core_rate: 40Gbps",
		"kind: fat-tree, k: 4, oversubscription: 2, trunk_rate: 30Gbps, trunk_delay: 2us",
	} {
		text := "topology: {" + shape + "}\nsystems: [{engine: none}]\nworkloads: [{kind: permutation, size: 1KB}]"
		plain, changed := parse(t, text).Graph(), parse(t, text, "topology.host_rates.h1=1Gbps").Graph()
		if err := changed.Validate(); err != nil {
			t.Fatalf("%s: %v", shape, err)
		}
		for l := range fabric.LinkID(plain.Links()) {
			want := plain.Link(l)
			if plain.From(l) == "h1" || plain.To(l) == "h1" {
				want.Rate = units.Gbps
			}
			if changed.LinkName(l) != plain.LinkName(l) || changed.Link(l) != want {
				t.Errorf("%s: link %s of %+v became %s of %+v", shape, plain.LinkName(l), plain.Link(l), changed.LinkName(l), changed.Link(l))
			}
		}
		for h := range plain.Hosts() {
			if plain.HostName(h) != changed.HostName(h) {
				t.Errorf("%s: host %d is %s, was %s", shape, h, changed.HostName(h), plain.HostName(h))
			}
		}
	}
}

// Every example in the schema is a value that the key takes.
func TestSchemaExamples(t *testing.T) {
	examples := 0
	for _, s := range Schema() {
		for _, k := range s.Keys {
			if k.Example == "" {
				k.Example = k.Apart
			}
			if k.Example == "" {
				if !strings.Contains(k.Value, "mapping") {
					t.Errorf("%s: the key %s has no example", s.Title(), k.Name)
				}
				continue
			}
			examples++
			n, err := tree.Parse(Pos{File: k.Name}, []byte(k.Example))
			if err != nil {
				t.Errorf("%s.%s: %v", s.Path, k.Name, err)
				continue
			}
			f, _ := s.Type.FieldByName(k.Field)
			d := tree.NewDocument(k.Name)
			one := reflect.New(reflect.StructOf([]reflect.StructField{{Name: f.Name, Type: f.Type, Tag: f.Tag}}))
			d.Decode(&tree.Node{Kind: tree.Mapping, Fields: []tree.Field{{Key: k.Name, Value: n}}}, "", one.Interface())
			v := one.Elem().Field(0)
			if len(d.Errs) > 0 {
				t.Errorf("%s.%s: example %s: %v", s.Path, k.Name, k.Example, d.Errs)
			}
			if v.IsZero() && k.Example != "false" && k.Example != "0" {
				t.Errorf("%s.%s: example %s says nothing", s.Path, k.Name, k.Example)
			}
		}
	}
	if examples < 80 {
		t.Errorf("only %d keys have examples", examples)
	}
}

// Every field with a yaml tag is in the schema.
func TestSchemaIsWhole(t *testing.T) {
	listed := map[string]bool{}
	for _, s := range Schema() {
		for _, k := range s.Keys {
			listed[k.In.Name()+"."+k.Field] = true
		}
	}
	for _, v := range []any{
		Scenario{}, System{}, Fabric{}, PFC{}, ECN{}, Switch{}, Fault{}, NIC{}, Shim{}, Host{}, Measure{}, Expectation{}, Topology{}, Star{}, Dumbbell{},
		Chain{}, LeafSpine{}, ThreeTier{}, FatTree{}, workload.Workload{}, workload.Incast{}, workload.Permutation{}, workload.FlowList{}, workload.FlowSpec{}, workload.Poisson{}, workload.Trace{}, workload.RotatingIncast{},
		workload.AllToAll{}, workload.AllReduce{}, workload.RPC{}, workload.Storage{}, workload.Loop{}, workload.OnOff{}, Graph{}, GraphLink{}, Failure{}, Class{}, EIN{}, RDCN{}, Circuits{},
	} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			f := typ.Field(i)
			if tag := f.Tag.Get("yaml"); tag != "" && tag != "-" && tag[0] != ',' && !listed[typ.Name()+"."+f.Name] {
				t.Errorf("%s.%s is not in the schema", typ.Name(), f.Name)
			}
		}
	}
}

func TestCatalogue(t *testing.T) {
	c, err := List()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]Entry{c.Scenarios, c.Engines, c.NICs, c.Sizes} {
		if len(part) < 3 {
			t.Errorf("only %d entries: %v", len(part), part)
		}
		for _, e := range part {
			if e.Name == "" || e.Summary == "" || len(e.Summary) > 110 {
				t.Errorf("%q is summed up by %q", e.Name, e.Summary)
			}
		}
	}
}

// FuzzParse: whatever the text, Parse answers with a scenario or an Errors. What it
// accepts, it can write and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(small), "nic.mtu=4096")
	for _, name := range Builtins() {
		src, err := Source(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src, "systems[0].name=x")
	}
	f.Add([]byte("a: &a [*a]"), "a[0]=1")
	f.Add([]byte("? [a]\n: b"), "x.y.z={a: [1, 2]}")
	f.Add([]byte("!!binary x"), "")
	f.Fuzz(func(t *testing.T, src []byte, set string) {
		var s *Scenario
		var err error
		infile.Within(t, func() { s, err = Parse("fuzz.yaml", src, set) })
		if err != nil {
			var all Errors
			if !errors.As(err, &all) || len(all) == 0 {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		text, err := s.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("again.yaml", text); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	})
}
