package mlx5

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math/bits"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
	"github.com/sluice-rdma/sluice/verbs/softroce"
)

// This file plays a program with libmlx5: it writes WQEs and doorbells to memory of its
// own, and reads CQEs by their owner bits. The back end is a softroce.World.

// memory is a program's. Access to what was not allocated, or writes to what the device
// has no business to write, are refused and counted.
type memory struct {
	data    []byte
	areas   []area // by address
	calls   atomic.Int64
	strayed atomic.Int64
	refuse  uint64 // the page at this address is unmapped; 0 for none
	wrote   func(addr uint64, n int)
}

type area struct {
	addr     uint64
	n        int
	writable bool
}

const (
	memoryBase = 0x7f12_3456_0000
	pageSize   = 4096
)

var errStray = errors.New("no memory there")

func newMemory() *memory { return &memory{data: make([]byte, 16<<20)} }

// alloc returns n zero bytes at a page of their own, with unmapped bytes behind them. The
// device may only read them.
func (m *memory) alloc(n int) uint64 {
	addr := uint64(memoryBase)
	if k := len(m.areas); k > 0 {
		addr = (m.areas[k-1].addr + uint64(m.areas[k-1].n) + 2*pageSize - 1) &^ (pageSize - 1)
	}
	m.areas = append(m.areas, area{addr: addr, n: n})
	return addr
}

// allocWritable is alloc of what the device may write.
func (m *memory) allocWritable(n int) uint64 {
	addr := m.alloc(n)
	m.areas[len(m.areas)-1].writable = true
	return addr
}

func (m *memory) at(addr uint64, n int) []byte {
	return m.data[addr-memoryBase:][:n:n]
}

func (m *memory) allowed(addr uint64, n int, write bool) bool {
	i, ok := slices.BinarySearchFunc(m.areas, addr, func(a area, addr uint64) int { return cmp.Compare(a.addr, addr) })
	if !ok {
		i--
	}
	if i < 0 || addr-m.areas[i].addr > uint64(m.areas[i].n) || uint64(n) > uint64(m.areas[i].n)-(addr-m.areas[i].addr) || write && !m.areas[i].writable {
		m.strayed.Add(1)
		return false
	}
	return m.refuse == 0 || addr+uint64(n) <= m.refuse || addr >= m.refuse+pageSize
}

func (m *memory) ReadMemory(p []byte, addr uint64) error {
	m.calls.Add(1)
	return m.read(p, addr)
}

func (m *memory) read(p []byte, addr uint64) error {
	if !m.allowed(addr, len(p), false) {
		return errStray
	}
	copy(p, m.at(addr, len(p)))
	return nil
}

func (m *memory) WriteMemory(p []byte, addr uint64) error {
	m.calls.Add(1)
	return m.write(p, addr)
}

func (m *memory) write(p []byte, addr uint64) error {
	if !m.allowed(addr, len(p), true) {
		return errStray
	}
	copy(m.at(addr, len(p)), p)
	if m.wrote != nil {
		m.wrote(addr, len(p))
	}
	return nil
}

func (m *memory) put32(addr uint64, v uint32) { binary.BigEndian.PutUint32(m.at(addr, 4), v) }

// vectorMemory is memory with verbs.VectorMemory.
type vectorMemory struct{ *memory }

func (v vectorMemory) ReadPieces(pieces []verbs.MemoryPiece) error {
	v.calls.Add(1)
	for _, p := range pieces {
		if err := v.read(p.Data, p.Addr); err != nil {
			return err
		}
	}
	return nil
}

func (v vectorMemory) WritePieces(pieces []verbs.MemoryPiece) error {
	v.calls.Add(1)
	for _, p := range pieces {
		if err := v.write(p.Data, p.Addr); err != nil {
			return err
		}
	}
	return nil
}

// reporter is the part of a testing.TB that the driver needs and a rapid.T has.
type reporter interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// program is a process with an opened device.
type program struct {
	t      reporter
	dev    verbs.Device
	pd     verbs.PD
	ch     verbs.CompChannel
	mem    *memory
	e      *Engine
	uar    []byte
	page   *Page
	byUser map[uint32]*pair
	number uint32
	woken  int
	clock  time.Duration // of the engine; it stands still

	compress Compression // of CQs with entries of 64 bytes
	sessions int         // compressed ones that were read

	scatter   bool // of queue pairs: to CQEs
	scattered int  // CQEs with data
}

func newProgram(t reporter, dev verbs.Device, vectors bool) *program {
	p := &program{t: t, dev: dev, mem: newMemory(), byUser: map[uint32]*pair{}, number: 0x100}
	var err error
	if p.pd, err = dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if p.ch, err = dev.CreateCompChannel(); err != nil {
		t.Fatal(err)
	}
	c := Config{Memory: p.mem, Wake: func() { p.woken++ }, Ticks: func(t uint64) uint64 { return t + 7 }, Now: func() time.Duration { return p.clock }}
	if vectors {
		c.Memory = vectorMemory{p.mem}
	}
	p.e = NewEngine(c)
	words := make([]uint64, PageBytes/8)
	p.uar = unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), PageBytes)
	if p.page, err = p.e.AddPage(p.uar); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *program) bell(offset int, v uint64) {
	// The device reads a native word; what the program stores is big-endian.
	(*atomic.Uint64)(unsafe.Pointer(&p.uar[offset])).Store(bits.ReverseBytes64(v))
}

// reg registers n bytes.
func (p *program) reg(n int, access ib.AccessFlags) (addr uint64, mr verbs.MR) {
	addr = p.mem.allocWritable(n)
	mr, err := p.pd.(verbs.MemoryPD).RegMemory(p.mem, addr, uint64(n), addr, access)
	if err != nil {
		p.t.Fatal(err)
	}
	return addr, mr
}

// queue is a CQ as libmlx5 has it.
type queue struct {
	p       *program
	cq      *CQ
	buffer  uint64
	record  uint64
	entries int
	size    int
	ci      uint32
	sn      uint32
	events  int
	failed  int
}

func (p *program) newCQ(entries, size int) *queue {
	q := &queue{p: p, entries: entries, size: size}
	q.buffer, q.record = p.newRing(entries, size), p.mem.allocWritable(8)
	back, err := p.dev.CreateCQ(verbs.CQInitAttr{CQE: entries, Channel: p.ch})
	if err != nil {
		p.t.Fatal(err)
	}
	p.number++
	c := CQConfig{
		Number: p.number, Buffer: q.buffer, Record: q.record, Entries: entries, EntrySize: size, Backend: back,
		Event: func() { q.events++ }, Failed: func() { q.failed++ },
	}
	if size == 64 {
		c.Compression = p.compress
	}
	q.cq, err = p.e.CreateCQ(c)
	if err != nil {
		p.t.Fatal(err)
	}
	return q
}

func (p *program) newRing(entries, size int) uint64 {
	buffer := p.mem.allocWritable(entries * size)
	for i := range entries {
		p.mem.at(buffer+uint64(i*size+size-1), 1)[0] = connectx.CQEInvalid << 4
	}
	return buffer
}

// peek returns the CQE at the consumer index, or nil if it is not the program's.
func (q *queue) peek(index uint32) []byte {
	b := q.p.mem.at(q.buffer+uint64(int(index)&(q.entries-1)*q.size), q.size)
	own := b[q.size-1]
	if own>>4 == connectx.CQEInvalid || own&1 != q.owner(index) {
		return nil
	}
	if own&connectx.Compressed == connectx.Compressed {
		q.expand(index, b)
	}
	return b
}

// owner is the owner bit of the CQE of an index.
func (q *queue) owner(index uint32) uint8 { return uint8(index>>bits.Len(uint(q.entries-1))) & 1 }

// expand writes the CQEs of a compressed session into its slots.
func (q *queue) expand(index uint32, title []byte) {
	q.p.sessions++
	be := binary.BigEndian
	slot := func(i uint32) []byte {
		return q.p.mem.at(q.buffer+uint64(int(index+i)&(q.entries-1)*connectx.CQEBytes), connectx.CQEBytes)
	}
	n, first := be.Uint32(title[44:]), be.Uint16(title[60:])
	if n < 2 || n > MaxSession || int(n) > q.entries {
		q.p.t.Fatalf("a session of %d CQEs", n)
	}
	var array [connectx.CQEBytes]byte
	for i := range n {
		if i%minis == 0 {
			copy(array[:], slot(max(i, 1)))
		}
		mini, b := array[i%minis*miniBytes:], slot(i)
		copy(b, title)
		b[63] = title[63]&^(connectx.Compressed|connectx.OwnerBit) | q.owner(index+i)
		copy(b[44:48], mini[4:8])
		if b[63]>>4 == connectx.CQEReq {
			copy(b[60:62], mini)
			b[56] = mini[2]
			continue
		}
		be.PutUint16(b[60:], first+uint16(i))
		if be.Uint32(mini) != 0 {
			q.p.t.Errorf("a hash or checksum %#x", mini[:4])
		}
	}
}

// wc is a CQE as libmlx5 understands it.
type wc struct {
	id      uint64
	opcode  uint8 // of the CQE
	wqe     uint8 // opcode of a request
	status  uint8 // syndrome
	vendor  uint8 // vendor_err_synd
	bytes   uint32
	imm     uint32
	user    uint32
	qpn     uint32
	src     uint32
	grh     bool
	sl      uint32
	se      bool
	ts      uint64
	counter uint16
}

func (q *queue) poll() (w wc, ok bool) {
	b := q.peek(q.ci)
	if b == nil {
		return w, false
	}
	be := binary.BigEndian
	b64 := b[q.size-64:]
	own := b64[63]
	w = wc{
		opcode: own >> 4, se: own&2 != 0, user: be.Uint32(b64[32:]), wqe: b64[56], qpn: be.Uint32(b64[56:]) & 0xffffff,
		counter: be.Uint16(b64[60:]),
	}
	q.ci++
	q.p.mem.put32(q.record, q.ci&0xffffff)
	if w.opcode == connectx.CQEResize {
		return w, true
	}
	x := q.p.byUser[w.user]
	if x == nil {
		q.p.t.Fatalf("a CQE of user index %#x", w.user)
	}
	switch w.opcode {
	case connectx.CQEReqErr, connectx.CQERespErr:
		w.vendor, w.status = b64[54], b64[55]
	default:
		w.bytes, w.imm, w.ts = be.Uint32(b64[44:]), be.Uint32(b64[36:]), be.Uint64(b64[48:])
		flags := be.Uint32(b64[24:])
		if own&connectx.Scatter32 != 0 { // it is data
			flags = 0
		}
		w.src, w.grh, w.sl = flags&0xffffff, flags>>28&3 != 0, flags>>24&0xf
	}
	switch w.opcode {
	case connectx.CQEReq, connectx.CQEReqErr:
		i := int(w.counter) & (x.blocks - 1)
		w.id = x.sendID[i]
		x.sendTail = x.head[i]
		if w.opcode == connectx.CQEReq {
			from := i*64 + connectx.CtrlBytes + connectx.RaddrBytes
			if w.wqe != connectx.OpRead {
				from += connectx.AtomicBytes
			}
			ds := int(x.p.mem.at(x.sq+uint64(i*64+7), 1)[0] & connectx.MaxOctowords)
			q.unscatter(b, w.bytes, x.sq, from, x.blocks*64, i*64+ds*connectx.Octoword)
		}
	default:
		if x.srq == nil {
			i := x.recvTail & (x.recvs - 1)
			q.unscatter(b, w.bytes, x.rq, i*x.stride, x.recvs*x.stride, (i+1)*x.stride)
		}
		if x.srq != nil {
			w.id = x.srq.ids[w.counter]
			x.srq.free(int(w.counter))
		} else {
			w.id = x.recvID[x.recvTail&(x.recvs-1)]
			x.recvTail++
		}
	}
	return w, true
}

// unscatter copies n bytes of a CQE, if it has any, to the buffers in the list from from
// to to, in a ring of size bytes.
func (q *queue) unscatter(cqe []byte, n uint32, ring uint64, from, size, to int) {
	var data []byte
	switch cqe[q.size-1] & (connectx.Scatter32 | connectx.Scatter64) {
	case 0:
		return
	case connectx.Scatter32:
		data = cqe[q.size-64:][:min(n, 32)]
	case connectx.Scatter64:
		data = cqe[:min(n, 64)]
	}
	q.p.scattered++
	if len(data) < int(n) {
		q.p.t.Fatalf("%d bytes in a CQE of %d", n, q.size)
	}
	be := binary.BigEndian
	for ; from < to && len(data) > 0; from += connectx.DataBytes {
		s := q.p.mem.at(ring+uint64(from%size), connectx.DataBytes)
		k := min(int(be.Uint32(s)), len(data))
		copy(q.p.mem.at(be.Uint64(s[8:]), k), data)
		data = data[k:]
	}
	if len(data) > 0 {
		q.p.t.Fatalf("%d bytes too many in a CQE", len(data))
	}
}

// arm arms the queue as ibv_req_notify_cq does.
func (q *queue) arm(solicitedOnly bool) {
	w := q.sn&3<<28 | q.ci&0xffffff
	if solicitedOnly {
		w |= 1 << 24
	}
	q.p.mem.put32(q.record+4, w)
	q.p.bell(0x20, uint64(w)<<32|uint64(q.cq.cfg.Number))
}

// shared is an SRQ as libmlx5 has it.
type shared struct {
	p       *program
	srq     *SRQ
	buffer  uint64
	record  uint64
	stride  int
	entries int
	head    int
	tail    int
	counter uint32
	ids     []uint64
	limits  int
	failed  int
}

func (p *program) newSRQ(entries, stride int) *shared {
	s := &shared{p: p, stride: stride, entries: entries, tail: entries - 1, ids: make([]uint64, entries)}
	s.buffer, s.record = p.mem.alloc(entries*stride), p.mem.alloc(8)
	for i := range entries - 1 {
		binary.BigEndian.PutUint16(p.mem.at(s.buffer+uint64(i*stride+2), 2), uint16(i+1))
	}
	back, err := p.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: entries, MaxSGE: min(stride/16-1, 16)})
	if err != nil {
		p.t.Fatal(err)
	}
	s.srq, err = p.e.CreateSRQ(SRQConfig{
		Buffer: s.buffer, Record: s.record, Entries: entries, Stride: stride, Backend: back,
		Limit: func() { s.limits++ }, Failed: func() { s.failed++ },
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (s *shared) wqe(i int) []byte { return s.p.mem.at(s.buffer+uint64(i*s.stride), s.stride) }

func (s *shared) post(id uint64, sgl ...verbs.SGE) bool {
	if s.head == s.tail {
		return false
	}
	w := s.wqe(s.head)
	s.ids[s.head] = id
	s.head = int(binary.BigEndian.Uint16(w[2:]))
	putList(w[16:], sgl)
	s.counter++
	s.p.mem.put32(s.record, s.counter)
	return true
}

func (s *shared) free(i int) {
	binary.BigEndian.PutUint16(s.wqe(s.tail)[2:], uint16(i))
	s.tail = i
}

// putList writes a receive's list and its end.
func putList(w []byte, sgl []verbs.SGE) {
	be := binary.BigEndian
	for _, s := range sgl {
		be.PutUint32(w, s.Length)
		be.PutUint32(w[4:], s.LKey)
		be.PutUint64(w[8:], s.Addr)
		w = w[16:]
	}
	if len(w) > 0 {
		be.PutUint32(w, 0)
		be.PutUint32(w[4:], connectx.InvalidLKey)
		be.PutUint64(w[8:], 0)
	}
}

// pair is a queue pair as libmlx5 has it.
type pair struct {
	p      *program
	qp     *QP
	num    uint32
	user   uint32
	sendCQ *queue
	recvCQ *queue
	srq    *shared
	record uint64
	failed int

	sq       uint64
	blocks   int
	cur      uint32 // blocks
	posted   uint32 // requests
	sendTail uint32 // requests that have completed
	sendID   []uint64
	head     []uint32 // by block: how many requests came up to it
	buffer   int      // of the blue-flame register

	rq       uint64
	stride   int
	recvs    int
	recvHead int
	recvTail int
	recvID   []uint64
}

type pairConfig struct {
	typ           ib.QPType
	blocks, recvs int
	stride        int
	srq           *shared
	backendDepth  int // 0 for as many as blocks
	sigAll        bool
}

func (p *program) newQP(c pairConfig, send, recv *queue) *pair {
	x := &pair{
		p: p, sendCQ: send, recvCQ: recv, srq: c.srq, blocks: c.blocks, recvs: c.recvs, stride: c.stride, user: uint32(len(p.byUser) + 0x11),
		sendID: make([]uint64, c.blocks), head: make([]uint32, c.blocks), recvID: make([]uint64, c.recvs),
	}
	x.record, x.sq, x.rq = p.mem.alloc(8), p.mem.alloc(c.blocks*64), p.mem.alloc(c.recvs*c.stride)
	init := verbs.QPInitAttr{Type: c.typ, SendCQ: send.cq.cfg.Backend, RecvCQ: recv.cq.cfg.Backend, Cap: verbs.QPCap{
		MaxSendWR: c.blocks, MaxSendSGE: 16, MaxRecvWR: c.recvs, MaxRecvSGE: max(1, min(c.stride/16, 16)), MaxInlineData: 1000,
	}}
	if c.backendDepth > 0 {
		init.Cap.MaxSendWR = c.backendDepth
	}
	var srq *SRQ
	if c.srq != nil {
		srq, init.SRQ = c.srq.srq, c.srq.srq.cfg.Backend
	}
	back, err := p.pd.CreateQP(init)
	if err != nil {
		p.t.Fatal(err)
	}
	x.num = back.Num()
	x.qp, err = p.e.CreateQP(QPConfig{
		Type: c.typ, UserIndex: x.user, Page: p.page, Record: x.record, SendBuffer: x.sq, SendBlocks: c.blocks,
		RecvBuffer: x.rq, RecvCount: c.recvs, RecvStride: c.stride, SendCQ: send.cq, RecvCQ: recv.cq, SRQ: srq, SigAll: c.sigAll,
		PD: p.pd, Backend: back, AH: p.pd.CreateAH, Failed: func() { x.failed++ },
		ScatterSent: p.scatter, ScatterRecv: p.scatter,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.byUser[x.user] = x
	return x
}

// recv posts a receive.
func (x *pair) recv(id uint64, sgl ...verbs.SGE) {
	i := x.recvHead & (x.recvs - 1)
	putList(x.p.mem.at(x.rq+uint64(i*x.stride), x.stride), sgl)
	x.recvID[i] = id
	x.recvHead++
	x.p.mem.put32(x.record, uint32(x.recvHead)&0xffff)
}

// wr is a request as a program posts it.
type wr struct {
	id      uint64
	opcode  uint8
	opmod   uint8
	flags   uint8 // fm_ce_se
	imm     uint32
	raddr   uint64
	rkey    uint32
	swap    uint64
	compare uint64
	sgl     []verbs.SGE
	inline  []byte // before the SGL
	to      *destination
}

const signal = connectx.CEAlways

// destination is a datagram's destination.
type destination struct {
	gid    netip.Addr
	qpn    uint32
	qkey   uint32
	tclass uint8
}

// encode returns the WQE.
func (x *pair) encode(w *wr) []byte {
	be := binary.BigEndian
	b := make([]byte, 16, 1024)
	be.PutUint32(b, uint32(w.opmod)<<24|x.cur&0xffff<<8|uint32(w.opcode))
	b[11] = w.flags
	be.PutUint32(b[12:], w.imm)
	if w.to != nil {
		gid := w.to.gid.As16()
		b = be.AppendUint32(b, w.to.qkey)
		b = be.AppendUint32(b, 0)
		b = be.AppendUint32(b, w.to.qpn|1<<31)
		b = append(b, 0, 0, 0, 0)                   // stat_rate_sl, fl_mlid, rlid
		b = append(b, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2) // reserved, rmac
		b = append(b, w.to.tclass, 64)
		b = be.AppendUint32(b, 0) // sgid index, flow label
		b = append(b, gid[:]...)
	}
	switch w.opcode {
	case connectx.OpWrite, connectx.OpWriteImm, connectx.OpRead, connectx.OpAtomicCS, connectx.OpAtomicFA:
		b = be.AppendUint64(b, w.raddr)
		b = be.AppendUint32(b, w.rkey)
		b = be.AppendUint32(b, 0)
	}
	switch w.opcode {
	case connectx.OpAtomicCS, connectx.OpAtomicFA:
		b = be.AppendUint64(b, w.swap)
		b = be.AppendUint64(b, w.compare)
	}
	if len(w.inline) > 0 {
		b = be.AppendUint32(b, connectx.InlineBit|uint32(len(w.inline)))
		b = append(b, w.inline...)
		b = append(b, make([]byte, -len(b)&15)...)
	}
	for _, s := range w.sgl {
		b = be.AppendUint32(b, s.Length)
		b = be.AppendUint32(b, s.LKey)
		b = be.AppendUint64(b, s.Addr)
	}
	be.PutUint32(b[4:], x.num<<8|uint32(len(b)/16))
	return b
}

// write puts a WQE into the ring, wrapping where it has to, without a doorbell.
func (x *pair) write(id uint64, b []byte) {
	i := int(x.cur) & (x.blocks - 1)
	x.posted++
	x.sendID[i], x.head[i] = id, x.posted
	for k := range b {
		x.p.mem.at(x.sq+uint64((i*64+k)&(x.blocks*64-1)), 1)[0] = b[k]
	}
	x.cur += uint32(len(b)+63) / 64
}

// ring rings the doorbell for what was written.
func (x *pair) ring() {
	x.p.mem.put32(x.record+4, x.cur&0xffff)
	x.p.bell(blueFlame+x.buffer, uint64(x.num)<<8|1)
	x.buffer ^= bufferStep
}

func (x *pair) post(ws ...wr) {
	for i := range ws {
		x.write(ws[i].id, x.encode(&ws[i]))
	}
	x.ring()
}

// room is the number of blocks the program may fill.
func (x *pair) reset() {
	x.cur, x.posted, x.sendTail, x.recvHead, x.recvTail = 0, 0, 0, 0, 0
	x.p.mem.put32(x.record, 0)
	x.p.mem.put32(x.record+4, 0)
}

// lab is two programs on two devices.
type lab struct {
	t    reporter
	devs [2]verbs.Device
	p    [2]*program
}

// run runs f as the application of a lab.
func run(t *testing.T, vectors bool, f func(l *lab)) {
	w, err := softroce.NewWorld(des.New(), 2, softroce.DefaultWorld())
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t}
	for i := range l.devs {
		l.devs[i] = w.Device(i)
		l.p[i] = newProgram(t, l.devs[i], vectors)
	}
	if err := verbs.Run(l.devs[0], func() error { f(l); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, p := range l.p {
		if n := p.mem.strayed.Load(); n > 0 {
			t.Errorf("%d accesses outside the program's memory", n)
		}
	}
}

// scan scans both devices until neither has found anything for a while.
func (l *lab) scan() {
	for idle := 0; idle < 300; idle++ {
		for _, p := range l.p {
			if p.e.Scan() {
				idle = 0
			}
		}
	}
}

// until scans until w is there.
func (l *lab) until(q *queue) wc {
	l.t.Helper()
	for range 100_000 {
		if w, ok := q.poll(); ok {
			return w
		}
		for _, p := range l.p {
			p.e.Scan()
		}
	}
	l.t.Fatal("no completion")
	return wc{}
}

const anyAccess = ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic

// connect brings two queue pairs to RTS, connected to each other.
func (l *lab) connect(x, y *pair) {
	l.t.Helper()
	for _, c := range [2][2]*pair{{x, y}, {y, x}} {
		l.rts(c[0], c[1])
	}
}

// rts brings x to RTS, with y as its peer where it has one.
func (l *lab) rts(x, y *pair) {
	l.t.Helper()
	gid, err := y.p.dev.GID(1, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	r := verbs.DefaultRC()
	a := verbs.QPAttr{
		State: ib.Init, Port: 1, Access: r.Access, QKey: 0x1111, PathMTU: 1024, DestQPN: y.num, RQPSN: 100, SQPSN: 100,
		AV: verbs.AddressVector{GID: gid, HopLimit: 64}, Timeout: 10, RetryCnt: 3, RNRRetry: 3, MinRNRTimer: 1,
		MaxRdAtomic: 8, MaxDestRdAtomic: 8,
	}
	masks := map[ib.QPType][3]verbs.QPAttrMask{
		ib.RC: {verbs.ResetToInitRC, verbs.InitToRTRRC, verbs.RTRToRTSRC},
		ib.UC: {verbs.ResetToInitUC, verbs.InitToRTRUC, verbs.RTRToRTSUC},
		ib.UD: {verbs.ResetToInitUD, verbs.InitToRTRUD, verbs.RTRToRTSUD},
	}[x.qp.cfg.Type]
	for i, s := range []ib.QPState{ib.Init, ib.RTR, ib.RTS} {
		a.State = s
		if err := x.qp.Modify(a, masks[i]); err != nil {
			l.t.Fatal(err)
		}
	}
}

// toState modifies the state alone.
func (x *pair) toState(s ib.QPState) {
	x.p.t.Helper()
	if err := x.qp.Modify(verbs.QPAttr{State: s}, verbs.AttrState); err != nil {
		x.p.t.Fatal(err)
	}
	if s == ib.Reset {
		x.reset()
	}
}

func sge(mr verbs.MR, addr uint64, n int) verbs.SGE {
	return verbs.SGE{Addr: addr, Length: uint32(n), LKey: mr.LKey()}
}
