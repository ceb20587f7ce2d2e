package turns

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/units"
)

// thread is a thread that takes part: by a connection of its own.
type thread struct {
	p       *process
	number  int // in its process, from 1 on
	tid     int
	conn    int
	welcome bool // the next reply is its process's first
	fresh   bool // it is the thread's

	wait    wait
	kind    waitKind
	target  uint64 // of waitThread
	numbers []int32
	fds     []unix.PollFd // of waitFDs: duplicates of the program's
	fdReady bool
	writes  uint64 // of devices into the process's memory, when the wait began
	turns   uint64 // of the process, then
	// hostTurns are those of all processes of the host, then.
	hostTurns uint64
	ended     uint64 // of the process's children, then
	clocks    bool   // of waitClock: it has only read clocks for a while

	// patience is the wait of a thread that is taken to loop because of its processor time; 0: another one.
	patience units.Time

	// deferred is a message that came from a time at which the simulation is not yet: the
	// thread was ahead. It waits for that time.
	deferred   *message
	productive bool // its turn has done more than find that it has to wait again

	signals uint64
	ending  bool
}

// message is a request with its descriptors, or, if that is nil, the end of the connection.
type message struct {
	request *request
	fds     []int
}

func (t *thread) isReady() bool {
	switch {
	case t.deferred != nil:
		return false
	case t.signals != 0:
		return true
	}
	return t.isMet()
}

// isMet reports whether there is what a thread waits for.
func (t *thread) isMet() bool {
	p := t.p
	switch {
	case t.kind == waitFDs:
		return t.fdReady
	case t.kind == waitChild:
		return p.ended != t.ended
	case t.kind == waitLock:
		return t.othersRan()
	case t.kind == waitLoop:
		return t.othersRan() || p.s.cfg.Devices.Writes(p.pid) != t.writes
	case t.kind == waitThread:
		return !slices.ContainsFunc(p.threads, func(u *thread) bool { return uint64(u.number) == t.target })
	}
	return false
}

// othersRan reports whether a thread of the process has run since the wait began, or, if the process shares
// memory, one of its host.
func (t *thread) othersRan() bool {
	s := t.p.s
	return t.p.turns != t.turns || t.target != 0 && s.hostTurns[t.p.program.Host] != t.hostTurns
}

// waitsByClocks reports whether a thread's next step is to read a clock again, as for a while.
func (t *thread) waitsByClocks() bool {
	if t.deferred != nil {
		return t.deferred.request != nil && t.deferred.request.waitsByClocks()
	}
	return t.clocks && t.signals == 0
}

// what returns what a thread waits for.
func (t *thread) what() string {
	until := ""
	if t.wait.until != units.Never {
		until = fmt.Sprintf(", until %v", t.wait.until)
	}
	switch t.kind {
	case waitFDs:
		var names []string
		for _, n := range t.numbers {
			target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.p.pid, n))
			if err != nil {
				target = "closed"
			}
			if kind, inode, _ := strings.Cut(target, ":["); strings.Trim(inode, "0123456789") == "]" {
				target = kind // "socket:[4711]": the number is another in each run
			}
			names = append(names, fmt.Sprintf("%d (%s)", n, target))
		}
		if len(names) == 0 {
			return "time" + until
		}
		return "descriptor " + strings.Join(names, ", ") + until
	case waitChild:
		return "a process that it started"
	case waitLock:
		return "another of its threads" + until
	case waitLoop:
		return "a change of memory that it reads in a loop"
	case waitThread:
		return fmt.Sprintf("the end of its thread %d", t.target)
	case waitSignal:
		return "a signal"
	}
	if until != "" {
		return "time" + until
	}
	return "its turn"
}

func (t *thread) freeFDs() {
	for i := range t.fds {
		_ = unix.Close(int(t.fds[i].Fd))
	}
	t.fds, t.fdReady, t.numbers = t.fds[:0], false, t.numbers[:0]
}

func (t *thread) close() {
	t.freeFDs()
	if t.deferred != nil {
		closeAll(t.deferred.fds)
	}
	_ = unix.Close(t.conn)
}

// turn lets a thread run to its next waiting point.
func (s *scheduler) turn(ctx context.Context, t *thread, ready bool) {
	s.running = t
	defer func() { s.running = nil }()
	m := t.deferred
	t.deferred = nil
	var answer reply
	if m == nil {
		t.productive = t.kind != waitLock && t.kind != waitLoop
		if ready && t.isMet() {
			answer.ready = readyEnded
		}
		t.freeFDs()
	}
	for ; ; m = nil {
		if m == nil {
			if m = s.exchange(ctx, t, &answer); m == nil {
				return
			}
		}
		r := m.request
		if r == nil {
			s.onHangup(t)
			return
		}
		t.p.execing = false // it has failed to
		t.p.untrace()
		if r.op == opWait {
			s.onWait(t, r, m.fds)
			return
		}
		t.productive = true
		answer = reply{}
		goesOn := s.answer(t, r, m.fds, &answer)
		closeAll(m.fds)
		if !goesOn {
			return
		}
	}
}

// exchange answers a thread and returns its next message, or nil if that is to be dealt with
// later, or the run ends.
func (s *scheduler) exchange(ctx context.Context, t *thread, answer *reply) *message {
	m, at := &message{}, s.cfg.Simulation.Now()
	if s.reply(t, answer) {
		var ok bool
		m.request, m.fds, ok = s.receive(ctx, t)
		if !ok {
			closeAll(m.fds)
			m = &message{}
		}
		if s.err != nil {
			return nil
		}
		if at = t.p.now(); ok {
			at = m.request.now
		}
	}
	if s.advance(at) {
		return m
	}
	if m.request != nil {
		m.request.data = slices.Clone(m.request.data)
	}
	t.deferred, t.wait.until = m, at
	return nil
}

// advance brings the simulation to where a thread is that let costs pass by itself, and reports
// whether it may: nothing else is to happen before.
func (s *scheduler) advance(to units.Time) bool {
	now := s.cfg.Simulation.Now()
	if to <= now {
		return true
	}
	if to >= s.alone {
		s.collect()
		alone, _ := horizon(s.cfg.Simulation, s.waits, s.fire(now))
		if to >= alone && alone < now+longestAlone {
			return false
		}
	}
	s.cfg.Simulation.RunUntil(to)
	return true
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// onWait has a thread wait.
func (s *scheduler) onWait(t *thread, r *request, fds []int) {
	p := t.p
	if r.flags&flagAgain == 0 && (t.productive || waitKind(r.a) != waitLoop) {
		p.turns++
		s.hostTurns[p.program.Host]++
	}
	s.cfg.Devices.OnWaitingPoint(p.pid)
	t.kind, t.target, t.wait.until = waitKind(r.a), r.b, r.until
	if r.flags&flagGuessed == 0 {
		t.patience = 0
	} else {
		t.patience = min(max(2*t.patience, firstPatience), longestPatience)
		t.wait.until = r.now + t.patience
	}
	t.clocks = r.waitsByClocks()
	t.hostTurns = s.hostTurns[p.program.Host]
	t.writes, t.turns, t.ended = s.cfg.Devices.Writes(p.pid), p.turns, p.ended
	const wanted = 8 // a descriptor's number and its events
	for i, fd := range fds {
		if t.kind != waitFDs || len(r.data) < (i+1)*wanted {
			_ = unix.Close(fd)
			continue
		}
		e := binary.NativeEndian
		t.numbers = append(t.numbers, int32(e.Uint32(r.data[i*wanted:])))
		t.fds = append(t.fds, unix.PollFd{Fd: int32(fd), Events: int16(e.Uint32(r.data[i*wanted+4:]))})
	}
}

// answer carries out a request that keeps the turn, and reports whether the thread goes on.
func (s *scheduler) answer(t *thread, r *request, fds []int, a *reply) bool {
	p := t.p
	switch r.op {
	case opTimer:
		s.setTimer(p, r)
	case opSpawned:
		child, err := s.newProcess(p.program, int(r.a), p.number)
		if err != nil {
			a.errno = uint32(unix.ESRCH)
			break
		}
		a.value = uint64(child.number)
		s.join(child, child.pid)
	case opThread:
		if u := s.join(p, int(r.a)); u != nil {
			a.value = uint64(u.number)
		}
	case opExec:
		p.execing = true
		if t.tid == p.pid {
			p.trace()
		}
	case opSignal:
		a.errno = uint32(s.kill(p, int32(r.a), int(r.b), r.c))
		if t.signals != 0 { // its own
			a.ready = 0
		}
	case opPort:
		a.value = uint64(s.nextPort(p.program.Host))
	case opProbed:
	case opTimerFD:
		var err unix.Errno
		a.value, err = s.timerFD(p, r, fds)
		a.errno = uint32(err)
	case opNice:
		q := s.processOf(uint32(r.a))
		switch {
		case q == nil:
			a.errno = uint32(unix.ESRCH)
		case r.b == 0:
			a.value = uint64(q.nice)
		case int(r.c) < q.nice:
			a.errno = uint32(unix.EACCES)
		default:
			q.nice = int(r.c)
		}
	case opProcess:
		number, ok := s.kernelNumber(r.a)
		if r.b != 0 {
			number, ok = int(s.simulatedNumber(r.a)), true
		}
		if a.value = uint64(number); !ok {
			a.errno = uint32(unix.ESRCH)
		}
	case opEnd:
		t.ending = true
	case opRefused:
		s.failf("%s: %s can't be simulated", p.name(), r.data)
		return false
	default:
		s.failf("%s: an unknown message, %d", p.name(), r.op)
		return false
	}
	return s.err == nil
}

// onHangup is for a thread whose connection has ended: it has ended, or its process has, or
// executes another program.
func (s *scheduler) onHangup(t *thread) {
	p := t.p
	switch {
	case t.ending && len(p.threads) > 1:
		t.close()
		p.threads = slices.DeleteFunc(p.threads, func(u *thread) bool { return u == t })
		s.threads = slices.DeleteFunc(s.threads, func(u *thread) bool { return u == t })
		p.turns++
	case p.execing:
		s.onExec(p)
	default:
		s.expectEnd(p)
		s.end(p)
	}
}

// longestEnd bounds, in real time, how long the kernel takes to end a process.
const longestEnd = 30 * time.Second

func (s *scheduler) expectEnd(p *process) {
	for end := time.Now().Add(longestEnd); !p.hasEnded(); {
		if time.Now().After(end) {
			s.failf("%s: it closed a descriptor that is not its own", p.name())
			return
		}
		fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds, 1000)
	}
}

// reply sends one to a thread, which then runs, and reports whether it is there.
func (s *scheduler) reply(t *thread, r *reply) bool {
	if t.waitsByClocks() {
		r.ready |= readyFar
	}
	s.collect()
	again := s.fire(s.cfg.Simulation.Now())
	r.now = s.cfg.Simulation.Now()
	r.alone, r.horizon = horizon(s.cfg.Simulation, s.waits, again)
	s.alone = r.alone
	r.signals, t.signals = t.signals, 0
	if t.fresh {
		r.value = uint64(t.number)
		t.fresh = false
	}
	b := r.append(s.out[:0])
	var oob []byte
	if t.welcome {
		b = t.p.welcome().append(b)
		oob = unix.UnixRights(t.p.boardFD)
		t.welcome = false
	}
	return unix.Sendmsg(t.conn, b, oob, nil, unix.MSG_NOSIGNAL) == nil
}

// How long, in real time, a thread runs before the scheduler probes whether it loops, and
// the longest time between two probes.
const (
	firstProbe   = 200 * time.Microsecond
	longestProbe = 20 * time.Millisecond
)

// computesFor is the processor time that a thread may use without a waiting point, less what it
// is stepped for. One that uses more, and is not found to loop, is taken to loop nevertheless.
var computesFor = time.Second // tests take less

// How long a thread that is taken to loop waits for its memory to change before it has
// another turn: it may as well compute. Each wait is twice as long as the one before.
const (
	firstPatience   = units.Microsecond
	longestPatience = 10 * units.Millisecond
)

// blocksFor is the real time that a thread may spend in a system call that is not simulated.
const blocksFor = 20 * time.Second

// receive returns the next message of a thread that runs, the descriptors that came with it,
// and whether there is one. The world is free while it waits.
func (s *scheduler) receive(ctx context.Context, t *thread) (r *request, fds []int, ok bool) {
	s.outside(func() { r, fds, ok = s.awaitMessage(ctx, t) })
	return r, fds, ok
}

func (s *scheduler) awaitMessage(ctx context.Context, t *thread) (*request, []int, bool) {
	began, last := time.Now(), t.p.now()
	var used time.Duration // of the processor, at the first probe, and since then for steps
	probes := 0
	for wait := firstProbe; ; wait = min(2*wait, longestProbe) {
		timeout := unix.NsecToTimespec(int64(wait))
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(t.conn), Events: unix.POLLIN}}, &timeout, nil)
		if err != nil && err != unix.EINTR {
			return nil, nil, false
		}
		if n > 0 {
			r, fds, ok := s.read(t)
			if !ok || r.op != opProbed {
				return r, fds, ok
			}
			// Its turn goes on: an answer without looks at others.
			closeAll(fds)
			used += time.Duration(r.a)
			if s.cpuTime(t)-used > computesFor {
				return &request{op: opWait, flags: flagGuessed, a: uint64(waitLoop), now: r.now, until: units.Never}, nil, true
			}
			if !s.goOn(t, r) {
				return nil, nil, false
			}
			continue
		}
		if ctx.Err() != nil {
			s.err = ctx.Err()
			return nil, nil, false
		}
		if probes++; probes == 1 {
			used = s.cpuTime(t)
		}
		if t.p.passSignals() {
			wait = firstProbe / 2
			continue
		}
		if call := s.blocked(t); call != "" && time.Since(began) > blocksFor {
			s.failf("%s: it waits in a system call that can't be simulated: %s", t.p.name(), call)
			return nil, nil, false
		}
		if now := t.p.now(); now != last { // it reads clocks
			last, began, wait = now, time.Now(), firstProbe/2
			continue
		}
		if t.p.execing {
			continue // the signal would end what it executes; the connection ends next
		}
		// The connection may outlast the thread: a child that it made unseen has a copy.
		if (t.p.hasEnded() || unix.Tgkill(t.p.pid, t.tid, unix.SIGSTKFLT) == unix.ESRCH) && !readable(t.conn) {
			return nil, nil, false
		}
	}
}

func readable(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err != nil || n > 0
}

// goOn answers a probe: the world stands still while the thread runs, and its horizon with it.
func (s *scheduler) goOn(t *thread, r *request) bool {
	a := reply{now: r.now, ready: readyStill}
	return unix.Send(t.conn, a.append(nil), unix.MSG_NOSIGNAL) == nil
}

func (s *scheduler) read(t *thread) (*request, []int, bool) {
	n, oobn, flags, _, err := unix.Recvmsg(t.conn, s.in, s.oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return nil, nil, false
	}
	var fds []int
	if oobn > 0 {
		messages, err := unix.ParseSocketControlMessage(s.oob[:oobn])
		if err == nil {
			for i := range messages {
				if rights, err := unix.ParseUnixRights(&messages[i]); err == nil {
					fds = append(fds, rights...)
				}
			}
		}
	}
	r := &request{}
	if err := r.decode(s.in[:n]); err != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		s.failf("%s: a message that its library did not send", t.p.name())
		return nil, fds, false
	}
	return r, fds, true
}

// cpuTime is the processor time that a thread has used.
func (s *scheduler) cpuTime(t *thread) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", t.p.pid, t.tid))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	ns, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ns)
}

// blocked returns the system call that a thread is in, or "".
func (s *scheduler) blocked(t *thread) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", t.p.pid, t.tid))
	if err != nil || strings.HasPrefix(string(b), "running") {
		return ""
	}
	call, _, _ := strings.Cut(string(b), " ")
	return "number " + call
}
