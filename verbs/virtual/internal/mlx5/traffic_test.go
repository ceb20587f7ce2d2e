package mlx5

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// both runs f with and without Vectors.
func both(t *testing.T, f func(t *testing.T, l *lab)) {
	for _, vectors := range []bool{false, true} {
		t.Run(fmt.Sprintf("vectors=%v", vectors), func(t *testing.T) {
			run(t, vectors, func(l *lab) { f(t, l) })
		})
	}
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
	both(t, func(t *testing.T, l *lab) {
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
			wr{id: 1, opcode: opSend, flags: signal | solicited, sgl: []verbs.SGE{sge(ma, a, 2000), {}, sge(ma, a+2000, 500)}},
			wr{id: 2, opcode: opSendImm, flags: signal, imm: 0x01020304, sgl: []verbs.SGE{sge(ma, a+100, 3000)}},
			wr{id: 3, opcode: opWriteImm, imm: 0xa0b0c0d0, raddr: b + 9000, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a, 100)}},
			wr{id: 4, opcode: opWrite, flags: signal, raddr: b + 10000, rkey: mb.RKey(), inline: inline},
			wr{id: 5, opcode: opSend, flags: signal, inline: inline[:6], sgl: []verbs.SGE{sge(ma, a+10, 20)}},
		)
		for _, want := range []wc{
			{id: 1, opcode: cqeReq, wqe: opSend, bytes: 2500, counter: 0},
			{id: 2, opcode: cqeReq, wqe: opSendImm, bytes: 3000, counter: 1},
			{id: 4, opcode: cqeReq, wqe: opWrite, bytes: 26, counter: 3},
			{id: 5, opcode: cqeReq, wqe: opSend, bytes: 26, counter: 4},
		} {
			check(t, l.until(x.sendCQ), want, x)
		}
		for _, want := range []wc{
			{id: 100, opcode: cqeRespSend, bytes: 2500, se: true},
			{id: 101, opcode: cqeRespSendImm, bytes: 3000, imm: 0x01020304, counter: 1},
			{id: 102, opcode: cqeRespWrImm, bytes: 100, imm: 0xa0b0c0d0, counter: 2},
			{id: 103, opcode: cqeRespSend, bytes: 26, counter: 3},
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
			wr{id: 6, opcode: opRead, flags: signal | fmStrong, raddr: b, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a, 5000)}},
			wr{id: 7, opcode: opAtomicFA, flags: signal, raddr: b + 12000, rkey: mb.RKey(), swap: 2, sgl: []verbs.SGE{sge(ma, a+8000, 8)}},
			wr{id: 8, opcode: opAtomicCS, flags: signal, raddr: b + 12000, rkey: mb.RKey(), swap: 99, compare: 42, sgl: []verbs.SGE{sge(ma, a+8008, 8)}},
			wr{id: 9, opcode: opNOP, flags: signal},
		)
		for _, want := range []wc{
			{id: 6, opcode: cqeReq, wqe: opRead, bytes: 5000, counter: 5},
			{id: 7, opcode: cqeReq, wqe: opAtomicFA, bytes: 8, counter: 6},
			{id: 8, opcode: cqeReq, wqe: opAtomicCS, bytes: 8, counter: 7},
			{id: 9, opcode: cqeReq, wqe: opNOP, counter: 8},
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
