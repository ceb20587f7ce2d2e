package turns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/units"
)

// process is a process that takes part.
type process struct {
	s       *scheduler
	program *Program
	main    bool // it is the program's own, not one that it started
	pid     int  // the kernel's number
	number  uint32
	parent  uint32
	pidfd   int
	threads []*thread
	named   int // threads so far
	board   []byte
	boardFD int
	execing bool
	traced  bool // from its start, or while it executes, until it has its random bytes
	nice    int
	turns   uint64 // of its threads, except turns that only waited again
	ended   uint64 // children that have ended
}

func (p *process) name() string {
	if p.main {
		return p.program.Name
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid))
	if err != nil {
		return fmt.Sprintf("%s's process %d", p.program.Name, p.number)
	}
	return fmt.Sprintf("%s's process %d (%s)", p.program.Name, p.number, strings.TrimSpace(string(comm)))
}

// The board: a count of changes, the time at which the process is, then the queues. See
// struct board of the library.
const (
	nowAt       = 8
	queueOffset = 16
	boardBytes  = queueOffset + maxQueues*queueBytes

	maxQueues   = 64
	queueBytes  = 32
	doorbellAt  = 8
	entriesAt   = 16
	entrySizeAt = 20
	producedAt  = 24

	pageBytes  = 4096
	maxEntries = 1 << 22
)

func (p *process) newBoard() error {
	fd, err := unix.MemfdCreate("sluice-turns", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	if err := unix.Ftruncate(fd, boardBytes); err != nil {
		_ = unix.Close(fd)
		return os.NewSyscallError("ftruncate", err)
	}
	b, err := unix.Mmap(fd, 0, boardBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Close(fd)
		return os.NewSyscallError("mmap", err)
	}
	p.freeBoard()
	p.board, p.boardFD = b, fd
	return nil
}

func (p *process) freeBoard() {
	if p.board != nil {
		_ = unix.Munmap(p.board)
		_ = unix.Close(p.boardFD)
		p.board = nil
	}
}

func (p *process) word(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&p.board[at])) }

// now is the time at which the process is that has, or had, its turn.
func (p *process) now() units.Time {
	if p.board == nil {
		return 0
	}
	return units.Time((*atomic.Int64)(unsafe.Pointer(&p.board[nowAt])).Load())
}

// WatchedQueue is a completion queue that WatchQueue watches. Its methods are called
// within Do, or by what the simulation does.
type WatchedQueue struct {
	p     *process
	board *byte // of the process as it was then
	at    int
}

func (s *scheduler) watchQueue(pid int, q Queue) (*WatchedQueue, error) {
	switch {
	case q.Entries == 0 || q.Entries > maxEntries || q.Entries&(q.Entries-1) != 0 || q.EntrySize != 64 && q.EntrySize != 128:
		return nil, fmt.Errorf("turns: a queue of %d entries of %d bytes", q.Entries, q.EntrySize)
	case q.Addr%pageBytes != 0:
		return nil, fmt.Errorf("turns: a queue at %#x, which begins no page", q.Addr)
	}
	for _, p := range s.processes {
		if p.pid != pid || p.board == nil {
			continue
		}
		for i := range maxQueues {
			at := queueOffset + i*queueBytes
			if p.word(at+entriesAt).Load() != 0 {
				continue
			}
			e := binary.NativeEndian
			e.PutUint64(p.board[at:], q.Addr)
			e.PutUint64(p.board[at+doorbellAt:], q.Doorbell)
			e.PutUint32(p.board[at+entrySizeAt:], q.EntrySize)
			p.word(at + producedAt).Store(0)
			p.word(at + entriesAt).Store(q.Entries)
			p.word(0).Add(1)
			return &WatchedQueue{p, &p.board[0], at}, nil
		}
		return nil, fmt.Errorf("turns: process %d has %d completion queues: no more are watched", pid, maxQueues)
	}
	return nil, fmt.Errorf("turns: process %d: %w", pid, os.ErrProcessDone)
}

func (q *WatchedQueue) gone() bool { return q.p.board == nil || &q.p.board[0] != q.board }

// Produce says how many entries the device has written since the queue was made. It is
// called after each write of entries.
func (q *WatchedQueue) Produce(n uint32) {
	if !q.gone() {
		q.p.word(q.at + producedAt).Store(n)
	}
}

// Remove ends the watch: before the call that destroys the queue returns.
func (q *WatchedQueue) Remove() {
	if !q.gone() {
		q.p.word(q.at + entriesAt).Store(0)
		q.p.word(0).Add(1)
	}
}

// addrNoRandomize is ADDR_NO_RANDOMIZE of <sys/personality.h>.
const addrNoRandomize = 0x0040000

// start starts a program, and returns when it is there to get its turn.
func (s *scheduler) start(g *Program) {
	g.Command.Env = append(g.Command.Env, "SLUICE_TURNS="+s.dir.Path)
	traced, err := startFixed(g)
	if err != nil {
		s.failf("%s: %w", g.Name, err)
		return
	}
	pid := g.Command.Process.Pid
	p, err := s.newProcess(g, pid, parentPID)
	if err != nil {
		_ = g.Command.Process.Kill()
		_ = g.Command.Wait()
		s.failf("%s: %w", g.Name, err)
		return
	}
	p.main, p.traced = true, traced
	p.awaitExec()
	s.join(p, pid)
}

// startFixed starts a program whose addresses are the same each time, if the machine grants it.
// It has no descriptors but those of its Command, leads a process group, and is killed if this process is: Run stays on the
// thread that starts it.
func startFixed(g *Program) (traced bool, err error) {
	if err := keepDescriptors(); err != nil {
		return false, err
	}
	if g.Command.SysProcAttr == nil {
		g.Command.SysProcAttr = &syscall.SysProcAttr{}
	}
	g.Command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	g.Command.SysProcAttr.Setpgid = true
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, _, errno := unix.Syscall(unix.SYS_PERSONALITY, 0xffffffff, 0, 0)
	if errno == 0 {
		if _, _, errno = unix.Syscall(unix.SYS_PERSONALITY, was|addrNoRandomize, 0, 0); errno == 0 {
			defer unix.Syscall(unix.SYS_PERSONALITY, was, 0, 0) //nolint:errcheck // it was so before
		}
	}
	return startTraced(g)
}

// keepDescriptors has no program get the descriptors beyond standard error that this process
// was itself started with.
func keepDescriptors() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// A kernel before 5.11.
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func (s *scheduler) newProcess(g *Program, pid int, parent uint32) (*process, error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	s.lastPID++
	p := &process{s: s, program: g, pid: pid, number: s.lastPID, parent: parent, pidfd: pidfd}
	s.processes = append(s.processes, p)
	s.kernels[p.number] = pid
	if q := s.processOf(parent); q != nil {
		p.nice = q.nice
	}
	return p, nil
}

// join waits until a thread of a process has its connection: it then waits for its turn.
// Its first reply welcomes the first thread of a process.
func (s *scheduler) join(p *process, tid int) *thread {
	conn, ok := s.awaitHello(p, tid)
	if !ok {
		if s.err == nil && p.main && !p.execing {
			s.failf("%s: it ended before it was simulated: it is linked statically, changes its user, or lacks a library", p.name())
		} else if s.err == nil {
			s.failf("%s: it executed a program that can't be simulated: one that is linked statically, changes its user, or lacks a library", p.name())
		}
		s.end(p)
		return nil
	}
	p.named++
	t := &thread{p: p, number: p.named, tid: tid, conn: conn, fresh: true}
	t.wait = wait{until: s.cfg.Simulation.Now(), ready: t.isReady}
	if len(p.threads) == 0 {
		if err := p.newBoard(); err != nil {
			s.failf("%s: %w", p.name(), err)
			return nil
		}
		t.welcome = true
	}
	p.threads = append(p.threads, t)
	s.threads = append(s.threads, t)
	return t
}

// longestStart bounds, in real time, how long a program takes to load.
const longestStart = 2 * time.Minute

// awaitHello returns the connection of a thread, or false if its process ends before.
func (s *scheduler) awaitHello(p *process, tid int) (conn int, ok bool) {
	for end := time.Now().Add(longestStart); s.err == nil && time.Now().Before(end); {
		if conn, ok := s.unclaimed[tid]; ok {
			delete(s.unclaimed, tid)
			return conn, true
		}
		fds := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}, {Fd: int32(p.pidfd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 1000); err != nil || n == 0 {
			continue
		}
		if fds[0].Revents != 0 {
			s.accept()
		} else {
			return -1, false
		}
	}
	return -1, false
}

// accept takes a connection and its first message.
func (s *scheduler) accept() {
	conn, _, err := unix.Accept4(s.listener, unix.SOCK_CLOEXEC)
	if err != nil {
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			s.failf("another thread of a program: %w: raise the limit on open files (ulimit -n)", err)
		}
		return
	}
	_ = unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10})
	var r request
	n, _, err := unix.Recvfrom(conn, s.in, 0)
	for errors.Is(err, unix.EINTR) { // with a time limit it is not begun again after a signal
		n, _, err = unix.Recvfrom(conn, s.in, 0)
	}
	if err == nil {
		err = r.decode(s.in[:n])
	}
	_ = unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{})
	if err != nil || r.op != opHello || r.a != version {
		_ = unix.Close(conn)
		return
	}
	s.unclaimed[int(r.b)] = conn
}

// end takes a process out that has ended, or ends now.
func (s *scheduler) end(p *process) {
	_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0) // fails if it has ended
	if p.traced && !p.main {                                // or who started it could not wait for it
		_, _ = awaitStop(p.pid)
	}
	s.awaitEnd(p)
	for _, t := range p.threads {
		t.close()
	}
	s.threads = slices.DeleteFunc(s.threads, func(t *thread) bool { return t.p == p })
	s.processes = slices.DeleteFunc(s.processes, func(q *process) bool { return q == p })
	s.timers = slices.DeleteFunc(s.timers, func(t *timer) bool { return t.p == p })
	for number, e := range s.eventFDs {
		if e.p == p {
			_ = unix.Close(e.fd)
			delete(s.eventFDs, number)
		}
	}
	s.outside(func() { s.cfg.Devices.OnEnd(p.pid) })
	p.freeBoard()
	_ = unix.Close(p.pidfd)
	s.hostTurns[p.program.Host]++ // what it held is free
	for _, q := range s.processes {
		if q.number == p.parent {
			q.ended++
			q.receive(signalChild, 0)
		}
	}
	if p.main {
		_ = p.program.Command.Wait() // its status is in ProcessState
		p.program.End = s.cfg.Simulation.Now()
	}
}

// waitsFor says what the first of a process's threads waits for.
func (p *process) waitsFor() string {
	if len(p.threads) == 0 {
		return "its turn"
	}
	return p.threads[0].what()
}

func (p *process) hasEnded() bool {
	fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

func (s *scheduler) awaitEnd(p *process) {
	for !p.hasEnded() {
		fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds, 1000)
	}
}

// onExec makes what a process executes the process.
func (s *scheduler) onExec(p *process) {
	for _, t := range p.threads {
		t.close()
	}
	p.threads = nil
	s.threads = slices.DeleteFunc(s.threads, func(t *thread) bool { return t.p == p })
	const created = 3 // timers of timer_create end
	s.timers = slices.DeleteFunc(s.timers, func(t *timer) bool { return t.p == p && t.count == nil && t.id >= created })
	s.outside(func() { s.cfg.Devices.OnEnd(p.pid) })
	p.awaitExec()
	s.join(p, p.pid)
	p.execing = false
}

func (s *scheduler) killAll() {
	for len(s.processes) > 0 {
		s.end(s.processes[len(s.processes)-1])
	}
}

// signal has a process get a signal, 0 is none, and reports whether it has the thread that is to get it, 0 for any.
func (p *process) signal(sig int, thread uint64) bool {
	if sig > 0 && sig < 64 {
		return p.receive(sig, thread)
	}
	return thread == 0 || p.threadOf(thread) != nil
}

// signalChild is the bit of a reply's signals that says that a child has ended: the kernel has sent SIGCHLD.
const signalChild = 0

// receive has a thread get a signal when it runs next: the one of a number, or one that waits for it, else the first.
func (p *process) receive(sig int, number uint64) bool {
	t := p.threadOf(number)
	if number == 0 && len(p.threads) > 0 {
		t = p.threads[0]
		bit := uint64(1) << sig
		if sig == signalChild {
			bit = 1 << unix.SIGCHLD
		}
		if i := slices.IndexFunc(p.threads, func(u *thread) bool { return u.kind == waitSignal && u.target&bit != 0 }); i >= 0 {
			t = p.threads[i]
		}
	}
	if t != nil {
		t.signals |= 1 << sig
	}
	return t != nil
}

func (p *process) threadOf(number uint64) *thread {
	for _, t := range p.threads {
		if uint64(t.number) == number {
			return t
		}
	}
	return nil
}

func (s *scheduler) processOf(number uint32) *process {
	for _, p := range s.processes {
		if p.number == number {
			return p
		}
	}
	return nil
}

// kill carries out kill(2) of a signal by a process, or tgkill(2) with the number of a thread.
func (s *scheduler) kill(from *process, number int32, sig int, thread uint64) unix.Errno {
	var to []*process
	if number <= 0 {
		to = s.group(from, number)
	} else if p := s.processOf(uint32(number)); p != nil {
		to = append(to, p)
	}
	if len(to) == 0 {
		return unix.ESRCH
	}
	for _, p := range to {
		switch {
		case sig == int(unix.SIGKILL) && p != from:
			s.end(p)
		case sig == int(unix.SIGSTOP), sig == int(unix.SIGTSTP):
			return unix.EPERM
		case !p.signal(sig, thread):
			return unix.ESRCH
		}
	}
	return 0
}

// group returns the processes that kill(2) of a number of 0 or less means.
func (s *scheduler) group(from *process, number int32) (all []*process) {
	group := s.kernels[uint32(-number)]
	if number == 0 {
		group, _ = unix.Getpgid(from.pid)
	}
	for _, p := range s.processes {
		if number == -1 {
			if p != from && p.program.Host == from.program.Host {
				all = append(all, p)
			}
		} else if g, err := unix.Getpgid(p.pid); err == nil && g == group {
			all = append(all, p)
		}
	}
	return all
}

// threadsApart is by how much the numbers of a process's threads differ, so that other processes do not have them.
const threadsApart = 100_000

// kernelNumber returns the kernel's number of a process or thread.
func (s *scheduler) kernelNumber(number uint64) (kernel int, ok bool) {
	for _, p := range s.processes {
		if number < uint64(p.number) || (number-uint64(p.number))%threadsApart != 0 {
			continue
		}
		if t := p.threadOf((number-uint64(p.number))/threadsApart + 1); t != nil {
			return t.tid, true
		}
	}
	kernel, ok = s.kernels[uint32(number)] // of a group whose leader has ended, or a process that nobody has waited for
	return kernel, ok
}

// simulatedNumber is the reverse of kernelNumber. It is that of the programs' parent for a process that does not take part.
func (s *scheduler) simulatedNumber(kernel uint64) uint32 {
	for _, p := range s.processes {
		for _, t := range p.threads {
			if uint64(t.tid) == kernel {
				return p.number + uint32(t.number-1)*threadsApart
			}
		}
	}
	for number := s.lastPID; number >= firstPID; number-- {
		if uint64(s.kernels[number]) == kernel {
			return number
		}
	}
	return parentPID
}

func (p *process) seed() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d", p.program.Host, p.number)
	return h.Sum64()
}

func (p *process) welcome() *welcome {
	host := p.s.cfg.Hosts[p.program.Host]
	return &welcome{
		addr: host.Addr.As16(), clockCost: int64(ClockCost), lookCost: int64(p.s.cfg.PollCost), epoch: Epoch, boot: Boot, tscHz: TSCHz,
		seed: p.seed(), pid: p.number, parent: p.parent, host: host.Name,
	}
}
