package ccore

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/ctest"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// calls of testdata/completions.c.
const (
	tableAdd = iota
	tablePost
	tableUnpost
	tableComplete
	queueFinish
	queuePop
	tableFail
	tableAbort
	tableReset
	queueDrop
	tableCounts
	tableSetBack
)

var completionsCalls = []string{"add", "post", "unpost", "complete", "finish", "pop", "fail", "abort", "reset", "drop", "counts", "set back"}

func wcDigest(wc *verbs.WC) int64 {
	d := uint64(0)
	for _, v := range []uint64{wc.WRID, uint64(wc.Status), uint64(wc.Opcode), uint64(wc.ByteLen), uint64(wc.QPN), uint64(wc.VendorErr), wc.Timestamp} {
		d = (d ^ v) * 0x100000001b3
	}
	return int64(d)
}

// C's table and queue, in memory of their caller's, give every request the completion
// that Go's do, over 4*10^6 calls: requests in several segments, refused posts,
// failures, aborts, resets, and completions that nobody polls.
func TestTheCompletionTableIsGoBitForBit(t *testing.T) {
	n := 4_000_000
	if testing.Short() {
		n = 200_000
		t.Logf("%d calls, not 4000000: -short", n)
	}
	program := filepath.Join(t.TempDir(), "completions")
	ctest.Compile(t, "-O2", "-Isrc", "-o", program, "testdata/completions.c", core(t, "-O2"))
	c := converse(t, program, completionsCalls)
	rng := rand.New(rand.NewPCG(23, 0))
	type open struct {
		slots []int // added and not posted in whole, the first perhaps in part
		seqs  []uint32
	}
	var q completions.Queue
	var tables [2]*completions.Table
	var opens [2]open
	for i := range tables {
		tables[i] = completions.NewTable(uint32(100+i), 60, 29)
	}
	q.Reserve(128)
	finished := 0
	for c.total+len(c.calls) < n {
		i := rng.IntN(2)
		tb, o := tables[i], &opens[i]
		id := int64(i)
		switch what := rng.IntN(100); {
		case what < 20:
			m := completions.Message{WRID: rng.Uint64(), Opcode: []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead, ib.WRSend, ib.WRAtomicFetchAndAdd}[rng.IntN(4)], Signaled: rng.IntN(3) > 0}
			slot, ok := tb.Add(m)
			c.call(t, tableAdd, id, int64(m.WRID), int64(m.Opcode)<<1|number(m.Signaled), int64(slot), number(ok))
			if ok && !tb.Aborted() {
				o.slots = append(o.slots, slot)
			}
		case what < 45:
			if len(o.slots) == 0 || tb.InFlight() >= 29 || tb.Aborted() {
				continue
			}
			last := rng.IntN(3) > 0
			at := units.Time(rng.Int64N(1<<40))&^1 | units.Time(number(last))
			size := units.Bytes(rng.Int64N(1 << 16))
			slot := o.slots[0]
			seq := tb.Post(slot, size, last, at)
			c.call(t, tablePost, int64(slot)<<1|id, int64(size), int64(at), int64(seq))
			o.seqs = append(o.seqs, seq)
			if last {
				o.slots = o.slots[1:]
			} else if rng.IntN(50) == 0 {
				tb.Unpost(1)
				c.call(t, tableUnpost, id, 1, 0)
				o.seqs = o.seqs[:len(o.seqs)-1]
			}
		case what < 65:
			seq := uint32(rng.Uint64())
			if len(o.seqs) > 0 && rng.IntN(100) > 0 {
				k := rng.IntN(min(len(o.seqs), 3))
				seq = o.seqs[k]
				o.seqs = o.seqs[k+1:]
			}
			status := int64(0)
			if rng.IntN(200) == 0 {
				status = int64(ib.WCRemAccessErr)
			}
			status |= rng.Int64N(1<<40) << 8
			wc := verbs.WC{Status: ib.WCStatus(status & 0xff), VendorErr: uint32(status >> 8), Timestamp: uint64(status)}
			var out completions.Segment
			if tb.Complete(seq, &wc, &out) {
				c.call(t, tableComplete, id, int64(seq), status, int64(out.Bytes)^int64(out.Acked)<<1^int64(out.Sent)<<2, int64(out.PostedAt)+1)
			} else {
				c.call(t, tableComplete, id, int64(seq), status)
			}
		case what < 80:
			if q.Len() >= 120 {
				continue
			}
			if wc := q.Push(tb); wc != nil {
				finished++
				c.call(t, queueFinish, id, 0, 0, wcDigest(wc), 1)
			} else {
				c.call(t, queueFinish, id, 0, 0)
			}
		case what < 90:
			var wc [8]verbs.WC
			k := q.Pop(wc[:rng.IntN(9)])
			d := int64(0)
			for i := range wc[:k] {
				d = d*31 + wcDigest(&wc[i])
			}
			want := k
			if k == 0 {
				continue
			}
			c.call(t, queuePop, 0, int64(want), 0, int64(k), d)
		case what < 97:
			all, failed := tb.Finished()
			a := int64(tb.Room()) + 100*int64(tb.InFlight()) + 10000*int64(tb.Reads()) + 1000000*int64(tb.Unfinished()) + 100000000*int64(q.Len())
			c.call(t, tableCounts, id, 0, 0, a, int64(tb.Outstanding())^int64(all<<32)^int64(failed))
		case what == 97 && rng.IntN(100) == 0 && len(o.slots) > 0:
			tb.Fail(o.slots[0], ib.WCLocProtErr)
			c.call(t, tableFail, int64(o.slots[0])<<1|id, int64(ib.WCLocProtErr), 0)
		case what == 98 && rng.IntN(100) == 0:
			tb.Abort()
			c.call(t, tableAbort, id, 0, 0)
		case what == 98 && rng.IntN(20) == 0:
			by := units.Time(rng.Int64N(1 << 41))
			tb.SetBack(by)
			c.call(t, tableSetBack, id, int64(by), 0)
		case what == 99 && (tb.Aborted() || rng.IntN(500) == 0):
			if rng.IntN(2) == 0 {
				q.Drop(tb)
				c.call(t, queueDrop, id, 0, 0)
			}
			tb.Reset()
			c.call(t, tableReset, id, 0, 0)
			*o = open{}
		}
	}
	c.flush(t)
	if finished < n/100 {
		t.Errorf("%d requests finished in %d calls", finished, n)
	}
}
