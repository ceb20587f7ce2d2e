package mlx5

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

func bytesOf(w []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 8*len(w))
}

// WQEs by mlx5dv.h. TestOverMLX5 of package ibverbs holds them to libmlx5's.
func TestWQE(t *testing.T) {
	sge := verbs.SGE{Addr: 0x1122334455667788, Length: 0x10, LKey: 0xaabbccdd}
	const remote = "0102030405060708 0a0b0c0d 00000000"
	const data = "00000010 aabbccdd 1122334455667788"
	for _, c := range []struct {
		name string
		typ  ib.QPType
		wr   verbs.SendWR
		want string
	}{
		{"a Write", ib.RC, verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{sge}, RemoteAddr: 0x0102030405060708, RKey: 0x0a0b0c0d},
			"00000008 00001203 00000008 00000000" + remote + data},
		{"a Write with immediate that is fenced", ib.UC, verbs.SendWR{Opcode: ib.WRRDMAWriteWithImm, Flags: verbs.SendFence | verbs.SendSolicited, Imm: 0x01020304, SGL: []verbs.SGE{{}, sge}, RemoteAddr: 0x0102030405060708, RKey: 0x0a0b0c0d},
			"00000009 00001203 00000082 01020304" + remote + data},
		{"a Read", ib.RC, verbs.SendWR{Opcode: ib.WRRDMARead, SGL: []verbs.SGE{sge}, RemoteAddr: 0x0102030405060708, RKey: 0x0a0b0c0d},
			"00000010 00001203 00000000 00000000" + remote + data},
		{"a Send of nothing", ib.RC, verbs.SendWR{Opcode: ib.WRSend, Imm: 5}, "0000000a 00001201 00000000 00000000"},
		{"a Send inline", ib.RC, verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: []byte{1, 2, 3, 4, 5}}, "0000000a 00001202 00000000 00000000 80000005 0102030405"},
		{"a Send that invalidates", ib.RC, verbs.SendWR{Opcode: ib.WRSendWithInv, Imm: 0x99}, "00000001 00001201 00000000 00000099"},
		{"compare and swap", ib.RC, verbs.SendWR{Opcode: ib.WRAtomicCmpAndSwp, CompareAdd: 1, Swap: 2, SGL: []verbs.SGE{{Addr: 8, Length: 8, LKey: 1}}, RemoteAddr: 0x0102030405060708, RKey: 0x0a0b0c0d},
			"00000011 00001204 00000000 00000000" + remote + "0000000000000002 0000000000000001 00000008 00000001 0000000000000008"},
		{"fetch and add", ib.RC, verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, CompareAdd: 3, SGL: []verbs.SGE{{Addr: 8, Length: 8, LKey: 1}}, RemoteAddr: 0x0102030405060708, RKey: 0x0a0b0c0d},
			"00000012 00001204 00000000 00000000" + remote + "0000000000000003 0000000000000000 00000008 00000001 0000000000000008"},
		{"a datagram", ib.UD, verbs.SendWR{Opcode: ib.WRSendWithImm, Imm: 7, AH: handle{}, RemoteQPN: 0x55, RemoteQKey: 0x66, SGL: []verbs.SGE{sge}},
			"0000000b 00001205 00000000 00000007 00000066 00000000 80000055" + strings.Repeat("ee", 36) + data},
	} {
		t.Run(c.name, func(t *testing.T) {
			cq := newCQ(t, new(Table), 1, 16, 64)
			q := newQP(t, 0x12, c.typ, cq, cq, nil)
			var to Vector
			copy(to[12:], bytes.Repeat([]byte{0xee}, 36))
			if err := q.PutSend(&c.wr, &to); err != nil {
				t.Fatal(err)
			}
			want, err := hex.DecodeString(strings.ReplaceAll(c.want, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			if got := q.send[:len(want)]; !bytes.Equal(got, want) {
				t.Errorf("got\n%x, expected\n%x", got, want)
			}
			for _, b := range q.send[len(want):] {
				if b != 0 {
					t.Fatalf("more was written: %x", q.send)
				}
			}
			if q.record[connectx.RecordSend] != 0 || q.doorbell != 0 {
				t.Error("the device was told before RingSend")
			}
			q.RingSend()
			blocks := uint32(len(want)+63) / 64
			if got := be32(q.record[connectx.RecordSend]); got != blocks {
				t.Errorf("the record says %d blocks, expected %d", got, blocks)
			}
			if got := binary.NativeEndian.Uint64(want); q.doorbell != got {
				t.Errorf("the doorbell has %#x, expected %#x", q.doorbell, got)
			}
		})
	}
}

type handle struct{}

func (handle) Close() error { return nil }

// What the ring does not take leaves it as it was.
func TestRefusedRequests(t *testing.T) {
	cq := newCQ(t, new(Table), 1, 16, 64)
	q := newQP(t, 3, ib.RC, cq, cq, nil)
	for _, c := range []struct {
		wr   verbs.SendWR
		want error
	}{
		{verbs.SendWR{Opcode: ib.WRLocalInv}, ErrUnsupported},
		{verbs.SendWR{Opcode: ib.WRSend, SGL: make([]verbs.SGE, testCap.MaxSendSGE+1)}, nil},
		{verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: make([]byte, testCap.MaxInlineData+1)}, nil},
		{verbs.SendWR{Opcode: ib.WRSend, AH: handle{}}, nil},
		{verbs.SendWR{Opcode: 200}, nil},
	} {
		before := bytes.Clone(q.send)
		if err := q.PutSend(&c.wr, nil); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%v: error %v, expected %v", c.wr.Opcode, err, c.want)
		}
		if !bytes.Equal(before, q.send) {
			t.Errorf("%v was refused, and written", c.wr.Opcode)
		}
	}
	for i := range testCap.MaxSendWR + 1 {
		if err := q.PutSend(&verbs.SendWR{Opcode: ib.WRSend}, nil); (i == testCap.MaxSendWR) != errors.Is(err, verbs.ErrQueueFull) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	n, err := q.PostRecv(make([]verbs.RecvWR, testCap.MaxRecvWR+1))
	if n != testCap.MaxRecvWR || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("%d receives, %v; expected %d and %v", n, err, testCap.MaxRecvWR, verbs.ErrQueueFull)
	}
	if got := be32(q.record[connectx.RecordRecv]); got != uint32(n) {
		t.Errorf("the record says %d receives, expected %d", got, n)
	}
}
