package endpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// faulty makes the wire lose, double, delay and change one packet in a hundred each.
func (w *world) faulty() {
	w.drop, w.duplicate, w.reorder, w.corrupt = 0.01, 0.01, 0.01, 0.01
}

// patient are attributes that outlive such a wire: a short timeout, since its
// round trip is short, and all retries.
func patient(mtu ib.MTU) verbs.RCParams {
	p := verbs.DefaultRC()
	p.PathMTU, p.Timeout, p.MinRNRTimer = mtu, 8, 1 // 1 ms, 10 us
	return p
}

// TestFile writes a file to the other end over a faulty wire and reads it back.
// By default it is 8 MiB for 4 seeds. SLUICE_FILE_BYTES and SLUICE_FILE_SEEDS say
// otherwise: 1073741824 and 20 take about two minutes.
func TestFile(t *testing.T) {
	size, seeds := 8<<20, 4
	for name, v := range map[string]*int{"SLUICE_FILE_BYTES": &size, "SLUICE_FILE_SEEDS": &seeds} {
		if s := os.Getenv(name); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 {
				t.Fatalf("%s=%q: give a positive number", name, s)
			}
			*v = n
		}
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { fileThere(t, uint64(seed), size) })
	}
}

func fileThere(t *testing.T, seed uint64, size int) {
	l := newPair(t, seed, patient(4096))
	w, a, b := l.w, l.a, l.b
	w.faulty()
	mf, file := a.reg(size, allAccess)
	mr, remote := b.reg(size, allAccess)
	r := rand.New(rand.NewPCG(seed, 9))
	for i := 0; i+8 <= len(file); i += 8 {
		binary.LittleEndian.PutUint64(file[i:], r.Uint64())
	}
	sum := func(b []byte) (s uint64) {
		for i := 0; i+8 <= len(b); i += 8 {
			s = (s ^ binary.LittleEndian.Uint64(b[i:])) * 0x9e3779b97f4a7c15
		}
		return s
	}
	want := sum(file)
	const message = 1 << 20
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
		next, done := 0, map[uint64]int{}
		for len(done)*message < size {
			for next*message < size && next-len(done) < 16 {
				at := next * message
				n := min(message, size-at)
				a.post(l.x, verbs.SendWR{
					WRID: uint64(next), Opcode: op, Flags: verbs.SendSignaled, SGL: sge(mf, at, n), RemoteAddr: mr.Addr() + uint64(at), RKey: mr.Key(),
				})
				next++
			}
			w.step(units.Never)
			for _, c := range a.poll() {
				if c.Status != ib.WCSuccess {
					t.Fatalf("%v %d: %v; %+v", op, c.WRID, c.Status, l.x.Transport())
				}
				done[c.WRID]++
			}
		}
		for id, n := range done {
			if n != 1 {
				t.Errorf("%v %d completed %d times", op, id, n)
			}
		}
		if sum(remote) != want {
			t.Fatalf("%v: the other end's file differs", op)
		}
		if op == ib.WRRDMAWrite {
			clear(file)
		}
	}
	if sum(file) != want {
		t.Fatal("the file read back differs")
	}
	if w.badICRC == 0 || w.dropped == 0 || l.x.Transport().RetransmittedPackets == 0 {
		t.Errorf("the wire was not faulty: %d bad ICRCs, %d dropped", w.badICRC, w.dropped)
	}
}

// plan is requests of all kinds with what they must lead to.
type plan struct {
	h, peer     *host
	q           *QP
	wr          []verbs.SendWR
	written     []byte // what the peer's memory must become
	brings      []byte // what the local memory must become
	words       [4]uint64
	target      *MR
	local       *MR
	recvs       [][]byte // what the peer must receive
	imms        []verbs.WC
	posted      int
	completions []verbs.WC
	received    []verbs.WC
}

const (
	planBytes = 1 << 17
	recvBytes = 9000
)

// makePlan draws n requests. Each WRITE has a place of its own at the peer, each
// READ and atomic one of its own here, so the order in time of two that touch
// nothing in common does not matter.
func makePlan(r *rand.Rand, h, peer *host, q *QP, n int) *plan {
	p := &plan{h: h, peer: peer, q: q}
	var target, local []byte
	p.target, target = peer.reg(planBytes, allAccess)
	p.local, local = h.reg(planBytes, allAccess)
	words := 8 * len(p.words) // at the end of target
	fill(r, local[:planBytes/2])
	fill(r, target[:planBytes/4]) // to be read
	for i := range p.words {
		binary.NativeEndian.PutUint64(target[planBytes-words+8*i:], 0)
	}
	p.written, p.brings = bytes.Clone(target), bytes.Clone(local)
	wrote, read := planBytes/4, planBytes/2 // from there on
	for i := range n {
		size := r.IntN(3000)
		if r.IntN(4) == 0 {
			size = 1024 * r.IntN(4)
		}
		from := r.IntN(planBytes/2 - size)
		wr := verbs.SendWR{WRID: uint64(i), Flags: verbs.SendSignaled, SGL: sge(p.local, from, size), RKey: p.target.Key()}
		if r.IntN(3) == 0 {
			wr.Flags |= verbs.SendFence
		}
		switch op := r.IntN(8); op {
		case 0, 1, 2: // WRITE
			wr.Opcode, wr.RemoteAddr = ib.WRRDMAWrite, p.target.Addr()+uint64(wrote)
			if wrote+size > planBytes-words {
				continue
			}
			copy(p.written[wrote:], p.brings[from:from+size])
			wrote += size
			if op == 2 {
				wr.Opcode, wr.Imm = ib.WRRDMAWriteWithImm, r.Uint32()
				p.recvs = append(p.recvs, nil)
				p.imms = append(p.imms, verbs.WC{Opcode: ib.WCRecvRDMAWithImm, Flags: verbs.WCWithImm, Imm: wr.Imm, ByteLen: uint32(size)})
			}
		case 3, 4: // SEND
			wr.Opcode = ib.WRSend
			c := verbs.WC{Opcode: ib.WCRecv, ByteLen: uint32(size)}
			if op == 4 {
				wr.Opcode, wr.Imm = ib.WRSendWithImm, r.Uint32()
				c.Flags, c.Imm = verbs.WCWithImm, wr.Imm
			}
			p.recvs = append(p.recvs, p.brings[from:from+size])
			p.imms = append(p.imms, c)
		case 5, 6: // READ
			at := r.IntN(planBytes/4 - size)
			if read+size > planBytes-8 {
				continue
			}
			wr.Opcode, wr.RemoteAddr, wr.SGL = ib.WRRDMARead, p.target.Addr()+uint64(at), sge(p.local, read, size)
			copy(p.brings[read:], p.written[at:at+size])
			read += size
		case 7: // atomic
			if read+16 > planBytes-8 {
				continue
			}
			read = (read + 7) &^ 7
			k := r.IntN(len(p.words))
			wr.Opcode, wr.RemoteAddr, wr.SGL = ib.WRAtomicFetchAndAdd, p.target.Addr()+uint64(planBytes-words+8*k), sge(p.local, read, 8)
			binary.NativeEndian.PutUint64(p.brings[read:], p.words[k])
			read += 8
			wr.CompareAdd, wr.Swap = r.Uint64N(1000), r.Uint64()
			if r.IntN(2) == 0 {
				p.words[k] += wr.CompareAdd
			} else {
				wr.Opcode, wr.CompareAdd = ib.WRAtomicCmpAndSwp, p.words[k]+r.Uint64N(2)
				if wr.CompareAdd == p.words[k] {
					p.words[k] = wr.Swap
				}
			}
		}
		p.wr = append(p.wr, wr)
	}
	for i, v := range p.words {
		binary.NativeEndian.PutUint64(p.written[planBytes-words+8*i:], v)
	}
	return p
}

func (p *plan) push() {
	for p.posted < len(p.wr) {
		if _, err := p.q.PostSend(p.h.w.now, p.wr[p.posted:p.posted+1]); err != nil {
			break
		}
		p.posted++
	}
	p.h.pump()
}

// TestAllKinds runs requests of all kinds both ways over a faulty wire. Memory,
// completions and receives must end as on a perfect one.
func TestAllKinds(t *testing.T) {
	var all rc.Counters
	for seed := range uint64(60) {
		mtu := []ib.MTU{256, 1024, 4096}[seed%3]
		l := newPair(t, seed, patient(mtu))
		w := l.w
		r := rand.New(rand.NewPCG(seed, 5))
		a, b := makePlan(r, l.a, l.b, l.x, 80), makePlan(r, l.b, l.a, l.y, 80)
		buffers := map[*host][]byte{}
		regions := map[*host]*MR{}
		for _, p := range []*plan{a, b} {
			regions[p.peer], buffers[p.peer] = p.peer.reg(len(p.recvs)*recvBytes+1, ib.AccessLocalWrite)
		}
		w.faulty()
		// Receives come late now and then.
		posted := map[*host]int{}
		feed := func(p *plan, q *QP) {
			for n := r.IntN(6); n > 0 && posted[p.peer] < len(p.recvs); n-- {
				i := posted[p.peer]
				if _, err := q.PostRecv(w.now, []verbs.RecvWR{{WRID: uint64(1000 + i), SGL: sge(regions[p.peer], i*recvBytes, recvBytes)}}); err != nil {
					break
				}
				posted[p.peer]++
			}
		}
		take := func(h *host, own, other *plan) {
			for _, c := range h.poll() {
				if c.Status != ib.WCSuccess {
					t.Fatalf("seed %d: %+v", seed, c)
				}
				if c.Opcode >= ib.WCRecv {
					other.received = append(other.received, c)
				} else {
					own.completions = append(own.completions, c)
				}
			}
		}
		for {
			a.push()
			b.push()
			if w.rng.IntN(20) == 0 {
				feed(a, l.y)
				feed(b, l.x)
			}
			more := w.step(units.Never)
			take(l.a, a, b)
			take(l.b, b, a)
			if len(a.completions) == len(a.wr) && len(b.completions) == len(b.wr) {
				break
			}
			if !more {
				feed(a, l.y)
				feed(b, l.x)
			}
			if w.now > 100*units.Second {
				t.Fatalf("seed %d: stuck: %d of %d, %d of %d", seed, len(a.completions), len(a.wr), len(b.completions), len(b.wr))
			}
		}
		w.settle()
		take(l.a, a, b)
		take(l.b, b, a)
		for _, p := range []*plan{a, b} {
			for i, c := range p.completions {
				if c.WRID != p.wr[i].WRID || c.Opcode != p.wr[i].Opcode.Completion() {
					t.Fatalf("seed %d: completion %d is %+v", seed, i, c)
				}
			}
			if !bytes.Equal(p.target.buf, p.written) {
				t.Fatalf("seed %d: the peer's memory is wrong", seed)
			}
			if !bytes.Equal(p.local.buf, p.brings) {
				t.Fatalf("seed %d: what was read is wrong", seed)
			}
			if len(p.received) != len(p.recvs) {
				t.Fatalf("seed %d: %d receives, want %d", seed, len(p.received), len(p.recvs))
			}
			for i, c := range p.received {
				want := p.imms[i]
				want.WRID, want.QPN, want.Timestamp = uint64(1000+i), c.QPN, c.Timestamp
				if c != want {
					t.Fatalf("seed %d: receive %+v, want %+v", seed, c, want)
				}
				if got := buffers[p.peer][i*recvBytes:][:len(p.recvs[i])]; !bytes.Equal(got, p.recvs[i]) {
					t.Fatalf("seed %d: message %d is wrong", seed, i)
				}
			}
		}
		for _, q := range []*QP{l.x, l.y} {
			c := q.Transport()
			all.PacketSeqErr += c.PacketSeqErr
			all.LocalAckTimeoutErr += c.LocalAckTimeoutErr
			all.RNRNakRetryErr += c.RNRNakRetryErr
			all.DuplicateRequest += c.DuplicateRequest
			all.ImpliedNakSeqErr += c.ImpliedNakSeqErr
		}
	}
	if all.PacketSeqErr == 0 || all.LocalAckTimeoutErr == 0 || all.RNRNakRetryErr == 0 || all.DuplicateRequest == 0 || all.ImpliedNakSeqErr == 0 {
		t.Errorf("some kind of recovery was never needed: %+v", all)
	}
}
