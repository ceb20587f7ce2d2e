package bench

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// conserved makes a simulation of two flows, one of them without end.
func conserved(t *testing.T, sets ...string) *simulation {
	t.Helper()
	notUnderRace(t)
	s, err := scenario.Parse("test.yaml", []byte(`
duration: 100us
topology: {kind: star, hosts: 3, host_rate: 25Gbps}
systems: [{engine: none}]
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 100KB}, {src: h2, dst: h1, size: unlimited}]}]
`), sets...)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := newSimulation(s.Systems[0], s.Graph(), 1, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	sim.flows, sim.duration = s.Flows(1).Next, s.Duration
	if sim.measure, err = newMeasurement(sim, s, &Options{}); err != nil {
		t.Fatal(err)
	}
	sim.measure.progress = func(float64) {}
	return sim
}

// A run is stopped in the middle of everything and still adds up.
func TestAudit(t *testing.T) {
	for _, sets := range [][]string{nil, {"fabric.buffer=100KB", "fabric.pfc.enabled=false"}, {`fabric.faults=[{link: "*", loss: 0.01}]`}, {"nic.mode=offload"}, {"nic.model=reduced"}, {"nic.model=reduced", `fabric.faults=[{link: "*", loss: 0.01}]`}} {
		sim := conserved(t, sets...)
		if err := sim.run(); err != nil {
			t.Errorf("%v: %v", sets, err)
		}
		if inside, bytes := sim.net.InFlight(); inside == 0 || bytes == 0 {
			t.Errorf("%v: nothing is in flight, so nothing was tested", sets)
		}
	}
}

// The audit finds what does not add up.
func TestAuditFindsFaults(t *testing.T) {
	for name, spoil := range map[string]func(*simulation){
		"a packet that no NIC sent": func(s *simulation) {
			h := s.net.Alloc()
			s.net.Transmit(s.engine.Now(), 0, h, &fabric.Frame{Size: 64, Dst: 1})
		},
		"bytes acknowledged and not there": func(s *simulation) { s.active[0].done += 1 << 30 },
		"bytes placed and not posted":      func(s *simulation) { s.active[0].posted = 0 },
	} {
		sim := conserved(t)
		sim.duration = 99 * units.Microsecond
		sim.engine.Schedule(sim.duration, &sim.src, sim.engine.AddHandler(handler(func() { spoil(sim) })), 0, 0)
		if err := sim.run(); err == nil || !strings.Contains(err.Error(), "conservation") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// handler is an event's action.
type handler func()

func (h handler) Handle(des.Event) { h() }
