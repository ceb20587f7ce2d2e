package turns

import (
	"context"
	"net/netip"
	"os/exec"

	"github.com/sluice-rdma/sluice/units"
)

// ClockCost is the simulated time that a read of a clock takes: clock_gettime,
// gettimeofday, time, rdtsc, or a load from a NIC's clock page.
const ClockCost = 20 * units.Nanosecond

// TSCHz is the frequency of the time stamp counter that programs read, and that
// /proc/cpuinfo shows them. The counter was 0 when the machine booted.
const TSCHz = 2_000_000_000

// Epoch is the time of day at simulated time 0, in seconds since 1970: 2026-01-01
// 00:00:00 UTC.
const Epoch = 1_767_225_600

// Boot is how long before simulated time 0 the machine booted, in seconds: what CLOCK_MONOTONIC shows
// there. Programs take 0 for a clock that is not there. Clocks of processor time are 0 there.
const Boot = 1000

// Simulation advances while every thread waits: a des.Engine.
type Simulation interface {
	Now() units.Time
	// Next is the instant of the next event, units.Never if there is none.
	Next() units.Time
	// Step takes the next event.
	Step() bool
	// RunUntil takes the events up to an instant, which is then Now.
	RunUntil(end units.Time)
}

// Devices are the devices that the programs use. Their methods are called by the
// Scheduler while no thread runs; pid is guest.Process.PID.
type Devices interface {
	// OnWaitingPoint is called when a thread of a process has come to a waiting point, before
	// time passes: all its stores have happened, and the devices look at its doorbells.
	OnWaitingPoint(pid int)
	// Writes counts the writes of devices into a process's memory so far.
	Writes(pid int) uint64
	// OnEnd is called when a process has ended, or executes another program. When it
	// returns, nothing is left of what the process had of the devices.
	OnEnd(pid int)
}

// Host is a host of the simulation, on which programs run.
type Host struct {
	Name string     // which programs may resolve
	Addr netip.Addr // of its sockets
}

// Config configures a Scheduler.
type Config struct {
	Simulation Simulation
	Devices    Devices
	Hosts      []Host
	// PollCost is the simulated time that a look at an empty completion queue takes:
	// simverbs.PollCost.
	PollCost units.Time
	// Lookahead is a time before which nothing that a program does can change the memory of
	// one on another host: the least time that a packet takes. A program that looks at queues
	// and clocks only may be ahead of others by so much. 0 if it is not known.
	Lookahead units.Time
}

// Program is a program to run.
type Program struct {
	Name string // in errors, such as "h0: ib_write_bw"
	Host int    // in Config.Hosts
	// Start is the simulated time at which it starts.
	Start units.Time
	// Command is not yet started. It preloads libsluice-virtual.so, of a device directory
	// (SLUICE_VIRTUAL); the Scheduler adds to its Env, which is not nil, and starts it. Its
	// files are *os.File or nil, so that no goroutine copies them. From the return of Run on
	// its ProcessState is set.
	Command *exec.Cmd
	// End is the simulated time at which it ended, from the return of Run on.
	End units.Time
	// WaitsFor says what it waited for when it was ended with the run, such as "descriptor 5
	// (socket)". It is empty if the program ended by itself, or had not started.
	WaitsFor string
}

// Queue is a completion queue in a program's memory, as mlx5 lays it out.
type Queue struct {
	Addr      uint64 // of its entries
	Entries   uint32 // a power of two
	EntrySize uint32 // 64 or 128
	Doorbell  uint64 // of its doorbell record: the consumer's count, 24 bits, big-endian
}

// Scheduler runs programs. Run uses the simulation on the calling goroutine; device nodes
// are served on others, for threads that have the turn, within Do.
type Scheduler struct {
	*scheduler
}

// New makes a scheduler. It fails where programs can't be simulated (other processors than
// x86-64, other systems than Linux) and for a bad Config. Close it.
func New(c Config) (*Scheduler, error) {
	s, err := newScheduler(c)
	if err != nil {
		return nil, err
	}
	return &Scheduler{s}, nil
}

// Run runs programs to their ends, and returns nil whatever their exit statuses are. It
// ends all of them and fails if the context ends; with a *StuckError if all wait
// and nothing can end a wait; and if one does what can't be simulated.
func (s *Scheduler) Run(ctx context.Context, programs ...*Program) error {
	return s.run(ctx, programs)
}

// Do carries out f, which touches the simulation, for a thread that has the turn: a
// device's command, or the end of a device node.
func (s *Scheduler) Do(f func()) { s.do(f) }

// WatchQueue has looks at a completion queue of a process take time while it is empty. It is
// called within Do, before the program's call that makes the queue returns. It fails for a
// queue that does not begin a page (the program's looks are then seen only as a loop that
// reads the same memory), and when a process has more than 64. The last page is the queue's
// whole, as libmlx5 allocates it.
func (s *Scheduler) WatchQueue(pid int, q Queue) (*WatchedQueue, error) {
	return s.watchQueue(pid, q)
}

// Dir is the directory that the programs' environments name, until Close.
func (s *Scheduler) Dir() string { return s.dir.Path }

// Close frees what the scheduler has. No program runs any more.
func (s *Scheduler) Close() error { return s.close() }
