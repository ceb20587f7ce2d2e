//go:build linux

package guest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/sysfs"
)

// node is the device file that testdata/client.c opens.
type node struct {
	p      *Process
	events *os.File // rdma_cm's
	soon   bool     // an event comes when somebody waits
	page   []byte
	clock  []byte
	addr   uint64 // of page, in the program
	faults atomic.Int64
	closed chan<- int
}

func (n *node) Write(cmd []byte) Reply {
	if len(cmd) < 8 {
		return Reply{Errno: syscall.EINVAL}
	}
	to, text := binary.NativeEndian.Uint64(cmd), cmd[8:]
	out := Reply{To: to, Data: slices.Clone(text)}
	slices.Reverse(out.Data)
	fails := func(failed bool) Reply {
		if failed {
			out.Errno = syscall.EPROTO
		}
		return out
	}
	word, _, _ := strings.Cut(string(text), "\x00")
	switch word {
	case "EBUSY":
		return Reply{Errno: syscall.EBUSY}
	case "descriptor":
		r, w, err := os.Pipe()
		if err != nil {
			return Reply{Errno: syscall.EMFILE}
		}
		_, err = w.WriteString("!")
		return Reply{To: to, Data: make([]byte, 4), FD: r, Errno: errno(err, w.Close())}
	case "add":
		*firstWord(n.page)++
	case "protect":
		return fails(n.protect() != nil)
	case "faults 20":
		return fails(n.faults.Load() != 20)
	case "trapped", "untrapped":
		return fails(Untrapped(n.clock[os.Getpagesize():]) != (word == "untrapped"))
	case "raise soon":
		n.soon = true
	case "event":
		return n.event(to)
	}
	return out
}

func errno(errs ...error) syscall.Errno {
	for _, err := range errs {
		if err != nil {
			return syscall.EIO
		}
	}
	return 0
}

func (n *node) protect() error {
	if n.p.Watch == nil {
		return unix.ENOSYS
	}
	size := uint64(os.Getpagesize())
	if err := n.p.Watch.Protect(n.addr, size); err != nil {
		return err
	}
	go func() {
		addr, err := n.p.Watch.Fault()
		if err != nil {
			return
		}
		if addr&^(size-1) == n.addr {
			n.faults.Add(1)
		}
		_ = n.p.Watch.Release(n.addr, size)
	}()
	return nil
}

func (n *node) event(to uint64) Reply {
	fds := []unix.PollFd{{Fd: int32(n.events.Fd()), Events: unix.POLLIN}}
	if ready, err := unix.Poll(fds, 0); err != nil || ready == 0 {
		if n.soon {
			if _, err := n.events.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
				return Reply{Errno: syscall.EIO}
			}
		}
		return Reply{Errno: syscall.EAGAIN}
	}
	_, err := n.events.Read(make([]byte, 8))
	return Reply{Errno: errno(err), To: to, Data: []byte("event!\x00")}
}

func (n *node) Ioctl(request, arg uint64) Reply {
	if request != 1 {
		return Reply{Errno: syscall.ENOTTY}
	}
	var b [8]byte
	if n.p.Memory.ReadMemory(b[:], arg) != nil {
		return Reply{Errno: syscall.EFAULT}
	}
	binary.NativeEndian.PutUint64(b[:], binary.NativeEndian.Uint64(b[:])+1)
	if n.p.Memory.WriteMemory(b[:], arg) != nil {
		return Reply{Errno: syscall.EFAULT}
	}
	return Reply{Value: 7}
}

func (n *node) Mmap(offset uint64, length int, _ bool) MapReply {
	if length != os.Getpagesize() {
		return MapReply{Errno: syscall.EINVAL}
	}
	switch offset / uint64(os.Getpagesize()) {
	case 0:
		f, b, err := NewPages("page", 1)
		n.page = b
		return MapReply{Errno: errno(err), FD: f, Watch: true}
	case 1:
		f, b, err := NewPages("clock", 2)
		if err != nil {
			return MapReply{Errno: syscall.ENOMEM}
		}
		n.clock = b
		c := ClockPage{At: 8, Mult: 3 << 20, Shift: 20}
		c.Set(b[os.Getpagesize():])
		return MapReply{FD: f, Clock: true, Cookie: 1}
	}
	return MapReply{Errno: syscall.EINVAL}
}

func (n *node) Mapped(cookie, addr uint64) {
	if cookie == 0 {
		n.addr = addr
	}
}

func (n *node) Close() { n.closed <- n.p.PID }

// TestMain removes what build made.
func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

var built struct {
	sync.Once
	dir, library, program string
	skip                  string
	err                   error
}

// build compiles the library and the program, once.
func build(t *testing.T) (library, program string) {
	t.Helper()
	built.Do(func() { built.err = compile() })
	switch {
	case built.skip != "":
		t.Skipf("%s", built.skip)
	case built.err != nil:
		t.Fatal(built.err)
	}
	return built.library, built.program
}

func compile() error {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		built.skip = fmt.Sprintf("no C compiler: %v", err)
		return nil
	}
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		return err
	}
	built.dir, built.library, built.program = dir, filepath.Join(dir, "libsluice-virtual.so"), filepath.Join(dir, "client")
	sources, err := filepath.Glob("../../preload/*.c")
	if err != nil {
		return err
	}
	flags := []string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"}
	for _, args := range [][]string{
		append([]string{"-fPIC", "-shared", "-fvisibility=hidden", "-Wl,--version-script=../../preload/virtual.map", "-o", built.library}, sources...),
		{"-o", built.program, "testdata/client.c", "-lpthread"},
	} {
		if out, err := exec.Command(cc, append(flags, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %q: %w\n%s", cc, args, err, out)
		}
	}
	return nil
}

// world is a directory with a server of nodes.
type world struct {
	dir    string
	server *Server
	closed chan int // the process of each node that was closed
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice") // t.TempDir's may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{dir: dir, closed: make(chan int, 10000)}
	err = sysfs.Write(dir, []sysfs.Device{{
		Name: "mlx5_0", Node: "uverbs0", PCI: "0000:c1:00.0", PartID: 0x101d, Firmware: "22.36.1010",
		NodeGUID: 0xec0d9a03007d7d1b, Rate: 100 * units.Gbps, Active: true,
		GIDs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, GIDTable: 4,
	}}, true)
	if err != nil {
		t.Fatal(err)
	}
	w.server, err = Listen(filepath.Join(dir, "socket"), func(p *Process, name string) (File, *os.File, syscall.Errno) {
		n := &node{p: p, closed: w.closed}
		switch name {
		case "uverbs0":
			return n, nil, 0
		case "rdma_cm":
			fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_SEMAPHORE)
			if err != nil {
				return nil, nil, syscall.EMFILE
			}
			n.events = os.NewFile(uintptr(fd), "events")
			programs, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			return n, os.NewFile(uintptr(programs), "events"), errno(err)
		}
		return nil, nil, syscall.ENOENT
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.server.Close() })
	return w
}

func (w *world) command(library string, args ...string) *exec.Cmd {
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(os.Environ(), "LD_PRELOAD="+library, "SLUICE_VIRTUAL="+w.dir)
	return c
}

// watches skips where the kernel refuses userfaultfd.
func watches(t *testing.T) {
	t.Helper()
	fd, _, err := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1 /* UFFD_USER_MODE_ONLY */, 0, 0)
	if err != 0 {
		t.Skipf("the kernel refuses userfaultfd: %v", err)
	}
	_ = unix.Close(int(fd))
}

// TestLibrary has a C program use the device through the library.
func TestLibrary(t *testing.T) {
	library, program := build(t)
	for _, check := range []string{"paths", "write", "ioctl", "mmap", "patched", "watch", "clock", "untrapped", "segv", "fork", "dup", "threads", "events", "netlink"} {
		t.Run(check, func(t *testing.T) {
			if check == "watch" {
				watches(t)
			}
			if out, err := newWorld(t).command(library, program, check).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestProgramsOfOthers has programs that know nothing of it read the tree, and checks
// that one without the variable sees the machine's.
func TestProgramsOfOthers(t *testing.T) {
	library, _ := build(t)
	w := newWorld(t)
	run := func(c *exec.Cmd) string {
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", c.Args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"ls", "/sys/class/infiniband"}, "mlx5_0"},
		{[]string{"sh", "-c", "ls -l /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types | wc -l"}, "2"},
		{[]string{"cat", "/sys/class/infiniband/mlx5_0/ports/1/state"}, "4: ACTIVE"},
		{[]string{"readlink", "-f", "/sys/class/infiniband/mlx5_0"}, "/sys/devices/pci0000:c1/0000:c1:00.0/infiniband/mlx5_0"},
		{[]string{"sh", "-c", "cd /sys/class/infiniband/mlx5_0 && cat ports/1/link_layer"}, "Ethernet"},
		{[]string{"sh", "-c", "echo /dev/infiniband/*"}, "/dev/infiniband/rdma_cm /dev/infiniband/uverbs0"},
	} {
		if got := run(w.command(library, test.args...)); got != test.want {
			t.Errorf("%q printed %q, expected %q", test.args, got, test.want)
		}
	}
	c := w.command(library, "sh", "-c", "test ! -e /sys/devices/pci0000:c1/0000:c1:00.0/infiniband && echo absent")
	c.Env = append(os.Environ(), "LD_PRELOAD="+library)
	if got := run(c); got != "absent" {
		t.Errorf("without SLUICE_VIRTUAL: %q, expected the machine's own sysfs", got)
	}
}

// TestServerEnds closes the server while a program uses it: the program's calls fail,
// and a store that nobody would release goes on.
func TestServerEnds(t *testing.T) {
	watches(t)
	library, program := build(t)
	w := newWorld(t)
	c := w.command(library, program, "gone")
	var errors bytes.Buffer
	c.Stderr = &errors
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := c.Start(); err != nil || err1 != nil || err2 != nil {
		t.Fatal(err, err1, err2)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if err := w.server.Close(); err != nil {
		t.Error(err)
	}
	if _, err := in.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &errors)
	}
}

// TestProgramEnds has programs end in ways that say nothing to the server: each node is
// closed, and the process's memory is out of reach.
func TestProgramEnds(t *testing.T) {
	library, program := build(t)
	for _, how := range []string{"killed", "ended"} {
		t.Run(how, func(t *testing.T) {
			if how == "killed" {
				watches(t)
			}
			w := newWorld(t)
			c := w.command(library, program, how)
			in, err := c.StdinPipe() // a child that "ended" leaves waits on it
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if pid := <-w.closed; pid != c.Process.Pid {
				t.Errorf("a node of process %d was closed, expected %d", pid, c.Process.Pid)
			}
			_ = in.Close()
			if err := c.Wait(); (how == "killed") != (err != nil) {
				t.Error(err)
			}
		})
	}
}

// TestClockPage reads the counter's words while they change: a reader that follows the
// sequence number sees none that are of two writes.
func TestClockPage(t *testing.T) {
	page := make([]byte, os.Getpagesize())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := uint64(1); i <= 100000; i++ {
			(&ClockPage{At: 8, Raw: i, Ticks: i, Mult: i, Shift: 1}).Set(page)
		}
	}()
	word := func(i int) uint64 { return atomic.LoadUint64(firstWord(page[8*i:])) }
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		seq := word(0)
		raw, ticks, mult := word(2), word(3), word(4)
		if seq&1 == 0 && seq == word(0) && (raw != ticks || ticks != mult || seq != 2*raw) {
			t.Fatalf("sequence %d: %d, %d, %d", seq, raw, ticks, mult)
		}
		runtime.Gosched()
	}
	if got := fmt.Sprint(word(0), word(1), word(5)); got != "200000 8 1" {
		t.Errorf("sequence, place and shift: %s, expected 200000 8 1", got)
	}
}

// TestLibraryForArm64 compiles the library for the other processor that it is for.
func TestLibraryForArm64(t *testing.T) {
	const cc = "aarch64-linux-gnu-gcc"
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("no cross compiler: %v", err)
	}
	sources, err := filepath.Glob("../../preload/*.c")
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	args := []string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-Wl,--version-script=../../preload/virtual.map", "-o", filepath.Join(t.TempDir(), "library.so")}
	if out, err := exec.CommandContext(t.Context(), cc, append(args, sources...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
