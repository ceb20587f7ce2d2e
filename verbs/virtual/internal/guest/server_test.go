//go:build linux

package guest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fixed answers all that is asked of it in the same way.
type fixed struct {
	reply  Reply
	mapped MapReply
	closed chan<- struct{}
}

func (f fixed) Write([]byte) Reply              { return f.reply }
func (f fixed) Ioctl(uint64, uint64) Reply      { return f.reply }
func (f fixed) Mmap(uint64, int, bool) MapReply { return f.mapped }
func (f fixed) Mapped(uint64, uint64)           {}
func (f fixed) Close()                          { f.closed <- struct{}{} }

// dial returns a connection to a server that opens f, whatever the node's name.
func dial(t testing.TB, f fixed) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "socket")
	s, err := Listen(path, func(*Process, string) (File, *os.File, syscall.Errno) { return f, nil, 0 }, false)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), s.Close() })
	return c
}

// TestFull has a program that opens more nodes than there is room for hear that, whether the
// server counts or has no descriptor left, and open one when another has been closed. It runs in
// a process of its own: what another test left to the garbage collector would be closed, and its
// descriptor free, just when none is to be left.
func TestFull(t *testing.T) {
	if os.Getenv("SLUICE_TEST_FULL") == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFull$")
		c.Env = append(os.Environ(), "SLUICE_TEST_FULL=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "socket")
	closed := make(chan struct{}, 10)
	f := fixed{closed: closed}
	s, err := Listen(path, func(*Process, string) (File, *os.File, syscall.Errno) { return f, nil, 0 }, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.mu.Lock()
	s.most = 2
	s.mu.Unlock()
	open := func(fd int) syscall.Errno {
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(fd, hello); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, replySize+MaxData)
		if n, err := unix.Read(fd, b); err != nil || n < replySize {
			t.Fatalf("an answer of %d bytes, %v", n, err)
		}
		return syscall.Errno(binary.NativeEndian.Uint32(b))
	}
	var sockets []int
	for range 5 {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		sockets = append(sockets, fd)
	}
	for i, want := range []syscall.Errno{0, 0, syscall.EMFILE} {
		if got := open(sockets[i]); got != want {
			t.Errorf("node %d: %v, expected %v", i, got, want)
		}
	}
	if n, err := unix.Read(sockets[2], make([]byte, 1)); n != 0 || err != nil { // until its descriptor at the server is free
		t.Fatalf("the connection that was refused: %d bytes, %v", n, err)
	}
	if err := unix.Close(sockets[0]); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, fd := range sockets[1:] {
			_ = unix.Close(fd)
		}
	}()
	<-closed
	for { // until it counts one less
		s.mu.Lock()
		n := len(s.conns)
		s.mu.Unlock()
		if n < 2 {
			break
		}
		runtime.Gosched()
	}
	if got := open(sockets[3]); got != 0 {
		t.Errorf("after one was closed: %v", got)
	}

	s.mu.Lock()
	s.most = 100
	s.mu.Unlock()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(sockets[4]) + 20, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	var all []int
	for {
		fd, err := unix.Dup(2)
		if err != nil {
			break
		}
		all = append(all, fd)
	}
	got := open(sockets[4])
	for _, fd := range all {
		_ = unix.Close(fd)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if got != syscall.EMFILE {
		t.Errorf("without a descriptor left: %v", got)
	}
}

func message(op uint32, a, b, c uint64, data string) []byte {
	m := binary.NativeEndian.AppendUint32(nil, op)
	m = binary.NativeEndian.AppendUint32(m, 0)
	for _, v := range []uint64{a, b, c} {
		m = binary.NativeEndian.AppendUint64(m, v)
	}
	return append(m, data...)
}

// ask sends a message, with descriptors, and returns what the answer has as errno, or an
// error if the connection has ended.
func ask(c *net.UnixConn, m []byte, fds ...int) (syscall.Errno, error) {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if _, _, err := c.WriteMsgUnix(m, oob, nil); err != nil {
		return 0, err
	}
	b := make([]byte, replySize+MaxData)
	n, err := c.Read(b)
	if err != nil || n < replySize {
		return 0, errors.Join(err, errShort)
	}
	return syscall.Errno(binary.NativeEndian.Uint32(b)), nil
}

var hello = message(opHello, version, 0, 0, "uverbs0")

// TestConnections speaks to the server without the library, wrongly in many ways.
func TestConnections(t *testing.T) {
	notOne, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer notOne.Close()
	null := int(notOne.Fd())
	for _, test := range []struct {
		name  string
		first []byte
		fds   []int
		next  []byte // empty: none
		want  string // errno of the last answer, or "ended"
	}{
		{name: "hello", first: hello, want: "errno 0"},
		{name: "another version", first: message(opHello, version+1, 0, 0, "uverbs0"), want: "protocol not supported"},
		{name: "no hello", first: message(opWrite, 0, 0, 0, "x"), want: "protocol error"},
		{name: "short", first: hello[:requestSize-1], want: "ended"},
		{name: "no userfaultfd", first: hello, fds: []int{null}, want: "invalid argument"},
		{name: "two descriptors", first: hello, fds: []int{null, null}, want: "invalid argument"},
		{name: "many descriptors", first: hello, fds: []int{null, null, null, null, null}, want: "too many open files"},
		{name: "two hellos", first: hello, next: hello, want: "protocol error"},
		{name: "unknown operation", first: hello, next: message(99, 0, 0, 0, ""), want: "protocol error"},
		{name: "write", first: hello, next: message(opWrite, 0, 0, 0, strings.Repeat("x", MaxWrite)), want: "errno 0"},
		{name: "long write", first: hello, next: message(opWrite, 0, 0, 0, strings.Repeat("x", MaxWrite+1)), want: "ended"},
		{name: "map nothing", first: hello, next: message(opMmap, 0, 0, 0, ""), want: "invalid argument"},
		{name: "map too much", first: hello, next: message(opMmap, 0, 1<<63, 0, ""), want: "invalid argument"},
		{name: "map without memory", first: hello, next: message(opMmap, 0, 4096, 0, ""), want: "input/output error"},
		{name: "mapped nothing", first: hello, next: message(opMapped, 7, 1, 0, ""), want: "errno 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			closed := make(chan struct{}, 1)
			c := dial(t, fixed{closed: closed})
			errno, err := ask(c, test.first, test.fds...)
			if err == nil && len(test.next) > 0 {
				errno, err = ask(c, test.next)
			}
			got := errno.Error()
			if err != nil {
				got = "ended"
			}
			if got != test.want {
				t.Errorf("got %s (%v), expected %s", got, err, test.want)
			}
			if test.next == nil {
				return
			}
			_ = c.Close()
			<-closed // exactly once: the channel has room for one
		})
	}
}

// TestCloseIsAnswered closes by a message: when the answer comes, the file is closed.
func TestCloseIsAnswered(t *testing.T) {
	closed := make(chan struct{}, 1)
	c := dial(t, fixed{closed: closed})
	for _, m := range [][]byte{hello, message(opClose, 0, 0, 0, "")} {
		if errno, err := ask(c, m); err != nil || errno != 0 {
			t.Fatalf("%v, %v", errno, err)
		}
	}
	select {
	case <-closed:
	default:
		t.Error("the file is open after the answer")
	}
	if _, err := ask(c, message(opWrite, 0, 0, 0, "x")); err == nil {
		t.Error("a request after close was answered")
	}
}

// TestRepliesOfFaultyDevices has the device's own faults become EIO.
func TestRepliesOfFaultyDevices(t *testing.T) {
	for name, r := range map[string]Reply{
		"too much data":                  {To: 1, Data: make([]byte, MaxData+1)},
		"no room for the descriptor":     {To: 1, Data: make([]byte, 3), FD: os.Stdin},
		"the descriptor past the data":   {To: 1, Data: make([]byte, 8), FD: os.Stdin, FDAt: 5},
		"the descriptor before the data": {To: 1, Data: make([]byte, 8), FD: os.Stdin, FDAt: -1},
	} {
		if r.FD != nil {
			fd, err := unix.Dup(0)
			if err != nil {
				t.Fatal(err)
			}
			r.FD = os.NewFile(uintptr(fd), "stdin")
		}
		c := dial(t, fixed{reply: r, closed: make(chan struct{}, 1)})
		if errno, err := ask(c, hello); err != nil || errno != 0 {
			t.Fatalf("%s: %v, %v", name, errno, err)
		}
		if errno, err := ask(c, message(opWrite, 0, 0, 0, "x")); err != nil || errno != syscall.EIO {
			t.Errorf("%s: %v, %v, expected EIO", name, errno, err)
		}
	}
}

// FuzzRequests sends what programs might: the server answers or ends the connection.
func FuzzRequests(f *testing.F) {
	f.Add(message(opWrite, 0, 0, 0, "x"))
	f.Add(message(opMapped, 1<<63, 1<<63, 0, ""))
	f.Add(message(opMmap, 1<<63, 1<<30, 1, ""))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, m []byte) {
		var r request
		if err := r.decode(m); err == nil && len(r.data) != len(m)-requestSize {
			t.Errorf("%d bytes have %d of data", len(m), len(r.data))
		}
		if len(m) == 0 || len(m) > requestSize+MaxWrite {
			return // an empty packet is an end; longer ones TestConnections sends
		}
		closed := make(chan struct{}, 1)
		c := dial(t, fixed{closed: closed})
		if errno, err := ask(c, hello); err != nil || errno != 0 {
			t.Fatalf("%v, %v", errno, err)
		}
		_, _ = ask(c, m)
		_ = c.Close()
		<-closed
	})
}

// TestMemoryProcess is a process with memory for TestMemory: two pages, of which the
// second is only to be read, and after them nothing. It prints their address.
func TestMemoryProcess(t *testing.T) {
	if os.Getenv("SLUICE_TEST_MEMORY") == "" {
		t.Skipf("it is TestMemory's child")
	}
	size := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 3*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	copy(b, "hello")
	if err := errors.Join(unix.Mprotect(b[size:2*size], unix.PROT_READ), unix.Mprotect(b[2*size:], unix.PROT_NONE)); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%d\n", uintptr(unsafe.Pointer(&b[0])))
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadByte(); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s\n", b[:5])
	_, _ = in.ReadByte() // until the end
}

// TestMemory reads and writes the memory of another process.
func TestMemory(t *testing.T) {
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryProcess$")
	c.Env = append(os.Environ(), "SLUICE_TEST_MEMORY=1")
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	addr, err := strconv.ParseUint(lines.Text(), 10, 64)
	if err != nil {
		t.Fatalf("%q: %v", lines.Text(), err)
	}
	m, size := &memory{pid: c.Process.Pid}, uint64(os.Getpagesize())
	b := make([]byte, 2*size)
	if err := m.ReadMemory(b, addr); err != nil || string(b[:6]) != "hello\x00" {
		t.Errorf("read %q, %v", b[:6], err)
	}
	for _, test := range []struct {
		name      string
		do        func([]byte, uint64) error
		addr, len uint64
		want      error
	}{
		{"read nothing", m.ReadMemory, 0, 0, nil},
		{"read beyond the end", m.ReadMemory, addr + size, size + 1, unix.EFAULT},
		{"read behind the end", m.ReadMemory, addr + 2*size, 1, unix.EFAULT},
		{"read at 0", m.ReadMemory, 0, 8, unix.EFAULT},
		{"read at the top", m.ReadMemory, 1<<63 - 8, 8, unix.EFAULT},
		{"write what is only to be read", m.WriteMemory, addr + size, 1, unix.EFAULT},
		{"write into what is only to be read", m.WriteMemory, addr + size - 4, 8, unix.EFAULT},
		{"write nothing", m.WriteMemory, 0, 0, nil},
	} {
		if err := test.do(make([]byte, test.len), test.addr); !errors.Is(err, test.want) || (test.want == nil) != (err == nil) {
			t.Errorf("%s: %v, expected %v", test.name, err, test.want)
		}
	}
	if err := m.WriteMemory([]byte("HELLO"), addr); err != nil {
		t.Error(err)
	}
	if n := testing.AllocsPerRun(100, func() { err = errors.Join(m.ReadMemory(b, addr)) }); n != 0 || err != nil {
		t.Errorf("a read allocates %v times, %v", n, err)
	}
	if _, err := in.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if lines.Scan(); lines.Text() != "HELLO" {
		t.Errorf("the process has %q", lines.Text())
	}
	_ = in.Close()
	_ = c.Wait()
	if err := m.ReadMemory(b, addr); !errors.Is(err, unix.ESRCH) {
		t.Errorf("memory of a process that has ended: %v", err)
	}
	m.ended.Store(true)
	if err := m.WriteMemory(b, addr); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("memory of a process that has ended: %v", err)
	}
}

// TestNewPages shares pages and keeps them from those who would shrink them.
func TestNewPages(t *testing.T) {
	f, b, err := NewPages("test", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b[0], b[len(b)-1] = 1, 2
	other, err := unix.Mmap(int(f.Fd()), 0, len(b), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil || !bytes.Equal(b, other) || len(b) != 2*os.Getpagesize() {
		t.Errorf("%d bytes, %v, or they differ", len(b), err)
	}
	if err := f.Truncate(0); !errors.Is(err, unix.EPERM) {
		t.Errorf("truncate: %v, expected EPERM", err)
	}
	if err := errors.Join(unix.Munmap(b), unix.Munmap(other)); err != nil {
		t.Error(err)
	}
}
