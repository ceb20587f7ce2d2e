//go:build linux

package guest

import (
	"sync/atomic"
	"unsafe"
)

// ClockPage describes, in the page after a mapping whose MapReply set Clock, the counter
// that programs read there: in the process that maps it, a load from the mapping has
//
//	Ticks + (CLOCK_MONOTONIC_RAW - Raw) * Mult >> Shift
//
// as a big-endian 64-bit word at At, and 0 in all other bytes.
type ClockPage struct {
	At    uint32 // bytes from the beginning of the mapping
	Raw   uint64 // CLOCK_MONOTONIC_RAW in ns at which the counter was Ticks
	Ticks uint64
	Mult  uint64 // ticks a nanosecond, times 1<<Shift
	Shift uint32 // at most 63
}

// Set describes another counter from now on, in page, which programs may read meanwhile.
// There is one writer.
func (c *ClockPage) Set(page []byte) {
	w := func(i int) *uint64 { return (*uint64)(unsafe.Pointer(&page[8*i])) }
	seq := atomic.AddUint64(w(0), 1) // odd while it is written
	atomic.StoreUint64(w(1), uint64(c.At))
	atomic.StoreUint64(w(2), c.Raw)
	atomic.StoreUint64(w(3), c.Ticks)
	atomic.StoreUint64(w(4), c.Mult)
	atomic.StoreUint64(w(5), uint64(c.Shift))
	atomic.StoreUint64(w(0), seq+1)
}

// Untrapped reports whether the process reads the mapping by instructions that its
// library does not know, or on a processor that it does not know. It then reads what
// stands there: keep the counter there current.
func Untrapped(page []byte) bool {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&page[8*6]))) != 0
}
