package turns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/internal/rundir"
	"github.com/sluice-rdma/sluice/units"
)

// scheduler is the part of Scheduler that needs Linux.
type scheduler struct {
	cfg      Config
	dir      *rundir.Dir
	listener int // a socket's descriptor

	// world is held by the one who may touch the simulation: the scheduler, or a
	// thread while it runs.
	world sync.Mutex

	programs  []*Program
	processes []*process // alive, in the order in which they began
	threads   []*thread  // of these, in the order in which they began
	running   *thread
	alone     units.Time // up to when it is alone, by its last reply
	lastPID   uint32
	kernels   map[uint32]int // the kernel's numbers of all processes so far, by ours
	ports     []uint16       // by host: the last one given
	hostTurns []uint64       // by host: the sum of its processes' turns
	unclaimed map[int]int
	timers    []*timer // armed ones
	eventFDs  map[uint64]*eventFD
	// lastEventFD is the last number of one that was given.
	lastEventFD uint64
	err         error // what ended the run

	in      []byte
	oob     []byte
	out     []byte
	polled  []unix.PollFd
	waits   []*wait
	stepped int
}

// firstPID is the first program's process number as it sees it, and firstPort the first port that a
// host gives.
const (
	firstPID  = 1000
	parentPID = 1 // of programs
	firstPort = 32768
)

func newScheduler(c Config) (*scheduler, error) {
	switch {
	case c.Simulation == nil || c.Devices == nil:
		return nil, errors.New("turns: requires a simulation and devices")
	case len(c.Hosts) == 0:
		return nil, errors.New("turns: no hosts")
	case c.Lookahead < 0:
		return nil, fmt.Errorf("turns: a lookahead of %v, expected 0 or more", c.Lookahead)
	case c.PollCost <= 0:
		return nil, fmt.Errorf("turns: a look at an empty queue takes %v, expected a time above 0", c.PollCost)
	}
	dir, err := rundir.Make("sluice-turns-")
	if err != nil {
		return nil, err
	}
	s := &scheduler{
		cfg: c, dir: dir, listener: -1, lastPID: firstPID - 1, ports: make([]uint16, len(c.Hosts)), hostTurns: make([]uint64, len(c.Hosts)), unclaimed: map[int]int{}, kernels: map[uint32]int{}, eventFDs: map[uint64]*eventFD{},
		in: make([]byte, requestSize+maxData), oob: make([]byte, unix.CmsgSpace(4*maxFDs)), out: make([]byte, 0, replySize+256),
	}
	for i := range s.ports {
		s.ports[i] = firstPort
	}
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// maxSocketPath is the longest address of a UNIX socket, less the closing zero; the
// library's own names in the directory are up to longestName longer than it.
const (
	maxSocketPath = 107
	longestName   = len("/net/255.255.255.255:65535~9")
)

func (s *scheduler) listen() error {
	if len(s.dir.Path)+longestName > maxSocketPath {
		return fmt.Errorf("%s: too long for sockets in it: set TMPDIR to a shorter directory", s.dir.Path)
	}
	var hosts []byte
	for _, h := range s.cfg.Hosts {
		hosts = fmt.Appendf(hosts, "%s %s\n", h.Addr, h.Name)
		a := h.Addr.As16()
		id := fmt.Sprintf("00000000-0000-4000-8000-%x\n", a[10:])
		if err := os.WriteFile(filepath.Join(s.dir.Path, fmt.Sprintf("boot_id-%x", a)), []byte(id), 0o600); err != nil {
			return err
		}
	}
	err := errors.Join(
		os.Mkdir(filepath.Join(s.dir.Path, "net"), 0o700),
		os.Mkdir(filepath.Join(s.dir.Path, "udp"), 0o700),
		os.WriteFile(filepath.Join(s.dir.Path, "hosts"), hosts, 0o600),
		os.WriteFile(filepath.Join(s.dir.Path, "cpuinfo"), []byte(cpuinfo), 0o600))
	if err != nil {
		return err
	}
	s.listener, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(s.listener, &unix.SockaddrUnix{Name: filepath.Join(s.dir.Path, "socket")}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	return os.NewSyscallError("listen", unix.Listen(s.listener, 128))
}

// cpuinfo is the content of programs' /proc/cpuinfo, with the frequency TSCHz.
const cpuinfo = `processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
model		: 85
model name	: Sluice simulated processor @ 2.00GHz
stepping	: 0
cpu MHz		: 2000.000
cache size	: 1024 KB
physical id	: 0
siblings	: 1
core id		: 0
cpu cores	: 1
flags		: fpu tsc rdtscp constant_tsc nonstop_tsc
bogomips	: 4000.00

`

func (s *scheduler) close() error {
	if s.listener >= 0 {
		_ = unix.Close(s.listener)
	}
	for _, fd := range s.unclaimed {
		_ = unix.Close(fd)
	}
	return s.dir.Remove()
}

func (s *scheduler) do(f func()) {
	s.world.Lock()
	defer s.world.Unlock()
	f()
}

// outside carries out what waits for others, who may touch the simulation meanwhile.
func (s *scheduler) outside(f func()) {
	s.world.Unlock()
	defer s.world.Lock()
	f()
}

func (s *scheduler) run(ctx context.Context, programs []*Program) error {
	for i, p := range programs {
		if p.Host < 0 || p.Host >= len(s.cfg.Hosts) || p.Command == nil || p.Start < 0 {
			return fmt.Errorf("turns: program %d (%s): bad host, command or start", i, p.Name)
		}
	}
	defer stayOnOneProcessor()()
	s.programs = slices.Clone(programs)
	s.world.Lock()
	defer s.world.Unlock()
	for s.err == nil && (len(s.programs) > 0 || len(s.processes) > 0) {
		if err := ctx.Err(); err != nil {
			s.err = err
			break
		}
		s.dispatch(ctx)
	}
	for _, p := range s.processes {
		if p.main && !p.hasEnded() {
			p.program.WaitsFor = p.waitsFor()
		}
	}
	s.killAll()
	rundir.End(s.dir.Path) // what a program began by system calls of its own, which the library does not see
	return s.err
}

// dispatch gives one thread its turn, or starts a program.
func (s *scheduler) dispatch(ctx context.Context) {
	s.collect()
	which, ready := next(ticking{s.cfg.Simulation, s, ctx}, s.waits, s.fire)
	switch n := len(s.threads); {
	case s.err != nil:
	case ctx.Err() != nil:
		s.err = ctx.Err()
	case which < 0:
		s.onStuck()
	case which < n:
		s.turn(ctx, s.threads[which], ready)
	default:
		p := s.programs[which-n]
		s.programs = slices.Delete(s.programs, which-n, which-n+1)
		s.start(p)
	}
}

// collect brings s.waits up to date: those of threads, then those of programs that have
// not started.
func (s *scheduler) collect() {
	s.waits = s.waits[:0]
	for _, t := range s.threads {
		if t == s.running {
			s.waits = append(s.waits, nil)
			continue
		}
		t.wait.later = s.later(t.p.program)
		if t.wait.later > 0 && s.running != nil && s.running.waitsByClocks() && t.waitsByClocks() {
			t.wait.later = max(t.wait.later, clocksAhead)
		}
		s.waits = append(s.waits, &t.wait)
	}
	for _, p := range s.programs {
		s.waits = append(s.waits, &wait{until: p.Start, later: s.later(p)})
	}
}

// later returns the delay with which a program's actions change the memory of the thread whose turn
// it is.
func (s *scheduler) later(p *Program) units.Time {
	if s.running == nil || s.running.p.program.Host == p.Host {
		return 0
	}
	return s.cfg.Lookahead
}

// clocksAhead is the time by which a thread that only reads clocks runs ahead of another such thread on
// another host. Neither sees the other's actions without acting itself, except in memory: they may see a
// device's writes this late.
const clocksAhead = 50 * units.Microsecond

// ticking is the simulation, of which the run's end is noticed.
type ticking struct {
	Simulation
	s   *scheduler
	ctx context.Context
}

// stepsBetweenLooks is the number of events that the simulation takes between two checks whether
// the run is to end.
const stepsBetweenLooks = 10000

func (t ticking) Next() units.Time {
	if t.s.stepped++; t.s.stepped%stepsBetweenLooks == 0 && t.ctx.Err() != nil {
		t.s.err = t.ctx.Err()
	}
	if t.s.err != nil {
		return units.Never
	}
	return t.Simulation.Next()
}

// timer is one that is armed.
type timer struct {
	p        *process
	id       uint64
	sig      int
	due      units.Time
	interval units.Time
	count    *eventFD // nil: it sends sig
}

// eventFD is a descriptor that counts a timer's expirations.
type eventFD struct {
	p  *process // that made it
	fd int
}

func (e *eventFD) add(n uint64) {
	b := binary.NativeEndian.AppendUint64(nil, n)
	_, _ = unix.Write(e.fd, b) // it has room for all times of a run
}

// fire has timers that are due send their signals, and looks which descriptors are ready.
func (s *scheduler) fire(now units.Time) (again units.Time) {
	again = units.Never
	for _, t := range s.timers {
		for t.due <= now {
			if t.count != nil {
				t.count.add(1)
			} else {
				t.p.signal(t.sig, 0)
			}
			if t.interval <= 0 {
				t.due = units.Never
				break
			}
			t.due += t.interval
		}
		again = min(again, t.due)
	}
	s.timers = slices.DeleteFunc(s.timers, func(t *timer) bool { return t.due == units.Never })
	s.pollDescriptors()
	return again
}

// pollDescriptors asks the kernel which of the descriptors that threads wait for are ready.
func (s *scheduler) pollDescriptors() {
	s.polled = s.polled[:0]
	for _, t := range s.threads {
		s.polled = append(s.polled, t.fds...)
	}
	if len(s.polled) == 0 {
		return
	}
	if _, err := unix.Poll(s.polled, 0); err != nil {
		return // interrupted: the next time
	}
	polled := s.polled
	for _, t := range s.threads {
		for i := range t.fds {
			t.fdReady = t.fdReady || polled[i].Revents != 0
		}
		polled = polled[len(t.fds):]
	}
}

func (s *scheduler) setTimer(p *process, r *request) {
	const bitsOfSignals = 64
	s.timers = slices.DeleteFunc(s.timers, func(t *timer) bool { return t.p == p && t.id == r.a })
	if r.until != units.Never && r.b < bitsOfSignals {
		s.timers = append(s.timers, &timer{p: p, id: r.a, sig: int(r.b), due: r.until, interval: units.Time(r.c)})
	}
}

// timerFD carries out an opTimerFD.
func (s *scheduler) timerFD(p *process, r *request, fds []int) (value uint64, err unix.Errno) {
	if r.a == 0 {
		if len(fds) != 1 {
			return 0, unix.EBADF
		}
		fd, dupErr := unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, 0)
		if dupErr != nil {
			return 0, unix.EMFILE
		}
		s.lastEventFD++
		s.eventFDs[s.lastEventFD] = &eventFD{p, fd}
		return s.lastEventFD, 0
	}
	count := s.eventFDs[r.a]
	if count == nil {
		return 0, unix.EBADF
	}
	of := func(t *timer) bool { return t.count == count }
	if r.b == timerFDGet {
		if i := slices.IndexFunc(s.timers, of); i >= 0 {
			return uint64(s.timers[i].due), 0
		}
		return uint64(units.Never), 0
	}
	s.timers = slices.DeleteFunc(s.timers, of)
	if r.b == timerFDClose {
		_ = unix.Close(count.fd)
		delete(s.eventFDs, r.a)
		return 0, 0
	}
	// What it has counted so far is not the new time's.
	pollFDs := []unix.PollFd{{Fd: int32(count.fd), Events: unix.POLLIN}}
	if n, pollErr := unix.Poll(pollFDs, 0); pollErr == nil && n > 0 {
		var b [8]byte
		_, _ = unix.Read(count.fd, b[:])
	}
	if r.until != units.Never {
		s.timers = append(s.timers, &timer{p: count.p, id: unnumbered, count: count, due: r.until, interval: units.Time(r.c)})
	}
	return 0, 0
}

// unnumbered is the id of timers of descriptors: no process asks for it.
const unnumbered = math.MaxUint64

// onStuck ends the run, unless a process has ended that others wait for.
func (s *scheduler) onStuck() {
	for _, p := range s.processes {
		if p.hasEnded() {
			s.end(p)
			return
		}
	}
	e := &StuckError{At: s.cfg.Simulation.Now()}
	for _, t := range s.threads {
		e.Waiting = append(e.Waiting, Waiting{Program: t.p.name(), Thread: t.number, For: t.what()})
	}
	s.err = e
}

func (s *scheduler) failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// nextPort returns a port of a host.
func (s *scheduler) nextPort(host int) uint16 {
	s.ports[host]++
	if s.ports[host] == 0 {
		s.ports[host] = firstPort + 1
	}
	return s.ports[host]
}
