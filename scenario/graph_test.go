package scenario

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

const graphTop = `topology:
  kind: graph
  host_rate: 10Gbps
  trunk_rate: 40Gbps
  hosts: [client, server, other]
  switches: [left, right]
  links:
    - {a: client, b: left}
    - {a: right, b: server, rate: 25Gbps, delay: 0s}
    - {a: other, b: right, delay: 3us}
    - {a: left, b: right, count: 2}
`

const graphRest = "systems: [{engine: none}]\nworkloads: [{kind: incast, receiver: server, senders: [client..other], size: 1MB}]\n"

func TestGraph(t *testing.T) {
	s := parse(t, graphTop+strings.Replace(graphRest, "[client..other]", "[client, other]", 1))
	g := s.Graph()
	want := map[string]fabric.Link{
		"client->left": {Rate: 10 * units.Gbps, Delay: 500 * units.Nanosecond}, "server->right": {Rate: 25 * units.Gbps},
		"right->other": {Rate: 10 * units.Gbps, Delay: 3 * units.Microsecond}, "right->left#2": {Rate: 40 * units.Gbps, Delay: 500 * units.Nanosecond},
	}
	for name, link := range want {
		l, err := g.FindLink(name)
		if err != nil || g.Link(l) != link {
			t.Errorf("%s is %+v, want %+v: %v", name, g.Link(l), link, err)
		}
	}
	if g.Links() != 10 || g.Hosts() != 3 || len(take(s, 1, 10)) != 2 {
		t.Errorf("%d links, %d hosts", g.Links(), g.Hosts())
	}
	text, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if again := parse(t, string(text)).Graph(); again.Links() != 10 || again.Link(2) != g.Link(2) {
		t.Errorf("read back: %d links, %+v", again.Links(), again.Link(2))
	}
	// Two hosts need no switch, and load each other's link.
	s = parse(t, "topology: {kind: graph, hosts: [a, b], links: [{a: a, b: b, rate: 1Gbps}]}\nsystems: [{engine: none}]\nworkloads: [{kind: poisson, sizes: 125B, load: 0.5, stop: 1ms}]")
	if n := len(take(s, 1, 10_000)); n < 900 || n > 1100 {
		t.Errorf("%d flows, want some 1000", n)
	}
}

func TestGraphErrors(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"[client, server, other]", "[client, server]", `graph.yaml:10: topology.links[2].a: there is no host or switch "other"`},
		{"[client, server, other]", "[client, server, other, fourth]", "graph.yaml:5: topology.hosts[3]: fourth has 0 links"},
		{"[left, right]", "[left, right, left]", `topology.switches[2]: "left" is there twice`},
		{"[left, right]", "[left, right, 'a->b']", `topology.switches[2]: "a->b" is no name`},
		{"b: left}", "b: client}", `topology.links[0].b: the link leads from "client" to itself`},
		{"count: 2", "count: 0", "topology.links[3].count: is 0"},
		{"count: 2", "count: 9999999", "topology.links[3].count: is 9999999"},
		{"rate: 25Gbps", "rate: -1Gbps", "topology.links[1].rate: is -1Gbps"},
		{"delay: 3us", "delay: 3s", "topology.links[2].delay: is 3s"},
		{"delay: 3us", "dealy: 3us", `topology.links[2].dealy: there is no such key here: is "delay" meant?`},
		{"a: client, ", "", `topology.links[0].a: there is no host or switch ""`},
		{"    - {a: left, b: right, count: 2}\n", "", "graph.yaml:1: topology: no path joins client and"},
		{"  hosts: [client, server, other]\n", "", "topology.hosts: there are none"},
	} {
		text := strings.Replace(graphTop, c.from, c.to, 1) + graphRest
		_, err := Parse("graph.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.to, err, c.want)
		}
	}
}

func TestFailureKeys(t *testing.T) {
	s := parse(t, small, "fabric.reroute=1ms", "fabric.ein={gradient: 0.5, high_water: 100KiB}", "fabric.pfc={watchdog: 100us, watchdog_action: forward}",
		"fabric.failures=[{link: tor0->h1, at: 1ms, for: 2ms, down: true}, {link: h0->tor0, rate: 1Gbps, loss: 0.5, both: false}]",
		"workloads[0].priority=2", "fabric.classes=[{priority: 2, weight: 3, alpha: 0.5, lossless: false, kmin: 1KiB, pmax: 1}, {priority: 0, weight: 1}]")
	c := s.Systems[0].FabricConfig()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	const ms = units.Millisecond
	want := []fabric.Failure{{Link: "tor0->h1", Both: true, From: ms, To: 3 * ms, Down: true}, {Link: "h0->tor0", Rate: units.Gbps, Loss: 0.5}}
	if len(c.Failures) != 2 || c.Failures[0] != want[0] || c.Failures[1] != want[1] || c.Reroute != ms {
		t.Errorf("failures %+v, reroute %v", c.Failures, c.Reroute)
	}
	two, one := c.Switch.Classes[2], c.Switch.Classes[1]
	if c.Priorities != 3 || two.Weight != 3 || two.Alpha != 0.5 || two.PFC.Lossless || two.ECN.Kmin != units.KiB || two.ECN.Kmax != 20*units.KiB || two.ECN.Pmax != 1 {
		t.Errorf("%d priorities; priority 2: %+v", c.Priorities, two)
	}
	if one.Weight != 0 || one.Alpha != 1 || !one.PFC.Lossless || one.PFC.Watchdog != 100*units.Microsecond || !one.PFC.WatchdogForwards || one.EIN != (fabric.Notice{Gradient: 0.5, Window: 50, HighWater: 100 * units.KiB}) {
		t.Errorf("priority 1: %+v", one)
	}
	if f := take(s, 1, 1)[0]; f.Class != 3 {
		t.Errorf("flow %+v", f)
	}
	if c := s.Systems[0].Elsewhere().FabricConfig(); len(c.Failures) != 0 || len(s.Systems[0].Fabric.Failures) != 2 {
		t.Errorf("elsewhere: %+v", c.Failures)
	}
}

func TestFailureErrors(t *testing.T) {
	for set, want := range map[string]string{
		"fabric.failures=[{link: tor0->h9, down: true}]":                              `failures[0].link: there is no link "tor0->h9"`,
		"fabric.failures=[{link: tor0->h1}]":                                          "failures[0]: it changes nothing: give down, silent, rate, loss, corrupt or pfc_storm",
		"fabric.failures=[{at: 1us, down: true}]":                                     "failures[0]: name what fails: one of link, port, switch and nic",
		"fabric.failures=[{port: h0, nic: h0, dies: true}]":                           "failures[0]: name what fails: one of link, port, switch and nic",
		"fabric.failures=[{port: h99, down: true}]":                                   "failures[0].port: ",
		"fabric.failures=[{switch: spine7, down: true}]":                              "failures[0].switch: there is no such switch: there are",
		"fabric.failures=[{port: h0, down: true, qp: 1}]":                             "failures[0]: dies, pcie, gid_change, qp and what goes with it are a NIC's: name it by nic",
		"fabric.failures=[{nic: h99, dies: true}]":                                    "failures[0].nic: ",
		"fabric.failures=[{nic: h0}]":                                                 "failures[0]: say what happens to the NIC, one of: dies: true, pcie: gen3x4, gid_change: true, or qp: 1",
		"fabric.failures=[{nic: h0, dies: true, qp: 1}]":                              "failures[0]: say what happens to the NIC",
		"fabric.failures=[{nic: h0, qp: -1}]":                                         "failures[0].qp: is -1: 1 is the NIC's first queue pair",
		"fabric.failures=[{port: h0, down: true, status: LOC_LEN_ERR}]":               "failures[0]: dies, pcie, gid_change, qp and what",
		"fabric.failures=[{nic: h0, qp: 1, status: WC_BAD}]":                          `failures[0].status: "WC_BAD" is no status of an error: choose one of LOC_LEN_ERR, `,
		"fabric.failures=[{nic: h0, qp: 1, post_send: 12}]":                           `failures[0].post_send: "12" is no errno that a call fails with here: choose one of EIO, `,
		"fabric.failures=[{nic: h0, qp: 1, status: LOC_LEN_ERR, vendor_err: 0x100}]":  `failures[0].vendor_err: "0x100" is no syndrome: choose a byte, such as 0x81`,
		"fabric.failures=[{nic: h0, qp: 1, post_send: EIO, poll_cq: EIO}]":            "failures[0]: give one of post_send, poll_cq and status",
		"fabric.failures=[{nic: h0, gid_change: true, poll_cq: EIO}]":                 "failures[0]: post_send, poll_cq and status are a queue pair's: name it, such as qp: 1",
		"fabric.failures=[{nic: h0, qp: 1, after: 3}]":                                "failures[0].after: is 3: it goes with post_send, poll_cq or status",
		"fabric.failures=[{nic: h0, qp: 1, poll_cq: EIO, vendor_err: 0x81}]":          "failures[0].vendor_err: is 0x81: it goes with status",
		"fabric.failures=[{nic: h0, pcie: gen3}]":                                     `failures[0].pcie: "gen3" is no PCIe link`,
		"fabric.failures=[{nic: h0, pcie: gen6x32}]":                                  "failures[0].pcie: is gen6x32, which carries",
		"fabric.failures=[{nic: h0, pcie: gen1x1, for: -1us}]":                        "failures[0].for: is -1us",
		"fabric.failures=[{nic: h0, pcie: gen1x1, for: 1us, every: 2us}]":             "failures[0]: for, every and times are a link's",
		"fabric.failures=[{port: h0, down: true, within: 1ms}]":                       "failures[0]: within and seed go with random or gap",
		"fabric.failures=[{port: h0, down: true, random: 2}]":                         "failures[0].within: is 0s: choose the time in which it may begin",
		"fabric.failures=[{port: h0, down: true, random: -2, within: 1ms}]":           "failures[0].random: is -2: choose 1 to 10000 times",
		"fabric.failures=[{port: h0, down: true, random: 2, gap: 1ms, within: 1ms}]":  "failures[0]: give random, how often it begins, or gap",
		"fabric.failures=[{port: h0, down: true, gap: 1ns, within: 1ms}]":             "failures[0].gap: is 1ns: choose a mean time above 0 that makes at most 1000 failures within 1ms",
		"fabric.failures=[{port: h0, down: true, random: 1, within: 1ms, packet: 1}]": "failures[0]: packet, every and times say when it begins",
		"fabric.failures=[{port: 'x*', down: true, random: 1, within: 1ms}]":          "failures[0].port: ",
		"fabric.failures=[{port: '[', down: true, random: 1, within: 1ms}]":           `failures[0]: "[" is no name in which * stands for any text`,
		"fabric.failures=[{port: 'h*', down: true}]":                                  "failures[0].port: ",
		"fabric.failures=[{link: '*->*', rate: 90Gbps, random: 1, within: 1ms}]":      "failures[0].rate: is 90Gbps: choose less than the link has",
		"fabric.failures=[{port: 'h*', random: 1, within: 1ms}]":                      "failures[0]: it changes nothing",
		"fabric.failures=[{nic: h0, dies: true, down: true}]":                         "failures[0]: down, silent, rate, loss, corrupt and pfc_storm are a link's",
		"fabric.failures=[{nic: h0, dies: true, for: 1us}]":                           "failures[0]: for, every and times are a link's",
		"fabric.failures=[{nic: h0, dies: true, at: 1us, packet: 1}]":                 "failures[0].at: is 1us: give a time of the run, or packet, one of the two",
		"fabric.failures=[{port: h0, down: true, every: 1us}]":                        "failures[0].every: is 1us: choose more than for",
		"fabric.failures=[{port: h0, down: true, for: 1us, every: 1us}]":              "failures[0].every: is 1us: choose more than for",
		"fabric.failures=[{port: h0, down: true, times: 2}]":                          "failures[0].times: is 2: give every",
		"fabric.failures=[{port: h0, down: true, packet: 2, at: 1us}]":                "failures[0].packet: is 2: leave at and every out",
		"fabric.failures=[{switch: tor0, down: true, packet: 2}]":                     "failures[0].packet: is 2: name a link whose packets count",
		"fabric.failures=[{port: h0, corrupt: 2}]":                                    "failures[0].corrupt: is 2",
		"fabric.failures=[{link: tor0->h1, rate: 10Gbps}]":                            "failures[0].rate: is 10Gbps: choose less than the link has",
		"fabric.failures=[{link: tor0->h1, rate: -1Gbps}]":                            "failures[0].rate: is -1Gbps",
		"fabric.failures=[{link: tor0->h1, loss: 2}]":                                 "failures[0].loss: is 2",
		"fabric.failures=[{link: tor0->h1, down: true, at: -1us}]":                    "failures[0].at: is -1us",
		"fabric.failures=[{link: tor0->h1, down: true, for: -1s}]":                    "failures[0].for: is -1s",
		"fabric.reroute=-1us":                           "reroute: is -1us",
		"fabric.ein={gradient: -1}":                     "ein.gradient: is -1: choose",
		"fabric.ein={window: 0}":                        "ein.window: is 0: choose",
		"fabric.ein={high_water: -1B}":                  "ein.high_water: is -1B: choose",
		"fabric.pfc.watchdog=-1us":                      "pfc.watchdog: is -1us",
		"fabric.pfc.watchdog_action=cry":                `pfc.watchdog_action: is "cry": choose drop or forward`,
		"fabric.classes=[{priority: 8}]":                "classes[0].priority: is 8: choose 0 to 7",
		"fabric.classes=[{priority: 1}, {priority: 1}]": "classes[1].priority: priority 1 is there twice",
		"fabric.classes=[{priority: 1, weight: -1}]":    "classes[0].weight: is -1",
		"fabric.classes=[{priority: 1, alpha: 0}]":      "classes[0].alpha: is 0",
		"fabric.classes=[{priority: 1, kmax: 1B}]":      "classes[0].kmax: is 1B: choose at least kmin, 10KiB",
		"fabric.classes=[{priority: 1, pmax: 7}]":       "classes[0].pmax: is 7",
		"workloads[0].priority=9":                       "workloads[0].priority: is 9: choose 0 to 7",
	} {
		_, err := Parse("small.yaml", []byte(small), set)
		if err == nil || !strings.Contains(err.Error(), "--set "+set+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", set, err, want)
		}
	}
}

// Failures that are drawn are the same each time for a seed, lie where they may, and befall all that match.
func TestDrawnFailures(t *testing.T) {
	s := parse(t, small, "fabric.failures=[{port: h0, down: true}, {port: 'h*', at: 1ms, within: 2ms, random: 200, for: 5us, down: true}, {nic: h1, within: 1s, gap: 10ms, seed: 3, qp: 1}]")
	draw := func(seed uint64) []Failure {
		sys, err := s.Systems[0].Drawn(s.Graph(), seed)
		if err != nil {
			t.Fatal(err)
		}
		return sys.Fabric.Failures
	}
	all := draw(1)
	if !slices.Equal(all, draw(1)) || slices.Equal(all, draw(2)) {
		t.Error("a seed does not decide what is drawn")
	}
	if fixed := len(all) - 201; fixed < 60 || fixed > 140 || !slices.Equal(all[201:], draw(2)[201:]) {
		t.Errorf("%d failures with a mean gap of a hundredth of the time, by a seed of their own", fixed)
	}
	hosts := map[string]int{}
	last := units.Time(0)
	for _, f := range all[1:201] {
		hosts[f.Port]++
		if f.At < last || f.At < units.Millisecond || f.At >= 3*units.Millisecond || f.For != 5*units.Microsecond || f.drawn() {
			t.Errorf("drawn: %+v", f)
		}
		last = f.At
		if c := f.fabricFailure(); c.Link != f.Port+"->tor0" {
			t.Errorf("%+v is of link %s", f, c.Link)
		}
	}
	if len(hosts) != s.Graph().Hosts() {
		t.Errorf("of 200 failures of %d hosts, each befell one of %v", s.Graph().Hosts(), hosts)
	}
}
