package turns

import (
	"encoding/binary"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A thread's first message may come later than its connection, and signals in between, such as
// those by which Go's scheduler interrupts a thread.
func TestLateHello(t *testing.T) {
	l, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(l)
	at := &unix.SockaddrUnix{Name: filepath.Join(t.TempDir(), "s")}
	if err := unix.Bind(l, at); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(l, 1); err != nil {
		t.Fatal(err)
	}
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(c)
	if err := unix.Connect(c, at); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, tid := unix.Getpid(), unix.Gettid()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		for range 1000 { // most of them while the scheduler waits for the message
			_ = unix.Tgkill(pid, tid, unix.SIGURG)
			runtime.Gosched()
		}
		hello := make([]byte, requestSize)
		binary.NativeEndian.PutUint32(hello, uint32(opHello))
		binary.NativeEndian.PutUint64(hello[24:], version)
		binary.NativeEndian.PutUint64(hello[32:], 77)
		if _, err := unix.Write(c, hello); err != nil {
			t.Error(err)
		}
	})
	s := &scheduler{listener: l, in: make([]byte, requestSize), unclaimed: map[int]int{}}
	s.accept()
	conn, ok := s.unclaimed[77]
	if !ok {
		t.Fatal("the connection was closed")
	}
	if err := unix.Close(conn); err != nil {
		t.Error(err)
	}
}
