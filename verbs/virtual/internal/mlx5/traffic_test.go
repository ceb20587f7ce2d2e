package mlx5

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// both runs f with and without verbs.VectorMemory.
func both(t *testing.T, f func(t *testing.T, l *lab)) {
	for _, vectors := range []bool{false, true} {
		t.Run(fmt.Sprintf("vectors=%v", vectors), func(t *testing.T) {
			run(t, vectors, func(l *lab) { f(t, l) })
		})
	}
}

// all is both, once more over CQs with each compression, and over queue
// pairs that scatter to CQEs.
func all(t *testing.T, f func(t *testing.T, l *lab)) {
	both(t, f)
	compressed(t, f)
	scattered(t, f)
}

// scattered runs f over queue pairs that scatter to CQEs, and returns how many CQEs had data.
func scattered(t *testing.T, f func(t *testing.T, l *lab)) (n int) {
	t.Run("scattered", func(t *testing.T) {
		run(t, true, func(l *lab) {
			l.p[0].scatter, l.p[1].scatter = true, true
			f(t, l)
			n = l.p[0].scattered + l.p[1].scattered
		})
	})
	return n
}

// compressed runs f over CQs with each compression, and returns how many sessions were read.
func compressed(t *testing.T, f func(t *testing.T, l *lab)) (sessions int) {
	for _, c := range []Compression{CompressHash, CompressSum} {
		t.Run(fmt.Sprintf("compression %d", c), func(t *testing.T) {
			run(t, true, func(l *lab) {
				for _, p := range l.p {
					p.compress = c
				}
				f(t, l)
				for _, p := range l.p {
					sessions += p.sessions
				}
			})
		})
	}
	return sessions
}

// rc returns a connected RC pair with a CQ each.
func (l *lab) rc(blocks, recvs int) (x, y *pair) {
	for i, to := range []**pair{&x, &y} {
		q := l.p[i].newCQ(256, 64)
		*to = l.p[i].newQP(pairConfig{typ: ib.RC, blocks: blocks, recvs: recvs, stride: 64}, q, q)
	}
	l.connect(x, y)
	return x, y
}

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = seed + byte(i) + byte(i>>8)
	}
}

// Every operation of a connection does what it says, and its CQEs say it.
func TestOperations(t *testing.T) {
	all(t, func(t *testing.T, l *lab) {
		x, y := l.rc(16, 16)
		a, ma := l.p[0].reg(16384, anyAccess)
		b, mb := l.p[1].reg(16384, anyAccess)
		src, dst := l.p[0].mem.at(a, 16384), l.p[1].mem.at(b, 16384)
		fill(src, 1)
		y.recv(100, sge(mb, b, 3000))
		y.recv(101, sge(mb, b+4000, 10), sge(mb, b+5000, 3000))
		y.recv(102)
		y.recv(103, sge(mb, b, 64))
		inline := []byte("twenty-six bytes of a WQE!")
		x.post(
			wr{id: 1, opcode: connectx.OpSend, flags: signal | connectx.Solicited, sgl: []verbs.SGE{sge(ma, a, 2000), {}, sge(ma, a+2000, 500)}},
			wr{id: 2, opcode: connectx.OpSendImm, flags: signal, imm: 0x01020304, sgl: []verbs.SGE{sge(ma, a+100, 3000)}},
			wr{id: 3, opcode: connectx.OpWriteImm, imm: 0xa0b0c0d0, raddr: b + 9000, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a, 100)}},
			wr{id: 4, opcode: connectx.OpWrite, flags: signal, raddr: b + 10000, rkey: mb.RKey(), inline: inline},
			wr{id: 5, opcode: connectx.OpSend, flags: signal, inline: inline[:6], sgl: []verbs.SGE{sge(ma, a+10, 20)}},
		)
		for _, want := range []wc{
			{id: 1, opcode: connectx.CQEReq, wqe: connectx.OpSend, bytes: 2500, counter: 0},
			{id: 2, opcode: connectx.CQEReq, wqe: connectx.OpSendImm, bytes: 3000, counter: 1},
			{id: 4, opcode: connectx.CQEReq, wqe: connectx.OpWrite, bytes: 26, counter: 3},
			{id: 5, opcode: connectx.CQEReq, wqe: connectx.OpSend, bytes: 26, counter: 4},
		} {
			check(t, l.until(x.sendCQ), want, x)
		}
		for _, want := range []wc{
			{id: 100, opcode: connectx.CQERespSend, bytes: 2500, se: true},
			{id: 101, opcode: connectx.CQERespSendImm, bytes: 3000, imm: 0x01020304, counter: 1},
			{id: 102, opcode: connectx.CQERespWrImm, bytes: 100, imm: 0xa0b0c0d0, counter: 2},
			{id: 103, opcode: connectx.CQERespSend, bytes: 26, counter: 3},
		} {
			check(t, l.until(y.recvCQ), want, y)
		}
		for _, c := range []struct{ got, want []byte }{
			{dst[64:2500], src[64:2500]}, {dst[4000:4010], src[100:110]}, {dst[5000:7990], src[110:3100]}, {dst[9000:9100], src[:100]},
			{dst[10000:10026], inline}, {dst[:6], inline[:6]}, {dst[6:26], src[10:30]},
		} {
			if !bytes.Equal(c.got, c.want) {
				t.Errorf("expected %x, got %x", c.want, c.got)
			}
		}

		fill(dst, 99)
		word := dst[12000:12008]
		binary.NativeEndian.PutUint64(word, 40)
		x.post(
			wr{id: 6, opcode: connectx.OpRead, flags: signal | connectx.FMStrong, raddr: b, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a, 5000)}},
			wr{id: 7, opcode: connectx.OpAtomicFA, flags: signal, raddr: b + 12000, rkey: mb.RKey(), swap: 2, sgl: []verbs.SGE{sge(ma, a+8000, 8)}},
			wr{id: 8, opcode: connectx.OpAtomicCS, flags: signal, raddr: b + 12000, rkey: mb.RKey(), swap: 99, compare: 42, sgl: []verbs.SGE{sge(ma, a+8008, 8)}},
			wr{id: 9, opcode: connectx.OpNOP, flags: signal},
		)
		for _, want := range []wc{
			{id: 6, opcode: connectx.CQEReq, wqe: connectx.OpRead, bytes: 5000, counter: 5},
			{id: 7, opcode: connectx.CQEReq, wqe: connectx.OpAtomicFA, bytes: 8, counter: 6},
			{id: 8, opcode: connectx.CQEReq, wqe: connectx.OpAtomicCS, bytes: 8, counter: 7},
			{id: 9, opcode: connectx.CQEReq, wqe: connectx.OpNOP, counter: 8},
		} {
			check(t, l.until(x.sendCQ), want, x)
		}
		if got := binary.NativeEndian.Uint64(word); got != 99 {
			t.Errorf("after the atomics: %d, expected 99", got)
		}
		for i, want := range []uint64{40, 42} {
			if got := binary.NativeEndian.Uint64(src[8000+8*i:]); got != want {
				t.Errorf("atomic %d returned %d, expected %d", i, got, want)
			}
		}
		if !bytes.Equal(src[:5000], dst[:5000]) {
			t.Error("the READ brought something else")
		}
	})
}

// check compares a CQE with what it has to say.
func check(t *testing.T, got, want wc, x *pair) {
	t.Helper()
	want.user, want.qpn = x.user, x.num
	if got.ts != 0 {
		want.ts = got.ts
	} else if got.status == 0 {
		t.Error("no timestamp")
	}
	if got != want {
		t.Errorf("expected %+v, got %+v", want, got)
	}
}

// Requests of all lengths wrap at the ring's end, anywhere in the WQE; the counter wraps
// at 16 bits.
func TestRings(t *testing.T) {
	all(t, func(t *testing.T, l *lab) {
		x, y := l.rc(32, 4)
		a, ma := l.p[0].reg(4096, anyAccess)
		b, mb := l.p[1].reg(4096, anyAccess)
		src, dst := l.p[0].mem.at(a, 4096), l.p[1].mem.at(b, 4096)
		rng := rand.New(rand.NewPCG(1, 2))
		total := 80_000 // blocks, of 64 Ki
		if testing.Short() {
			total = 3000
		}
		for i := uint64(0); int(x.cur) < total; i++ {
			w := wr{id: i, opcode: connectx.OpSend, flags: signal}
			fill(src, byte(i))
			var want []byte
			for range rng.IntN(3) {
				n := 1 + rng.IntN(20)
				at := rng.IntN(1000)
				w.sgl = append(w.sgl, sge(ma, a+uint64(at), n))
			}
			if rng.IntN(2) == 0 {
				w.inline = make([]byte, 1+rng.IntN(600))
				fill(w.inline, byte(i+3))
				want = append(want, w.inline...)
			}
			for _, s := range w.sgl {
				want = append(want, src[s.Addr-a:][:s.Length]...)
			}
			n := min(len(want), 5)
			y.recv(i, sge(mb, b, n), sge(mb, b+100, 3000))
			x.post(w)
			if got := l.until(y.recvCQ); got.id != i || int(got.bytes) != len(want) || got.status != 0 {
				t.Fatalf("receive %d of %d bytes: %+v", i, len(want), got)
			}
			if !bytes.Equal(dst[:n], want[:n]) || !bytes.Equal(dst[100:][:len(want)-n], want[n:]) {
				t.Fatalf("request %d brought something else", i)
			}
			if got := l.until(x.sendCQ); got.id != i || got.status != 0 {
				t.Fatalf("request %d: %+v", i, got)
			}
		}
	})
}

// A burst that fills the ring, and more than the back end takes at once, is carried out
// in order; requests without a CQE go on as well.
func TestBurst(t *testing.T) {
	all(t, func(t *testing.T, l *lab) {
		q, r := l.p[0].newCQ(1024, 128), l.p[1].newCQ(1024, 128)
		x := l.p[0].newQP(pairConfig{typ: ib.RC, blocks: 512, backendDepth: 40}, q, q)
		y := l.p[1].newQP(pairConfig{typ: ib.RC, blocks: 1, recvs: 512, stride: 16}, r, r)
		l.connect(x, y)
		a, ma := l.p[0].reg(4096, anyAccess)
		b, mb := l.p[1].reg(4096, anyAccess)
		fill(l.p[0].mem.at(a, 4096), 5)
		for round := range 3 {
			var ws []wr
			for i := range 512 {
				y.recv(uint64(i), sge(mb, b, 100))
				w := wr{id: uint64(i), opcode: connectx.OpSend, sgl: []verbs.SGE{sge(ma, a, i%100)}}
				if i%100 == 0 {
					w.sgl = nil
				}
				if i%16 == 15 {
					w.flags = signal
				}
				ws = append(ws, w)
			}
			x.post(ws...)
			l.p[0].e.Scan()
			if !l.p[0].e.MustPoll() {
				t.Error("requests wait for room, and nothing announces it")
			}
			for i := range 512 {
				if got := l.until(r); got.id != uint64(i) || got.bytes != uint32(i%100) || got.status != 0 {
					t.Fatalf("round %d, receive %d: %+v", round, i, got)
				}
			}
			for i := 15; i < 512; i += 16 {
				if got := l.until(q); got.id != uint64(i) || got.status != 0 {
					t.Fatalf("round %d, request %d: %+v", round, i, got)
				}
			}
			l.scan()
			if q.peek(q.ci) != nil || r.peek(r.ci) != nil {
				t.Error("more CQEs than requests")
			}
			if l.p[0].e.MustPoll() {
				t.Error("nothing waits any more")
			}
		}
	})
}

// Datagrams go where their address vectors say, with and without immediate data.
func TestDatagrams(t *testing.T) {
	all(t, func(t *testing.T, l *lab) {
		var x [2]*pair
		for i, p := range l.p {
			q := p.newCQ(64, 64)
			x[i] = p.newQP(pairConfig{typ: ib.UD, blocks: 16, recvs: 16, stride: 32}, q, q)
		}
		l.connect(x[0], x[1])
		a, ma := l.p[0].reg(4096, anyAccess)
		b, mb := l.p[1].reg(4096, anyAccess)
		fill(l.p[0].mem.at(a, 4096), 5)
		gid, _ := l.devs[1].GID(1, 0)
		to := &destination{gid: gid, qpn: x[1].num, qkey: 0x1111}
		for i := range 40 { // the ring wraps within and after the address vector
			x[1].recv(uint64(i), sge(mb, b, 1100))
			w := wr{id: uint64(i), opcode: connectx.OpSend, flags: signal, to: to, sgl: []verbs.SGE{sge(ma, a, i+1)}}
			if i%2 == 1 {
				w.opcode, w.imm, w.inline, w.sgl = connectx.OpSendImm, uint32(i), l.p[0].mem.at(a, i+1), nil
				if i%4 == 3 { // some inline, the rest by a pointer
					w.inline, w.sgl = w.inline[:i-1], []verbs.SGE{sge(ma, a+uint64(i)-1, 2)}
				}
			}
			x[0].post(w)
			if got := l.until(x[0].sendCQ); got.id != uint64(i) || got.status != 0 {
				t.Fatalf("request %d: %+v", i, got)
			}
			got := l.until(x[1].recvCQ)
			if got.id != uint64(i) || got.bytes != uint32(41+i) || !got.grh || got.sl != 0xa || got.src != x[0].num || got.opcode != connectx.CQERespSend+uint8(i%2) || got.imm != uint32(i%2*i) {
				t.Fatalf("receive %d: %+v", i, got)
			}
			if !bytes.Equal(l.p[1].mem.at(b+40, i+1), l.p[0].mem.at(a, i+1)) {
				t.Fatalf("datagram %d brought something else", i)
			}
		}
		// An address vector without the RoCE extension.
		b16 := x[0].encode(&wr{opcode: connectx.OpSend, to: to})
		b16[16+8] = 0
		x[0].write(99, b16)
		x[0].write(100, x[0].encode(&wr{opcode: connectx.OpSend, to: to}))
		x[0].ring()
		for _, want := range []wc{
			{id: 99, opcode: connectx.CQEReqErr, wqe: connectx.OpSend, status: 2, vendor: 0x68, counter: 64}, {id: 100, opcode: connectx.CQEReqErr, wqe: connectx.OpSend, status: 5, vendor: 0xf9, counter: 65},
		} {
			want.counter = x[0].at(want.id)
			check(t, l.until(x[0].sendCQ), want, x[0])
		}
	})
}

// at returns the counter of the last WQE with an ID.
func (x *pair) at(id uint64) uint16 {
	for c := x.cur; c > 0; c-- {
		if i := int(c-1) & (x.blocks - 1); x.sendID[i] == id {
			return uint16(c - 1)
		}
	}
	return 0
}

// What can't be carried out ends in its turn, with the status of its kind; what comes
// after it, and the receives, are flushed; the queue pair works again after RESET.
func TestErrors(t *testing.T) {
	all(t, func(t *testing.T, l *lab) {
		a, ma := l.p[0].reg(4096, anyAccess)
		b, mb := l.p[1].reg(4096, anyAccess)
		_, readOnly := l.p[1].reg(4096, ib.AccessLocalWrite)
		x, y := l.rc(64, 16)
		good := wr{id: 1, opcode: connectx.OpWrite, raddr: b, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a, 100)}}
		bad := func(w wr) wr { w.id = 2; return w }
		cases := []struct {
			name string
			w    wr
			want uint8
			edit func(b []byte)
		}{
			{name: "remote key", w: wr{opcode: connectx.OpWrite, raddr: b, rkey: readOnly.RKey(), sgl: []verbs.SGE{sge(ma, a, 1)}}, want: 0x13},
			{name: "local key", w: wr{opcode: connectx.OpWrite, raddr: b, rkey: mb.RKey(), sgl: []verbs.SGE{{Addr: a, Length: 1, LKey: 77}}}, want: 0x04},
			{name: "bounds", w: wr{opcode: connectx.OpWrite, raddr: b, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a+4000, 97)}}, want: 0x04},
			{name: "UMR", w: wr{opcode: 0x25}, want: 0x02},
			{name: "local invalidate", w: wr{opcode: 0x1b}, want: 0x02},
			{name: "TSO", w: wr{opcode: 0x0e}, want: 0x02},
			{name: "unknown", w: wr{opcode: 0xfe}, want: 0x02},
			{name: "opmod", w: wr{opcode: connectx.OpWrite, opmod: 1, raddr: b, rkey: mb.RKey()}, want: 0x02},
			{name: "size 0", w: wr{opcode: connectx.OpSend}, edit: func(b []byte) { b[7] = 0 }, want: 0x02},
			{name: "size beyond the doorbell", w: wr{opcode: connectx.OpSend}, edit: func(b []byte) { b[7] = 63 }, want: 0x02},
			{name: "other queue pair", w: wr{opcode: connectx.OpSend}, edit: func(b []byte) { b[6]++ }, want: 0x02},
			{name: "no remote address", w: wr{opcode: connectx.OpWrite}, edit: func(b []byte) { b[7] = 1 }, want: 0x02},
			{name: "inline beyond the WQE", w: wr{opcode: connectx.OpSend, inline: []byte("x")}, edit: func(b []byte) { b[18] = 1 }, want: 0x02},
			{name: "inline READ", w: wr{opcode: connectx.OpRead, raddr: b, rkey: mb.RKey(), inline: []byte("x"), sgl: []verbs.SGE{sge(ma, a, 1)}}, want: 0x02},
			{name: "atomic of 4 bytes", w: wr{opcode: connectx.OpAtomicFA, raddr: b, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a, 4)}}, want: 0x02},
			// One below and at the longest message, which the region does not have; one above.
			{name: "below the longest message", w: wr{opcode: connectx.OpWrite, raddr: b, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a, 0x3fffffff)}}, want: 0x04},
			{name: "the longest message", w: wr{opcode: connectx.OpWrite, raddr: b, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a, 0x40000000)}}, want: 0x04},
			{name: "a message too long", w: wr{opcode: connectx.OpWrite, raddr: b, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a, 0x40000001)}}, want: 0x01},
			{name: "a READ too long", w: wr{opcode: connectx.OpRead, raddr: b, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a, 0x40000001)}}, want: 0x01},
			{name: "a SEND too long, in pieces", w: wr{opcode: connectx.OpSend, sgl: []verbs.SGE{sge(ma, a, 0x40000000), sge(ma, a, 1)}}, want: 0x01},
			{name: "pieces", w: wr{opcode: connectx.OpSend, sgl: slices.Repeat([]verbs.SGE{sge(ma, a, 1)}, 17)}, want: 0x02},
		}
		for _, c := range cases {
			for i := range 3 {
				x.recv(uint64(i+50), sge(ma, a, 1))
			}
			x.write(1, x.encode(&good))
			w := bad(c.w)
			e := x.encode(&w)
			if c.edit != nil {
				c.edit(e)
			}
			// The last, so that nothing that it says of its size is there.
			x.write(2, e)
			x.ring()
			got := l.until(x.sendCQ)
			if got.id != 2 || got.opcode != connectx.CQEReqErr || got.status != c.want || got.wqe != c.w.opcode {
				t.Errorf("%s: expected syndrome %#x, got %+v", c.name, c.want, got)
			}
			if want := map[uint8]uint8{0x02: 0x68, 0x04: 0x52, 0x13: 0x88}[c.want]; got.vendor != want {
				t.Errorf("%s: vendor_err_synd %#x, expected %#x", c.name, got.vendor, want)
			}
			for i := range 3 {
				if got := l.until(x.recvCQ); got.id != uint64(i+50) || got.opcode != connectx.CQERespErr || got.status != 0x05 || got.vendor != 0xf9 {
					t.Errorf("%s: receive %d: %+v", c.name, i, got)
				}
			}
			// What is posted to a queue pair in ERR is flushed.
			x.post(good, wr{id: 3, opcode: 0x25}, good)
			for _, id := range []uint64{1, 3, 1} {
				if got := l.until(x.sendCQ); got.id != id || got.status != 0x05 || got.vendor != 0xf9 {
					t.Errorf("%s: flushed %+v, expected %d", c.name, got, id)
				}
			}
			x.recv(77, sge(ma, a, 1))
			if !l.p[0].e.MustPoll() {
				t.Error("a receive posted in ERR rings no doorbell")
			}
			if got := l.until(x.recvCQ); got.id != 77 || got.status != 0x05 {
				t.Errorf("%s: %+v", c.name, got)
			}
			l.scan()
			if x.sendCQ.peek(x.sendCQ.ci) != nil {
				t.Errorf("%s: one CQE too many", c.name)
			}
			x.toState(ib.Reset)
			y.toState(ib.Reset)
			l.connect(x, y)
			x.post(wr{id: 9, opcode: connectx.OpWrite, flags: signal, raddr: b, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a, 100)}})
			if got := l.until(x.sendCQ); got.id != 9 || got.status != 0 {
				t.Fatalf("%s: after RESET %+v", c.name, got)
			}
		}
	})
}

// A receive that is too short ends the same at both sides.
func TestReceiveErrors(t *testing.T) {
	all(t, func(t *testing.T, l *lab) {
		x, y := l.rc(64, 16)
		a, ma := l.p[0].reg(4096, anyAccess)
		b, mb := l.p[1].reg(4096, anyAccess)
		y.recv(1, sge(mb, b, 99))
		y.recv(2, sge(mb, b, 99))
		x.post(wr{id: 1, opcode: connectx.OpSend, sgl: []verbs.SGE{sge(ma, a, 100)}}, wr{id: 2, opcode: connectx.OpSend})
		for _, want := range []wc{{id: 1, opcode: connectx.CQERespErr, status: 0x01}, {id: 2, opcode: connectx.CQERespErr, status: 0x05, vendor: 0xf9, counter: 1}} {
			check(t, l.until(y.recvCQ), want, y)
		}
		for i, status := range []uint8{0x12, 0x05} { // remote invalid request
			vendor := []uint8{0x8a, 0xf9}[i]
			check(t, l.until(x.sendCQ), wc{id: uint64(i + 1), opcode: connectx.CQEReqErr, wqe: connectx.OpSend, status: status, vendor: vendor, counter: uint16(i)}, x)
		}
		_ = mb
	})
}
