package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/internal/wire"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Run runs every system of a scenario and returns what was measured. If a system fails or
// is interrupted, it returns the error and a result of those before. It starts goroutines
// where Options.Workers is above 1, which end before it returns; different scenarios may
// be run concurrently.
func Run(s *scenario.Scenario, opt Options) (r *results.Result, err error) {
	seed := s.Seed
	if opt.Seed != nil {
		seed = *opt.Seed
	}
	text, err := s.YAML()
	if err != nil {
		return nil, err
	}
	r = &results.Result{Scenario: s.Name, Description: s.Description, Source: s.Source, YAML: string(text), Seed: seed, Warnings: s.Warnings(), Notes: s.Notes()}
	// Last, since with many links it takes as much memory as what runs.
	defer func() { r.Topology = topologyOf(s.Graph()) }()
	var packets *wire.Capture
	if opt.Packets != nil {
		packets = wire.NewCapture(opt.Packets)
		defer func() { err = errors.Join(err, packets.Close()) }()
	}
	var simulated units.Time
	defer func() { r.SimS, r.Ties = stats.Float(simulated.Seconds()), r.SameFigures() }()
	// Elapsed time is the one thing about a run that is not a function of scenario
	// and seed, and is reported as such.
	began := time.Now()
	defer func() { r.WallS = time.Since(began).Seconds() }()
	shown, jobs := newProgress(s, opt.Progress), opt.jobs(s)
	run := func(i int, t *slot) outcome {
		start := time.Now()
		one, end, err := runSystem(s, i, seed, opt.Workers/jobs, func(done float64) { shown.of(i, done) }, opt.ordered(t, &shown.mu), packets)
		if at := (scenario.Errors)(nil); err != nil && !errors.As(err, &at) {
			err = fmt.Errorf("scenario %s, system %s: %w", s.Name, s.Systems[i].Name, err)
		}
		if err == nil {
			one.WallS = time.Since(start).Seconds()
		}
		return outcome{one, end, err}
	}
	return r, inOrder(len(s.Systems), jobs, run, func(o outcome) {
		r.Systems = append(r.Systems, o.system)
		r.Events += o.system.Events
		r.PacketHops += o.system.PacketHops
		simulated += o.end
	})
}

// runSystem simulates system i, on the given workers if it can be divided, and returns
// its measurements and its end.
func runSystem(s *scenario.Scenario, i int, seed uint64, workers int, progress func(float64), opt *Options, packets *wire.Capture) (*results.System, units.Time, error) {
	sys := s.Systems[i]
	drawn, err := sys.Drawn(s.Graph(), seed)
	if err != nil {
		return nil, 0, s.Errorf("fabric.failures", "%v", err)
	}
	sys = drawn
	// What the model can't be built from, the scenario says.
	refuse := func(err error) (*results.System, units.Time, error) {
		if k := (keyError{}); errors.As(err, &k) {
			return nil, 0, s.Errorf(k.key, "%s: %v", sys.Name, k.err)
		}
		return nil, 0, s.Errorf(fmt.Sprintf("systems[%d]", i), "%s: %v", sys.Name, err)
	}
	overhead, err := idleOverhead(sys, s.Topology.HostRate)
	if err != nil {
		return refuse(err)
	}
	why := undivided(s, sys, opt)
	if why != nil {
		workers, why = 0, errIf(workers > 0, why)
	}
	sim, err := newSimulation(sys, s.Graph(), seed, workers, len(s.Programs) > 0)
	if err != nil {
		return refuse(err)
	}
	if why != nil {
		sim.undivided = why
	}
	sim.flows = s.Flows(seed).Next
	sim.traffic = s.Traffic(seed)
	sim.duration = s.Duration
	sim.idle = overhead
	if sim.answered, err = answerOverhead(s, sys); err != nil {
		return refuse(err)
	}
	m, err := newMeasurement(sim, s, opt)
	if err != nil {
		return refuse(err)
	}
	sim.measure = m
	if err := errors.Join(opt.NICTrace.Watch(&sim.nics), opt.NICVCD.Watch(&sim.nics)); err != nil {
		return refuse(err)
	}
	if packets != nil {
		if sys.Reduced() {
			return nil, 0, s.Errorf("nic.model", "reduced NICs have no packets to capture: set it to staged")
		}
		if err := packets.Begin(sys.Name); err != nil {
			return nil, 0, err
		}
		packets.Watch(sim.nics.NICs, sim.net.Lanes())
		sim.packets = packets
	}
	sim.watchFailures()
	m.progress = progress
	var ended []results.HostProgram
	if len(s.Programs) > 0 {
		ended, err = sim.runPrograms(sys, s.Programs, opt.Programs)
	} else {
		err = sim.run()
	}
	if err != nil {
		return nil, 0, err
	}
	if !m.warm {
		return nil, 0, s.Errorf("warmup", "%s: the run ended at %v, before the warm-up of %v was over, so nothing was measured: choose less", sys.Name, sim.end, m.warmup)
	}
	mode := scenario.ModeHost
	if sys.Offload() {
		mode = scenario.ModeOffload
	}
	out := results.NewSystem(sys.Name, sys.Engine, mode)
	out.Config = sys.ConfigMap()
	out.Programs = ended
	if len(sim.failures.timeline.Events) > 0 {
		out.Timeline = &sim.failures.timeline
	}
	if sim.undivided != nil {
		out.Undivided = sim.undivided.Error()
	}
	out.Events = sim.net.Events()
	out.PacketHops = sim.net.Totals().PacketHops
	out.SimS = stats.Float(sim.end.Seconds())
	m.report(out)
	out.Distributions = append(out.Distributions, m.slowdowns()...)
	if len(s.Programs) > 0 { // they say themselves what they measured
		out.Flows = results.NewFlows()
	}
	return out, sim.end, nil
}

// undivided says why a system's run is not done in windows, beside what of its network
// can't, or nil.
func undivided(s *scenario.Scenario, sys *scenario.System, opt *Options) error {
	if len(s.Programs) > 0 && !sys.Reduced() {
		return errors.New("programs, which run one at a time")
	}
	if err := undividedBy(sys.Fabric.Failures); err != nil {
		return err
	}
	if opt.smallWindows {
		return nil
	}
	window, packets := mostPerWindow(s.Graph(), sys.NIC.MTU)
	if window > 0 && packets < fewestPerWindow {
		return fmt.Errorf("little in a window: all hosts send %.2g full packets in %v, and one event after the other is faster", packets, window)
	}
	return nil
}

// fewestPerWindow is the number of packets of full size that all hosts' links have to carry in a
// window for it to be worth its own cost. With 3 and 7 packets (timely-fig11, timely-table1)
// windows took 1.23 times the CPU time, with 6 (nic-pcie) 1.06 times, and from 12 on (nic-loss,
// plb, nic-qps, storage) 0.97 to 1.08 times.
const fewestPerWindow = 8

// mostPerWindow returns how long a network's windows are, and how many packets with a
// payload of the MTU its hosts could send in one.
func mostPerWindow(topo *fabric.Topology, mtu units.Bytes) (window units.Time, packets float64) {
	window = units.Never
	for l := range topo.Links() {
		window = min(window, topo.Link(fabric.LinkID(l)).Delay)
	}
	for h := range topo.Hosts() {
		packets += float64(window) / float64(topo.Link(topo.HostLink(h)).Rate.Serialize(mtu))
	}
	return window, packets
}

func errIf(cond bool, err error) error {
	if cond {
		return err
	}
	return nil
}
