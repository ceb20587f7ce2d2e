//go:build linux

package virtual

import (
	gocontext "context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/turns"
)

// Engine runs the events of a simulation: a des.Engine.
type Engine = turns.Simulation

// Program is a program that runs on a host of a Simulation. Its Command needs no
// environment for the devices: Run adds it.
type Program = turns.Program

// SimulatedHost is a host of a Simulation.
type SimulatedHost struct {
	Name   string     // that programs resolve
	Addr   netip.Addr // of its sockets: that of its device
	Device *Device    // Config.Simulated
}

// SimulationConfig configures a Simulation.
type SimulationConfig struct {
	Engine *des.Engine
	Hosts  []SimulatedHost
	// PollCost is the simulated time that a look at an empty completion queue takes.
	PollCost units.Time
	Library  string // path of libsluice-virtual.so
	// End is the simulated time at which programs that still run are ended, 0 for never.
	End units.Time
	// Lookahead is the least time in which what a program does can change the memory of one on
	// another host: that of a packet on its way. The larger, the faster are programs that
	// read clocks in loops; results are the same.
	Lookahead units.Time
}

// Simulation runs unmodified programs in simulated time, on hosts with a device each. It
// belongs to one goroutine.
type Simulation struct {
	engine    *des.Engine
	alarms    *alarms // of connection managers
	library   string
	scheduler *turns.Scheduler
	hosts     []*Host
	devices   []*Device
	turns     []*turn // of open contexts, oldest first
	end       units.Time
	stop      gocontext.CancelFunc // ends the run
	due       bool                 // back ends have completions, or a context asks to be looked at
	events    bool                 // back ends have asynchronous events
}

// NewSimulation makes the hosts. It owns their devices, if it succeeds. It fails on
// processors other than x86-64.
func NewSimulation(c SimulationConfig) (*Simulation, error) {
	if c.Engine == nil {
		return nil, errors.New("a simulation requires an engine")
	}
	s := &Simulation{engine: c.Engine, alarms: newAlarms(c.Engine), library: c.Library, end: c.End}
	if s.end == 0 {
		s.end = units.Never
	}
	t := turns.Config{Simulation: s, Devices: s, PollCost: c.PollCost, Lookahead: c.Lookahead}
	for _, h := range c.Hosts {
		if !h.Device.cfg.Simulated {
			return nil, fmt.Errorf("host %s: the device %v is not in simulated time", h.Name, h.Device)
		}
		t.Hosts = append(t.Hosts, turns.Host{Name: h.Name, Addr: h.Addr})
	}
	var err error
	if s.scheduler, err = turns.New(t); err != nil {
		return nil, err
	}
	for _, h := range c.Hosts {
		if err := s.addHost(h.Device); err != nil {
			return nil, errors.Join(err, s.closeHosts(), s.scheduler.Close())
		}
	}
	return s, nil
}

func (s *Simulation) addHost(d *Device) error {
	h, err := serve(s, d)
	if err != nil {
		return err
	}
	s.hosts, s.devices = append(s.hosts, h), append(s.devices, d)
	d.sim = s
	b := d.backend.(simulatedBackend)
	b.OnCompletion(func(units.Time) { s.due = true })
	b.OnAsyncEvent(func() { s.events = true })
	return nil
}

// Dirs are the directories that the programs' environments name, until Close.
func (s *Simulation) Dirs() []string {
	dirs := []string{s.scheduler.Dir()}
	for _, h := range s.hosts {
		dirs = append(dirs, h.Dir())
	}
	return dirs
}

// Run runs programs to their ends, and returns nil whatever their exit statuses are. It
// ends all of them and fails if the context ends, if all wait for what can't come, and if one
// does what can't be simulated.
func (s *Simulation) Run(ctx gocontext.Context, programs ...*Program) error {
	for _, p := range programs {
		env := p.Command.Env
		if env == nil {
			env = os.Environ()
		}
		p.Command.Env = s.hosts[p.Host].Environ(env, s.library)
	}
	running, cancel := gocontext.WithCancel(ctx)
	defer cancel()
	s.stop = cancel
	err := s.scheduler.Run(running, programs...)
	if errors.Is(err, gocontext.Canceled) && ctx.Err() == nil {
		return nil // it is over
	}
	return err
}

// isOver ends the run if what is next comes after its end.
func (s *Simulation) isOver(next units.Time) bool {
	if next <= s.end {
		return false
	}
	s.engine.RunUntil(s.end)
	s.stop()
	return true
}

// Close closes the devices. No program runs any more.
func (s *Simulation) Close() error { return errors.Join(s.closeHosts(), s.scheduler.Close()) }

func (s *Simulation) closeHosts() error {
	var errs []error
	for _, h := range s.hosts {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}

func (s *Simulation) add(t *turn) { s.turns = append(s.turns, t) }

func (s *Simulation) remove(t *turn) {
	s.turns = slices.DeleteFunc(s.turns, func(x *turn) bool { return x == t })
}

// Now implements turns.Simulation.
func (s *Simulation) Now() units.Time { return s.engine.Now() }

// Next implements turns.Simulation. The end of the run is the last that is to happen: programs
// that wait for ever wait until then.
func (s *Simulation) Next() units.Time { return min(s.engine.Next(), s.end) }

// Step implements turns.Simulation: what the devices' back ends complete in an event, they
// give to programs at its instant.
func (s *Simulation) Step() bool {
	if s.isOver(s.engine.Next()) {
		return false
	}
	took := s.engine.Step()
	s.settle()
	return took
}

// RunUntil implements turns.Simulation.
func (s *Simulation) RunUntil(end units.Time) {
	for s.engine.Next() <= end {
		if !s.Step() {
			return
		}
	}
	if !s.isOver(end) {
		s.engine.RunUntil(end)
	}
}

// settle gives programs what the back ends have for them.
func (s *Simulation) settle() {
	for s.due || s.events {
		if s.due {
			s.due = false
			for _, t := range s.turns {
				t.look()
			}
		}
		if s.events {
			s.events = false
			for _, d := range s.devices {
				d.deliverAll()
			}
		}
	}
}

// deliverAll passes on the asynchronous events that the back end has.
func (d *Device) deliverAll() {
	for {
		e, err := d.backend.AsyncEvent(gocontext.Background(), 0)
		if err != nil {
			return
		}
		d.deliver(e)
	}
}

// OnWaitingPoint implements turns.Devices.
func (s *Simulation) OnWaitingPoint(pid int) {
	for _, t := range s.turns {
		if t.context.node.process.PID == pid {
			t.look()
		}
	}
	s.settle()
}

// Writes implements turns.Devices.
func (s *Simulation) Writes(pid int) (n uint64) {
	for _, t := range s.turns {
		if p := t.context.node.process; p.PID == pid {
			n += p.Writes()
		}
	}
	return n
}

// OnEnd implements turns.Devices.
func (s *Simulation) OnEnd(pid int) {
	for _, h := range s.hosts {
		h.server.Drain(pid)
	}
}

// open opens a device node for a thread that has the turn.
func (s *Simulation) open(p *guest.Process, open func() (guest.File, *os.File, syscall.Errno)) (file guest.File, fd *os.File, errno syscall.Errno) {
	s.scheduler.Do(func() { file, fd, errno = open() })
	if file != nil {
		file = turnFile{s.scheduler, file}
	}
	return file, fd, errno
}

// turnFile is a device node in simulated time.
type turnFile struct {
	scheduler *turns.Scheduler
	file      guest.File
}

// Write implements guest.File.
func (f turnFile) Write(cmd []byte) (r guest.Reply) {
	f.scheduler.Do(func() { r = f.file.Write(cmd) })
	return r
}

// Ioctl implements guest.File.
func (f turnFile) Ioctl(request, arg uint64) (r guest.Reply) {
	f.scheduler.Do(func() { r = f.file.Ioctl(request, arg) })
	return r
}

// Mmap implements guest.File.
func (f turnFile) Mmap(offset uint64, length int, writable bool) (r guest.MapReply) {
	f.scheduler.Do(func() { r = f.file.Mmap(offset, length, writable) })
	return r
}

// Mapped implements guest.File.
func (f turnFile) Mapped(cookie, addr uint64) {
	f.scheduler.Do(func() { f.file.Mapped(cookie, addr) })
}

// Close implements guest.File.
func (f turnFile) Close() { f.scheduler.Do(f.file.Close) }
