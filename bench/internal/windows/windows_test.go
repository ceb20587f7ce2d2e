package windows_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/bench/internal/reduced"
	"github.com/sluice-rdma/sluice/bench/internal/windows"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/hpcc"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

// study is a network of reduced NICs and the flows that they carry.
type study struct {
	topo  func() *fabric.Topology
	cfg   fabric.Config
	flows []flow
	until units.Time
	tick  units.Time // between looks at all ports; 0 is none
	// stages gives each switch a stage of its own.
	stages bool
}

// stage is what a program might be: it counts, marks, drops now and then, and reports
// rates that are no port's.
type stage struct{ packets uint64 }

func (s *stage) Depart(d *fabric.Departure) {
	s.packets++
	d.MaxDelay = max(d.MaxDelay, d.Waited+units.Time(s.packets%7))
	if s.packets%5 == 0 && d.Flags&fabric.ECT != 0 && d.BehindPackets > 2 {
		d.Flags |= fabric.CE
	}
	if s.packets%301 == 300 {
		d.Drop = true
	}
	if d.Telemetry == telemetry.PerHop {
		d.Recorded = true
		d.Record = telemetry.Hop{TxBytes: d.TxBytes, QLen: d.Behind + d.Ahead, Time: d.Now, Rate: d.Rate - units.Rate(s.packets%400)*units.Mbps}
	}
}

type flow struct {
	at       units.Time
	src, dst int
	size     units.Bytes
	kind     telemetry.Kind
	hpcc     bool
	fixed    cc.Control // without an engine if the rate is 0
}

// clock looks at every port now and then, as an event of the engine.
type clock struct {
	e    *des.Engine
	id   des.NodeID
	src  des.Source
	s    *study
	look func()
}

func (c *clock) Handle(ev des.Event) {
	c.look()
	if next := ev.At + c.s.tick; next <= c.s.until {
		c.e.Schedule(next, &c.src, c.id, 0, 0)
	}
}

// run returns all output of a study on a number of workers; 0 is the undivided network.
func (s *study) run(t interface{ Fatal(...any) }, workers int) []string {
	e := des.New()
	topo, cfg := s.topo(), s.cfg
	if s.stages {
		cfg.Switches = map[string]fabric.SwitchConfig{}
		for _, name := range topo.SwitchNames() {
			sw := cfg.Switch
			sw.Stage = &stage{}
			cfg.Switches[name] = sw
		}
	}
	net, err := fabric.New(e, topo, cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	if workers > 0 {
		if err := net.Divide(workers); err != nil {
			t.Fatal(err)
		}
	}
	// Before the NICs, so that at one instant it looks before they wake.
	c := &clock{e: e, s: s, src: e.NewSource()}
	c.id = e.AddHandler(c)
	fleet, err := reduced.New(e, net, reduced.Config{MTU: 1000, AckEvery: 2, Timeout: 2, RetryCount: 7, SendDepth: 16})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	fleet.OnDone(func(d *reduced.Done) {
		say("flow %d ended at %d: %v, delivered %+v, counters %+v", d.ID, int64(d.At), d.Status, d.Delivered, *d.Counters)
	})
	look := func() {
		say("at %d: %+v", int64(e.Now()), net.Totals())
		for l := range fabric.LinkID(net.Topology().Links()) {
			p := net.Port(l)
			say("%s holds %d, paused %b: %+v", p.Name(), p.Queue(), p.Paused(), p.Stats())
			for prio := range net.Priorities() {
				say("of priority %d %d, at most %d, over time %v", prio, p.QueueOf(prio), p.MaxQueueOf(prio), p.QueueIntegralOf(prio))
			}
		}
		for _, name := range net.Topology().SwitchNames() {
			b, _ := net.Buffer(name)
			say("%s: %+v", name, b)
		}
	}
	for i, f := range s.flows {
		c := nicmodel.Congestion{Telemetry: f.kind, ECT: true, BaseRTT: 10 * us, CNPInterval: 3 * us}
		env := cc.Env{LineRate: net.LineRate(f.src), BaseRTT: 10 * us, MTU: 1000}
		switch {
		case f.hpcc:
			c.Telemetry = telemetry.PerHop
			if c.Engine, err = hpcc.New(hpcc.DefaultConfig(), env); err != nil {
				t.Fatal(err)
			}
		case f.fixed.Rate > 0:
			c.Engine = &fixed{f.fixed}
		}
		if _, err := fleet.StartAt(f.at, &reduced.Flow{
			ID: uint64(i), Src: f.src, Dst: f.dst, Size: f.size, Message: 16 * units.KB, FlowHash: uint32(7 * i), Congestion: c,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if s.tick > 0 {
		c.look = look
		e.Schedule(s.tick, &c.src, c.id, 0, 0)
	}
	windows.Run(e, net, s.until)
	look()
	say("%+v", fleet.Stats())
	inside, bytes := net.InFlight()
	say("%d packets, %v inside", inside, bytes)
	if tot := net.Totals(); tot.Sent != tot.Delivered+tot.Dropped+tot.Lost+uint64(inside) {
		t.Fatal(fmt.Sprintf("%d workers: %+v, %d inside", workers, tot, inside))
	}
	return out
}

// fixed is an engine that does not change its mind.
type fixed struct{ control cc.Control }

func (e *fixed) OnAck(*cc.Ack) cc.Control        { return e.control }
func (e *fixed) OnLoss(units.Time) cc.Control    { return e.control }
func (e *fixed) OnTimeout(units.Time) cc.Control { return e.control }
func (e *fixed) OnCNP(units.Time) cc.Control     { return e.control }
func (e *fixed) Control() cc.Control             { return e.control }

// same fails unless every number of workers sees what the undivided network does.
func (s *study) same(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, most int) {
	want := s.run(t, 0)
	for workers := 1; workers <= most; workers++ {
		got := s.run(t, workers)
		if slices.Equal(got, want) {
			continue
		}
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("%d workers:\n%v\nundivided:\n%v", workers, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
			}
		}
	}
}

func lossless(c *fabric.Config, xoff units.Bytes) {
	for i := range c.Switch.Classes {
		c.Switch.Classes[i].PFC = fabric.PFC{Lossless: true, XOFF: xoff}
	}
}

// A permutation and an incast on a fat tree, with PFC and with HPCC's telemetry:
// one, two and three workers give what the undivided network gives, at every
// moment.
func TestWorkersAgree(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	for _, engine := range []string{"none", "hpcc"} {
		t.Run(engine, func(t *testing.T) {
			l := fabric.Link{Rate: 100 * units.Gbps, Delay: us}
			s := study{
				topo: func() *fabric.Topology { return fabric.FatTree(4, 1, l, l, l) },
				cfg:  fabric.Default(), until: 200 * us, tick: 5 * us / 2,
			}
			s.cfg.Switch.Latency = 300 * units.Nanosecond
			lossless(&s.cfg, 20*units.KB)
			hosts := s.topo().Hosts()
			for i := range hosts {
				s.flows = append(s.flows, flow{src: i, dst: (i*7 + 3) % hosts, size: 200 * units.KB, hpcc: engine == "hpcc"})
				if i > 0 {
					s.flows = append(s.flows, flow{at: units.Time(i) * us / 3, src: i, dst: 0, size: 50 * units.KB, hpcc: engine == "hpcc"})
				}
			}
			s.flows = slices.DeleteFunc(s.flows, func(f flow) bool { return f.src == f.dst })
			s.same(t, 3)
		})
	}
}

// Likewise on random networks with random traffic, losses, marks and rates.
func TestDivisionChangesNothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	rapid.Check(t, func(t *rapid.T) {
		link := func() fabric.Link {
			return fabric.Link{
				Rate:  units.Rate(rapid.SampledFrom([]int{10, 25, 40, 100}).Draw(t, "rate")) * units.Gbps,
				Delay: units.Time(rapid.IntRange(50, 3000).Draw(t, "delay")) * units.Nanosecond,
			}
		}
		var topo func() *fabric.Topology
		a, b := link(), link()
		shape := rapid.IntRange(0, 3).Draw(t, "shape")
		switch shape {
		case 3:
			day := units.Time(rapid.IntRange(1, 30).Draw(t, "day")) * us
			night := units.Time(rapid.IntRange(0, 3).Draw(t, "night")) * us
			topo = func() *fabric.Topology {
				return fabric.RDCN(fabric.RDCNSpec{Tors: 4, HostsPerTor: 2, Day: day, Night: night, Host: a, Packet: b, Circuit: a})
			}
		case 0:
			topo = func() *fabric.Topology { return fabric.Star(4, a) }
		case 1:
			topo = func() *fabric.Topology { return fabric.Dumbbell(3, 2, a, b) }
		default:
			topo = func() *fabric.Topology {
				return fabric.LeafSpine(fabric.LeafSpineSpec{Leaves: 2, Spines: 2, HostsPerLeaf: 3, Parallel: 2, Host: a, Trunk: b})
			}
		}
		s := study{topo: topo, cfg: fabric.Default(), until: 20 * units.Millisecond}
		s.cfg.HostSend = units.Time(rapid.IntRange(0, 300).Draw(t, "host")) * units.Nanosecond
		if shape == 3 {
			night := topo().Night()
			s.cfg.Circuits = fabric.CircuitConfig{
				VOQ: 30 * units.KB, Announced: 60 * units.KB, Ahead: rapid.SampledFrom([]units.Time{0, us}).Draw(t, "ahead"), Guard: night / 2,
			}
		} else if s.stages = rapid.Bool().Draw(t, "stages"); rapid.Bool().Draw(t, "pfc") {
			lossless(&s.cfg, 10*units.KB)
			for i := range s.cfg.Switch.Classes {
				s.cfg.Switch.Classes[i].PFC.Watchdog = rapid.SampledFrom([]units.Time{0, us / 2, 2 * us, 7 * us}).Draw(t, "watchdog")
				s.cfg.Switch.Classes[i].PFC.WatchdogForwards = rapid.Bool().Draw(t, "forwards")
			}
		} else if rapid.Bool().Draw(t, "small buffer") {
			s.cfg.Switch.Buffer = 30 * units.KB
		}
		if rapid.Bool().Draw(t, "ecn") {
			s.cfg.Switch.Classes[0].ECN = fabric.ECN{Kmin: 2 * units.KB, Kmax: 20 * units.KB, Pmax: 0.5}
		}
		if rapid.Bool().Draw(t, "loss") {
			s.cfg.Faults = []fabric.Fault{{Link: "*", Loss: 0.02}}
		}
		hosts := topo().Hosts()
		for range rapid.IntRange(1, 10).Draw(t, "flows") {
			src := rapid.IntRange(0, hosts-1).Draw(t, "src")
			f := flow{
				at:  units.Time(rapid.IntRange(0, 30_000).Draw(t, "at")) * units.Nanosecond,
				src: src, dst: (src + rapid.IntRange(1, hosts-1).Draw(t, "step")) % hosts,
				size: units.Bytes(rapid.IntRange(1, 60_000).Draw(t, "size")),
				kind: telemetry.Kind(rapid.IntRange(0, 2).Draw(t, "telemetry")),
				hpcc: rapid.Bool().Draw(t, "hpcc"),
			}
			if rapid.Bool().Draw(t, "paced") {
				f.fixed = cc.Control{Rate: units.Rate(rapid.IntRange(1, 100).Draw(t, "Gbps")) * units.Gbps, Window: units.Bytes(rapid.IntRange(1, 40_000).Draw(t, "window"))}
			}
			s.flows = append(s.flows, f)
		}
		s.tick = units.Time(rapid.SampledFrom([]int{0, 900, 3700}).Draw(t, "tick")) * units.Nanosecond
		if s.tick > 0 {
			s.until = 60 * us
		}
		for range rapid.IntRange(0, 4).Draw(t, "failures") {
			// Often several at an instant, and at one of the looks.
			step := max(s.tick, us/2)
			from := units.Time(rapid.IntRange(0, 20).Draw(t, "from")) * step
			f := fabric.Failure{Both: rapid.Bool().Draw(t, "both"), From: from, To: from + units.Time(rapid.IntRange(1, 20).Draw(t, "for"))*step}
			graph := topo()
			l := fabric.LinkID(rapid.IntRange(0, graph.Links()-1).Draw(t, "link"))
			if _, _, _, circuit := graph.Circuit(l); circuit {
				continue
			}
			f.Link = graph.LinkName(l)
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				f.Down = true
			case 1:
				f.Rate = units.Gbps
			case 2:
				f.Loss = 0.3
			}
			s.cfg.Failures = append(s.cfg.Failures, f)
		}
		s.cfg.Reroute = rapid.SampledFrom([]units.Time{0, us}).Draw(t, "reroute")
		s.same(t, 2)
	})
}

// What stands against a division is named.
func TestDivideRefuses(t *testing.T) {
	l := fabric.Link{Rate: 100 * units.Gbps, Delay: us}
	for name, change := range map[string]func(*fabric.Config, *fabric.Link){
		"delay": func(_ *fabric.Config, l *fabric.Link) { l.Delay = 0 },
	} {
		cfg, l := fabric.Default(), l
		change(&cfg, &l)
		net, err := fabric.New(des.New(), fabric.Star(2, l), cfg, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := net.Divide(1); err == nil {
			t.Errorf("%s: divided", name)
		}
	}
}
