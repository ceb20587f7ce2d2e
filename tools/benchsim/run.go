package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/windows"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/nicmodel/reduced"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// result is what a run took.
type result struct {
	Workload, Engine string
	Hosts            int
	Flows            int
	Hops             uint64 // traversals of a link by a packet, data and acknowledgements
	Events           uint64
	Dropped          uint64
	PeakPackets      int // in the slab
	SimS             float64
	SetupS           float64 // CPU
	CPUS             float64 // all, set-up included
	WallS            float64
	MiB              float64 // most memory that was resident
}

// run simulates one workload in this process.
func run(w benchmark, opt options, profile string) (*result, error) {
	start := time.Now()
	s, err := w.load(opt)
	if err != nil {
		return nil, err
	}
	sim, err := newSim(s, opt.Workers)
	if err != nil {
		return nil, err
	}
	r := &result{Workload: w.Name, Engine: opt.Engine, Hosts: s.Graph().Hosts(), SetupS: cpu()}
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, err
		}
		defer func() {
			pprof.StopCPUProfile()
			_ = f.Close()
		}()
	}
	if err := sim.run(s.Duration); err != nil {
		return nil, err
	}
	totals := sim.net.Totals()
	r.Flows, r.Hops, r.Events, r.Dropped = sim.done, totals.PacketHops, sim.events(), totals.Dropped
	r.PeakPackets = sim.net.Slots()
	r.SimS = sim.end.Seconds()
	r.CPUS, r.WallS, r.MiB = cpu(), time.Since(start).Seconds(), peakMiB()
	return r, nil
}

// sim is a network of reduced NICs with the flows of a scenario.
type sim struct {
	sys    *scenario.System
	engine *des.Engine
	net    *fabric.Network
	fleet  *reduced.Fleet

	workers  int              // 0 if the network is not divided
	division *fabric.Division // nil likewise

	flows   func() (workload.Flow, bool)
	next    workload.Flow
	pending bool
	id      des.NodeID
	src     des.Source
	baseRTT units.Time
	active  int
	done    int
	end     units.Time
	err     error
}

func newSim(s *scenario.Scenario, workers int) (*sim, error) {
	sys := s.Systems[0]
	x := &sim{workers: workers, sys: sys, engine: des.New(), flows: s.Flows(s.Seed).Next}
	var err error
	if x.net, err = fabric.New(x.engine, s.Graph(), sys.FabricConfig(), s.Seed); err != nil {
		return nil, err
	}
	x.fleet, err = reduced.New(x.engine, x.net, reduced.Config{
		MTU: sys.NIC.MTU, AckEvery: sys.NIC.AckEvery, Priority: uint8(sys.NIC.Priority),
		Timeout: uint8(sys.NIC.Timeout), RetryCount: uint8(sys.NIC.RetryCount), SendDepth: sys.NIC.SendDepth,
	})
	if err != nil {
		return nil, err
	}
	if workers > 0 {
		if x.division, err = x.net.Divide(workers); err != nil {
			return nil, err
		}
		x.fleet.Divide(x.division, workers)
	}
	kind := sys.Scheme.Telemetry
	x.baseRTT = x.net.MaxBaseRTT(nicmodel.FrameBytes(ib.WriteMiddle, int(sys.NIC.MTU))+kind.WireBytes(0), nicmodel.FrameBytes(ib.Acknowledge, 0)+kind.WireBytes(0))
	x.fleet.OnDone(x.ended)
	x.id, x.src = x.engine.AddHandler(x), x.engine.NewSource()
	if x.next, x.pending = x.flows(); x.pending {
		x.engine.Schedule(x.next.Start, &x.src, x.id, 0, 0)
	}
	return x, nil
}

func (x *sim) run(duration units.Time) error {
	if x.division != nil {
		windows.Run(x.engine, x.division, x.workers, duration, x.fleet.Settle)
	} else {
		x.engine.RunUntil(duration)
	}
	if x.err == nil && (x.active > 0 || x.pending) {
		x.err = fmt.Errorf("after %v %d flows have not ended", duration, x.active)
	}
	return x.err
}

func (x *sim) events() uint64 {
	events := x.engine.Events()
	if x.division != nil {
		events += x.division.Events()
	}
	return events
}

func (x *sim) ended(d *reduced.Done) {
	x.active--
	x.done++
	x.end = d.At
	if d.Status != ib.WCSuccess {
		x.fail(fmt.Errorf("flow %d: %v", d.ID, d.Status))
	}
	if x.active == 0 && !x.pending {
		x.engine.Stop()
	}
}

func (x *sim) fail(err error) {
	if x.err == nil {
		x.err = err
	}
	x.engine.Stop()
}

// Handle implements des.Handler: the next flows start. In a divided network those
// of a window are started at once, so that they do not cut it short.
func (x *sim) Handle(ev des.Event) {
	until := ev.At
	if x.division != nil {
		until += x.division.Window()
	}
	for x.pending && x.next.Start <= until {
		if err := x.start(&x.next); err != nil {
			x.fail(err)
			return
		}
		x.next, x.pending = x.flows()
	}
	if x.pending {
		x.engine.Schedule(x.next.Start, &x.src, x.id, 0, 0)
	}
}

func (x *sim) start(f *workload.Flow) error {
	c := nicmodel.Congestion{
		Telemetry: x.sys.Scheme.Telemetry, ECT: x.sys.Scheme.ECN,
		AckPriority: uint8(x.sys.NIC.AckPriority), BaseRTT: x.baseRTT,
	}
	if x.sys.Engine != "none" { // which would be told of each packet for nothing
		var err error
		c.Engine, err = x.sys.NewEngine(cc.Env{LineRate: x.net.LineRate(f.Src), BaseRTT: x.baseRTT, MTU: x.sys.NIC.MTU})
		if err != nil {
			return err
		}
	}
	x.active++
	_, err := x.fleet.StartAt(f.Start, &reduced.Flow{
		ID: uint64(f.ID), Src: f.Src, Dst: f.Dst, Size: f.Size, Message: f.Message, Stop: f.Stop,
		FlowHash: uint32(f.ID) & 0xfffff, Congestion: c,
	})
	return err
}
