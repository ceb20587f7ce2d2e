package mlx5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// Completions of each kind.
func TestPoll(t *testing.T) {
	const qpn = 0x012345
	for _, size := range []int{64, 128} {
		cq := newCQ(t, new(Table), 1, 16, size)
		q := newQP(t, qpn, ib.RC, cq, cq, nil)
		ud := newQP(t, qpn+1, ib.UD, cq, cq, nil)
		for i := range 4 {
			if err := q.PutSend(&verbs.SendWR{WRID: uint64(100 + i), Opcode: ib.WRSend}, nil); err != nil {
				t.Fatal(err)
			}
			for _, q := range []*qpMemory{q, ud} {
				if _, err := q.PostRecv([]verbs.RecvWR{{WRID: uint64(200 + i)}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		q.RingSend()
		const grh = 1 << 28
		for _, e := range []entry{
			{kind: connectx.CQEReq, opcode: connectx.OpRead, qpn: qpn, counter: 0, bytes: 77},
			{kind: connectx.CQEReq, opcode: connectx.OpAtomicFA, qpn: qpn, counter: 1},
			{kind: connectx.CQERespSend, qpn: qpn, bytes: 5, rqpn: grh | 9, imm: 8},
			{kind: connectx.CQERespWrImm, qpn: qpn, bytes: 6, imm: 0x01020304},
			{kind: connectx.CQERespSendInv, qpn: qpn, bytes: 7, imm: 0x99},
			{kind: connectx.CQEReqErr, qpn: qpn, counter: 3, syndrome: connectx.Syndrome(ib.WCRemAccessErr)},
			{kind: connectx.CQERespErr, qpn: qpn, syndrome: connectx.Syndrome(ib.WCWRFlushErr)},
			{kind: connectx.CQERespSendImm, qpn: qpn + 1, bytes: 44, imm: 3, rqpn: grh | 0x42},
		} {
			cq.write(t, e)
		}
		want := []verbs.WC{
			{WRID: 100, QPN: qpn, Opcode: ib.WCRDMARead, ByteLen: 77, Timestamp: 1000},
			{WRID: 101, QPN: qpn, Opcode: ib.WCFetchAdd, ByteLen: 8, Timestamp: 1001},
			{WRID: 200, QPN: qpn, Opcode: ib.WCRecv, ByteLen: 5, Timestamp: 1000},
			{WRID: 201, QPN: qpn, Opcode: ib.WCRecvRDMAWithImm, ByteLen: 6, Imm: 0x01020304, Flags: verbs.WCWithImm, Timestamp: 1000},
			{WRID: 202, QPN: qpn, Opcode: ib.WCRecv, ByteLen: 7, Imm: 0x99, Flags: verbs.WCWithInv, Timestamp: 1000},
			{WRID: 103, QPN: qpn, Status: ib.WCRemAccessErr, VendorErr: 0x77},
			{WRID: 203, QPN: qpn, Status: ib.WCWRFlushErr, VendorErr: 0x77},
			{WRID: 200, QPN: qpn + 1, Opcode: ib.WCRecv, ByteLen: 44, Imm: 3, SrcQP: 0x42, Flags: verbs.WCWithImm | verbs.WCGRH, Timestamp: 1000},
		}
		got := make([]verbs.WC, 20)
		n, err := cq.Poll(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got[:n]); diff != "" {
			t.Errorf("CQEs of %d bytes (-want +got):\n%s", size, diff)
		}
		if got := be32(cq.record[connectx.RecordConsumer]); got != uint32(n) {
			t.Errorf("consumer index %d, expected %d", got, n)
		}
		if n, err := cq.Poll(got); n != 0 || err != nil {
			t.Errorf("an empty queue: %d, %v", n, err)
		}
	}
}

// What little comes goes where the WQE says, which may go on at the ring's beginning.
func TestScatter(t *testing.T) {
	const qpn = 7
	for _, size := range []int{64, 128} {
		format := uint8(connectx.Scatter32)
		if size == 128 {
			format = connectx.Scatter64
		}
		cq := newCQ(t, new(Table), 1, 16, size)
		q := newQP(t, qpn, ib.RC, cq, cq, nil)
		buf := make([]byte, 64)
		at := func(i, n int) verbs.SGE {
			return verbs.SGE{Addr: uint64(uintptr(unsafe.Pointer(&buf[i]))), Length: uint32(n)}
		}
		data := []byte("0123456789abcdefghijklmnopqrstuv")[:20]
		var wc [1]verbs.WC
		check := func(what string, status ib.WCStatus, want string) {
			t.Helper()
			if n, err := cq.Poll(wc[:]); n != 1 || err != nil || wc[0].Status != status {
				t.Fatalf("%s: %d, %v, %v; expected %v", what, n, err, wc[0].Status, status)
			}
			if got := string(bytes.TrimRight(buf, "\x00")); got != want {
				t.Errorf("%s: %q, expected %q", what, got, want)
			}
			clear(buf)
		}
		counter := uint16(0)
		for range 20 { // laps
			if err := q.PutSend(&verbs.SendWR{Opcode: ib.WRRDMARead, SGL: []verbs.SGE{at(0, 5), at(8, 5), at(16, 30)}}, nil); err != nil {
				t.Fatal(err)
			}
			q.RingSend()
			cq.write(t, entry{kind: connectx.CQEReq, opcode: connectx.OpRead, qpn: qpn, counter: counter, bytes: 20, format: format, data: data})
			counter += 2
			check("a Read", ib.WCSuccess, "01234\x00\x00\x0056789\x00\x00\x00abcdefghij")
			if n, err := q.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{at(0, 4), at(4, 16)}}}); n != 1 {
				t.Fatal(err)
			}
			cq.write(t, entry{kind: connectx.CQERespSend, qpn: qpn, bytes: 20, format: format, data: data})
			check("a receive", ib.WCSuccess, "0123456789abcdefghij")
			if n, err := q.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{at(0, 4)}}}); n != 1 {
				t.Fatal(err)
			}
			cq.write(t, entry{kind: connectx.CQERespSend, qpn: qpn, bytes: 20, format: format, data: data})
			check("a receive without room", ib.WCLocLenErr, "0123")
		}
	}
}

// CQEs that can't be read are an error each, after those before them.
func TestUnknownCQE(t *testing.T) {
	const qpn = 7
	cq := newCQ(t, new(Table), 1, 16, 64)
	q := newQP(t, qpn, ib.RC, cq, cq, nil)
	if n, err := q.PostRecv(make([]verbs.RecvWR, 2)); n != 2 {
		t.Fatal(err)
	}
	good := entry{kind: connectx.CQERespSend, qpn: qpn}
	strange := []entry{
		{kind: connectx.CQERespSend, qpn: qpn + 1},
		{kind: connectx.CQEResize, qpn: qpn},
		{kind: connectx.CQERespSend, qpn: qpn, format: connectx.Compressed},
	}
	cq.write(t, good)
	for _, e := range strange {
		cq.write(t, e)
	}
	cq.write(t, good)
	wc := make([]verbs.WC, 8)
	if n, err := cq.Poll(wc); n != 1 || err != nil {
		t.Fatalf("%d, %v; expected 1", n, err)
	}
	for range strange {
		if n, err := cq.Poll(wc); n != 0 || err == nil || !strings.Contains(err.Error(), "queue pair") {
			t.Fatalf("%d, %v; expected an error", n, err)
		}
	}
	if n, err := cq.Poll(wc); n != 1 || err != nil {
		t.Fatalf("%d, %v; expected 1", n, err)
	}
}

// Arms have the number of events so far, and the consumer index.
func TestArm(t *testing.T) {
	cq := newCQ(t, new(Table), 0xabc, 16, 64)
	for i, c := range []struct {
		solicited bool
		want      uint32
	}{{false, 0}, {true, 1<<28 | 1<<24}, {false, 2 << 28}, {false, 3 << 28}, {true, 1 << 24}} {
		cq.Arm(c.solicited)
		if got := be32(cq.record[connectx.RecordArm]); got != c.want {
			t.Errorf("arm %d: %#x, expected %#x", i, got, c.want)
		}
		var door [8]byte
		binary.NativeEndian.PutUint64(door[:], cq.doorbell)
		if got, want := binary.BigEndian.Uint64(door[:]), uint64(c.want)<<32|0xabc; got != want {
			t.Errorf("doorbell %d: %#x, expected %#x", i, got, want)
		}
		cq.OnEvent()
	}
}

// The completions of queue pairs that were reset or closed go, and all others stay, in their
// order, over many laps of the ring and of a shared receive queue.
func TestDrop(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const entries = 8
		size := rapid.SampledFrom([]int{64, 128}).Draw(rt, "size")
		table := new(Table)
		cqs := []*cqMemory{newCQ(t, table, 1, entries, size), newCQ(t, table, 2, entries, size)}
		var record uint32
		ring := bytesOf(words(8 * 32))
		for i := range 8 {
			binary.BigEndian.PutUint16(ring[i*32+2:], uint16(i+1))
		}
		srq, err := NewSRQ(SRQMemory{Record: &record, Ring: ring, Stride: 32, Tail: 7}, 1)
		if err != nil {
			t.Fatal(err)
		}
		type queue struct {
			*qpMemory
			shared bool
			send   uint16 // WQEs that the device has completed
		}
		var queues []*queue
		num := uint32(10)
		add := func(i int) *queue {
			num++
			q := &queue{shared: i%2 == 1}
			var s *SRQ
			if q.shared {
				s = srq
			}
			q.qpMemory = newQP(t, num, ib.RC, cqs[i%2], cqs[i/2%2], s)
			return q
		}
		for i := range 4 {
			queues = append(queues, add(i))
		}
		// What each CQ has to give, and whose WQE of the SRQ the device takes next.
		type due struct {
			qpn uint32
			id  uint64
		}
		var want [2][]due
		type shared struct {
			id    uint64
			index int
		}
		var free []shared // posted to the SRQ
		head := 0         // as the device sees it
		inUse := 0
		id := uint64(0)
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			i := rapid.IntRange(0, 3).Draw(rt, "queue")
			q := queues[i]
			sendCQ, recvCQ := i%2, i/2%2
			switch rapid.IntRange(0, 6).Draw(rt, "do") {
			case 0, 1: // a send that completes
				if cqs[sendCQ].room() == 0 {
					continue
				}
				id++
				if err := q.PutSend(&verbs.SendWR{WRID: id, Opcode: ib.WRSend, Flags: verbs.SendSignaled}, nil); err != nil {
					if errors.Is(err, verbs.ErrQueueFull) && len(want[sendCQ]) > 0 {
						continue
					}
					rt.Fatal(err)
				}
				q.RingSend()
				cqs[sendCQ].write(t, entry{kind: connectx.CQEReq, opcode: connectx.OpSend, qpn: q.num, counter: q.send})
				q.send++
				want[sendCQ] = append(want[sendCQ], due{q.num, id})
			case 2: // a receive that completes
				if cqs[recvCQ].room() == 0 {
					continue
				}
				id++
				if q.shared {
					if n, err := srq.PostRecv([]verbs.RecvWR{{WRID: id}}); n != 1 {
						if inUse < 7 {
							rt.Fatalf("%v with %d of 7 in use", err, inUse)
						}
						continue
					}
					inUse++
					free = append(free, shared{id, head})
					head = int(binary.BigEndian.Uint16(ring[head*32+2:])) & 7
					w := free[0]
					free = free[1:]
					cqs[recvCQ].write(t, entry{kind: connectx.CQERespSend, qpn: q.num, counter: uint16(w.index)})
					want[recvCQ] = append(want[recvCQ], due{q.num, w.id})
					continue
				}
				if n, _ := q.PostRecv([]verbs.RecvWR{{WRID: id}}); n != 1 {
					continue
				}
				cqs[recvCQ].write(t, entry{kind: connectx.CQERespErr, qpn: q.num, syndrome: 5})
				want[recvCQ] = append(want[recvCQ], due{q.num, id})
			case 3, 4: // some are polled
				k := rapid.IntRange(0, 1).Draw(rt, "cq")
				wc := make([]verbs.WC, rapid.IntRange(1, 5).Draw(rt, "room"))
				n, err := cqs[k].Poll(wc)
				if err != nil || n != min(len(wc), len(want[k])) {
					rt.Fatalf("%d completions, %v; expected %d", n, err, min(len(wc), len(want[k])))
				}
				for j, w := range want[k][:n] {
					if wc[j].QPN != w.qpn || wc[j].WRID != w.id {
						rt.Fatalf("a completion %d of %d, expected %d of %d", wc[j].WRID, wc[j].QPN, w.id, w.qpn)
					}
					if o := owner(queues, w.qpn, func(q *queue) uint32 { return q.num }); o != nil && o.shared && wc[j].Opcode == ib.WCRecv {
						inUse--
					}
				}
				want[k] = want[k][n:]
			default: // reset, or closed and another one made
				for k := range want {
					gone := 0
					want[k] = slices.DeleteFunc(want[k], func(d due) bool {
						if d.qpn == q.num {
							gone++
						}
						return d.qpn == q.num
					})
				}
				inUse -= pendingShared(cqs[recvCQ], q.num, q.shared)
				if rapid.Bool().Draw(rt, "close") {
					q.Close()
					queues[i] = add(i)
					continue
				}
				q.Reset()
				q.send = 0
				if q.record != [2]uint32{} {
					rt.Fatalf("the record after RESET: %x", q.record)
				}
			}
		}
		for k, c := range cqs {
			wc := make([]verbs.WC, entries+1)
			n, err := c.Poll(wc)
			if err != nil || n != len(want[k]) || c.room() != entries {
				rt.Fatalf("%d completions at the end, %v; expected %d; room for %d", n, err, len(want[k]), c.room())
			}
		}
	})
}

func owner[Q any](all []*Q, num uint32, of func(*Q) uint32) *Q {
	for _, q := range all {
		if of(q) == num {
			return q
		}
	}
	return nil
}

// pendingShared is the number of a shared queue's receives that wait in a CQ for a queue pair.
func pendingShared(c *cqMemory, qpn uint32, shared bool) (n int) {
	if !shared {
		return 0
	}
	for i := c.next.Load(); c.has(i); i++ {
		e := c.at(i)
		if binary.BigEndian.Uint32(e[connectx.CQEOpcodeQPN:])&connectx.IndexMask == qpn && e[connectx.CQEOpOwn]>>4 == connectx.CQERespSend {
			n++
		}
		if i-c.next.Load() == c.mask {
			break
		}
	}
	return n
}

func TestNothingAllocates(t *testing.T) {
	cq := newCQ(t, new(Table), 1, 16, 64)
	q := newQP(t, 5, ib.RC, cq, cq, nil)
	wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Length: 8}}}
	inline := verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: make([]byte, 40)}
	recvs := make([]verbs.RecvWR, 1)
	wc := make([]verbs.WC, 4)
	counter := uint16(0)
	if n := testing.AllocsPerRun(100, func() {
		if err := errors.Join(q.PutSend(&wr, nil), q.PutSend(&inline, nil)); err != nil {
			t.Fatal(err)
		}
		q.RingSend()
		if n, err := q.PostRecv(recvs); n != 1 {
			t.Fatal(err)
		}
		cq.write(t, entry{kind: connectx.CQEReq, opcode: connectx.OpSend, qpn: 5, counter: counter + 1})
		cq.write(t, entry{kind: connectx.CQERespSend, qpn: 5})
		counter += 2
		if n, err := cq.Poll(wc); n != 2 {
			t.Fatal(n, err)
		}
		cq.Arm(false)
	}); n != 0 {
		t.Errorf("%v allocations, expected none", n)
	}
}

func BenchmarkPostAndPoll(b *testing.B) {
	cq := newCQ(b, new(Table), 1, 64, 64)
	q := newQP(b, 5, ib.RC, cq, cq, nil)
	wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Length: 8}}}
	wc := make([]verbs.WC, 4)
	counter := uint16(0)
	for b.Loop() {
		if err := q.PutSend(&wr, nil); err != nil {
			b.Fatal(err)
		}
		q.RingSend()
		cq.write(b, entry{kind: connectx.CQEReq, opcode: connectx.OpWrite, qpn: 5, counter: counter})
		counter++
		if n, err := cq.Poll(wc); n != 1 {
			b.Fatal(n, err)
		}
	}
}
