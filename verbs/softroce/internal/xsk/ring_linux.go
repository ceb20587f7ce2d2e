package xsk

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is a queue in memory that is shared with the kernel: one side produces, the
// other consumes. The indexes run freely, modulo 2^32; the number of entries is a power
// of two.
type ring[T uint64 | unix.XDPDesc] struct {
	producer, consumer *uint32
	flags              *uint32
	entries            []T
	mem                []byte
	next               uint32 // our own index: of what was not published yet
}

// newRing describes the ring that lies in mem.
func newRing[T uint64 | unix.XDPDesc](mem []byte, at unix.XDPRingOffset, entries int) ring[T] {
	return ring[T]{
		producer: (*uint32)(unsafe.Pointer(&mem[at.Producer])),
		consumer: (*uint32)(unsafe.Pointer(&mem[at.Consumer])),
		flags:    (*uint32)(unsafe.Pointer(&mem[at.Flags])),
		entries:  unsafe.Slice((*T)(unsafe.Pointer(&mem[at.Desc])), entries),
		mem:      mem,
	}
}

// entry returns the k-th entry from our index on.
func (r *ring[T]) entry(k int) *T { return &r.entries[(r.next+uint32(k))&uint32(len(r.entries)-1)] }

// ready is how many entries the kernel has produced that we have not consumed.
func (r *ring[T]) ready() int { return int(atomic.LoadUint32(r.producer) - r.next) }

// release gives the kernel n entries back.
func (r *ring[T]) release(n int) {
	r.next += uint32(n)
	atomic.StoreUint32(r.consumer, r.next)
}

// put writes an entry for the kernel, which sees it when it is published. There must be
// room: the users of a ring have no more entries than fit it.
func (r *ring[T]) put(v T) {
	*r.entry(0) = v
	r.next++
}

func (r *ring[T]) publish() { atomic.StoreUint32(r.producer, r.next) }

// taken is how many entries the kernel has consumed so far, modulo 2^32.
func (r *ring[T]) taken() uint32 { return atomic.LoadUint32(r.consumer) }

// sleeps reports whether the kernel wants a system call to go on.
func (r *ring[T]) sleeps() bool { return atomic.LoadUint32(r.flags)&unix.XDP_RING_NEED_WAKEUP != 0 }
