package core

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/dcqcn"
	"github.com/sluice-rdma/sluice/cc/dctcp"
	"github.com/sluice-rdma/sluice/cc/hpcc"
	"github.com/sluice-rdma/sluice/cc/swift"
	"github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/ctest"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

const (
	us = units.Microsecond

	// As in testdata/core.c.
	cBlock    = 1 << 12
	cPairs    = 6
	cGroups   = 2
	cFlows    = cPairs + cGroups
	cSlots    = 16
	cSegments = 8
	cSGEs     = 3
	cInline   = 64
	cBatch    = 8
	cRing     = 128
)

// Calls of testdata/core.c.
const (
	callStart = iota
	callAdd
	callRemove
	callName
	callEngine
	callResume
	callStop
	callSuspend
	callRestore
	callClear
	callFail
	callMTU
	callLongest
	callReads
	callTimeout
	callLimiter
	callAccept
	callOffer
	callFile
	callDue
	callNext
	callPosted
	callComplete
	callMeasure
	callFinish
	callPop
	callNow
	callNextDue
	callCounts
	callHeld
	callSample
	callGroup
	callJoin
	callLeave
	callCap
)

var callNames = []string{
	"start", "add", "remove", "name", "engine", "resume", "stop", "suspend", "restore", "clear", "fail", "mtu", "reads", "limiter",
	"accept", "offer", "file", "due", "next", "posted", "complete", "measure", "finish", "pop", "now", "next due", "counts", "held", "sample", "group", "join", "leave", "cap",
}

// twin is a core in Go, and one in C that is called alike.
type twin struct {
	testing.TB
	program *ctest.Program
	sizes   [18]uint64
	text    []byte
	calls   [][14]int64
	want    [][3]int64
	total   int
	reply   []byte

	rng    *rand.Rand
	core   *Core
	clock  *completions.Clock
	batch  int
	bits   int
	pairs  [cPairs]*twinPair
	groups [cGroups]*twinGroup
	queue  completions.Queue
	sample Sample
	long   units.LongTime // the driver's clock
	ns     int64          // the same
	ps     int64          // beyond ns
	now    units.Time
	nic    uint64 // the NIC's counter runs with the host's
	ids    uint64
	names  uint64
	done   map[int]int // of what kind there were how many
}

// twinPair is a queue pair in Go.
type twinPair struct {
	QP
	flight      []uint64 // WRIDs with the provider
	cnps        uint64
	retransmits uint8
	engine      int
	place       Member
}

// twinGroup is a group in Go.
type twinGroup struct {
	Group
	engine int
	line   units.Rate
}

func (w *twin) call(what, pair int, v []int64, want ...int64) {
	w.Helper()
	var c [14]int64
	c[0], c[1] = int64(what), int64(pair)
	copy(c[2:], v)
	var r [3]int64
	copy(r[:], want)
	w.done[what]++
	w.calls, w.want = append(w.calls, c), append(w.want, r)
	if len(w.calls) == cBlock {
		w.flush()
	}
}

// flush sends the calls and compares answers and memory.
func (w *twin) flush() {
	w.Helper()
	w.text = binary.LittleEndian.AppendUint64(w.text[:0], uint64(len(w.calls)))
	for i := range w.calls {
		for _, v := range w.calls[i] {
			w.text = binary.LittleEndian.AppendUint64(w.text, uint64(v))
		}
	}
	n := 24 * len(w.calls)
	if need := n + int(w.sizes[0]); cap(w.reply) < need {
		w.reply = make([]byte, need)
	}
	w.reply = w.reply[:n+int(w.sizes[0])]
	w.program.Exchange(w, w.text, w.reply)
	for i, want := range w.want {
		var got [3]int64
		for k := range got {
			got[k] = int64(binary.LittleEndian.Uint64(w.reply[24*i+8*k:]))
		}
		if got != want {
			w.Fatalf("call %d, %s %v: C answers %d, Go %d", w.total+i, callNames[w.calls[i][0]], w.calls[i][1:], got, want)
		}
	}
	w.total += len(w.calls)
	w.calls, w.want = w.calls[:0], w.want[:0]
	w.compare(w.reply[n:])
}

// leaf is a number in Go's memory and in C's, which has pointers where Go has
// interfaces of twice the size.
type leaf struct {
	name  string
	in, c uintptr
	size  uintptr
	float bool
}

type layout struct {
	leaves      []leaf
	size, align uintptr // C's
}

var layouts = map[reflect.Type]*layout{}

func layoutOf(t testing.TB, typ reflect.Type) *layout {
	if l := layouts[typ]; l != nil {
		return l
	}
	l := &layout{align: 1}
	layouts[typ] = l
	switch typ.Kind() {
	case reflect.Struct:
		for i := range typ.NumField() {
			f := typ.Field(i)
			l.add(layoutOf(t, f.Type), "."+f.Name, f.Offset)
		}
		l.size = (l.size + l.align - 1) &^ (l.align - 1)
	case reflect.Array:
		for i := range typ.Len() {
			l.add(layoutOf(t, typ.Elem()), fmt.Sprintf("[%d]", i), uintptr(i)*typ.Elem().Size())
		}
	case reflect.Pointer, reflect.Interface:
		l.size, l.align = 8, 8
	case reflect.Slice:
		l.size, l.align = 24, 8
	case reflect.Float64, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		l.size, l.align = typ.Size(), typ.Size()
		l.leaves = []leaf{{"", 0, 0, typ.Size(), typ.Kind() == reflect.Float64}}
	default:
		t.Fatalf("a %v, which C does not have", typ)
	}
	return l
}

func (l *layout) add(part *layout, name string, in uintptr) {
	at := (l.size + part.align - 1) &^ (part.align - 1)
	for _, x := range part.leaves {
		l.leaves = append(l.leaves, leaf{name + x.name, in + x.in, at + x.c, x.size, x.float})
	}
	l.size, l.align = at+part.size, max(l.align, part.align)
}

// compare holds C's memory to Go's, field by field.
func (w *twin) compare(memory []byte) {
	w.Helper()
	at := uintptr(0)
	next := func(index int, name string, p unsafe.Pointer, typ reflect.Type, n, most int) {
		w.Helper()
		l := layoutOf(w, typ)
		if index > 0 && uint64(l.size) != w.sizes[index] {
			w.Fatalf("%s has %d bytes in C, expected %d as %v has in Go", name, w.sizes[index], l.size, typ)
		}
		for i := range n {
			for _, x := range l.leaves {
				want := unsafe.Slice((*byte)(unsafe.Add(p, uintptr(i)*typ.Size()+x.in)), x.size)
				got := memory[at+uintptr(i)*l.size+x.c:][:x.size]
				if !bytes.Equal(got, want) && !(x.float && nan(got) && nan(want)) {
					w.Fatalf("after %d calls, %s%s of number %d is %x in C, %x in Go", w.total, name, x.name, i, got, want)
				}
			}
		}
		at += uintptr(most) * l.size
	}
	one := func(index int, name string, v reflect.Value) {
		w.Helper()
		next(index, name, v.UnsafePointer(), v.Type().Elem(), 1, 1)
	}
	many := func(index int, name string, v reflect.Value, most int) {
		w.Helper()
		next(index, name, v.UnsafePointer(), v.Type().Elem(), v.Len(), most)
	}
	sched := reflect.ValueOf(w.core.sched)
	one(1, "core", reflect.ValueOf(w.core))
	one(2, "limiter", sched)
	one(3, "calibration", reflect.ValueOf(w.clock).Elem().Field(0))
	one(4, "sample", reflect.ValueOf(&w.sample))
	many(5, "flow", sched.Elem().FieldByName("flows"), cFlows)
	many(6, "links", sched.Elem().FieldByName("links"), cFlows)
	many(7, "claim", reflect.ValueOf(w.core.claims), cBatch)
	many(8, "entry", reflect.ValueOf(&w.queue).Elem().FieldByName("ring"), cRing)
	for i, p := range w.pairs {
		start := at
		if p == nil {
			at += uintptr(w.sizes[9])
			continue
		}
		name := fmt.Sprintf("queue pair %d: ", i)
		one(10, name+"qp", reflect.ValueOf(&p.QP))
		one(16, name+"member", reflect.ValueOf(&p.place))
		at += uintptr(w.sizes[11]) // of the engine, which TestEveryEngine in ccore compares
		table := reflect.ValueOf(&p.table).Elem()
		many(12, name+"message", table.FieldByName("messages"), cSlots)
		many(13, name+"segment", table.FieldByName("segments"), cSegments)
		many(14, name+"request", reflect.ValueOf(p.requests), cSlots)
		many(15, name+"sge", reflect.ValueOf(p.sgl), cSlots*cSGEs)
		many(0, name+"inline", reflect.ValueOf(p.inline), cSlots*cInline)
		if at != start+uintptr(w.sizes[9]) {
			w.Fatalf("a queue pair has %d bytes in C, expected %d", w.sizes[9], at-start)
		}
	}
	for i, g := range w.groups {
		if g == nil {
			at += uintptr(w.sizes[17])
			continue
		}
		one(17, fmt.Sprintf("group %d", i), reflect.ValueOf(&g.Group))
	}
}

func nan(b []byte) bool { return math.IsNaN(math.Float64frombits(binary.LittleEndian.Uint64(b))) }

func mix(d, v uint64) uint64 { return (d ^ v) * 0x100000001b3 }

func wcDigest(wc *verbs.WC) int64 {
	d := uint64(0)
	for _, v := range []uint64{wc.WRID, uint64(wc.Status), uint64(wc.Opcode), uint64(wc.ByteLen), uint64(wc.QPN), uint64(wc.VendorErr), wc.Timestamp} {
		d = mix(d, v)
	}
	return int64(d)
}

func postsDigest(wrs []verbs.SendWR) int64 {
	d := uint64(0)
	for i := range wrs {
		wr := &wrs[i]
		for _, v := range []uint64{wr.WRID, uint64(wr.Opcode), uint64(wr.Flags), wr.RemoteAddr, uint64(wr.RKey), uint64(wr.Imm), wr.CompareAdd, wr.Swap} {
			d = mix(d, v)
		}
		for _, s := range wr.SGL {
			d = mix(mix(mix(d, s.Addr), uint64(s.Length)), uint64(s.LKey))
		}
		for _, b := range wr.Inline {
			d = mix(d, uint64(b))
		}
	}
	return int64(d)
}

// begin starts another life: a core without queue pairs.
func (w *twin) begin(round int) {
	w.batch = []int{8, 1, 3}[round%3]
	w.bits = []int{64, 48, 36}[round%3]
	catchUp := []units.Time{10 * us, 0, units.Millisecond}[round/2%3]
	nicClock := round%5 == 3
	w.ns, w.ps = w.rng.Int64N(1<<40), 0
	w.long = units.Long(time.Duration(w.ns))
	c := calibration.DefaultConfig(w.bits, 1e9)
	clock, err := completions.NewClock(w.bits, 1e9, c.MaxInterval)
	if err != nil {
		w.Fatal(err)
	}
	w.clock = clock
	w.core, err = New(Config{
		Batch: w.batch, CatchUp: catchUp, BaseRTT: 20 * us, Origin: w.long, NICClock: nicClock, ClockBits: w.bits, CoreClockHz: 1e9,
		Bypass: round%2 == 1,
	}, clock)
	if err != nil {
		w.Fatal(err)
	}
	w.pairs = [cPairs]*twinPair{}
	w.groups = [cGroups]*twinGroup{}
	w.queue, w.sample = completions.Queue{}, Sample{}
	w.queue.Reserve(cRing)
	w.nic = w.rng.Uint64() & w.mask()
	w.call(callStart, 0, []int64{int64(w.batch), int64(catchUp), int64(20 * us), w.ns, int64(w.bits), number(nicClock), int64(round % 2)})
	w.tick(0)
}

func (w *twin) mask() uint64 { return math.MaxUint64 >> (64 - w.bits) }

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// tick lets time pass, and takes it to the core.
func (w *twin) tick(by units.Time) {
	w.ps += int64(by % units.Nanosecond)
	w.ns += int64(by/units.Nanosecond) + w.ps/1000
	w.nic = (w.nic + uint64(by/units.Nanosecond)) & w.mask()
	w.ps %= 1000
	w.long = w.long.Add(by)
	w.now = w.core.Now(w.long)
	w.call(callNow, 0, []int64{w.ns, w.ps}, int64(w.now), int64(w.core.Instant(w.core.Long(w.now+5))))
}

func (w *twin) add(i int) {
	depth := cSegments/2 + 1 + w.rng.IntN(cSegments/2) // the ring has cSegments
	a := QPConfig{
		Number: w.rng.Uint32(), Index: i, Cap: verbs.QPCap{MaxSendWR: cSlots/2 + 1 + w.rng.IntN(cSlots/2), MaxSendSGE: cSGEs, MaxInlineData: cInline},
		SigAll: w.rng.IntN(4) == 0, Segment: []units.Bytes{4096, 16384, 65536}[w.rng.IntN(3)], Depth: depth,
		Limit: units.Bytes(1 + w.rng.Int64N(1<<18)), Line: 100 * units.Gbps, MTU: 1024,
	}
	p := &twinPair{}
	if err := w.core.Add(&p.QP, &a); err != nil {
		w.Fatal(err)
	}
	w.pairs[i] = p
	w.call(callAdd, i, []int64{int64(a.Number), int64(a.Cap.MaxSendWR), number(a.SigAll), int64(a.Segment), int64(a.Depth), int64(a.Limit), int64(a.Line), int64(a.MTU)}, int64(p.flow))
	w.name(i)
	w.engine(i)
	p.Resume(w.now)
	w.call(callResume, i, []int64{int64(w.now)})
}

func (w *twin) name(i int) {
	w.names++
	upper, other := w.names<<32, w.rng.Uint64()
	if w.rng.IntN(2) == 0 {
		other = upper | uint64(w.rng.Uint32())
	}
	w.pairs[i].Name(upper | uint64(w.rng.Uint32()))
	w.call(callName, i, []int64{int64(upper), int64(other)}, number(w.pairs[i].Named(other)))
}

// makeEngine returns an engine and its number; nil for 0.
func (w *twin) makeEngine(env cc.Env) (e cc.Engine, number int) {
	number = w.rng.IntN(6)
	var err error
	switch number {
	case 0:
	case 1:
		e, err = timely.New(timely.DefaultConfig(), env)
	case 2:
		e, err = swift.New(swift.DefaultConfig(), env)
	case 3:
		e, err = dcqcn.New(dcqcn.DefaultConfig(), env)
	case 4:
		e, err = hpcc.New(hpcc.DefaultConfig(), env)
	default:
		e, err = dctcp.New(dctcp.DefaultConfig(), env)
	}
	if err != nil {
		w.Fatal(err)
	}
	return e, number
}

// engine gives a queue pair an engine, or its place in a group, whose engine the first member
// brings.
func (w *twin) engine(i int) {
	p := w.pairs[i]
	env := cc.Env{LineRate: []units.Rate{100, 25, 400}[w.rng.IntN(3)] * units.Gbps, BaseRTT: 20 * us, MTU: 1024}
	var e cc.Engine
	if w.rng.IntN(2) == 0 {
		e, p.engine = w.makeEngine(env)
	} else {
		k := w.rng.IntN(cGroups)
		g := w.groups[k]
		if g == nil {
			g = &twinGroup{line: env.LineRate}
			if err := w.core.AddGroup(&g.Group, env.LineRate); err != nil {
				w.Fatal(err)
			}
			segment := []units.Bytes{4096, 16384, 65536}[w.rng.IntN(3)]
			e, g.engine = w.makeEngine(env)
			bound := units.Bytes(1 + w.rng.Int64N(1<<19))
			g.Start(w.now, e, segment, bound)
			w.call(callGroup, i, []int64{int64(w.now), int64(g.engine), int64(env.LineRate), int64(segment), int64(env.MTU), int64(bound), int64(k)}, int64(g.flow))
			w.groups[k] = g
		}
		weight, class := 1+w.rng.IntN(3), w.rng.IntN(Classes)
		p.Join(&p.place, &g.Group, weight, class, p.cnps)
		w.call(callJoin, i, []int64{int64(k), int64(weight), int64(class), int64(p.cnps)}, int64(p.Group().Members()))
		env.LineRate, e, p.engine = g.line, nil, 0
		if g.engine == 4 {
			p.engine = needsPath
		}
	}
	limit := units.Bytes(1 + w.rng.Int64N(1<<18))
	p.Start(w.now, e, env.LineRate, limit, p.cnps)
	w.call(callEngine, i, []int64{int64(w.now), int64(max(p.engine, 0)), int64(env.LineRate), int64(limit), int64(env.MTU), int64(p.cnps)})
}

var opcodes = []ib.WROpcode{
	ib.WRRDMAWrite, ib.WRRDMAWrite, ib.WRRDMAWrite, ib.WRRDMARead, ib.WRRDMARead, ib.WRSend, ib.WRSendWithImm,
	ib.WRRDMAWriteWithImm, ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd, ib.WRSendWithInv, ib.WRLocalInv, 12, 200,
}

func (w *twin) post(i int) {
	p := w.pairs[i]
	w.ids++
	wr := verbs.SendWR{
		WRID: w.ids, Opcode: opcodes[w.rng.IntN(len(opcodes))], RemoteAddr: w.ids << 32, RKey: 7,
		Imm: uint32(w.ids) * 3, CompareAdd: w.ids * 5, Swap: w.ids * 7,
	}
	for _, f := range []verbs.SendFlags{verbs.SendSignaled, verbs.SendSignaled, verbs.SendFence, verbs.SendSolicited} {
		if w.rng.IntN(3) == 0 {
			wr.Flags |= f
		}
	}
	v := []int64{int64(wr.WRID), int64(wr.Opcode), 0, 0}
	if w.rng.IntN(6) == 0 {
		wr.Flags |= verbs.SendInline
		wr.Inline = make([]byte, w.rng.IntN(cInline+5))
		for k := range wr.Inline {
			wr.Inline[k] = byte(int(w.ids) + k)
		}
		v = append(v, int64(len(wr.Inline)))
	} else {
		n := w.rng.IntN(cSGEs + 2)
		for k := range n {
			length := uint32(w.rng.IntN(1 << 17))
			switch {
			case wr.Opcode.IsAtomic():
				length = 8
			case w.rng.IntN(5) == 0:
				length = []uint32{0, 1, 4096, 65536, math.MaxInt32}[w.rng.IntN(5)]
			}
			wr.SGL = append(wr.SGL, verbs.SGE{Addr: uint64(k+1) << 40, Length: length, LKey: uint32(k)})
			v = append(v, int64(length))
		}
		v[3] = int64(n)
	}
	v[2] = int64(wr.Flags)
	right, room := p.Check(&wr) == nil, p.Room()
	took := right && p.Accept(&wr)
	w.call(callAccept, i, v, number(right), int64(room), number(took))
	switch {
	case !took:
	case p.State() == ib.Err:
		w.finish(i)
	case !p.Filed():
		p.Offer(w.now)
		w.call(callOffer, i, []int64{int64(w.now)})
		w.due()
	}
}

// due posts what is due, to a provider that refuses now and then.
func (w *twin) due() {
	for {
		n := w.core.Due(w.now)
		w.call(callDue, 0, []int64{int64(w.now)}, int64(n))
		if n == 0 {
			return
		}
		var b Batch
		for i := 0; ; {
			next, ok := w.core.Next(i, &b)
			if !ok {
				w.call(callNext, 0, []int64{int64(i)})
				break
			}
			at := b.QP.Index()
			w.call(callNext, 0, []int64{int64(i)}, int64(next), int64(at)+1, postsDigest(b.WRs))
			i = next
			taken, why := len(b.WRs), Refusal{}
			switch w.rng.IntN(30) {
			case 0:
				taken, why.Full, why.Status = w.rng.IntN(taken), true, ib.WCGeneralErr
			case 1:
				if w.rng.IntN(4) == 0 {
					taken, why.Status = w.rng.IntN(taken), ib.WCLocProtErr
				}
			}
			for _, wr := range b.WRs[:taken] {
				w.pairs[at].flight = append(w.pairs[at].flight, wr.WRID)
			}
			sum, failed := w.core.Posted(w.now, &b, taken, why)
			w.call(callPosted, 0, []int64{int64(w.now), int64(taken), number(why.Full), int64(why.Status)}, int64(sum), number(failed))
			if failed {
				w.finish(at)
			}
		}
		if n < w.batch {
			return
		}
	}
}

func (w *twin) finish(i int) {
	for {
		wc := w.pairs[i].Finish(&w.queue)
		if wc == nil {
			w.call(callFinish, i, nil)
			return
		}
		w.call(callFinish, i, nil, wcDigest(wc), 1)
	}
}

func (w *twin) complete(i int) {
	p := w.pairs[i]
	wc := verbs.WC{WRID: w.rng.Uint64(), VendorErr: w.rng.Uint32(), Timestamp: (w.nic - uint64(w.rng.IntN(3000))) & w.mask()}
	k := 0
	if len(p.flight) > 0 && w.rng.IntN(50) > 0 {
		if w.rng.IntN(3) == 0 {
			k = w.rng.IntN(len(p.flight))
		}
		wc.WRID = p.flight[k]
		p.flight = p.flight[k+1:]
	} else if !p.stray(wc.WRID) {
		return
	}
	if p.State() == ib.Err {
		wc.Status = ib.WCWRFlushErr
	} else if w.rng.IntN(400) == 0 {
		wc.Status = ib.WCRemAccessErr
	}
	done, ok := p.Complete(&wc, &w.sample.Segment)
	w.call(callComplete, i, []int64{int64(wc.WRID), int64(wc.Status), int64(wc.VendorErr), int64(wc.Timestamp)}, int64(done), number(ok))
	if !ok {
		return
	}
	if wc.Status == ib.WCSuccess {
		w.measure(i, wc.Timestamp)
	} else {
		p.Fail(w.now)
		w.call(callFail, i, []int64{int64(w.now)})
	}
	w.finish(i)
	p.File(w.now)
	w.call(callFile, i, []int64{int64(w.now)})
}

// stray reports whether no segment with the provider has that number.
func (p *twinPair) stray(wrid uint64) bool {
	for _, w := range p.flight {
		if uint32(w) == uint32(wrid) {
			return false
		}
	}
	return true
}

func (w *twin) measure(i int, timestamp uint64) {
	p, x := w.pairs[i], &w.sample
	how := w.rng.Int64() & 2047
	if w.rng.IntN(3) > 0 {
		how &^= 4 | 512
	}
	x.Stamped, x.Watched, x.Reported, x.CountsCNPs, x.Departed = how&1 != 0, how&2 != 0, how&4 != 0, how&8 != 0, how&16 != 0
	if p.engine == 4 || p.engine == needsPath { // HPCC has to know the path
		how |= 4 | 1024
		x.Reported = true
	}
	p.cnps += uint64(w.rng.IntN(2))
	x.CNPs = p.cnps
	if w.rng.IntN(64) == 0 {
		p.retransmits++
	}
	x.Retransmits = p.retransmits
	how |= int64(p.retransmits) << 11
	x.First = (timestamp - uint64(w.rng.IntN(60_000))) & w.mask()
	x.Last = (x.First + uint64(w.rng.IntN(9000))) & w.mask()
	delay, turnaround := units.Time(w.rng.Int64N(int64(60*us))), units.Time(w.rng.Int64N(int64(40*us)))
	hop := [4]int64{int64(w.now), w.rng.Int64N(1 << 20), int64(w.now / 80), int64(100 * units.Gbps)}
	if x.Reported {
		r := &x.Report
		r.ECN, r.EIN, r.HasMaxDelay, r.MaxHopDelay, r.ReverseMaxHopDelay = how&32 != 0, how&64 != 0, how&128 != 0, delay, delay/2
		r.HasTurnaround, r.Turnaround, r.Coalesced = how&256 != 0, turnaround, how&512 != 0
		r.Path.N = uint8(number(how&1024 != 0))
		h := &r.Path.Hops[0]
		h.Time, h.QLen, h.TxBytes, h.Rate = units.Time(hop[0]), units.Bytes(hop[1]), units.Bytes(hop[2]), units.Rate(hop[3])
	}
	w.core.Measure(w.now, &p.QP, &verbs.WC{Timestamp: timestamp}, x)
	c := p.Control()
	w.call(callMeasure, i,
		[]int64{int64(w.now), int64(timestamp), how, int64(x.CNPs), int64(x.First), int64(x.Last), int64(delay), int64(turnaround), hop[0], hop[1], hop[2], hop[3]},
		int64(x.RTT), int64(x.Marks)|int64(x.FreshCNPs)<<8, int64(c.Rate)^int64(c.Window))
}

// needsPath is the number of no engine: that of a member of a group that HPCC steers.
const needsPath = -4

// state changes a queue pair's.
func (w *twin) state(i int) {
	p := w.pairs[i]
	switch w.rng.IntN(10) {
	case 0, 1:
		if p.State() == ib.Err {
			return
		}
		p.Stop(w.now, ib.SQD)
		w.call(callStop, i, []int64{int64(w.now), int64(ib.SQD)})
		if w.rng.IntN(2) == 0 {
			w.complete(i)
		}
		p.Resume(w.now)
		w.call(callResume, i, []int64{int64(w.now)})
		w.due()
	case 2:
		before := p.State()
		p.Suspend(ib.Reset)
		w.call(callSuspend, i, []int64{0, int64(ib.Reset)})
		p.Restore(w.now, before)
		w.call(callRestore, i, []int64{int64(w.now), int64(before)})
	case 3:
		p.SetMTU(ib.MTU(256 << w.rng.IntN(5)))
		w.call(callMTU, i, []int64{int64(p.mtu)})
	case 4:
		longest := []uint32{0, 4096, 65536, 1 << 20, math.MaxUint32}[w.rng.IntN(5)]
		p.SetLongest(longest)
		w.call(callLongest, i, []int64{int64(longest)})
		most := w.rng.IntN(4)
		p.SetReads(most)
		w.call(callReads, i, []int64{int64(most)})
		timeout := uint8(w.rng.IntN(16)) // up to 134 ms
		p.SetTimeout(timeout)
		w.call(callTimeout, i, []int64{int64(timeout)})
	case 5:
		r := units.Rate(w.rng.Int64N(int64(120 * units.Gbps)))
		p.SetLimiter(r)
		w.call(callLimiter, i, []int64{int64(r)})
		if w.rng.IntN(2) == 0 {
			r = units.Rate(1 + w.rng.Int64N(int64(120*units.Gbps)))
			p.Cap(r)
			w.call(callCap, i, []int64{int64(r)})
		}
	case 6:
		if w.rng.IntN(4) > 0 {
			return
		}
		p.Fail(w.now)
		w.call(callFail, i, []int64{int64(w.now)})
		w.finish(i)
	case 7:
		w.clear(i)
		w.engine(i)
		p.Resume(w.now)
		w.call(callResume, i, []int64{int64(w.now)})
	default:
		if w.rng.IntN(3) > 0 {
			return
		}
		w.clear(i)
		w.core.Remove(&p.QP)
		w.call(callRemove, i, nil)
		w.pairs[i] = nil
	}
}

func (w *twin) clear(i int) {
	p := w.pairs[i]
	lost := p.Clear(w.now, &w.queue)
	w.call(callClear, i, []int64{int64(w.now)}, int64(lost))
	p.flight = nil
	var was, empty int64
	if g := p.Group(); g != nil {
		was = int64(g.Outstanding())<<20 ^ int64(g.Control().Rate)
	}
	if g := p.Leave(); g != nil {
		w.core.RemoveGroup(g)
		empty = 1
		for k := range w.groups {
			if w.groups[k] != nil && &w.groups[k].Group == g {
				w.groups[k] = nil
			}
		}
	}
	w.call(callLeave, i, nil, was, empty)
	w.name(i)
}

func (w *twin) pop() {
	var wc [8]verbs.WC
	want := w.rng.IntN(len(wc) + 1)
	n := w.queue.Pop(wc[:want])
	d := uint64(0)
	for i := range n {
		d = mix(d, uint64(wcDigest(&wc[i])))
	}
	w.call(callPop, 0, []int64{int64(want)}, int64(n), int64(d))
}

// look asks for counts.
func (w *twin) look(i int) {
	p := w.pairs[i]
	all, failed := p.Finished()
	w.call(callCounts, i, nil, int64(all<<32|failed), int64(p.Outstanding())<<20|int64(p.InFlight())<<10|int64(p.Room()), int64(p.State())<<1|number(p.Filed()))
	d := uint64(0)
	for _, l := range p.Held(w.now) {
		d = mix(d, uint64(l.Time()))
	}
	w.call(callHeld, i, []int64{int64(w.now)}, int64(d))
}

// turn makes one step of a life.
func (w *twin) turn() {
	i := w.rng.IntN(cPairs)
	if w.pairs[i] == nil {
		w.add(i)
		return
	}
	switch what := w.rng.IntN(100); {
	case what < 28:
		w.post(i)
	case what < 60:
		w.complete(i)
		w.due()
	case what < 68:
		w.pop()
	case what < 80:
		at := w.core.NextDue()
		w.call(callNextDue, 0, nil, int64(at), int64(w.core.GapsEnd()), int64(w.core.Filed())<<32|int64(w.core.InFlight()))
		if at != units.Never && at > w.now && at < w.now+units.Second {
			w.tick(at - w.now)
		}
		w.due()
	case what < 84:
		w.look(i)
	case what < 87:
		before := w.now - us
		w.clock.Add(before, w.nic, w.now)
		w.call(callSample, 0, []int64{int64(before), int64(w.nic), int64(w.now)})
	case what < 88 && w.rng.IntN(4) == 0:
		w.state(i)
	case what == 89 && w.rng.IntN(300) == 0:
		w.tick(units.Time(w.rng.Int64N(int64(longestRun)))) // days
	default:
		w.tick(units.Time(w.rng.Int64N(int64(30 * us))))
		w.due()
	}
}

// C's core in memory of its caller's does what Go's does, over 10^7 calls: requests of
// all kinds in several segments, a provider that refuses, round trips by both clocks and
// by telemetry, failures, resets, and days that pass. The memory of both is the same
// after each 4096 calls, to the bit.
func TestCIsGoBitForBit(t *testing.T) {
	n, compilers := 10_000_000, [][]string{{"-O2", "-finline-functions", "-finline-limit=400"}, {"-O3", "-march=native", "-DSLUICE_PORTABLE"}}
	if testing.Short() {
		n, compilers = 400_000, compilers[:1]
		t.Logf("%d calls, not 10000000, and %v alone: -short", n/2, compilers[0])
	}
	const src = "../../../../libsluice/internal/ccore/src"
	ctest.Track(t, src)
	for i, options := range compilers {
		program := filepath.Join(t.TempDir(), "core")
		ctest.Compile(t, append(options, "-I"+src, "-o", program, "testdata/core.c", src+"/sluice_core.c")...)
		w := &twin{TB: t, program: ctest.Start(t, program), done: map[int]int{}}
		if err := binary.Read(w.program.Out, binary.LittleEndian, &w.sizes); err != nil {
			t.Fatal(err)
		}
		for round := 0; w.total < n/2; round++ {
			w.rng = rand.New(rand.NewPCG(31+uint64(i), uint64(round)))
			w.begin(round)
			for end := w.total + min(n/8, 200_000); w.total < end; {
				w.turn()
			}
			w.flush()
		}
		for what, name := range callNames {
			if w.done[what] == 0 {
				t.Errorf("no call of %s", name)
			}
		}
	}
}
