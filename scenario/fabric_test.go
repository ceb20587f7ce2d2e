package scenario

import (
	"strings"
	"testing"
)

// What package fabric finds wrong is said once, of the key that says it: that of a switch,
// of a priority, or else of the whole fabric.
func TestFabricErrorsHaveTheirPlace(t *testing.T) {
	for _, c := range []struct {
		sets []string
		want string // the whole error, without --set
	}{
		{[]string{"fabric.switch_latency=2s"}, "fabric.switch_latency: is 2s: choose 0s to 1s"},
		{[]string{"fabric.buffer=2GiB"}, "fabric.buffer: is 2GiB: choose a size of at least one packet, 1106B, and below 2GiB"},
		{[]string{"fabric.switches.tor0.buffer=2GiB"}, "fabric.switches.tor0.buffer: is 2GiB: choose a size of at least one packet, 1106B, and below 2GiB"},
		{[]string{"fabric.switches.tor0.switch_latency=-1us"}, "fabric.switches.tor0.switch_latency: is -1us: choose 0s to 1s"},
		{[]string{"fabric.switches.tor0.int=false", "fabric.alpha=0"}, "fabric.alpha: is 0: choose a number from 1/1024 to 2^20, such as 0.5"},
		{[]string{"fabric.classes=[{priority: 3, alpha: 0}]"}, "fabric.classes[0].alpha: is 0: choose a number from 1/1024 to 2^20, such as 0.5"},
		{[]string{"fabric.classes=[{priority: 7, weight: 1001}]"}, "fabric.classes[0].weight: is 1001: choose 1 to 1000, or 0 for strict priority"},
		{[]string{"fabric.classes=[{priority: 3, kmin: 30KiB}]"}, "fabric.classes[0]: kmax is 20KiB: choose at least kmin, 30KiB"},
		{[]string{"fabric.classes=[{priority: 3, kmax: 3GiB}]"}, "fabric.classes[0].kmax: is 3GiB: choose a size from 0B to below 2GiB"},
		{[]string{"fabric.classes=[{priority: 3, pmax: 2}]"}, "fabric.classes[0].pmax: is 2: choose a probability from 0 to 1"},
		{[]string{"fabric.classes=[{priority: 3, weight: 2}]", "fabric.ecn.at_rate=-1Gbps"}, "fabric.ecn.at_rate: is -1Gbps: choose a positive rate, or 0 for the same at all rates"},
		{[]string{"fabric.pfc.xoff=1KiB", "fabric.pfc.xon=2KiB"}, "fabric.pfc.xon: is 2KiB: choose less than xoff, 1KiB"},
		{[]string{"fabric.pfc.headroom=2GiB"}, "fabric.pfc.headroom: is 2GiB: choose a size from 0B to below 2GiB"},
		{[]string{"fabric.pfc.watchdog=1001s"}, "fabric.pfc.watchdog: is 1001s: choose a positive span up to 1000s, or 0 for none"},
		{[]string{"fabric.ein.gradient=-1"}, "fabric.ein.gradient: is -1: choose a positive share of the link's rate up to 1000, such as 0.25, or 0 for no marks"},
		{[]string{"fabric.ein.gradient=1", "fabric.ein.window=0"}, "fabric.ein.window: is 0: choose 1 to 4096 dequeues, such as 50"},
		{[]string{"fabric.ein.high_water=-1B"}, "fabric.ein.high_water: is -1B: choose a size from 0B to below 2GiB; it should be above ecn.kmax"},
		{[]string{"fabric.reroute=1001s"}, "fabric.reroute: is 1001s: choose a positive span up to 1000s, or 0 for never"},
		{[]string{"fabric.faults=[{link: '*', loss: 2}]"}, "fabric.faults[0].loss: is 2: choose a probability from 0 to 1"},
		{[]string{"fabric.failures=[{link: tor0->h0, down: true}, {link: tor0->h1}]"}, "fabric.failures[1]: it changes nothing: give down, silent, rate, loss, corrupt or pfc_storm"},
		{[]string{"fabric.failures=[{link: tor0->h0, down: true, for: -1us}]"}, "fabric.failures[0].for: is -1us: choose a span above 0, or 0 for the rest of the run"},
		{[]string{"fabric.failures=[{link: tor0->h0, down: true, at: 1001s}]"}, "fabric.failures[0].at: is 1001s: choose 0s to 1000s"},
		{[]string{"fabric.circuits.voq=2GiB"}, "fabric.circuits.voq: is 2GiB: choose a size from 1B to below 2GiB, or 0 for no bound"},
		{[]string{"systems[A].override={fabric: {reroute: -1us}}"}, "systems[0].override.fabric.reroute: is -1us: choose a positive span up to 1000s, or 0 for never"},
		{[]string{"nic.model=reduced", "nic.mtu=65535"}, "nic.mtu: is 65535, which makes frames of 65617B: choose less, so that they have at most 64KiB"},
		{[]string{"topology.host_delay=2s"}, "topology.host_delay: is 2s: choose 0s to 1s, such as 245ns"},
		{[]string{"topology.trunk_delay=-1us"}, "topology.trunk_delay: is -1us: choose a positive span up to 1s, such as 1us, or 0 for that of the hosts' links"},
	} {
		_, err := Parse("small.yaml", []byte(small), c.sets...)
		if err == nil {
			t.Errorf("%v: no error", c.sets)
			continue
		}
		found := 0
		for line := range strings.Lines(err.Error()) {
			if strings.HasSuffix(strings.TrimSuffix(line, "\n"), ": "+c.want) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%v: error %v, expected once %s", c.sets, err, c.want)
		}
	}
}

// An engine's fault that only the hosts' rate shows is that of a key, too.
func TestLargestWindowErrorsHaveTheirPlace(t *testing.T) {
	for _, c := range []struct{ engine, config, want string }{
		{"swift", "{min_cwnd: 1e6}", "systems[0].config.min_cwnd: is 1e+06: choose at most the largest window, "},
		{"poseidon", "{min_cwnd: 1e6}", "systems[0].config.min_cwnd: is 1e+06: choose at most the largest window, "},
		{"poseidon", "{max_cwnd: 1e-9}", "systems[0].config.max_cwnd: is 1e-09: choose at least the smallest window, "},
		{"poseidon", "{signal: rtt, brownfield: true}", "systems[0].config.brownfield: is true: signal rtt has no use for it"},
	} {
		_, err := Parse("small.yaml", []byte(small), "systems[0]={engine: "+c.engine+", config: "+c.config+"}", "nic.mode=offload")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, expected %s", c.engine, c.config, err, c.want)
		}
	}
}
