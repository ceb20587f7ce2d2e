package bench

import (
	"errors"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// HostPrograms are the programs that hosts run in place of flows, and what they run on;
// see Options.Programs.
type HostPrograms struct {
	System   string
	Engine   *des.Engine
	Programs []*scenario.HostProgram
	// Devices are the hosts' NICs, and Preset is what they are; Names are the hosts' names.
	Devices []*simverbs.Device
	Names   []string
	Preset  string
	// End is the time at which running programs are ended.
	End units.Time
	// Lookahead is the least time that a packet takes from one host to another.
	Lookahead units.Time
}

// RunHostPrograms runs programs to their ends, on the calling goroutine, which has the
// engine. It returns how each ended, in their order; beside an error, too, once they had begun.
type RunHostPrograms func(*HostPrograms) ([]results.HostProgram, error)

// ProgramsError is the error of a run that ended before its programs did.
type ProgramsError struct {
	System   string
	Programs []results.HostProgram // as far as they came
	Err      error
}

func (e *ProgramsError) Error() string { return e.Err.Error() }

// Unwrap returns what ended the run.
func (e *ProgramsError) Unwrap() error { return e.Err }

var errNoPrograms = errors.New("the scenario's hosts run programs, and nothing here can run them")

// runPrograms runs the programs of hosts.
func (s *simulation) runPrograms(sys *scenario.System, programs []*scenario.HostProgram, run RunHostPrograms) (ended []results.HostProgram, err error) {
	if run == nil {
		return nil, errNoPrograms
	}
	h := HostPrograms{System: sys.Name, Engine: s.engine, Programs: programs, Preset: sys.NIC.Preset, End: s.duration}
	for i, host := range s.hosts {
		h.Devices, h.Names = append(h.Devices, host.dev), append(h.Names, s.name(i))
	}
	h.Lookahead = s.lookahead()
	s.measure.begin()
	ended, err = run(&h)
	s.end = s.engine.Now()
	s.nics.End(s.end)
	s.measure.finish()
	if err = errors.Join(s.err, err); err != nil && ended != nil {
		err = &ProgramsError{System: sys.Name, Programs: ended, Err: err}
	}
	return ended, err
}

// shimmed reports whether hosts post by shims.
func (s *simulation) shimmed() bool { return len(s.hosts) > 0 && s.hosts[0].shim != nil }

// lookahead is the delay of the shortest two links: every packet passes its sender's and its
// receiver's.
func (s *simulation) lookahead() units.Time {
	least := units.Never
	for i := range s.net.Topology().Links() {
		least = min(least, s.net.Topology().Link(fabric.LinkID(i)).Delay)
	}
	return 2 * least
}

// newProgramHost is newHost for a host whose NIC programs have to themselves.
func newProgramHost(s *simulation, world *simverbs.World, name string, nic *nicmodel.NIC) *host {
	return &host{sim: s, nic: nic, dev: world.AddDevice("sim:"+name, nic, s.congestionFor(nic.LineRate()))}
}
