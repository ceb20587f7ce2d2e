package bpfring

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ring is the reader's side of a BPF ring buffer (Documentation/bpf/ringbuf.rst of
// the kernel): a page with the consumer's position, a page with the producers', and
// the records, mapped twice so that none is split at the end. Reading it allocates
// nothing. One goroutine at a time may use it.
type Ring struct {
	consumer, producer *atomic.Uint64
	data               []byte // twice the ring
	mask               uint64
	control, rest      []byte // as mapped
}

// Of the length in a record's header.
const (
	recordBusy    = 1 << 31 // not written yet
	recordDiscard = 1 << 30
	recordHeader  = 8
)

// New maps the ring buffer fd of size bytes.
func New(fd, size int) (*Ring, error) {
	page := os.Getpagesize()
	control, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	rest, err := unix.Mmap(fd, int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Munmap(control)
		return nil, os.NewSyscallError("mmap", err)
	}
	return &Ring{
		consumer: (*atomic.Uint64)(unsafe.Pointer(&control[0])),
		producer: (*atomic.Uint64)(unsafe.Pointer(&rest[0])),
		data:     rest[page:], mask: uint64(size) - 1, control: control, rest: rest,
	}, nil
}

// Close unmaps the ring, which must not be used afterwards.
func (r *Ring) Close() error {
	err := unix.Munmap(r.rest)
	if e := unix.Munmap(r.control); err == nil {
		err = e
	}
	return os.NewSyscallError("munmap", err)
}

// Take hands over the records that are there, each until the next, and gives their
// place back to the kernel. What is not written yet, and what is behind it, is left
// for the next time.
func (r *Ring) Take(each func(record []byte)) {
	pos, end := r.consumer.Load(), r.producer.Load()
	for pos < end {
		at := pos & r.mask
		length := (*atomic.Uint32)(unsafe.Pointer(&r.data[at])).Load()
		if length&recordBusy != 0 {
			break
		}
		n := uint64(length &^ (recordBusy | recordDiscard))
		if length&recordDiscard == 0 {
			at += recordHeader
			each(r.data[at : at+n : at+n])
		}
		pos += (n + recordHeader + 7) &^ 7
		r.consumer.Store(pos)
	}
}
