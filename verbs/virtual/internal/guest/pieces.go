//go:build linux

package guest

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/verbs"
)

// piecesAtOnce is the number of pieces a system call moves.
const piecesAtOnce = 64

var _ verbs.VectorMemory = (*memory)(nil)

func (m *memory) ReadPieces(pieces []verbs.MemoryPiece) error {
	return m.transferPieces(unix.SYS_PROCESS_VM_READV, pieces)
}

func (m *memory) WritePieces(pieces []verbs.MemoryPiece) error {
	return m.transferPieces(unix.SYS_PROCESS_VM_WRITEV, pieces)
}

func (m *memory) transferPieces(call uintptr, pieces []verbs.MemoryPiece) error {
	var local [piecesAtOnce]unix.Iovec
	var remote [piecesAtOnce]unix.RemoteIovec
	for len(pieces) > 0 {
		k, total := 0, 0
		for k < min(len(pieces), piecesAtOnce) {
			p := &pieces[k]
			local[k].Base = unsafe.SliceData(p.Data)
			local[k].SetLen(len(p.Data))
			remote[k] = unix.RemoteIovec{Base: uintptr(p.Addr), Len: len(p.Data)}
			total += len(p.Data)
			k++
		}
		if m.ended.Load() {
			return m.fail(call, total, pieces[0].Addr, os.ErrProcessDone)
		}
		n, _, errno := unix.Syscall6(call, uintptr(m.pid), uintptr(unsafe.Pointer(&local)), uintptr(k), uintptr(unsafe.Pointer(&remote)), uintptr(k), 0)
		switch {
		case errno != 0:
			return m.fail(call, total, pieces[0].Addr, errno)
		case int(n) < total: // a piece is not mapped
			return m.fail(call, total, pieces[0].Addr, unix.EFAULT)
		}
		pieces = pieces[k:]
	}
	return nil
}
