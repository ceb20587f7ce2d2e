package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/cli/internal/preloaded"
	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
	"github.com/sluice-rdma/sluice/verbs/virtual"
)

// hostPrograms runs the programs of scenarios.
func hostPrograms(ctx context.Context) bench.RunHostPrograms {
	return func(h *bench.HostPrograms) ([]results.HostProgram, error) {
		r := programRun{HostPrograms: h, hosts: map[int]int{}}
		defer r.closeFiles()
		if err := r.prepare(); err != nil {
			return nil, err
		}
		sim, err := virtual.NewSimulation(r.config)
		if err != nil {
			return nil, err
		}
		release, err := startGuard(sim.Dirs()...)
		if err != nil {
			return nil, errors.Join(err, sim.Close())
		}
		err = sim.Run(ctx, r.programs...)
		err = errors.Join(err, sim.Close())
		release()
		ended, unread := r.ended()
		return ended, errors.Join(err, unread)
	}
}

// programRun is one run of a scenario's programs.
type programRun struct {
	*bench.HostPrograms
	config   virtual.SimulationConfig
	hosts    map[int]int // in config.Hosts, by the scenario's
	programs []*virtual.Program
	outputs  []*os.File
}

// prepare makes the devices of the hosts that have programs, and the programs.
func (r *programRun) prepare() (err error) {
	r.config = virtual.SimulationConfig{Engine: r.Engine, PollCost: simverbs.PollCost, End: r.End, Lookahead: r.Lookahead}
	if r.config.Library, err = virtualLibrary(); err != nil {
		return err
	}
	for i, p := range r.Programs {
		if err := r.program(p.At, p.Run); err != nil {
			return fmt.Errorf("programs[%d]: %w", i, err)
		}
		r.programs[i].Start = p.Start
	}
	return nil
}

func (r *programRun) program(at int, run []string) error {
	path, err := exec.LookPath(run[0])
	if err != nil {
		return err
	}
	if err := preloaded.Check(path, r.config.Library); err != nil {
		return err
	}
	host, ok := r.hosts[at]
	if !ok {
		if host, err = r.host(at); err != nil {
			return err
		}
	}
	out, err := os.CreateTemp("", "sluice-program-")
	if err != nil {
		return err
	}
	r.outputs = append(r.outputs, out)
	if err := os.Remove(out.Name()); err != nil { // so nothing stays, however this process ends
		return err
	}
	cmd := exec.Command(path, run[1:]...)
	cmd.Args[0] = run[0]
	cmd.Stdout, cmd.Stderr = out, out
	r.programs = append(r.programs, &virtual.Program{Name: r.Names[at] + ": " + strings.Join(run, " "), Host: host, Command: cmd})
	return nil
}

// host makes the device of a host.
func (r *programRun) host(at int) (int, error) {
	backend := r.Devices[at]
	addr, err := backend.GID(1, 0)
	if err != nil {
		return 0, err
	}
	d, err := virtual.Open(virtual.Config{Model: r.Preset, Name: "mlx5_0", Backend: backend, Simulated: true})
	if err != nil {
		return 0, err
	}
	host := len(r.config.Hosts)
	r.config.Hosts = append(r.config.Hosts, virtual.SimulatedHost{Name: r.Names[at], Addr: addr, Device: d})
	r.hosts[at] = host
	return host, nil
}

// ended says how the programs ended, and what they printed.
func (r *programRun) ended() (all []results.HostProgram, err error) {
	for i, p := range r.Programs {
		one := r.programs[i]
		text, err := programOutput(r.outputs[i])
		if err != nil {
			return nil, err
		}
		out := results.HostProgram{
			Host: p.Host, Run: p.Run, StartUs: results.Float(p.Start.Microseconds()), EndUs: results.Unmeasured, Status: -1, Output: text, WaitsFor: one.WaitsFor,
		}
		if one.Command.ProcessState != nil && one.WaitsFor == "" {
			out.EndUs, out.Status = results.Float(one.End.Microseconds()), exitStatus(one.Command.ProcessState)
		}
		all = append(all, out)
	}
	return all, nil
}

// maxProgramOutput is up to how much of a program's output results have.
const maxProgramOutput = units.MiB

// programOutput reads what a program printed, and says at the end how much there is if that
// is more than is kept.
func programOutput(f *os.File) (string, error) {
	text, size, err := infile.Head(f, maxProgramOutput)
	if err != nil || size <= maxProgramOutput {
		return string(text), err
	}
	return fmt.Sprintf("%s\n[the first %d of %d bytes that the program printed]\n", text, int64(maxProgramOutput), int64(size)), nil
}

// exitStatus is a process's as shells have it.
func exitStatus(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

func (r *programRun) closeFiles() {
	for _, f := range r.outputs {
		_ = f.Close()
	}
}
