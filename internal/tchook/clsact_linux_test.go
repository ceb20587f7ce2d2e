package tchook

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const victim = "TCHOOK_TEST_VICTIM"

// answer returns a program whose answer to each packet is v.
func answer(t *testing.T, v int32) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, v), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What a program does to packets ends with its process, also where that is killed and
// leaves its filters.
func TestFiltersOfTheKilledDoNothing(t *testing.T) {
	if os.Getenv(victim) != "" {
		const shot = 2 // TC_ACT_SHOT
		if _, err := AttachClsact(1, Programs{Name: Prefix + "test", Leaving: answer(t, shot), Arriving: answer(t, -1)}); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("attached\n")
		select {}
	}
	runtime.LockOSThread() // and end it: the thread stays in the namespace
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("a network namespace of the test's own needs root: %v", err)
	}
	lo, err := netlink.LinkByIndex(1)
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	send := sender(t)
	if err := send(); err != nil {
		t.Fatal(err)
	}

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestFiltersOfTheKilledDoNothing$")
	cmd.Env = append(os.Environ(), victim+"=yes")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said [256]byte
	if n, _ := out.Read(said[:]); !strings.HasPrefix(string(said[:n]), "attached") {
		_ = cmd.Process.Kill()
		t.Fatalf("the victim said %q", said[:n])
	}
	if err := send(); !errors.Is(err, unix.ENOBUFS) {
		t.Errorf("while the program that drops everything is attached: %v, want %v", err, unix.ENOBUFS)
	}
	if left, err := Abandoned(1); err != nil || len(left) != 0 {
		t.Errorf("abandoned while their process lives: %v, %v", left, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	// The kernel empties the map from a queue of its own.
	for end := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
		if err = send(); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after its process was killed: %v", err)
		}
	}
	left, err := Abandoned(1)
	if err != nil || len(left) != 2 || !strings.HasPrefix(left[0], "dev lo ") {
		t.Errorf("abandoned: %q, %v", left, err)
	}
	at, err := AttachClsact(1, Programs{Name: Prefix + "test", Leaving: answer(t, -1), Arriving: answer(t, -1)})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := Abandoned(1); err != nil || len(left) != 0 {
		t.Errorf("abandoned after the next one came: %v, %v", left, err)
	}
	if err := at.Detach(); err != nil {
		t.Error(err)
	}
}

// sender returns a function that sends a datagram over the loopback and says whether an
// egress program has dropped it.
func sender(t *testing.T) func() error {
	t.Helper()
	to, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	// With it, sendto says that the packet went nowhere.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1); err != nil {
		t.Fatal(err)
	}
	at := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: to.LocalAddr().(*net.UDPAddr).Port}
	return func() error { return unix.Sendto(fd, []byte("x"), 0, at) }
}
