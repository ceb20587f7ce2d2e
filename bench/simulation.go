package bench

import (
	"fmt"

	"github.com/sluice-rdma/sluice/bench/internal/nictrace"
	"github.com/sluice-rdma/sluice/bench/internal/simnet"
	"github.com/sluice-rdma/sluice/bench/internal/wire"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// simulation is one system of a scenario as it runs: a network with a NIC and a
// host at each port, or with a fleet of reduced NICs, and the flows under way.
// Hosts are driven by events; there is no goroutine.
type simulation struct {
	built    *simnet.Network
	sys      *scenario.System // these two are its
	seed     uint64
	engine   *des.Engine
	net      *fabric.Network
	hosts    []*host   // with staged NICs
	notices  []notices // of hosts, by lane
	heard    []notice  // scratch of settle
	linger   units.Time
	fleet    *fleet    // of reduced NICs, or nil
	programs *programs // of switches, or nil
	// undivided is the reason why a network that was to be divided is not.
	undivided error
	id        des.NodeID
	lastID    des.NodeID // of its events that go last at an instant
	src       des.Source

	baseRTT  units.Time // of a full packet over the longest path, NICs included
	flows    func() (workload.Flow, bool)
	traffic  []*workload.Traffic
	duration units.Time
	end      units.Time
	idle     idleTimes
	answered idleTimes // of requests with their answers, by operation

	next    workload.Flow // the next to start
	pending bool          // next is valid
	active  []*flow
	opening *flow   // whose queue pairs are being connected
	oracle  *oracle // nil unless the scheme is one
	driven  []*driven
	settles bool // an evSettle is coming
	onDone  func(f *flow, now units.Time)
	onTask  func(t *workload.Task, now units.Time) // called for each task that has ended
	measure *measurement
	nics    nictrace.Network // for those who watch them
	packets *wire.Capture    // nil unless they are recorded

	failures failures
	err      error
}

// Kinds of the simulation's own events.
const (
	evStart   = iota // the next flow starts
	evMeasure        // the measurement's clock
	evDone           // the last flow has ended
	evRates          // an oracle's rates are due
	evTraffic        // hosts of a workload that is no plain flows do something together
	evAlone          // one of them does something by itself
	evFailure        // a NIC fails
	evSettle         // consequences for all of the hosts' actions at this instant
)

// newSimulation builds a system on a network that workers run in windows, if it can be
// divided; with 0 it is not.
//
// With forPrograms, hosts leave their NICs to programs.
func newSimulation(sys *scenario.System, graph *fabric.Topology, seed uint64, workers int, forPrograms bool) (*simulation, error) {
	network := sys.FabricConfig()
	programs, err := addPrograms(sys, graph, &network)
	if err != nil {
		return nil, err
	}
	built, err := simnet.New(sys, graph, network, seed)
	if err != nil {
		return nil, err
	}
	s := &simulation{built: built, sys: sys, programs: programs, seed: seed, engine: built.Engine, net: built.Net, baseRTT: built.BaseRTT}
	s.id, s.src = s.engine.AddHandler(s), s.engine.NewSource()
	if workers > 0 {
		if s.undivided = built.Divide(workers); s.undivided == nil {
			s.net.Division().SingleInstants(s.mayTurn)
		}
	}
	s.nics.System, s.nics.Topology = sys.Name, graph
	s.nics.Lanes = s.net.Lanes()
	if sys.Scheme.Oracle {
		s.oracle = s.newOracle()
	}
	if sys.Reduced() {
		err = s.addFleet()
	} else {
		err = s.addHosts(sys.NICConfig(), forPrograms)
	}
	s.lastID = s.engine.AddHandler(s)
	return s, err
}

// addHosts puts a staged NIC and a host at each port.
func (s *simulation) addHosts(cfg nicmodel.Config, forPrograms bool) error {
	s.notices = make([]notices, s.net.Lanes())
	s.net.OnSettle(s.settle)
	s.linger = s.net.BetweenHosts()
	if d := s.net.Division(); d != nil {
		d.Alternate()
	}
	world := simverbs.NewWorld(s.engine, s.net)
	frames := nicmodel.NewFrames(s.net)
	s.programs.transport(frames)
	for h := range s.net.Topology().Hosts() {
		nic, err := s.newNIC(frames, h, cfg)
		if err != nil {
			return err
		}
		var host *host
		if forPrograms {
			host = newProgramHost(s, world, s.name(h), nic)
		} else if host, err = newHost(s, world, s.name(h), nic); err != nil {
			return fmt.Errorf("host %s: %w", s.name(h), err)
		}
		s.hosts, s.nics.NICs = append(s.hosts, host), append(s.nics.NICs, nic)
	}
	return nil
}

// newNIC puts a NIC at a host, or the second port of the one before.
func (s *simulation) newNIC(frames *nicmodel.Frames, h int, cfg nicmodel.Config) (*nicmodel.NIC, error) {
	if s.sys.NIC.Ports == 2 && h%2 == 1 {
		return nicmodel.NewPort(s.nics.NICs[h-1], h, s.net.LineRate(h))
	}
	return nicmodel.New(s.engine, s.net, frames, h, s.net.LineRate(h), cfg)
}

// env is the environment of an engine at a host.
func (s *simulation) env(line units.Rate) cc.Env {
	if s.opening != nil {
		return s.built.Env(line, s.opening.Size)
	}
	return s.built.Env(line, 0)
}

// newEngine makes an engine for a queue pair that is being connected.
func (s *simulation) newEngine(line units.Rate) (cc.Engine, error) {
	e, err := s.sys.NewEngine(s.env(line))
	if d, ok := e.(cc.Directed); ok && s.opening != nil {
		s.opening.directed.engines = append(s.opening.directed.engines, d)
	}
	return e, err
}

// congestion is the NIC's congestion control of a queue pair that is being
// connected.
func (s *simulation) congestion(line units.Rate) (nicmodel.Congestion, error) {
	c := s.built.Congestion()
	var err error
	if s.sys.Offload() {
		c.Engine, err = s.newEngine(line)
		if f := s.opening; err == nil && f != nil && (f.Operation == workload.Read || f.kept != nil) {
			c.ReadEngine, err = s.newEngine(line)
		}
	}
	return c, err
}

// congestionFor implements simverbs.CongestionFor for the NIC of a host.
func (s *simulation) congestionFor(line units.Rate) simverbs.CongestionFor {
	return func(int) (nicmodel.Congestion, int, error) {
		c, err := s.congestion(line)
		return c, s.sys.NIC.AckEvery, err
	}
}

// shimConfig configures a host's shim. It is used only where the engine
// runs there.
func (s *simulation) shimConfig(h *host, name string, line units.Rate) paced.Config {
	c := paced.DefaultConfig()
	shim := &s.sys.Shim
	c.Segment, c.MaxOutstanding = shim.Segment, shim.Outstanding
	c.CutImmediate = true // messages of a workload end with immediate data, and count as Writes
	c.CalibrateEvery, c.NICRate = shim.CalibrateEvery, shim.NICRate
	c.Clock = rttClocks[shim.Clock]
	if shim.Group != nil {
		c.Group = groupings[*shim.Group]
	}
	c.LineRate, c.BaseRTT = line, s.baseRTT
	c.Engine = s.noisy(name, func(cc.Env) (cc.Engine, error) { return s.sys.NewEngine(s.env(line)) })
	c.Observe = h.observe
	return c
}

var rttClocks = map[string]paced.RTTClock{
	scenario.ClockCalibrated: paced.CalibratedClock, scenario.ClockNIC: paced.NICClock, scenario.ClockSoftware: paced.SoftwareClock,
}

var groupings = map[string]paced.Grouping{
	"none": paced.Ungrouped, "destination": paced.ByDestination, "path": paced.ByPath, "port": paced.ByPort,
}

// run simulates until all flows have ended or the time is over.
func (s *simulation) run() error {
	if s.next, s.pending = s.flows(); s.pending {
		s.engine.Schedule(s.next.Start, &s.src, s.id, evStart, 0)
	}
	s.beginTraffic()
	if s.measure != nil {
		s.measure.begin()
	}
	s.built.Run(s.duration)
	s.packets.Settle()
	s.end = s.engine.Now()
	s.nics.End(s.end)
	if s.measure != nil {
		s.measure.finish()
	}
	return s.withDeadlock(s.err)
}

// mayTurn reports whether the end of the run, or joint work of a workload's hosts, may
// come within the window that starts at start. The run ends where no flow is to start, and
// all bytes of those under way have arrived, or the flows' own time is over. Bytes that
// have not arrived are acknowledged only after the window; operations that complete where
// they arrive may complete within it.
// arrive may complete within it.
func (s *simulation) mayTurn(start units.Time) bool {
	for _, d := range s.driven {
		if s.fleet == nil && d.mayTurn(start) {
			return true // reduced NICs' messages are events of the engine
		}
	}
	if !s.allOver() {
		return false
	}
	for _, f := range s.active {
		if f.Size > 0 && f.arrived().Payload+s.within(f) < f.Size || f.Size == 0 && f.Stop > start+s.net.Division().Longest() {
			return false
		}
	}
	return len(s.active) > 0
}

// within is the most bytes of a flow that may arrive and complete in a window.
func (s *simulation) within(f *flow) units.Bytes {
	switch {
	case f.Operation != workload.Read && (f.light != nil || !f.kept.notifies()):
		return 0
	case f.light != nil:
		return s.net.LineRate(f.Dst).BytesIn(s.net.Division().Longest()) + s.sys.NIC.MTU
	}
	return f.sink.LineRate().BytesIn(s.net.Division().Longest()) + units.Bytes(f.sink.Receiving()+1)*s.sys.NIC.MTU
}

// Handle implements des.Handler.
func (s *simulation) Handle(ev des.Event) {
	switch ev.Kind {
	case evStart:
		for s.pending && s.next.Start == ev.At {
			if err := s.start(s.next); err != nil {
				s.fail(err)
				return
			}
			s.next, s.pending = s.flows()
		}
		if s.pending {
			s.engine.Schedule(s.next.Start, &s.src, s.id, evStart, 0)
		}
	case evRates:
		if err := s.oracle.rates(ev.At); err != nil {
			s.fail(err)
		}
	case evTraffic:
		s.driven[ev.Arg].wakeUp(ev.At)
	case evSettle:
		if err := s.settleTraffic(ev.At); err != nil {
			s.fail(err)
		}
	case evAlone:
		if err := s.alone(ev.At, ev.Arg); err != nil {
			s.fail(err)
		}
	case evFailure:
		s.failures.happen(ev.At, ev.Arg)
	case evMeasure:
		s.measure.tick(ev.At)
	case evDone:
		if len(s.active) == 0 && s.allOver() {
			s.engine.Stop()
		}
	}
}

// fail ends the simulation with an error.
func (s *simulation) fail(err error) { s.failAt(s.engine.Now(), err) }

func (s *simulation) failAt(at units.Time, err error) {
	if s.err == nil {
		s.err = fmt.Errorf("at %v: %w", at, err)
	}
	s.engine.Stop()
}
