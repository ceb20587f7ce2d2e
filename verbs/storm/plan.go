package storm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// A plan is what one end of a connection asks of the other, and what memory must become
// by it. Both ends draw the same plan.
//
// The requester's memory: what it sends, then a place for each read and atomic. The
// responder's: a place for each write, then what is read, then the words of atomics.
type plan struct {
	ops     []planned
	source  []byte // what the requester sends
	own     int    // bytes of the requester's memory
	written int    // bytes of the responder's that are written
	reads   []byte // what the responder offers to read
	theirs  int    // bytes of the responder's memory
	sends   []int  // the ops that consume a receive
}

// planned is one request of a plan.
type planned struct {
	op     ib.WROpcode
	flags  verbs.SendFlags
	size   int
	first  int    // bytes of the first of two pieces; size if there is one
	from   int    // in the requester's memory
	data   []byte // what it sends or writes
	at     int    // in the responder's
	imm    uint32
	add    uint64 // what an atomic compares with, or adds
	swap   uint64
	before uint64 // what an atomic's word is before it, and after
	after  uint64
}

const (
	sourceBytes = 8 << 10
	readBytes   = 8 << 10
	atomicWords = 3
	blank       = 0xa5 // what memory holds that nothing was written to
)

func drawPlan(r *rand.Rand) *plan {
	p := &plan{source: make([]byte, sourceBytes), reads: make([]byte, readBytes)}
	for _, b := range [][]byte{p.source, p.reads} {
		for i := 0; i < len(b); i += 8 {
			binary.LittleEndian.PutUint64(b[i:], r.Uint64())
		}
	}
	p.own = sourceBytes
	d := drawing{plan: p, Rand: r}
	n := 1 + r.IntN(24)
	for i := range n {
		o := planned{flags: verbs.SendSignaled, imm: r.Uint32()}
		switch r.IntN(4) {
		case 0:
			o.size = r.IntN(16)
		case 1:
			o.size = 256 * r.IntN(17)
		default:
			o.size = r.IntN(sourceBytes)
		}
		o.from = r.IntN(sourceBytes - o.size)
		passedOn := d.operation(&o)
		if o.data == nil && o.op != ib.WRRDMARead && !o.atomic() {
			o.data = p.source[o.from : o.from+o.size]
		}
		d.flags(&o, passedOn, i == n-1)
		if o.first = o.size; !o.atomic() && o.size > 1 && r.IntN(3) == 0 {
			o.first = 1 + r.IntN(o.size-1)
		}
		if o.receives() {
			p.sends = append(p.sends, len(p.ops))
		}
		p.ops = append(p.ops, o)
	}
	p.written = (p.written + 7) &^ 7
	p.theirs = p.written + readBytes + 8*atomicWords
	return p
}

// drawing is a plan that is being drawn.
type drawing struct {
	*plan
	*rand.Rand
	words       [atomicWords]uint64 // after the requests so far
	invalidates bool                // the other end has one key to take away
}

// operation draws what a request does, and where. It reports whether the request passes on
// what a Read brings.
func (d *drawing) operation(o *planned) (passedOn bool) {
	switch kind := d.IntN(10); kind {
	case 0, 1, 2, 3:
		o.op = ib.WRRDMAWrite
		if kind == 3 {
			o.op = ib.WRRDMAWriteWithImm
		}
		if read := d.lastRead(); kind == 2 && read != nil {
			// What a Read brings is written elsewhere: a fence waits for it.
			o.size, o.from, o.data, passedOn = read.size, read.from, d.reads[read.at:read.at+read.size], true
		}
		o.at = d.written
		d.written += o.size
	case 4, 5:
		o.op = ib.WRSend
		if kind == 5 {
			o.op = ib.WRSendWithImm
		}
		if kind == 4 && !d.invalidates && d.IntN(4) == 0 {
			o.op, d.invalidates = ib.WRSendWithInv, true
		}
	case 6, 7:
		o.op = ib.WRRDMARead
		o.at, o.from = d.IntN(readBytes-o.size), d.own
		d.own += o.size
	default:
		d.own = (d.own + 7) &^ 7
		o.size, o.from = 8, d.own
		d.own += 8
		d.atomic(o, kind == 8)
	}
	return passedOn
}

// atomic draws the word of an atomic and what it does to it.
func (d *drawing) atomic(o *planned, adds bool) {
	o.at = d.IntN(atomicWords)
	w := &d.words[o.at]
	o.before = *w
	if adds {
		o.op, o.add = ib.WRAtomicFetchAndAdd, 1+d.Uint64N(1000)
		*w += o.add
	} else {
		o.op, o.add, o.swap = ib.WRAtomicCmpAndSwp, *w+d.Uint64N(2), d.Uint64()
		if o.add == *w {
			*w = o.swap
		}
	}
	o.after = *w
}

// flags draws a request's flags. The last one is signaled.
func (d *drawing) flags(o *planned, passedOn, last bool) {
	if passedOn || d.IntN(4) == 0 {
		o.flags |= verbs.SendFence
	}
	if d.IntN(4) == 0 {
		o.flags |= verbs.SendSolicited
	}
	if d.IntN(5) == 0 && !last && o.op != ib.WRRDMARead && o.size != 8 {
		o.flags &^= verbs.SendSignaled
	}
	if !passedOn && o.size <= 64 && (o.op == ib.WRSend || o.op == ib.WRRDMAWrite) && d.IntN(3) == 0 {
		o.flags |= verbs.SendInline
	}
}

// lastRead is the last Read of the plan so far, nil if there is none.
func (p *plan) lastRead() *planned {
	for i := len(p.ops) - 1; i >= 0; i-- {
		if p.ops[i].op == ib.WRRDMARead {
			return &p.ops[i]
		}
	}
	return nil
}

// receives reports whether the request consumes a receive.
func (o *planned) receives() bool {
	return o.op.ConsumesRecv()
}

func (o *planned) atomic() bool {
	return o.op == ib.WRAtomicFetchAndAdd || o.op == ib.WRAtomicCmpAndSwp
}

func (o *planned) writes() bool {
	return o.op == ib.WRRDMAWrite || o.op == ib.WRRDMAWriteWithImm
}

// longest is what a receive needs room for, at least a byte.
func (p *plan) longest() int {
	n := 1
	for _, i := range p.sends {
		n = max(n, p.ops[i].size)
	}
	return n
}

// fillOwn and fillTheirs make both memories what they are before the first request.
func (p *plan) fillOwn(b []byte) {
	n := copy(b, p.source)
	fill(b[n:])
}

func (p *plan) fillTheirs(b []byte) {
	fill(b[:p.written])
	copy(b[p.written:], p.reads)
	clear(b[p.written+readBytes:])
}

func fill(b []byte) {
	for i := range b {
		b[i] = blank
	}
}

// request is the work request of an op. mr is the requester's memory.
func (p *plan) request(i int, mr verbs.MR, mem []byte, to *hello) verbs.SendWR {
	o, remote := &p.ops[i], to.addr
	wr := verbs.SendWR{WRID: uint64(i), Opcode: o.op, Flags: o.flags, Imm: o.imm, RKey: to.rkey}
	if o.op == ib.WRSendWithInv {
		wr.Imm = to.token
	}
	if o.flags&verbs.SendInline != 0 {
		wr.Inline = bytes.Clone(mem[o.from : o.from+o.size])
	} else {
		wr.SGL = []verbs.SGE{verbs.SGEOf(mr, o.from, o.first), verbs.SGEOf(mr, o.from+o.first, o.size-o.first)}
		if o.first == o.size {
			wr.SGL = wr.SGL[:1]
		}
	}
	switch {
	case o.writes():
		wr.RemoteAddr = remote + uint64(o.at)
	case o.op == ib.WRRDMARead:
		wr.RemoteAddr = remote + uint64(p.written+o.at)
	case o.atomic():
		wr.RemoteAddr, wr.CompareAdd, wr.Swap = remote+uint64(p.written+readBytes+8*o.at), o.add, o.swap
	}
	return wr
}

// brought says what is wrong with what a completed request has brought, if anything is.
func (p *plan) brought(i int, mem []byte) error {
	o := &p.ops[i]
	got := mem[o.from : o.from+o.size]
	switch {
	case o.op == ib.WRRDMARead && !bytes.Equal(got, p.reads[o.at:o.at+o.size]):
		return fmt.Errorf("request %d has read %d bytes that are not the other end's", i, o.size)
	case o.atomic() && binary.NativeEndian.Uint64(got) != o.before:
		return fmt.Errorf("request %d, an atomic, has returned %#x, and the word was %#x", i, binary.NativeEndian.Uint64(got), o.before)
	}
	return nil
}

// delivered says what is wrong with the n-th message that was received, if anything is. cuts says
// that a Write with immediate data comes in segments, of which the last one's bytes are counted.
func (p *plan) delivered(n int, wc *verbs.WC, mem []byte, token uint32, cuts bool) error {
	if n >= len(p.sends) {
		return fmt.Errorf("message %d was received, of %d sent", n, len(p.sends))
	}
	o := &p.ops[p.sends[n]]
	want, imm, length := ib.WCRecv, o.op == ib.WRSendWithImm || o.op == ib.WRRDMAWriteWithImm, o.size
	if o.op == ib.WRRDMAWriteWithImm {
		want = ib.WCRecvRDMAWithImm
		if cuts && length > 0 {
			length = (length-1)%int(segmentBytes) + 1
		}
	}
	switch {
	case wc.Opcode != want:
		return fmt.Errorf("message %d, a %v, was received as %v", n, o.op, wc.Opcode)
	case int(wc.ByteLen) != length:
		return fmt.Errorf("message %d, of %d bytes, was received with %d, expected %d", n, o.size, wc.ByteLen, length)
	case imm != (wc.Flags&verbs.WCWithImm != 0) || imm && wc.Imm != o.imm:
		return fmt.Errorf("message %d was received with the immediate %#x (flags %#x), sent with %#x", n, wc.Imm, wc.Flags, o.imm)
	case (o.op == ib.WRSendWithInv) != (wc.Flags&verbs.WCWithInv != 0) || o.op == ib.WRSendWithInv && wc.Imm != token:
		return fmt.Errorf("message %d, a %v, was received with the key %#x taken away (flags %#x), and had %#x", n, o.op, wc.Imm, wc.Flags, token)
	case want == ib.WCRecv && !bytes.Equal(mem[:o.size], o.data):
		return fmt.Errorf("message %d was received with other bytes than were sent", n)
	}
	return nil
}

// left says what is wrong with the responder's memory when the connection is over, if
// anything is: it must be that of the first requests, at least the completed and at most
// the posted ones, and of a part of the next. Where the
// transport places what comes beyond a gap, it may be that of any that were posted.
func (p *plan) left(mem []byte, completed, posted int, unordered bool) error {
	most, err := p.leftWrites(mem, completed, posted, unordered)
	if err != nil {
		return err
	}
	if err := p.leftWords(mem[p.written+readBytes:], completed, most); err != nil {
		return err
	}
	if !bytes.Equal(mem[p.written:p.written+readBytes], p.reads) {
		return fmt.Errorf("what is only read has changed")
	}
	return nil
}

// leftWrites is left of what Writes wrote. It returns the first request whose write is not
// whole, which bounds what was carried out, or posted.
func (p *plan) leftWrites(mem []byte, completed, posted int, unordered bool) (most int, err error) {
	most = posted
	for i := range p.ops {
		o := &p.ops[i]
		if !o.writes() {
			continue
		}
		got, want := mem[o.at:o.at+o.size], o.data
		whole := bytes.Equal(got, want)
		switch {
		case whole && i >= posted && o.size > 8:
			return 0, fmt.Errorf("request %d was never posted, and its bytes are there", i)
		case whole && i > most && o.size > 8 && !unordered:
			return 0, fmt.Errorf("request %d is carried out, and an earlier one, %d, is not", i, most)
		case whole:
			continue
		case i < completed:
			return 0, fmt.Errorf("request %d has completed, and its bytes are not there", i)
		}
		partial := !untouched(got)
		if unordered && i >= posted && partial {
			return 0, fmt.Errorf("request %d was never posted, and some of its bytes are there", i)
		}
		if partial && i > most && !unordered {
			return 0, fmt.Errorf("request %d is begun, and an earlier one, %d, is not carried out", i, most)
		}
		if partial && !(unordered && patches(got, want) || prefix(got, want)) {
			return 0, fmt.Errorf("request %d has left bytes that are neither its own nor what was there", i)
		}
		most = min(most, i)
	}
	return most, nil
}

// leftWords is left of the atomics' words, where requests are carried out up to most at the
// latest.
func (p *plan) leftWords(words []byte, completed, most int) error {
	for w := range atomicWords {
		got := binary.NativeEndian.Uint64(words[8*w:])
		ok, now := false, uint64(0)
		for i := 0; i <= len(p.ops); i++ {
			if i >= completed && i <= most && got == now {
				ok = true
			}
			if i < len(p.ops) && p.ops[i].atomic() && p.ops[i].at == w {
				now = p.ops[i].after
			}
		}
		// The request at most is the first whose write is not whole: those after it are not
		// carried out, and one that is no write may be the one under way.
		if !ok {
			return fmt.Errorf("word %d holds %#x, which no number of atomics from %d to %d leaves", w, got, completed, most)
		}
	}
	return nil
}

func untouched(b []byte) bool {
	for _, v := range b {
		if v != blank {
			return false
		}
	}
	return true
}

// patches reports whether got has bytes of want, and is untouched elsewhere.
func patches(got, want []byte) bool {
	for i, b := range got {
		if b != want[i] && b != blank {
			return false
		}
	}
	return true
}

// prefix reports whether got begins as want does, and goes on untouched.
func prefix(got, want []byte) bool {
	n := 0
	for n < len(got) && got[n] == want[n] {
		n++
	}
	for ; n >= 0; n-- {
		if untouched(got[n:]) {
			return true
		}
		if n > 0 && got[n-1] != blank {
			return false
		}
	}
	return false
}
