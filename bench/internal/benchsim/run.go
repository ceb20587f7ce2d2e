package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"github.com/sluice-rdma/sluice/bench/internal/reduced"
	"github.com/sluice-rdma/sluice/bench/internal/simnet"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/sim/des"
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
func run(name string, opt options, profile string) (*result, error) {
	start := time.Now()
	s, err := load(name, opt)
	if err != nil {
		return nil, err
	}
	sim, err := newSim(s, opt.Workers)
	if err != nil {
		return nil, err
	}
	r := &result{Workload: name, Engine: opt.Engine, Hosts: s.Graph().Hosts(), SetupS: cpu()}
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
	totals := sim.Net.Totals()
	r.Flows, r.Hops, r.Events, r.Dropped = sim.done, totals.PacketHops, sim.Net.Events(), totals.Dropped
	r.PeakPackets = sim.Net.Slots()
	r.SimS = sim.end.Seconds()
	r.CPUS, r.WallS, r.MiB = cpu(), time.Since(start).Seconds(), peakMiB()
	return r, nil
}

// sim is the network of a scenario and its flows.
type sim struct {
	*simnet.Network
	fleet *reduced.Fleet

	flows   func() (workload.Flow, bool)
	next    workload.Flow
	pending bool
	id      des.NodeID
	src     des.Source
	active  int
	done    int
	end     units.Time
	err     error
}

// newSim builds a scenario's network, which is divided unless workers is 0.
func newSim(s *scenario.Scenario, workers int) (*sim, error) {
	sys, err := s.Systems[0].Drawn(s.Graph(), s.Seed)
	if err != nil {
		return nil, err
	}
	network, err := simnet.New(sys, s.Graph(), sys.FabricConfig(), s.Seed)
	if err != nil {
		return nil, err
	}
	x := &sim{Network: network, flows: s.Flows(s.Seed).Next}
	x.id, x.src = x.Engine.AddHandler(x), x.Engine.NewSource()
	if workers > 0 {
		if err := x.Divide(workers); err != nil {
			return nil, err
		}
	}
	if x.fleet, err = x.NewFleet(x.fail); err != nil {
		return nil, err
	}
	x.fleet.OnDone(x.ended)
	if x.next, x.pending = x.flows(); x.pending {
		x.Engine.Schedule(x.next.Start, &x.src, x.id, 0, 0)
	}
	return x, nil
}

func (x *sim) run(duration units.Time) error {
	x.Run(duration)
	if x.err == nil && (x.active > 0 || x.pending) {
		x.err = fmt.Errorf("after %v %d flows have not ended", duration, x.active)
	}
	return x.err
}

func (x *sim) ended(d *reduced.Done) {
	x.active--
	x.done++
	x.end = d.At
	if d.Status != ib.WCSuccess {
		x.fail(fmt.Errorf("flow %d: %w", d.ID, d.Status))
	}
	if x.active == 0 && !x.pending {
		x.Engine.Stop()
	}
}

func (x *sim) fail(err error) {
	if x.err == nil {
		x.err = err
	}
	x.Engine.Stop()
}

// Handle implements des.Handler: the next flows start. In a divided network those
// of a window are started at once, so that they do not cut it short.
func (x *sim) Handle(ev des.Event) {
	until := ev.At
	if x.Net.Division() != nil {
		until += x.Net.Lookahead()
	}
	for x.pending && x.next.Start <= until {
		if err := x.start(&x.next); err != nil {
			x.fail(err)
			return
		}
		x.next, x.pending = x.flows()
	}
	if x.pending {
		x.Engine.Schedule(x.next.Start, &x.src, x.id, 0, 0)
	}
}

func (x *sim) start(f *workload.Flow) error {
	c := x.Congestion()
	if x.Sys.Engine != "none" { // which would be told of each packet for nothing
		var err error
		if c.Engine, err = x.Sys.NewEngine(x.Env(x.Net.LineRate(f.Src), f.Size)); err != nil {
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
