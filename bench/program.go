package bench

import (
	"fmt"

	"github.com/sluice-rdma/sluice/bench/internal/stage"
	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/p4"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
)

// programs are the P4 programs of a network's switches.
type programs struct {
	cfg    stage.Config
	stages []*stage.Stage
	names  []string // of their switches
}

// addPrograms puts the programs that a system's switches run into the configuration of
// its fabric. It returns nil where none does.
func addPrograms(sys *scenario.System, graph *fabric.Topology, cfg *fabric.Config) (*programs, error) {
	ps := &programs{}
	loaded := map[string]*p4.Program{}
	for _, name := range graph.SwitchNames() {
		file := sys.Fabric.ProgramOf(name)
		if file == "" {
			continue
		}
		one, named := cfg.Switches[name]
		if !named {
			one = cfg.Switch
		}
		if loaded[file] == nil {
			program, err := loadProgram(file, sys, one.Report)
			if err != nil {
				return nil, keyError{"fabric.program", err}
			}
			loaded[file] = program
		}
		s, err := ps.add(loaded[file], graph, name, cfg, &one)
		if err != nil {
			return nil, keyError{"fabric.program", fmt.Errorf("%s: %w", file, err)}
		}
		// The program gives notice of incasts, not the switch.
		for i := range one.Classes {
			one.Classes[i].EIN = fabric.Notice{}
		}
		one.Report, one.Stage = nil, s
		if cfg.Switches == nil {
			cfg.Switches = map[string]fabric.SwitchConfig{}
		}
		cfg.Switches[name] = one
	}
	if len(ps.stages) == 0 {
		return nil, nil
	}
	if err := ps.configure(sys.Fabric.ProgramEntries); err != nil {
		return nil, keyError{"fabric.program_entries", err}
	}
	return ps, nil
}

// add makes the stage of a switch, whose report says what the program writes.
func (ps *programs) add(program *p4.Program, graph *fabric.Topology, name string, cfg *fabric.Config, sw *fabric.SwitchConfig) (*stage.Stage, error) {
	report := *sw.Report
	if program.Architecture() == "v1model" {
		report.Clock = telemetry.V1ModelClock
	} else {
		report.PacketUnits = 0
		if report.Clock != telemetry.Tofino2Clock {
			report.Clock = telemetry.TofinoClock
		}
	}
	ps.cfg.Delay, ps.cfg.INT = report.Delay, report.INT
	s := stage.New(program, &ps.cfg, graph, name)
	ps.stages, ps.names = append(ps.stages, s), append(ps.names, name)
	return s, s.Describe(portsOf(graph, name, cfg, sw, &report), report.Clock.Tick)
}

// configure sets what a file of table entries says, if there is one, in every switch.
func (ps *programs) configure(path string) error {
	if path == "" {
		return nil
	}
	entries, err := infile.Read(path, infile.MaxText)
	for _, s := range ps.stages {
		if err == nil {
			err = p4.Configure(s.Pipeline(), path, entries)
		}
	}
	return err
}

// loadProgram reads a program. The macros of Sluice's programs for a scenario's
// settings come before the scenario's own macros, which may differ.
func loadProgram(file string, sys *scenario.System, r *fabric.Report) (*p4.Program, error) {
	o := p4.Options{Define: append([]string{
		fmt.Sprintf("EIN_WINDOW=%d", sys.Fabric.EIN.Window),
		fmt.Sprintf("QUEUE_UNITS_PER_PACKET=%d", r.PacketUnits),
	}, sys.Fabric.ProgramDefine...)}
	if r.Clock == telemetry.Tofino2Clock {
		o.Target = "tofino2"
	}
	return p4.Find(file, o)
}

// portsOf returns the ports as a switch's program knows them.
func portsOf(graph *fabric.Topology, name string, cfg *fabric.Config, sw *fabric.SwitchConfig, r *fabric.Report) []stage.Port {
	var ports []stage.Port
	for l, number := range stage.Ports(graph, name) {
		if number == 0 {
			continue
		}
		link := graph.Link(fabric.LinkID(l))
		p := stage.Port{Number: number, Rate: link.Rate}
		for i := range cfg.Priorities {
			if c := &sw.Classes[i]; c.EIN.Gradient > 0 {
				n := c.EIN.OfPort(r, link, c.ECN.AtRate, cfg.MaxFrame)
				p.Notice = &n
			}
		}
		ports = append(ports, p)
	}
	return ports
}

// transport lets programs see the headers of staged NICs' packets.
func (ps *programs) transport(frames *nicmodel.Frames) {
	if ps == nil {
		return
	}
	ps.cfg.Transport = func(h fabric.Handle) stage.Transport {
		header, qp := frames.Transport(h)
		return stage.Transport{Header: header, DestQP: qp}
	}
}

// err returns what programs did that the model has no place for.
func (ps *programs) err() error {
	if ps == nil {
		return nil
	}
	for i, s := range ps.stages {
		if f := s.Faults(); f.Unreadable > 0 {
			return keyError{"fabric.telemetry.form", fmt.Errorf("the program of %s sent %d packets with telemetry that can't be read: set the form to the program's, or mend the program", ps.names[i], f.Unreadable)}
		}
	}
	return nil
}

// keyError is an error of a scenario, at a key, that only a run can find.
type keyError struct {
	key string
	err error
}

func (e keyError) Error() string { return e.key + ": " + e.err.Error() }

func (e keyError) Unwrap() error { return e.err }
