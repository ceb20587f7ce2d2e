package paced

import (
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/sluice-rdma/sluice/internal/cacheline"
)

// A queue pair takes 1,792 bytes, Go's header of 8 included. With the next size class,
// 2,048, the same fields of all queue pairs share few sets of a processor's cache, which
// costs a thousand queue pairs half as many cache misses again.
func TestQPFitsItsSizeClass(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skipf("sizes are those of 64 bits, and this is %d", strconv.IntSize)
	}
	const class = 1792
	at := make([]uintptr, 64)
	keep := make([]*QP, len(at))
	for i := range at {
		keep[i] = new(QP)
		at[i] = uintptr(unsafe.Pointer(keep[i]))
	}
	slices.Sort(at)
	least := at[1] - at[0]
	for i := range at[1:] {
		least = min(least, at[i+1]-at[i])
	}
	if least > class {
		t.Errorf("queue pairs are %d bytes apart, expected %d at most: a QP has %d and Go may add 8", least, class, unsafe.Sizeof(QP{}))
	}
	runtime.KeepAlive(keep)
}

// Threads that poll different CQs share no cache line of these.
func TestCQIsWholeCacheLines(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skipf("sizes are those of 64 bits, and this is %d", strconv.IntSize)
	}
	if n := unsafe.Sizeof(CQ{}); n != cqSize {
		t.Errorf("a CQ has %d bytes, expected %d: adapt its padding", n, cqSize)
	}
}

// What a segment touches of a queue pair, where its engine paces it: the bucket of its
// round trip in the histogram comes on top, and what the engine, the scheduler and the
// requests have. The aim is 4 lines (docs/shim.md).
func TestASegmentTouchesFewLines(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skipf("sizes are those of 64 bits, and this is %d", strconv.IntSize)
	}
	const header = 8 // Go's, of an object of more than 512 bytes with pointers
	lines := map[uintptr]bool{}
	for path := range strings.FieldsSeq(`shard inner sends cq watch drain tells
		core.core core.wrid core.flow core.state core.filed core.hold core.sigAll core.heldFrom core.unsent core.depth core.firstClaim core.lastClaim
		core.at core.requests core.sgl core.sges core.rdMax core.limit core.largest core.loop.lastAck core.loop.bypass core.loop.sampled core.member core.size core.recent
		core.table.messages core.table.first core.table.last core.table.free core.table.used core.table.unfinished core.table.freed core.table.max
		core.table.segments core.table.mask core.table.segHead core.table.segTail core.table.depth core.table.reads core.table.outstanding
		core.table.acked core.table.sent core.table.finished core.table.aborted
		core.loop.driver.engine core.loop.driver.control core.loop.driver.rate core.loop.driver.line core.loop.driver.unit core.loop.driver.baseRTT core.loop.driver.gap
		core.loop.driver.span core.loop.driver.app core.loop.driver.scaler core.loop.driver.shut core.loop.driver.everShut
		tally.segments tally.segmentBytes tally.rtt.Sum tally.rtt.rest`) {
		at, of := uintptr(header), reflect.TypeFor[QP]()
		for name := range strings.SplitSeq(path, ".") {
			f, ok := of.FieldByName(name)
			if !ok {
				t.Fatalf("a QP has no %s: adapt the list", path)
			}
			at, of = at+f.Offset, f.Type
		}
		for line := at / cacheline.Size; line <= (at+of.Size()-1)/cacheline.Size; line++ {
			lines[line] = true
		}
	}
	if len(lines) > 11 {
		t.Errorf("a segment touches %d lines of a queue pair, 11 until now", len(lines))
	}
}
