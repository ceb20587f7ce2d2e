package softswitch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/cli/internal/offload"
	"github.com/sluice-rdma/sluice/cli/internal/softswitch/internal/plane"
	"github.com/sluice-rdma/sluice/units"
)

// Switch is a switch between interfaces. Run drives it; the other methods may be
// called meanwhile.
type Switch struct {
	cfg   Config
	ports []*socket
	event int // an eventfd that ends a wait

	mu       sync.Mutex // guards what follows
	core     *plane.Switch
	start    time.Time
	from     int        // port and
	at       units.Time // time of the frame in hand
	finisher offload.Finisher
	receive  func([]byte)
	unknown  uint64
	closed   bool
}

// extra is a frame's room beyond a port's MTU and an Ethernet header:
// two VLAN tags, and what a program may add.
const extra = 128

// Open opens the sockets of the switch's ports. It belongs to the network namespace
// of the thread that calls it.
func Open(cfg Config) (*Switch, error) {
	if len(cfg.Ports) < 2 {
		return nil, fmt.Errorf("%d ports: a switch has two at least", len(cfg.Ports))
	}
	s := &Switch{cfg: cfg, event: -1, start: time.Now()}
	fail := func(err error) (*Switch, error) {
		s.closeSockets()
		return nil, err
	}
	var pc plane.Config
	if cfg.Pipeline != nil {
		pc.Program = &pipeline{Pipeline: cfg.Pipeline}
	}
	seen := map[string]bool{}
	for i := range cfg.Ports {
		p := &cfg.Ports[i]
		if seen[p.Interface] {
			return fail(fmt.Errorf("the interface %s is given twice", p.Interface))
		}
		seen[p.Interface] = true
		sock, err := openSocket(p.Interface)
		if err != nil {
			return fail(err)
		}
		s.ports = append(s.ports, sock)
		pc.Ports = append(pc.Ports, p.egress())
		pc.Frame = min(max(pc.Frame, sock.mtu+extra), plane.MostFrame)
	}
	var err error
	if s.core, err = plane.New(pc); err != nil {
		return fail(err)
	}
	if s.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fail(os.NewSyscallError("eventfd", err))
	}
	s.receive = func(b []byte) { s.core.Receive(s.at, s.from, b) }
	return s, nil
}

// Run forwards frames until ctx ends. It is called once.
func (s *Switch) Run(ctx context.Context) error {
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		_, _ = unix.Write(s.event, one[:])
		close(woken)
	})
	defer func() {
		if !stop() { // it is at it: the event must be there until it is through
			<-woken
		}
	}()
	// Waits shall end when they are to: by default a thread's are 50 us late.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil && unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) }()
	}
	fds := make([]unix.PollFd, 0, len(s.ports)+1)
	for _, p := range s.ports {
		fds = append(fds, unix.PollFd{Fd: int32(p.fd), Events: unix.POLLIN})
	}
	fds = append(fds, unix.PollFd{Fd: int32(s.event), Events: unix.POLLIN})
	for ctx.Err() == nil {
		s.mu.Lock()
		more := s.turn()
		wait := s.core.Deadline()
		s.mu.Unlock()
		if more {
			continue
		}
		if err := s.wait(fds, wait); err != nil {
			return err
		}
	}
	return nil
}

func (s *Switch) now() units.Time { return units.FromDuration(time.Since(s.start)) }

// wait returns when there is a frame or something to stop for, or at a time.
func (s *Switch) wait(fds []unix.PollFd, until units.Time) error {
	var timeout *unix.Timespec
	var span unix.Timespec
	if until != units.Never {
		span = unix.NsecToTimespec(int64(max(0, until-s.now()) / units.Nanosecond))
		timeout = &span
	}
	_, err := unix.Ppoll(fds, timeout, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("ppoll", err)
	}
	return nil
}

// turn takes in a batch at each port and sends what is due. It reports whether a
// port may have more.
func (s *Switch) turn() (more bool) {
	for _, p := range s.ports {
		more = p.receive() == batch || more
	}
	t := time.Now()
	wall, now := t.UnixNano(), t.Sub(s.start)
	// In the order in which they came, whatever the port.
	for {
		first, stamp := -1, int64(0)
		for i, p := range s.ports {
			if p.in.next == p.in.n {
				continue
			}
			if a := p.in.frames[p.in.next].stamp; first < 0 || a < stamp {
				first, stamp = i, a
			}
		}
		if first < 0 {
			break
		}
		s.take(first, units.FromDuration(now)-units.Time(age(stamp, wall))*units.Nanosecond)
	}
	at := units.FromDuration(now)
	s.core.Advance(at)
	for i, p := range s.ports {
		s.send(at, i, p)
	}
	return more
}

// longestAge bounds the age of a frame in a socket's buffer: a time stamp that says
// more is from before somebody set the wall clock.
const longestAge = int64(time.Second)

func age(stamp, wall int64) int64 {
	a := wall - stamp
	if stamp == 0 || a < 0 || a > longestAge {
		return 0
	}
	return a
}

// take brings the next frame of a port to the switch.
func (s *Switch) take(port int, at units.Time) {
	p := s.ports[port]
	a := &p.in.frames[p.in.next]
	p.in.next++
	s.from, s.at = port, at
	if a.bytes == nil || s.finisher.Finish(a.bytes, &a.offload, s.receive) != nil {
		s.unknown++
	}
}

// send sends what has left a port.
func (s *Switch) send(now units.Time, port int, p *socket) {
	for {
		n := 0
		for n < batch {
			k := s.core.Next(now, port)
			if k == nil {
				break
			}
			p.out.packets[n] = k
			n++
		}
		if n == 0 {
			return
		}
		p.send(n)
		for _, k := range p.out.packets[:n] {
			s.core.Free(k)
		}
	}
}

// Stats returns the counts so far.
func (s *Switch) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.core.Totals
	out := Stats{
		Seconds: time.Since(s.start).Seconds(), TooLong: t.TooLong, Discarded: t.Discarded, NoPort: t.NoPort, Flooded: t.Flooded, Unknown: s.unknown,
	}
	for i, p := range s.ports {
		if !s.closed {
			p.countMissed()
		}
		st := portStats(p.name, s.cfg.Ports[i].Rate, s.core, i)
		st.Missed, st.TxErrors = p.missed, p.txErrors
		out.Ports = append(out.Ports, st)
	}
	return out
}

// ResetDelays forgets the queueing delays and the largest queues so far.
func (s *Switch) ResetDelays() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.ResetDelays()
}

// Close closes the switch's sockets, when Run has returned. Stats stays what it was.
func (s *Switch) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	for _, p := range s.ports {
		p.countMissed()
	}
	s.closed = true
	s.closeSockets()
	return nil
}

func (s *Switch) closeSockets() {
	for _, p := range s.ports {
		_ = unix.Close(p.fd)
	}
	if s.event >= 0 {
		_ = unix.Close(s.event)
	}
}
