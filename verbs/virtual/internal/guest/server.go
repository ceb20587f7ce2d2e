//go:build linux

package guest

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/internal/sockpeer"
)

// Server serves device nodes to the processes that open them.
type Server struct {
	l       *net.UnixListener
	open    Opener
	running sync.WaitGroup

	// simulated has the memory of processes reached where they may not reach it themselves.
	simulated bool

	mu     sync.Mutex
	closed bool
	conns  map[*net.UnixConn]struct{}
	served map[int]int // connections by process
	gone   *sync.Cond  // a connection has ended
	most   int         // connections at once
	spare  *os.File    // a descriptor to refuse connections with where none is left
}

// connDescriptors bounds how many descriptors a connection takes here: its own, its process, the
// stores that are watched, a page, a file of events at both ends, and copies on their way to
// the program.
const connDescriptors = 8

// mostConns is the number of connections that leaves descriptors for the rest of the process.
func mostConns() int {
	var l unix.Rlimit
	const others, least = 128, 8
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return max((int(l.Cur)-others)/connDescriptors, least)
}

// Listen serves what open opens on a socket at path, whose mode and directory say who
// may open nodes. In simulated time, programs may have pages that only the device reaches:
// those of completion queues that are empty.
func Listen(path string, open Opener, simulated bool) (*Server, error) {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	s := &Server{l: l, open: open, simulated: simulated, conns: map[*net.UnixConn]struct{}{}, served: map[int]int{}, most: mostConns()}
	s.keepSpare()
	s.gone = sync.NewCond(&s.mu)
	s.running.Go(s.accept)
	return s, nil
}

// Close ends the connections, and returns when every File has been closed. Calls that
// programs make on their descriptors from then on fail with EIO.
func (s *Server) Close() error {
	err := s.l.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
	closeFD(s.spare)
	return err
}

// Drain returns when a process that has ended, or executes another program, has no File
// open any more.
func (s *Server) Drain(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.served[pid] > 0 {
		s.gone.Wait()
	}
}

// count counts a process's connections.
func (s *Server) count(pid, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served[pid] += n; s.served[pid] == 0 {
		delete(s.served, pid)
	}
	s.gone.Broadcast()
}

func (s *Server) accept() {
	for {
		c, err := s.l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors or memory
			if !s.refuseBySpare() {
				time.Sleep(10 * time.Millisecond) // later there may be some
			}
			continue
		}
		s.mu.Lock()
		switch {
		case s.closed:
			_ = c.Close()
		case len(s.conns) >= s.most:
			s.running.Go(func() { refuse(c) })
		default:
			s.conns[c] = struct{}{}
			s.running.Go(func() {
				s.serve(c)
				s.mu.Lock()
				delete(s.conns, c)
				s.mu.Unlock()
			})
		}
		s.mu.Unlock()
	}
}

// keepSpare takes the descriptor that refuseBySpare gives up, if it has none.
func (s *Server) keepSpare() {
	if s.spare == nil {
		s.spare, _ = os.Open(os.DevNull) // the next time
	}
}

// refuseBySpare refuses a connection where there is no descriptor to accept it with, and reports
// whether it could: a program would wait for its answer otherwise.
func (s *Server) refuseBySpare() bool {
	if s.spare == nil {
		s.keepSpare()
		return false
	}
	closeFD(s.spare)
	s.spare = nil
	defer s.keepSpare()
	if s.l.SetDeadline(time.Now().Add(time.Second)) != nil { // another thread may have taken the descriptor
		return false
	}
	c, err := s.l.AcceptUnix()
	_ = s.l.SetDeadline(time.Time{})
	if err != nil {
		return false
	}
	refuse(c)
	return true
}

// refuse answers what a program sends first: there are too many nodes open.
func refuse(c *net.UnixConn) {
	defer c.Close() //nolint:errcheck // it has its answer
	_ = c.SetDeadline(time.Now().Add(time.Second))
	k := &conn{c: c, out: make([]byte, 0, replySize)}
	if _, err := c.Read(make([]byte, requestSize+MaxWrite)); err == nil { // a descriptor that comes with it is dropped
		_ = k.send(&reply{errno: uint32(syscall.EMFILE)}, nil, nil)
	}
}

// conn is a connection: an open() of a node.
type conn struct {
	c    *net.UnixConn
	in   []byte
	oob  []byte
	out  []byte
	file File

	process *Process
	mapping struct { // the last Mmap's, which Mapped follows
		length uint64
		watch  bool
	}
}

func (s *Server) serve(c *net.UnixConn) {
	defer c.Close() //nolint:errcheck // it has ended
	k := &conn{c: c, in: make([]byte, requestSize+MaxWrite+1), oob: make([]byte, unix.CmsgSpace(4)), out: make([]byte, 0, replySize+MaxData)}
	var hello request
	uffd, err := k.receive(&hello)
	if err != nil {
		if errors.Is(err, errNoDescriptor) {
			_ = k.send(&reply{errno: uint32(syscall.EMFILE)}, nil, nil)
		}
		return
	}
	p, end, errno := k.hello(&hello, uffd, s.simulated)
	if errno != 0 {
		_ = k.send(&reply{errno: uint32(errno)}, nil, nil)
		return
	}
	s.count(p.PID, 1)
	defer s.count(p.PID, -1)
	defer end()
	file, fd, errno := s.open(p, string(hello.data))
	if errno != 0 {
		closeFD(fd)
		_ = k.send(&reply{errno: uint32(errno)}, nil, nil)
		return
	}
	k.file, k.process = file, p
	defer k.close()
	if k.send(&reply{}, nil, fd) != nil {
		return
	}
	for {
		var r request
		fd, err := k.receive(&r)
		closeFD(fd)
		if err != nil || k.answer(&r) != nil || k.file == nil {
			return
		}
	}
}

func (k *conn) close() {
	if k.file != nil {
		k.file.Close()
		k.file = nil
	}
}

// hello checks what a connection begins with and finds its process. end frees what the
// process holds.
func (k *conn) hello(r *request, uffd *os.File, simulated bool) (p *Process, end func(), errno syscall.Errno) {
	fail := func(errno syscall.Errno) (*Process, func(), syscall.Errno) {
		closeFD(uffd)
		return nil, nil, errno
	}
	if r.op != opHello {
		return fail(syscall.EPROTO)
	}
	if r.a != version {
		return fail(syscall.EPROTONOSUPPORT)
	}
	pid, err := k.peer()
	if err != nil || pid <= 0 { // 0: it lives in a PID namespace that this one does not see
		return fail(syscall.ESRCH)
	}
	pidfd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return fail(scarceOr(err, syscall.ESRCH))
	}
	if uffd != nil && !isUserfaultfd(uffd) {
		_ = unix.Close(pidfd)
		return fail(syscall.EINVAL)
	}
	m := &memory{pid: pid}
	if err := m.ReadMemory(make([]byte, 1), 1); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		slog.Warn("a program's memory is out of reach: kernel.yama.ptrace_scope above 1 or a container's seccomp profile forbids process_vm_readv, or the program forbids it (PR_SET_DUMPABLE)", "process", pid, "error", err)
		_ = unix.Close(pidfd)
		return fail(syscall.EPERM)
	}
	p = &Process{PID: pid, Memory: m}
	if simulated {
		if p.forced, err = newForced(m); err != nil {
			_ = unix.Close(pidfd)
			return fail(scarceOr(err, syscall.EPERM))
		}
		p.Memory = p.forced
	}
	process := os.NewFile(uintptr(pidfd), fmt.Sprintf("process %d", pid))
	if uffd != nil {
		p.Watch = &Watch{uffd}
	}
	// A copy of the connection in a child of the process would keep it open.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if waitReadable(process) == nil {
			m.ended.Store(true)
			_ = k.c.Close()
		}
	}()
	return p, func() {
		_ = process.Close()
		<-ended
		m.ended.Store(true)
		closeFD(uffd)
		if p.forced != nil {
			closeFD(p.forced.file)
		}
	}, 0
}

// scarceOr returns the errno of an error that says that this process is out of descriptors or
// memory, and otherwise the one given.
func scarceOr(err error, otherwise syscall.Errno) syscall.Errno {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, errno) {
			return errno
		}
	}
	return otherwise
}

// isUserfaultfd reports whether a descriptor that a program sent is one, which wakes
// whoever reads it when it is closed.
func isUserfaultfd(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var name string
	controlErr := raw.Control(func(fd uintptr) {
		name, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err == nil {
			err = unix.SetNonblock(int(fd), true)
		}
	})
	return err == nil && controlErr == nil && name == "anon_inode:[userfaultfd]"
}

// peer returns the process at the other end.
func (k *conn) peer() (pid int, err error) {
	peer, err := sockpeer.Of(k.c)
	if err != nil {
		return 0, err
	}
	return int(peer.Pid), nil
}

// waitReadable returns nil when a pidfd says that its process has ended, and an error
// when it has been closed before.
func waitReadable(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n > 0
	})
}

func (k *conn) answer(r *request) error {
	switch r.op {
	case opWrite:
		out := k.file.Write(r.data)
		out.Value = len(r.data)
		return k.reply(&out)
	case opIoctl:
		out := k.file.Ioctl(r.a, r.b)
		return k.reply(&out)
	case opMmap:
		return k.mmap(r)
	case opMapped:
		if k.mapping.watch && k.process.Watch != nil {
			// Where it fails, so does Watch.Protect.
			_ = k.process.Watch.register(r.b, k.mapping.length)
		}
		k.file.Mapped(r.a, r.b)
		return k.send(&reply{}, nil, nil)
	case opClose:
		k.close()
		return k.send(&reply{}, nil, nil)
	}
	return k.send(&reply{errno: uint32(syscall.EPROTO)}, nil, nil)
}

func (k *conn) reply(out *Reply) error {
	r := reply{errno: uint32(out.Errno), value: uint64(out.Value), to: out.To, fdAt: uint64(out.FDAt)}
	if out.Errno != 0 || len(out.Data) > MaxData || out.FD != nil && (out.FDAt < 0 || out.FDAt+4 > len(out.Data)) {
		closeFD(out.FD)
		if out.Errno == 0 { // the device's fault, not the program's
			r.errno = uint32(syscall.EIO)
		}
		return k.send(&r, nil, nil)
	}
	return k.send(&r, out.Data, out.FD)
}

// maxMap bounds, in bytes, what a program can map at once.
const maxMap = 1 << 30

func (k *conn) mmap(r *request) error {
	if r.b == 0 || r.b > maxMap {
		return k.send(&reply{errno: uint32(syscall.EINVAL)}, nil, nil)
	}
	m := k.file.Mmap(r.a, int(r.b), r.c != 0)
	out := reply{errno: uint32(m.Errno), value: m.Cookie, offset: uint64(m.Offset)}
	if m.Errno != 0 || m.FD == nil {
		closeFD(m.FD)
		if m.Errno == 0 {
			out.errno = uint32(syscall.EIO)
		}
		return k.send(&out, nil, nil)
	}
	k.mapping.length, k.mapping.watch = r.b, m.Watch
	if m.Clock {
		out.flags |= flagClock
	}
	if m.Watch {
		out.flags |= flagDoorbells
	}
	return k.send(&out, nil, m.FD)
}

// errNoDescriptor says that a descriptor came for which this process had no place, or several.
var errNoDescriptor = errors.New("a descriptor that could not be taken")

// receive reads a request, and the descriptor that came with it, or nil. The request's
// data are valid until the next.
func (k *conn) receive(r *request) (fd *os.File, err error) {
	n, oobn, flags, _, err := k.c.ReadMsgUnix(k.in, k.oob)
	if err != nil {
		return nil, err
	}
	fd, err = descriptor(k.oob[:oobn])
	switch {
	case err != nil:
	case flags&unix.MSG_TRUNC != 0 || n > requestSize+MaxWrite:
		err = io.ErrShortBuffer
	case flags&unix.MSG_CTRUNC != 0:
		err = errNoDescriptor
	}
	if err == nil {
		err = r.decode(k.in[:n])
	}
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	return fd, nil
}

// descriptor returns what SCM_RIGHTS carries: at most one, since the buffer has room for
// no more, and the kernel then drops the others.
func descriptor(oob []byte) (*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil || len(fds) == 0 {
			continue
		}
		for _, more := range fds[1:] { // alignment leaves room for a second one
			_ = unix.Close(more)
		}
		return os.NewFile(uintptr(fds[0]), "a program's descriptor"), nil
	}
	return nil, nil
}

// send sends a reply, with a descriptor unless that is nil, and closes it.
func (k *conn) send(r *reply, data []byte, fd *os.File) error {
	defer closeFD(fd)
	var oob []byte
	if fd != nil {
		raw, err := fd.SyscallConn()
		if err != nil {
			return err
		}
		if err := raw.Control(func(n uintptr) { oob = unix.UnixRights(int(n)) }); err != nil {
			return err
		}
		r.flags |= flagFD
	}
	b := append(r.append(k.out[:0]), data...)
	_, _, err := k.c.WriteMsgUnix(b, oob, nil)
	return err
}

func closeFD(f *os.File) {
	if f != nil {
		_ = f.Close()
	}
}
