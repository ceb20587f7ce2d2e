package mlx5

import (
	"encoding/binary"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// words are 8 bytes that are aligned: memory for rings.
func words(n int) []uint64 { return make([]uint64, n/8) }

// cqMemory is a ring that the test writes as a device does.
type cqMemory struct {
	*CQ
	record   [2]uint32
	doorbell uint64
	ring     []byte
	size     int
	produced uint32
}

func newCQ(t testing.TB, table *Table, num uint32, entries, size int) *cqMemory {
	t.Helper()
	m := &cqMemory{ring: bytesOf(words(entries * size)), size: size}
	for i := range entries {
		m.ring[(i+1)*size-1] = connectx.CQEInvalid<<4 | connectx.OwnerBit
	}
	var err error
	m.CQ, err = NewCQ(&CQConfig{Num: num, Table: table, Timestamps: true, Memory: CQMemory{Record: &m.record, Ring: m.ring, EntrySize: size, Doorbell: &m.doorbell}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// room returns the number of CQEs that the device has room for, by the consumer index.
func (m *cqMemory) room() int {
	consumed := be32(m.record[connectx.RecordConsumer])
	return len(m.ring)/m.size - int((m.produced-consumed)&connectx.IndexMask)
}

// entry holds the fields of a test's CQE.
type entry struct {
	kind, opcode uint8
	qpn          uint32
	counter      uint16
	imm, bytes   uint32
	rqpn         uint32
	syndrome     uint8
	format       uint8
	data         []byte
}

// write is the device's.
func (m *cqMemory) write(t testing.TB, e entry) {
	n := len(m.ring) / m.size
	if m.room() == 0 {
		t.Fatal("the queue overruns")
	}
	b := m.ring[int(m.produced)&(n-1)*m.size:][:m.size]
	owner := uint8(0)
	if m.produced&uint32(n) != 0 {
		owner = 1
	}
	m.produced++
	c := b[m.size-64:]
	be := binary.BigEndian
	be.PutUint32(c[24:], e.rqpn)
	be.PutUint32(c[36:], e.imm)
	be.PutUint32(c[44:], e.bytes)
	be.PutUint64(c[48:], 1000+uint64(e.counter))
	if e.kind == connectx.CQEReqErr || e.kind == connectx.CQERespErr {
		c[54], c[55] = 0x77, e.syndrome
	}
	be.PutUint32(c[56:], uint32(e.opcode)<<24|e.qpn)
	be.PutUint16(c[60:], e.counter)
	switch e.format {
	case connectx.Scatter32:
		copy(c, e.data)
	case connectx.Scatter64:
		copy(b, e.data)
	}
	c[63] = e.kind<<4 | e.format | owner
}

func be32(v uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], v)
	return binary.BigEndian.Uint32(b[:])
}

// qpMemory is a queue pair's.
type qpMemory struct {
	*QP
	record     [2]uint32
	doorbell   uint64
	send, recv []byte
}

const testStride = 64 // bytes of a receive WQE

var testCap = verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 92}

func newQP(t testing.TB, num uint32, typ ib.QPType, send, recv *cqMemory, srq *SRQ) *qpMemory {
	t.Helper()
	m := &qpMemory{send: bytesOf(words(16 * connectx.BlockBytes)), recv: bytesOf(words(8 * testStride))}
	c := QPConfig{
		Num: num, Type: typ, Cap: testCap, SendCQ: send.CQ, RecvCQ: recv.CQ, SRQ: srq,
		Memory: QPMemory{Record: &m.record, Send: m.send, Recv: m.recv, RecvStride: testStride, Doorbell: &m.doorbell},
	}
	if srq != nil {
		c.Memory.Recv = nil
	}
	var err error
	if m.QP, err = NewQP(&c); err != nil {
		t.Fatal(err)
	}
	return m
}
