//go:build linux

package guest

import (
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/verbs"
)

// Pieces are moved in order, more than a call takes, without an allocation; one that is
// not mapped fails them.
func TestPieces(t *testing.T) {
	m := &memory{pid: os.Getpid()}
	from, err := unix.Mmap(-1, 0, 3*piecesAtOnce, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(from) }()
	to := make([]byte, len(from))
	var pieces []verbs.MemoryPiece
	for i := range from {
		from[i] = byte(i)
		at := len(from) - 1 - i
		pieces = append(pieces, verbs.MemoryPiece{Addr: uint64(uintptr(unsafe.Pointer(&from[at]))), Data: to[i : i+1]})
	}
	err = m.ReadPieces(pieces)
	if n := testing.AllocsPerRun(10, func() { err = errors.Join(err, m.ReadPieces(pieces)) }); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
	for i := range to {
		if to[i] != byte(len(from)-1-i) {
			t.Fatalf("byte %d is %d", i, to[i])
		}
		to[i]++
	}
	if err := m.WritePieces(pieces); err != nil || from[7] != 8 {
		t.Errorf("written: %v, %v", from[7], err)
	}
	for _, last := range []int{0, 100} {
		pieces[last].Addr = 8
		if err := m.ReadPieces(pieces); !errors.Is(err, unix.EFAULT) {
			t.Errorf("piece %d at 8: %v", last, err)
		}
	}
	m.ended.Store(true)
	if err := m.ReadPieces(pieces); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a process that has ended: %v", err)
	}
}
