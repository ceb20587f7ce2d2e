package scenario

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

const circuitsText = `
topology: {kind: rdcn, tors: 5, hosts_per_tor: 2, day: 225us, night: 20us, circuit_rate: 100Gbps, host_rate: 25Gbps, trunk_delay: 2us}
fabric: {pfc: {enabled: false}, circuits: {voq: 100KB, announced_voq: 300KB, ahead: 600us, guard: 5us}}
systems: [{engine: none}]
workloads: [{kind: permutation, size: 100KB}]
`

func TestCircuits(t *testing.T) {
	s := parse(t, circuitsText)
	g := s.Graph()
	l, err := g.FindLink("tor0->tor2")
	if err != nil {
		t.Fatal(err)
	}
	dawn, day, week, ok := g.Circuit(l)
	if us := units.Microsecond; !ok || dawn != 245*us || day != 225*us || week != 980*us {
		t.Errorf("the circuit tor0->tor2 is up from %v for %v of %v: %v", dawn, day, week, ok)
	}
	if got := g.Link(l); got.Rate != 100*units.Gbps || got.Delay != 4*units.Microsecond {
		t.Errorf("it is %+v", got)
	}
	want := fabric.CircuitConfig{VOQ: 100 * units.KB, Announced: 300 * units.KB, Ahead: 600 * units.Microsecond, Guard: 5 * units.Microsecond}
	if got := s.Systems[0].FabricConfig().Circuits; got != want {
		t.Errorf("the fabric gets %+v, want %+v", got, want)
	}
	if got := s.Systems[0].Elsewhere().FabricConfig().Circuits; got != (fabric.CircuitConfig{}) {
		t.Errorf("on another network it gets %+v", got)
	}
}

func TestCircuitMistakes(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"tors: 5", "tors: 2", "topology.tors: is 2: choose 3 to 2097152"},
		{"tors: 5, ", "", "topology.tors: it is missing: choose 3 to 2097152"},
		{"day: 225us", "day: 0s", "topology.day: is 0s"},
		{"night: 20us", "night: 2s", "topology.night: is 2s"},
		{"circuit_rate: 100Gbps, ", "", "topology.circuit_rate: it is missing: choose a positive rate"},
		{"circuit_rate", "circuit_delay: 2s, circuit_rate", "topology.circuit_delay: is 2s"},
		{"circuit_rate", "host_rates: {h1: 1Gbps}, circuit_rate", "topology.host_rates: hosts of an rdcn"},
		{"voq: 100KB", "voq: 2GiB", "fabric.circuits.voq: is 2GiB"},
		{"announced_voq: 300KB", "announced_voq: 3GiB", "fabric.circuits.announced_voq: is 3GiB"},
		{"ahead: 600us", "ahead: 756us", "fabric.circuits.ahead: is 756us: choose a span up to 755us"},
		{"guard: 5us", "guard: 21us", "fabric.circuits.guard: is 21us: choose a span up to that of a night, 20us"},
		{"enabled: false", "enabled: true", "fabric.pfc.enabled: pause frames have no way back"},
		{"kind: rdcn, tors: 5, hosts_per_tor: 2, day: 225us, night: 20us, circuit_rate: 100Gbps", "kind: star, hosts: 4", "fabric.circuits: the topology has no circuits"},
	} {
		text := strings.Replace(circuitsText, c.old, c.new, 1)
		if text == circuitsText {
			t.Fatalf("%q is not there", c.old)
		}
		if _, err := Parse("test.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %q: want an error with %q, got %v", c.new, c.want, err)
		}
	}
}
